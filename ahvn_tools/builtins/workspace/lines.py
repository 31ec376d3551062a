"""The lines of texts: each with its own line ending, with their numbers, and as pages of results."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ahvn_tools.builtins.files.text import TextForm, decode, encode
from ahvn_tools.errors import ToolError


def split_lines(text: str) -> list[str]:
    r"""Return the lines with their endings, which are `\n`, `\r\n` or `\r`.

    >>> split_lines("a\r\nb")
    ['a\r\n', 'b']
    """
    return io.StringIO(text, newline="").readlines()


def bare(line: str) -> str:
    """Return a line without its ending."""
    return line.rstrip("\r\n")


def bare_lines(lines: list[str]) -> list[str]:
    r"""Return lines without their endings.

    >>> bare_lines(["a\r\n", "\n", "b"])
    ['a', '', 'b']
    """
    texts = with_newline("".join(lines), "\n").split("\n")  # faster than line by line
    return texts if texts[-1] else texts[:-1]


def ending(line: str) -> str:
    """Return the ending of a line, which the last line of a file may not have."""
    return line[len(bare(line)) :]


def content_lines(content: str) -> list[str]:
    r"""Return the lines of a text of a model without their endings; a final line ending makes no further line.

    >>> content_lines("a\n\n"), content_lines("")
    (['a', ''], [])
    """
    return [bare(line) for line in split_lines(content)]


def with_newline(content: str, newline: str) -> str:
    """Return a text of a model with one kind of line ending."""
    if "\r" in content:
        content = content.replace("\r\n", "\n").replace("\r", "\n")
    return content.replace("\n", newline)


def replace_lines(lines: list[str], start: int, stop: int, texts: list[str], newline: str) -> list[str]:
    """Return the lines with those from index `start` to before `stop` replaced by others.

    The first new line has the ending of the first old one, and so on; further ones have the last of these endings, or
    `newline`. A file whose last line has no ending has none afterwards.
    """
    before, removed, after = lines[:start], lines[start:stop], lines[stop:]
    endings = [ending(line) or newline for line in removed] or [newline]
    added = [text + endings[min(index, len(endings) - 1)] for index, text in enumerate(texts)]
    if added and not after and lines and not ending(lines[-1]):
        added[-1] = bare(added[-1])
        if before and not ending(before[-1]):
            before[-1] += newline
    return [*before, *added, *after]


def find_lines(texts: list[str], searched: list[str], *, max_places: int) -> list[int]:
    """Return the first indexes where lines without endings are, one after the other.

    It takes time in proportion to the lengths of both, also for many equal lines.

    >>> find_lines(["a", "b", "a"], ["a"], max_places=9)
    [0, 2]
    """
    text, wanted = "\n".join(["", *texts, ""]), "\n".join(["", *searched, ""])
    places: list[int] = []
    counted = index = 0
    position = text.find(wanted)
    while position >= 0 and len(places) < max_places:
        index += text.count("\n", counted, position)
        counted = position
        places.append(index)
        position = text.find(wanted, position + 1)
    return places


MAX_LINE_CHARS: Final = 2_000
"""A longer line is cut where lines are shown with their numbers."""

REST_HINT: Final = (
    "Go on with partially_read_by_range, start_line={line}, end_line={line}, start_character={character}."
)
"""How to read the rest of a line, from this character."""


def numbered(
    number: int, line: str, *, dropped: int = 0, max_chars: int = MAX_LINE_CHARS, hint: str = REST_HINT
) -> str:
    """Return one line as `12: text`, without the characters that were dropped; a long one says how to go on."""
    text = bare(line)
    place = f"{number} (from character {dropped + 1})" if dropped else f"{number}"
    if len(text) <= max_chars:
        return f"{place}: {text}"
    return f"{place}: {text[:max_chars]}... {rest_of_line(number, dropped + max_chars, hint)}"


def rest_of_line(number: int, shown_chars: int, hint: str = REST_HINT) -> str:
    """Return how to read a line after so many characters."""
    return f"(The line is longer. {hint.format(line=number, character=shown_chars + 1)})"


def fitting(shown: Iterable[str], max_chars: int) -> tuple[list[str], bool]:
    """Return the first texts that fit into so many characters, at least one, and whether all of them do."""
    kept: list[str] = []
    size = 0
    for text in shown:
        size += len(text) + 1
        if kept and size > max_chars:
            return kept, False
        kept.append(text)
    return kept, True


def numbered_block(lines: list[str], start: int, stop: int, *, max_chars: int, hint: str = REST_HINT) -> str:
    """Return the lines from index `start` to before `stop` with their numbers, and say how many are left out."""
    kept, is_whole = fitting((numbered(index + 1, lines[index], hint=hint) for index in range(start, stop)), max_chars)
    if not is_whole:
        kept.append(f"... ({stop - start - len(kept):,} more lines)")
    return "\n".join(kept)


MAX_RESULTS: Final = 1_000
"""The most results that a model may ask for at once."""


class Page:
    """A part of a list of results."""

    def __init__(self, skip: int, size: int) -> None:
        """Raise ToolError for numbers that a model must not pass."""
        if skip < 0 or size < 1:
            raise ToolError("Pass a skip of at least 0, and a max_results of at least 1.")
        self.start = skip
        self.stop = skip + min(size, MAX_RESULTS)

    def text(self, lines: list[str], *, total: int, nothing: str, is_counted: bool = True) -> str:
        """Return the results of this page, and how to go on if there are more.

        `total` counts the results of all pages, or at least one of the next page if not all `is_counted`.
        """
        if not lines:
            return (
                nothing if not self.start else f"There are no more results: skip={self.start} leaves out all {total}."
            )
        end = self.start + len(lines)
        if end >= total:
            return "\n".join(lines)
        count = f" of {total:,}" if is_counted else ""
        return "\n".join([*lines, f"(These are the results {self.start + 1} to {end}{count}. Go on with skip={end}.)"])


@dataclass(frozen=True, kw_only=True)
class TextFile:
    """A text with the form in which its file is written."""

    text: str
    """With its own line endings."""
    form: TextForm

    @cached_property
    def lines(self) -> list[str]:
        """The lines with their endings."""
        return split_lines(self.text)

    @classmethod
    def from_content(cls, content: bytes, encoding: str | None = None, *, fallback: str | None = None) -> TextFile:
        """Return the text of a file, as `decode` does. Raises ToolError for binary content."""
        text, form = decode(content, encoding, fallback=fallback)
        return cls(text=text, form=form)

    def with_lines(self, lines: list[str]) -> bytes:
        """Return the content of the file with other lines, in the same form."""
        return encode("".join(lines), self.form)
