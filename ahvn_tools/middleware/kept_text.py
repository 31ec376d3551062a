"""Parts of a large text for a model: characters, lines, and what a search finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

_BLOCK: Final = 1 << 20
"""How many characters of a text are looked at at a time."""

_AROUND: Final = 80
"""How many characters are shown before and after what a search finds."""


class Text(Protocol):
    """A text that need not be in memory."""

    @property
    def length(self) -> int:
        """How many characters it has."""

    def read(self, start: int, end: int) -> str:
        """Return these characters, as a slice of a text does."""


@dataclass(frozen=True, eq=False)
class TextInMemory:
    """A text in memory."""

    text: str

    @property
    def length(self) -> int:
        """How many characters it has."""
        return len(self.text)

    def read(self, start: int, end: int) -> str:
        """Return these characters."""
        return self.text[start:end]


def page(text: Text, start: int, limit: int | None, max_chars: int) -> str:
    """Return characters of a text, after a line that says which they are."""
    end = min(start + min(limit or max_chars, max_chars), text.length)
    return labelled("characters", start, end, text.length, text.read(start, end) if end > start else "")


def page_of_lines(text: Text, start: int, limit: int | None, max_chars: int) -> str:
    """Return whole lines of a text, after a line that says which they are; the first line is number 0.

    Of a line that is longer than `max_chars` it is the beginning.
    """
    total, begin = _find_line(text, start)
    if begin is None:
        return labelled("lines", start, start, total, "")
    visible = text.read(begin, begin + max_chars + 1)
    lines = visible.split("\n")
    if len(lines[0]) > max_chars:
        note = f"the line is longer: read on with unit='characters', start={begin + max_chars}"
        return f"[line {start} of {total}; {note}]\n{visible[:max_chars]}"
    if begin + len(visible) < text.length:
        lines.pop()  # its end is not visible
    shown = lines[:limit]
    return labelled("lines", start, start + len(shown), total, "\n".join(shown))


def _find_line(text: Text, number: int) -> tuple[int, int | None]:
    """Return how many lines a text has, and where one begins; None if it has fewer."""
    breaks, begin = 0, 0 if number == 0 else None
    for position, block in _blocks(text):
        count = block.count("\n")
        if begin is None and breaks + count >= number:
            offset = -1
            for _ in range(number - breaks):
                offset = block.index("\n", offset + 1)
            begin = position + offset + 1
        breaks += count
    return breaks + 1, begin


def _blocks(text: Text, start: int = 0, overlap: int = 0) -> Iterator[tuple[int, str]]:
    """Yield a text in blocks, each with its position; each also has `overlap` characters of the next one."""
    for position in range(start, text.length, _BLOCK):
        yield position, text.read(position, position + _BLOCK + overlap)


def labelled(unit: str, start: int, end: int, total: int, content: str) -> str:
    """Return a part after a line that says which part it is, and where the next one begins."""
    if start >= total and start > 0:
        return f"[nothing at start={start}: there are {total} {unit}, and the first is number 0]"
    note = f"; read on with start={end}" if end < total else ""
    return f"[{unit} {start} to {end} of {total}{note}]\n{content}"


def search_text(text: Text, wanted: str, start: int, limit: int, max_chars: int) -> str:
    """Return where a text contains another one, in any case: line, character, and the line as far as it is near."""
    folded, found, used, following = fold(wanted), list[str](), 0, None
    number, counted = 0, 0
    for position in _find_all(text, folded, start):
        number, counted = number + _count_breaks(text, counted, position), position
        line = f"{number}:{position}: {_line_around(text, position, position + len(wanted))}"[: max_chars // 4]
        used += len(line) + 1
        if len(found) == limit or used > max_chars:
            following = position
            break
        found.append(line)
    return found_places("line:character: text", found, following)


def _count_breaks(text: Text, start: int, end: int) -> int:
    return sum(text.read(at, min(at + _BLOCK, end)).count("\n") for at in range(start, end, _BLOCK))


def _line_around(text: Text, start: int, end: int) -> str:
    """Return what is found, and the characters around it that are in the same line."""
    before = text.read(max(start - _AROUND, 0), start).rpartition("\n")[2]
    found = text.read(start, end)
    after = "" if found.endswith("\n") else text.read(end, end + _AROUND).partition("\n")[0]
    return f"{before}{found}{after}".strip("\n").replace("\n", " ")


def _find_all(text: Text, folded: str, start: int) -> Iterator[int]:
    begin = start
    for position, block in _blocks(text, start, len(folded) - 1):
        haystack = fold(block)
        while (offset := haystack.find(folded, max(begin - position, 0))) >= 0:
            begin = position + offset + len(folded)
            yield position + offset


def fold(text: str) -> str:
    """Return a text in lower case, with as many characters."""
    return text.replace("\u0130", "i").lower()  # the only character whose lower case has two


def found_places(columns: str, found: list[str], following: int | None) -> str:
    """Return what a search has found, after a line that says where to search on."""
    if not found and following is None:
        return "[not found]"
    note = f"; search on with start={following}" if following is not None else ""
    return "\n".join([f"[{len(found)} found, as {columns}{note}]", *found])
