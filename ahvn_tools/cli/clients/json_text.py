"""Edits of JSON text, with comments where the program allows them: all other text stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]  # public in CPython, and not in the stubs
from typing import Any, Final

from ahvn_tools.json_types import JsonObject

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_SPACE_AND_COMMENTS: Final = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_INDENT: Final = re.compile(r"\n([ \t]+)\S")
_DEFAULT_INDENT: Final = "  "


@dataclass
class _Node:
    """A value, and where it is in the text."""

    start: int
    end: int
    value: Any
    members: dict[str, tuple[int, _Node]] = field(default_factory=dict)
    """The members of an object, with the position at which each name starts."""


def parse(text: str, *, comments: bool) -> Any:
    """Return the value of a text. Raises ValueError, also for a key that an object has twice."""
    return _Parser(text, comments=comments).parse().value


def set_entry(text: str, path: Sequence[str], entry: JsonObject, *, comments: bool) -> str:
    """Return the text with an entry at a path of keys, in place of one that is there. Raises ValueError."""
    root = _Parser(text, comments=comments).parse()
    node, depth, value = root, 0, entry
    for depth, key in enumerate(path):
        if node.start < 0 or not isinstance(node.value, dict):
            raise ValueError(f"{'.'.join(path[:depth]) or 'the file'} is not an object")
        if key not in node.members:
            break
        node = node.members[key][1]
    else:
        return text[: node.start] + _dump(text, entry, depth + 1) + text[node.end :]
    for name in reversed(path[depth + 1 :]):
        value = {name: value}
    return _insert(text, node, path[depth], value, depth + 1, comments=comments)


def _insert(text: str, node: _Node, name: str, value: Any, depth: int, *, comments: bool) -> str:
    """Return the text with one more member of an object, as its last."""
    member = f"{json.dumps(name, ensure_ascii=False)}: {_dump(text, value, depth)}"
    body_end = node.end - 1
    if not _is_multiline(text):
        last = "," if node.members else ""
        return f"{text[:body_end].rstrip()}{last}{' ' if last else ''}{member}{text[body_end:]}"
    indent = _find_indent(text)
    kept = text[:body_end].rstrip()
    if node.members:
        last_end = max(child.end for _, child in node.members.values())
        if not _has_comma(text, last_end, comments=comments):
            kept = kept[:last_end] + "," + kept[last_end:]
    newline = _find_newline(text)
    return f"{kept}{newline}{indent * depth}{member}{newline}{indent * (depth - 1)}{text[body_end:]}"


def remove_entry(text: str, path: Sequence[str], *, comments: bool) -> str:
    """Return the text without the entry at a path. Raises ValueError if there is none."""
    node = _Parser(text, comments=comments).parse()
    for key in path[:-1]:
        node = node.members[key][1] if key in node.members else _Node(0, 0, None)
    if path[-1] not in node.members:
        raise ValueError(f"there is no {'.'.join(path)}")
    starts = sorted(start for start, _ in node.members.values())
    start, child = node.members[path[-1]]
    position = starts.index(start)
    if position + 1 < len(starts):
        return text[:start] + text[starts[position + 1] :]
    if position == 0:
        return text[: node.start] + "{}" + text[node.end :]
    previous_end = max(other.end for other_start, other in node.members.values() if other_start < start)
    return text[:previous_end] + text[child.end :]


def _dump(text: str, value: Any, depth: int) -> str:
    if not _is_multiline(text):
        return json.dumps(value, ensure_ascii=False)
    indent = _find_indent(text)
    lines = json.dumps(value, ensure_ascii=False, indent=indent).split("\n")
    return f"{_find_newline(text)}{indent * depth}".join(lines)


def _is_multiline(text: str) -> bool:
    return "\n" in text.strip() or text.strip() == "{}"


def _find_indent(text: str) -> str:
    found = _INDENT.search(text)
    return found[1] if found else _DEFAULT_INDENT


def _find_newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _has_comma(text: str, end: int, *, comments: bool) -> bool:
    space = _SPACE_AND_COMMENTS if comments else _SPACE
    found = space.match(text, end)
    return text[found.end() if found else end :].startswith(",")


class _Parser:
    """Parses JSON and remembers positions; with comments, trailing commas are allowed, too."""

    def __init__(self, text: str, *, comments: bool) -> None:
        self._text = text
        self._space = _SPACE_AND_COMMENTS if comments else _SPACE
        self._allows_trailing_commas = comments
        self._decoder = json.JSONDecoder()

    def parse(self) -> _Node:
        node = self._parse_value(self._skip(0))
        if self._skip(node.end) != len(self._text):
            raise ValueError("there is more text after the value")
        return node

    def _skip(self, position: int) -> int:
        found = self._space.match(self._text, position)
        return found.end() if found else position

    def _parse_value(self, position: int) -> _Node:
        first = self._text[position : position + 1]
        if first == "{":
            return self._parse_object(position)
        if first == "[":
            return self._parse_list(position)
        value, end = self._decoder.raw_decode(self._text, position)
        return _Node(position, end, value)

    def _parse_object(self, start: int) -> _Node:
        node, position = _Node(start, start, {}), self._skip(start + 1)
        while self._text[position : position + 1] != "}":
            if self._text[position : position + 1] != '"':
                raise ValueError(f"a name in double quotes is missing at character {position}")
            name, end = scanstring(self._text, position + 1, True)
            if name in node.members:
                raise ValueError(f"the key {name!r} is there twice")
            colon = self._skip(end)
            if self._text[colon : colon + 1] != ":":
                raise ValueError(f"a colon is missing at character {colon}")
            child = self._parse_value(self._skip(colon + 1))
            node.members[name], node.value[name] = (position, child), child.value
            position = self._skip_comma(child.end, "}")
        node.end = position + 1
        return node

    def _parse_list(self, start: int) -> _Node:
        node, position = _Node(start, start, []), self._skip(start + 1)
        while self._text[position : position + 1] != "]":
            child = self._parse_value(position)
            node.value.append(child.value)
            position = self._skip_comma(child.end, "]")
        node.end = position + 1
        return node

    def _skip_comma(self, position: int, closing: str) -> int:
        """Return the position of the next part, or of the closing bracket."""
        position = self._skip(position)
        if self._text[position : position + 1] == closing:
            return position
        if self._text[position : position + 1] != ",":
            raise ValueError(f"a comma is missing at character {position}")
        position = self._skip(position + 1)
        if self._text[position : position + 1] == closing and not self._allows_trailing_commas:
            raise ValueError(f"there is a comma too many before character {position}")
        return position
