"""Large JSON as a text with an index, so that a part is read, or found, without parsing all of it.

Members that follow each other are a run of about 64,000 characters, which is parsed where one of them is needed. A
member that is larger, and an object or array, has an entry of its own in the index, unless it is deep.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from pydantic_core import from_json

from ahvn_tools.errors import ToolError, quote_name
from ahvn_tools.middleware.kept_text import Text, TextInMemory, fold, found_places, labelled, page
from ahvn_tools.results import to_text

_RUN_CHARS: Final = 64_000
_INDEXED_DEPTH: Final = 10
_INDEXED_PATH_CHARS: Final = 1_000
"""Deeper members, and those with longer paths, have no entry of their own: each level is encoded again, and each path
contains those above it.
"""

_BATCH: Final = 64
"""So many members are encoded at once: one by one takes five times as long."""

_SHORT: Final = 80
"""A text of at most so many characters is shown in an outline."""

_POSITION: Final = re.compile(r"[0-9]{1,18}")
_OUTLINE_MEMBERS: Final = 50
_NESTED_MEMBERS: Final = 12
_OUTLINE_DEPTH: Final = 4


@dataclass(frozen=True, slots=True)
class JsonContainer:
    """An object or array in the index."""

    is_object: bool
    size: int
    """How many members it has."""
    runs: list[tuple[int, int, int, str | None]]
    """The number of the first member, where the text of the run begins and ends, and the name of the member if the run
    is a container of its own."""


Index = dict[str, JsonContainer]
"""The large containers by their paths, which are JSON Pointers; "" is the whole."""


def to_indexed_text(data: dict[str, Any] | list[Any]) -> tuple[str, Index]:
    """Return JSON data as a text, and its index."""
    writer = _Writer()
    writer.add(data, "")
    return "".join(writer.pieces), writer.index


class _Writer:
    """Writes JSON in runs."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.index: Index = {}
        self._position = 0

    def _write(self, text: str) -> None:
        self.pieces.append(text)
        self._position += len(text)

    def add(self, data: dict[str, Any] | list[Any], path: str) -> None:
        """Write an object or array."""
        is_object = isinstance(data, dict)
        container = self.index[path] = JsonContainer(is_object, len(data), [])
        self._write("{" if is_object else "[")
        number, members = 0, iter(_members(data))
        while batch := tuple(islice(members, _BATCH)):
            text = _encode(batch, is_object=is_object)
            for part in [batch] if len(text) <= _RUN_CHARS else [(member,) for member in batch]:
                self._add_members(container, number, part, path)
                number += len(part)
        self._write("}" if is_object else "]")

    def _add_members(
        self, container: JsonContainer, number: int, members: tuple[tuple[Any, Any], ...], path: str
    ) -> None:
        """Write some members: to the last run if there is space, or as a run."""
        if number:
            self._write(", ")
        (name, value), text = members[0], _encode(members, is_object=container.is_object)
        inner_path = f"{path}/{escape(name)}"
        is_indexed = inner_path.count("/") <= _INDEXED_DEPTH and len(inner_path) <= _INDEXED_PATH_CHARS
        if len(text) > _RUN_CHARS and is_indexed and isinstance(value, dict | list):
            if container.is_object:
                self._write(f"{to_json(str(name))}: ")
            start = self._position
            self.add(value, inner_path)
            container.runs.append((number, start, self._position, str(name)))
            return
        first, start, end, inner = container.runs[-1] if container.runs else (0, 0, 0, "")
        if inner is None and end - start + len(text) <= _RUN_CHARS:
            container.runs.pop()
        else:
            first, start = number, self._position
        self._write(text)
        container.runs.append((first, start, self._position, None))


def _members(value: Any) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, dict) else enumerate(value)


def _encode(members: Iterable[tuple[Any, Any]], *, is_object: bool) -> str:
    return to_json(dict(members) if is_object else [value for _, value in members])[1:-1]


def to_json(value: Any) -> str:
    """Return a value as JSON, also a text."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else to_text(value)


def dump_index(index: Index) -> bytes:
    """Return an index as JSON."""
    return json.dumps({path: (one.is_object, one.size, one.runs) for path, one in index.items()}).encode()


def load_index(data: bytes) -> Index:
    """Return the index that `dump_index` has written. Raises ValueError and TypeError."""
    return {
        path: JsonContainer(is_object, size, [tuple(run) for run in runs])
        for path, (is_object, size, runs) in from_json(data).items()
    }


@dataclass(frozen=True, slots=True)
class _Large:
    """A member that has its own entry in the index."""

    container: JsonContainer


class KeptJson:
    """JSON in a text with an index."""

    def __init__(self, text: Text, index: Index) -> None:
        self._text, self._index = text, index

    def read(self, path: str, start: int, limit: int | None, max_chars: int) -> str:
        """Return the JSON at a path: all of it, some members, some characters of a text, or its outline.

        Raises ToolError for a path that leads nowhere.
        """
        value, reached = self._resolve(path)
        if isinstance(value, str):
            return page(TextInMemory(value), start, limit, max_chars)
        if isinstance(value, _Large):
            is_object, size = value.container.is_object, value.container.size
            parts = self._iter_members(value.container, reached, start)
        elif isinstance(value, dict | list):
            is_object, size = isinstance(value, dict), len(value)
            parts = islice(_members(value), start, None)
        else:
            return to_text(value)
        return _page_of_members(islice(parts, limit), (start, size), reached, max_chars, is_object=is_object)

    def search(self, wanted: str, start: int, limit: int, max_chars: int) -> str:
        """Return the paths of the names and plain values that contain a text, in any case, with the values."""
        found, used, following = list[str](), 0, None
        for number, (path, value) in enumerate(islice(self._find("", fold(wanted)), start, None), start):
            line = f"{path}: {_describe(value)}"[: max_chars // 4]
            used += len(line) + 1
            if len(found) == limit or used > max_chars:
                following = number
                break
            found.append(line)
        return found_places("path: value", found, following)

    def _find(self, path: str, folded: str) -> Iterator[tuple[str, Any]]:
        """Yield the path and the value of each member whose name or plain value contains a text."""
        container = self._index[path]
        escaped = fold(to_json(folded)[1:-1])
        for first, start, end, name in container.runs:
            if name is not None:
                inner = f"{path}/{escape(name)}"
                if container.is_object and folded in fold(name):
                    yield inner, _Large(self._index[inner])
                yield from self._find(inner, folded)
            elif escaped in fold(self._text.read(start, end)):
                yield from _find_in(self._parse(container, start, end), f"{path}", first, folded)

    def _resolve(self, path: str) -> tuple[Any, str]:
        """Return the value at a path, and the path as the index has it."""
        steps = path.removeprefix("#").removeprefix("/")
        names = [name.replace("~1", "/").replace("~0", "~") for name in steps.split("/")] if steps else []
        value: Any = _Large(self._index[""])
        reached = ""
        for name in names:
            child = f"{reached}/{escape(name)}"
            if isinstance(value, _Large):
                known = self._index.get(child)
                member = _Large(known) if known is not None else self._member(value.container, name)
            else:
                member = _member_of(value, name)
            if member is _MISSING:
                raise ToolError(
                    f"There is nothing at {quote_name(name)} in {reached[:_SHORT] or '/'}, which is {_describe(value)}."
                )
            value, reached = member, child
        return value, reached

    def _member(self, container: JsonContainer, name: str) -> Any:
        if not container.is_object:
            if not (_POSITION.fullmatch(name) and int(name) < container.size):
                return _MISSING
            first, start, end, _ = container.runs[_run_of(container, int(name))]
            return self._parse(container, start, end)[int(name) - first]
        for _, start, end, inner in container.runs:
            if inner is None and to_json(name) in self._text.read(start, end):
                member = _member_of(self._parse(container, start, end), name)
                if member is not _MISSING:
                    return member
        return _MISSING

    def _iter_members(self, container: JsonContainer, path: str, start: int) -> Iterator[tuple[Any, Any]]:
        """Yield the names and values of members from the number `start` on."""
        if start >= container.size:
            return
        for first, begin, end, name in container.runs[_run_of(container, start) :]:
            if name is not None:
                yield name, _Large(self._index[f"{path}/{escape(name)}"])
            else:
                members = _members(self._parse(container, begin, end))
                for offset, (key, value) in enumerate(islice(members, max(start - first, 0), None)):
                    yield (key if container.is_object else max(start, first) + offset), value

    def _parse(self, container: JsonContainer, start: int, end: int) -> Any:
        text = self._text.read(start, end)
        # not pydantic's function, which refuses lone surrogates
        return json.loads(f"{{{text}}}" if container.is_object else f"[{text}]")


_MISSING: Final = object()


def _run_of(container: JsonContainer, number: int) -> int:
    return bisect.bisect_right(container.runs, number, key=lambda run: run[0]) - 1


def _member_of(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name, _MISSING)
    is_position = isinstance(value, list) and _POSITION.fullmatch(name) and int(name) < len(value)
    return value[int(name)] if is_position else _MISSING


def _page_of_members(
    parts: Iterable[tuple[Any, Any]], where: tuple[int, int], path: str, max_chars: int, *, is_object: bool
) -> str:
    """Return as many members as there is space for; of a first one that is too large, the outline."""
    (start, size), shown, used = where, list[str](), 2
    unit = "members" if is_object else "items"
    for name, part in parts:
        text = None if isinstance(part, _Large) else _encode([(name, part)], is_object=is_object)
        used += len(text or "") + 2
        if text is None or used > max_chars:
            if not shown:
                content = outline(part, max_chars, f"{path}/{escape(name)}")
                return labelled(unit, start, start + 1, size, content)
            break
        shown.append(text)
    joined = ", ".join(shown)
    content = f"{{{joined}}}" if is_object else f"[{joined}]"
    return labelled(unit, start, start + len(shown), size, content)


def _find_in(data: Any, path: str, first: int, folded: str) -> Iterator[tuple[str, Any]]:
    """Yield what a text is in, of the members of a run whose first one has this number."""
    levels = [iter(data.items() if isinstance(data, dict) else enumerate(data, first))]
    names: list[str] = [path]
    while levels:
        name, value = next(levels[-1], (None, None))
        if name is None:
            levels.pop()
            names.pop()
            continue
        is_container = isinstance(value, dict | list)
        if (isinstance(name, str) and folded in fold(name)) or (
            not is_container and folded in fold(value if isinstance(value, str) else to_text(value))
        ):
            yield "/".join([*names, escape(name)]), value
        if is_container:
            names.append(escape(name))
            levels.append(iter(_members(value)))


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
    for name, part in islice(_members(value), count):
        yield from _outline(part, f"{path}/{escape(name)}", depth + 1)
    if isinstance(value, dict) and len(value) > count:
        yield f"{path}/…: {len(value) - count} more members"


def _describe(value: Any) -> str:
    is_object, size = isinstance(value, dict), len(value) if isinstance(value, dict | list) else None
    if isinstance(value, _Large):
        is_object, size = value.container.is_object, value.container.size
    if size is not None:
        return f"object of {size} members" if is_object else f"array of {size} items"
    if isinstance(value, str) and len(value) > _SHORT:
        return f"{to_json(value[:_SHORT])} … a text of {len(value)} characters"
    return to_json(value)


def escape(name: Any) -> str:
    """Return a name as a JSON Pointer has it."""
    return str(name).replace("~", "~0").replace("/", "~1")
