"""Edits of the texts of configurations: all other text stays as it is.

Each class has `parse(text)`, `set_entry(text, path, entry)` and `remove_entry(text, path)`, which raise ValueError.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]  # public in CPython, and not in the stubs
from typing import Any, ClassVar, Final

from ahvn_tools.errors import SourceError
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


@dataclass(frozen=True)
class JsonText:
    """JSON, with comments and trailing commas where the program allows them."""

    comments: bool
    empty: ClassVar = "{}"

    def parse(self, text: str) -> Any:
        """Return the value of a text. Raises ValueError, also for a key that an object has twice."""
        return _Parser(text, comments=self.comments).parse().value

    def set_entry(self, text: str, path: Sequence[str], entry: JsonObject) -> str:
        """Return the text with an entry at a path of keys, in place of one that is there. Raises ValueError."""
        root = _Parser(text, comments=self.comments).parse()
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
        return _insert(text, node, path[depth], value, depth + 1, comments=self.comments)

    def remove_entry(self, text: str, path: Sequence[str]) -> str:
        """Return the text without the entry at a path. Raises ValueError if there is none."""
        node = _Parser(text, comments=self.comments).parse()
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


_HEADER: Final = re.compile(r"^\s*\[\[?(?P<keys>[^\]]+)\]\]?\s*(?:#.*)?$")
_KEY: Final = re.compile(r"""\s*(?:"([^"\\]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*(?:\.|$)""")


class TomlText:
    """TOML, in which a server is a table with a header of its own."""

    empty: ClassVar = ""

    def parse(self, text: str) -> Any:
        """Return the value of a text. Raises ValueError."""
        return tomllib.loads(text)

    def set_entry(self, text: str, path: Sequence[str], entry: JsonObject) -> str:
        """Return the text with a table at a path of keys, at its end, in place of another. Raises ValueError."""
        data: Any = self.parse(text)
        for key in path:
            data = data.get(key) if isinstance(data, dict) else None
        kept = _without_table(text, path) if data is not None else text
        space = "\n\n" if kept.strip() else ""
        return f"{kept.rstrip()}{space}{_dump_table(path, entry)}"

    def remove_entry(self, text: str, path: Sequence[str]) -> str:
        """Return the text without the table at a path and the tables in it. Raises ValueError if there is none.

        The table that contained it stays, also if it is empty now.
        """
        kept = _without_table(text, path)
        return kept if path[0] in tomllib.loads(kept) else f"{kept}[{_dump_key(path[0])}]\n"


def _without_table(text: str, path: Sequence[str]) -> str:
    kept, is_inside, has_found = [], False, False
    for line in text.splitlines(keepends=True):
        if (header := _HEADER.match(line)) and not line.lstrip().startswith("#"):
            keys = [next(filter(None, match.groups()), "") for match in _KEY.finditer(header["keys"])]
            is_inside = keys[: len(path)] == list(path)
            has_found = has_found or is_inside
        if not is_inside:
            kept.append(line)
    if not has_found:
        raise ValueError(f"there is no table [{'.'.join(path)}]")
    return "".join(kept)


def _dump_table(path: Sequence[str], entry: JsonObject) -> str:
    """Return a table: the values first, then the tables in it."""
    lines = [f"[{'.'.join(map(_dump_key, path))}]"]
    lines += [f"{_dump_key(key)} = {_dump_value(value)}" for key, value in entry.items() if not isinstance(value, dict)]
    tables = [_dump_table([*path, key], value) for key, value in entry.items() if isinstance(value, dict)]
    return "\n".join(["\n".join(lines) + "\n", *tables])


def _dump_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _dump_value(key)


def _dump_value(value: Any) -> str:
    """Return a value as TOML: as JSON, whose texts, numbers, truth values and lists TOML has, too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


class YamlText:
    """YAML in blocks."""

    empty: ClassVar = ""

    def parse(self, text: str) -> Any:
        """Return the value of a text. Raises ValueError, also for aliases that repeat too much."""
        from ahvn_tools.loading.yaml_file import read_yaml  # slow, and one client needs it

        try:
            return read_yaml(text, "the file").value or {}
        except SourceError as error:
            raise ValueError(str(error).rstrip(".")) from None

    def set_entry(self, text: str, path: Sequence[str], entry: JsonObject) -> str:
        """Return the text with an entry at a path of two keys, in place of one that is there. Raises ValueError."""
        import yaml  # slow, as above

        section, name = path
        data = self.parse(text)
        if isinstance(data.get(section), dict) and name in data[section]:
            text = self.remove_entry(text, path)
        lines = text.splitlines(keepends=True)
        start = _find_key(lines, section, "")
        if start is None:
            lines = [*lines, "" if not lines or lines[-1].endswith("\n") else "\n", f"{section}:\n"]
            start = len(lines) - 1
        elif re.match(rf"{re.escape(section)}:\s*(?:\{{\s*\}}|null|~)\s*$", lines[start]):
            lines[start] = f"{section}:\n"
        if not lines[start].endswith("\n"):
            lines[start] += "\n"
        indent = _find_block_indent(lines, start) or "  "
        block = yaml.safe_dump({name: entry}, sort_keys=False, allow_unicode=True, width=10_000)
        added = [f"{indent}{line}\n" for line in block.splitlines()]
        return "".join([*lines[: start + 1], *added, *lines[start + 1 :]])

    def remove_entry(self, text: str, path: Sequence[str]) -> str:
        """Return the text without the entry at a path of two keys. Raises ValueError if there is none."""
        section, name = path
        lines = text.splitlines(keepends=True)
        parent = _find_key(lines, section, "")
        indent = None if parent is None else _find_block_indent(lines, parent)
        start = None if indent is None else _find_key(lines, name, indent, after=parent or 0)
        if parent is None or indent is None or start is None:
            raise ValueError(f"there is no {section}.{name} in blocks")
        end = start + 1
        while end < len(lines) and (not lines[end].strip() or lines[end].startswith(f"{indent} ")):
            end += 1
        kept = [*lines[:start], *lines[end:]]
        if _find_block_indent(kept, parent) is None:
            kept[parent] = f"{section}: {{}}\n"
        return "".join(kept)


def _find_key(lines: list[str], key: str, indent: str, *, after: int = -1) -> int | None:
    """Return the number of the line with a key at an indentation, in the block that begins after a line."""
    pattern = re.compile(rf"""{indent}(["']?){re.escape(key)}\1\s*:(?:\s|$)""")
    for number, line in enumerate(lines):
        if number > after and pattern.match(line):
            return number
        if after >= 0 and number > after and line.strip() and not line.startswith((indent, "#")):
            return None
    return None


def _find_block_indent(lines: list[str], start: int) -> str | None:
    """Return the indentation of what a block contains; None if it contains nothing."""
    for line in lines[start + 1 :]:
        if line.strip() and not line.lstrip().startswith("#"):
            return line[: len(line) - len(line.lstrip())] or None
    return None
