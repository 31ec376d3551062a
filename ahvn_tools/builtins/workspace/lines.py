"""The lines of a text, each with its own line ending."""

from __future__ import annotations

import io


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
