"""Parts of a large result as texts for a model: pages of a text, members of JSON data, and what a search finds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, Protocol

from ahvn_tools.errors import ToolError, quote_name
from ahvn_tools.results import to_text

_BLOCK: Final = 1 << 20
"""How many characters of a text are looked at at a time."""

_SHORT: Final = 80
"""A text of at most so many characters is shown in an outline, and so many are shown around what a search finds."""

_INDEX: Final = re.compile(r"[0-9]{1,18}")

_OUTLINE_MEMBERS: Final = 50
_NESTED_MEMBERS: Final = 12
_OUTLINE_DEPTH: Final = 4


class Text(Protocol):
    """A text that need not be in memory."""

    @property
    def length(self) -> int:
        """How many characters it has."""

    def read(self, start: int, end: int) -> str:
        """Return these characters, as a slice of a text does."""


def page(text: Text, start: int, limit: int | None, max_chars: int) -> str:
    """Return characters of a text, after a line that says which they are."""
    end = min(start + min(limit or max_chars, max_chars), text.length)
    return _labelled("characters", start, end, text.length, text.read(start, end) if end > start else "")


def page_of_lines(text: Text, start: int, limit: int | None, max_chars: int) -> str:
    """Return whole lines of a text, after a line that says which they are; the first line is number 0.

    Of a line that is longer than `max_chars` it is the beginning.
    """
    total, begin = _find_line(text, start)
    if begin is None:
        return _labelled("lines", start, start, total, "")
    visible = text.read(begin, begin + max_chars + 1)
    lines = visible.split("\n")
    if len(lines[0]) > max_chars:
        note = f"the line is longer: read on with unit='characters', start={begin + max_chars}"
        return f"[line {start} of {total}; {note}]\n{visible[:max_chars]}"
    if begin + len(visible) < text.length:
        lines.pop()  # its end is not visible
    shown = lines[:limit]
    return _labelled("lines", start, start + len(shown), total, "\n".join(shown))


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


def _labelled(unit: str, start: int, end: int, total: int, content: str) -> str:
    note = f"; read on with start={end}" if end < total else ""
    return f"[{unit} {start} to {end} of {total}{note}]\n{content}"


def search_text(text: Text, wanted: str, start: int, limit: int, max_chars: int) -> str:
    """Return where a text contains another one, in any case, each time with the characters around it."""
    folded, found, used, following = _fold(wanted), list[str](), 0, None
    for position in _find_all(text, folded, start):
        before, end = max(position - _SHORT, 0), position + len(wanted) + _SHORT
        line = f"{position}: {' '.join(text.read(before, end).split())}"
        used += len(line) + 1
        if len(found) == limit or used > max_chars:
            following = position
            break
        found.append(line)
    return _found("position: text", found, following)


def _find_all(text: Text, folded: str, start: int) -> Iterator[int]:
    begin = start
    for position, block in _blocks(text, start, len(folded) - 1):
        haystack = _fold(block)
        while (offset := haystack.find(folded, max(begin - position, 0))) >= 0:
            begin = position + offset + len(folded)
            yield position + offset


def _fold(text: str) -> str:
    """Return a text in lower case, with as many characters."""
    return text.replace("\u0130", "i").lower()  # the only character whose lower case has two


def search_data(data: Any, wanted: str, start: int, limit: int, max_chars: int) -> str:
    """Return the paths of the names and plain values in JSON data that contain a text, in any case, with the values."""
    found, used, following = list[str](), 0, None
    for number, (path, value) in enumerate(islice(_find_in(data, _fold(wanted)), start, None)):
        line = f"{path}: {_describe(value)}"
        used += len(line) + 1
        if number == limit or used > max_chars:
            following = start + number
            break
        found.append(line)
    return _found("path: value", found, following)


def _find_in(data: Any, folded: str) -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each member whose name or plain value contains a text."""
    levels: list[Iterator[tuple[Any, Any]]] = [iter([("", data)])]
    names: list[Any] = []
    while levels:
        name, value = next(levels[-1], (None, None))
        if name is None:
            levels.pop()
            del names[-1:]
            continue
        members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
        if (isinstance(name, str) and name and folded in _fold(name)) or (
            members is None and folded in _fold(value if isinstance(value, str) else to_text(value))
        ):
            yield "/".join(map(_escape, [*names, name])) or "/", value
        if members is not None:
            names.append(name)
            levels.append(iter(members))


def _found(columns: str, found: list[str], following: int | None) -> str:
    if not found and following is None:
        return "[not found]"
    note = f"; search on with start={following}" if following is not None else ""
    return "\n".join([f"[{len(found)} found, as {columns}{note}]", *found])


def members(data: Any, path: str, start: int, limit: int | None, max_chars: int) -> str:
    """Return the JSON at a JSON Pointer: all of it, some items, some characters of a text, or its outline.

    Raises ToolError for a path that leads nowhere.
    """
    value = _resolve(data, path)
    if isinstance(value, str):
        return page(_Part(value), start, limit, max_chars)
    if not isinstance(value, dict | list):
        return to_text(value)
    parts = list(islice(value.items() if isinstance(value, dict) else enumerate(value), start, None))[:limit]
    shown, used = [], 2
    for name, part in parts:
        text = to_text(part) if not isinstance(part, str) else json.dumps(part, ensure_ascii=False)
        text = f"{json.dumps(name, ensure_ascii=False)}: {text}" if isinstance(value, dict) else text
        used += len(text) + 2
        if used > max_chars:
            break
        shown.append(text)
    unit = "members" if isinstance(value, dict) else "items"
    if shown or not parts:
        joined = ", ".join(shown)
        content = f"{{{joined}}}" if isinstance(value, dict) else f"[{joined}]"
        return _labelled(unit, start, start + len(shown), len(value), content)
    name, part = parts[0]
    content = outline(part, max_chars, f"{path}/{_escape(name)}"[:max_chars])
    return _labelled(unit, start, start + 1, len(value), content)


class _Part:
    """A text in JSON data."""

    def __init__(self, text: str) -> None:
        self._text, self.length = text, len(text)

    def read(self, start: int, end: int) -> str:
        return self._text[start:end]


def _resolve(data: Any, path: str) -> Any:
    value, reached = data, ""
    for name in path.strip().removeprefix("#").removeprefix("/").split("/") if path.strip("# /") else ():
        key = name.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and _INDEX.fullmatch(key) and int(key) < len(value):
            value = value[int(key)]
        else:
            raise ToolError(f"There is nothing at {quote_name(key)} in {reached or '/'}, which is {_describe(value)}.")
        reached = f"{reached}/{name}"[:_SHORT]
    return value


def outline(value: Any, max_chars: int, path: str = "") -> str:
    """Return the members of JSON data with their paths, types and sizes, a line for each, as far as there is space."""
    lines, used = [], 0
    for line in _outline(value, path, 0):
        used += len(line) + 1
        if used > max_chars - 2:
            lines.append("…")
            break
        lines.append(line)
    return "\n".join(lines)[:max_chars]


def _outline(value: Any, path: str, depth: int) -> Iterator[str]:
    yield f"{path or '/'}: {_describe(value)}"
    if not isinstance(value, dict | list) or depth == _OUTLINE_DEPTH:
        return
    count = 1 if isinstance(value, list) else _NESTED_MEMBERS if depth > 1 else _OUTLINE_MEMBERS
    for name, part in islice(value.items() if isinstance(value, dict) else enumerate(value), count):
        yield from _outline(part, f"{path}/{_escape(name)}", depth + 1)
    if isinstance(value, dict) and len(value) > count:
        yield f"{path}/…: {len(value) - count} more members"


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return f"object of {len(value)} members"
    if isinstance(value, list):
        return f"array of {len(value)} items"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str) and len(value) <= _SHORT else None
    if isinstance(value, str):
        return text or f"{json.dumps(value[:_SHORT], ensure_ascii=False)} … a text of {len(value)} characters"
    return to_text(value)


def _escape(name: Any) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")
