"""ConfigFile: a configuration file, to which one entry is added while all else stays as it is.

A class for each syntax edits the text. Its methods may raise ValueError or LookupError.
"""

from __future__ import annotations

import contextlib
import json
import re
import textwrap
import tomllib
from collections.abc import Generator, Iterator, Mapping, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]  # public in CPython, and not in the stubs
from pathlib import Path
from typing import Any, Final, Literal, Self

from ahvn_tools.cli.output import CommandError
from ahvn_tools.cli.output_file import OutputFile
from ahvn_tools.errors import SourceError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.mcp.client.mcp_config import without_comments

Syntax = Literal["json", "jsonc", "toml", "yaml"]
"""`"jsonc"`: JSON with comments and trailing commas."""


class Json:
    """JSON. A new entry is written as the text is: on lines of their own with its indentation, or on one line."""

    empty = "{}"

    def parse(self, text: str) -> Any:
        """Return the value; ValueError also for a key that an object has twice."""
        return json.loads(self._plain(text), object_pairs_hook=_to_object)

    def set_entry(self, text: str, path: Sequence[str], entry: JsonObject) -> str:
        """Add the entry as the last of its object. ValueError where the path leads into something else."""
        plain = self._plain(text)
        start, end = _find_root(plain)
        for depth, key in enumerate(path):
            if plain[start] != "{":
                raise ValueError(f"{'.'.join(path[:depth]) or 'the file'} is not an object")
            members = {
                name: (value_start, value_end) for name, _, value_start, value_end in _iter_members(plain, start)
            }
            if key not in members:
                break
            start, end = members[key]
        else:
            return text[:start] + _dump(text, entry, depth + 1) + text[end:]
        value = entry
        for name in reversed(path[depth + 1 :]):
            value = {name: value}
        member = f"{json.dumps(key, ensure_ascii=False)}: {_dump(text, value, depth + 1)}"
        before, after = text[: end - 1].rstrip(), text[end - 1 :]
        last = max((value_end for _, value_end in members.values()), default=None)
        if last is not None and not self._without_comments(text)[last:].lstrip().startswith(","):
            before = f"{before[:last]},{before[last:]}"
        if not _is_multiline(text):
            return f"{before}{' ' if last else ''}{member}{after}"
        indent = _find_indent(text)
        return f"{before}\n{indent * (depth + 1)}{member}\n{indent * depth}{after}"

    def remove_entry(self, text: str, path: Sequence[str]) -> str:
        """Remove the entry with one comma, that behind it or else that before it."""
        plain, bare = self._plain(text), self._without_comments(text)
        position, _ = _find_root(plain)
        for key in path:
            _, start, position, end = next(member for member in _iter_members(plain, position) if member[0] == key)
        comma = len(bare) - len(bare[end:].lstrip())
        if bare[comma] == ",":
            left, right = text[:start].rstrip(), text[comma + 1 :]
        else:
            comma = bare.rfind(",", 0, start)
            left, right = text[:start].rstrip(), text[end:]
            if bare[comma + 1 : start].isspace() or comma + 1 == start:
                left = left[:comma] + left[comma + 1 :]
        return left + (right.lstrip() if left.endswith("{") and right.lstrip().startswith("}") else right)

    def _without_comments(self, text: str) -> str:
        """Return a text of the same length with spaces in place of comments."""
        return text

    def _plain(self, text: str) -> str:
        """Return a text of the same length, which is JSON."""
        return text


class JsonWithComments(Json):
    """JSON with comments and trailing commas."""

    def _without_comments(self, text: str) -> str:
        return without_comments(text, keeps_commas=True)

    def _plain(self, text: str) -> str:
        return without_comments(text)


def _to_object(pairs: list[tuple[str, Any]]) -> JsonObject:
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = next(name for number, (name, _) in enumerate(pairs) if name in dict(pairs[:number]))
        raise ValueError(f"the key {twice!r} is there twice")
    return value


_SPACE: Final = re.compile(r"\s*")


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return position if found is None else found.end()


def _find_root(text: str) -> tuple[int, int]:
    """Return where the value of a JSON text starts and ends."""
    start = _skip(text, 0)
    return start, json.JSONDecoder().raw_decode(text, start)[1]


def _iter_members(text: str, position: int) -> Iterator[tuple[str, int, int, int]]:
    """Yield the members of the object at a position of a JSON text: name, its start, start and end of the value."""
    start = _skip(text, position + 1)
    while text[start] != "}":
        name, colon = scanstring(text, start + 1, True)
        value_start = _skip(text, _skip(text, colon) + 1)
        _, end = json.JSONDecoder().raw_decode(text, value_start)
        yield name, start, value_start, end
        start = _skip(text, end)
        start = _skip(text, start + 1) if text[start] == "," else start


def _dump(text: str, value: Any, depth: int) -> str:
    if not _is_multiline(text):
        return json.dumps(value, ensure_ascii=False)
    indent = _find_indent(text)
    return json.dumps(value, ensure_ascii=False, indent=indent).replace("\n", f"\n{indent * depth}")


def _is_multiline(text: str) -> bool:
    return "\n" in text.strip() or text.strip() == "{}"


def _find_indent(text: str) -> str:
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


class Toml:
    """TOML, by tomlkit."""

    empty = ""

    def parse(self, text: str) -> Any:
        """Return the value."""
        return tomllib.loads(text)

    def set_entry(self, text: str, path: Sequence[str], entry: JsonObject) -> str:
        """Add the entry as a table with a header of its own, unless the tables are written inline."""
        import tomlkit  # slow, and one client needs it

        document: Any = tomlkit.parse(text)
        table = document
        for key in path[:-1]:
            if key not in table:
                table[key] = tomlkit.table(is_super_table=True)
            table = table[key]
        table[path[-1]] = entry
        return tomlkit.dumps(document)

    def remove_entry(self, text: str, path: Sequence[str]) -> str:
        """Remove the table. The one that contained it stays, also if it is empty now."""
        import tomlkit  # slow, as above

        document: Any = tomlkit.parse(text)
        table = document
        for key in path[:-1]:
            table = table[key]
        del table[path[-1]]
        if not document[path[0]]:
            document[path[0]] = tomlkit.table()
        return tomlkit.dumps(document)


class Yaml:
    """YAML in blocks, with paths of two keys."""

    empty = ""

    def parse(self, text: str) -> Any:
        """Return the value; ValueError also for aliases that repeat too much."""
        from ahvn_tools.sources.yaml_file import read_yaml  # slow, and one client needs it

        try:
            return read_yaml(text, "the file").value or {}
        except SourceError as error:
            raise ValueError(str(error).rstrip(".")) from None

    def set_entry(self, text: str, path: Sequence[str], entry: JsonObject) -> str:
        """Add the entry as the first of its section."""
        import yaml  # slow, as above

        section, name = path
        if name in (self.parse(text).get(section) or {}):
            text = self.remove_entry(text, path)
        lines = text.splitlines()
        number, members, indent = _find_section(text, section)
        if number is None:
            number = len(lines)
            lines.append(f"{section}:")
        elif not members:  # null, or {}
            lines[number] = re.sub(r":\s*(~|null|\{\s*\})", ":", lines[number])
        block = yaml.safe_dump({name: entry}, sort_keys=False, allow_unicode=True, width=10_000).rstrip()
        return "\n".join([*lines[: number + 1], textwrap.indent(block, indent), *lines[number + 1 :], ""])

    def remove_entry(self, text: str, path: Sequence[str]) -> str:
        """Remove the lines of the entry."""
        section, name = path
        lines = text.splitlines()
        number, members, indent = _find_section(text, section)
        start = members[name]
        end = start + 1
        while end < len(lines) and (not lines[end].strip() or lines[end].startswith(f"{indent} ")):
            end += 1
        if number is not None and len(members) == 1:
            lines[number] = re.sub(r"(\s+#.*)?$", r" {}\1", lines[number], count=1)
        return "\n".join([*lines[:start], *lines[end:], ""])


def _find_section(text: str, section: str) -> tuple[int | None, dict[str, int], str]:
    """Return the line of a section, the lines of its members and their indentation. ValueError if it is no block."""
    import yaml  # slow, as above

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    for key, value in getattr(root, "value", ()):
        if key.value == section:
            members = value.value if isinstance(value, yaml.MappingNode) else ()
            if members and value.flow_style:
                raise ValueError(f"{section} is not written in blocks")
            indent = " " * value.start_mark.column if members else "  "
            return key.start_mark.line, {name.value: name.start_mark.line for name, _ in members}, indent
    return None, {}, "  "


EDITORS: Final[Mapping[Syntax, Json | Toml | Yaml]] = {
    "json": Json(),
    "jsonc": JsonWithComments(),
    "toml": Toml(),
    "yaml": Yaml(),
}

_NEW_FILE_MODE: Final = 0o600
"""Only for its owner: an entry may contain credentials."""
_BYTE_ORDER_MARK: Final = "\ufeff"


class ConfigFile:
    """The file of a client. A file that cannot be parsed is never changed."""

    def __init__(self, path: Path, file: OutputFile, syntax: Syntax) -> None:
        """Read a file, which messages call `path`. A missing one is empty.

        Raises CommandError for a file that cannot be read or parsed.
        """
        self.path = path
        self._file = file
        self._mark, self._newline = "", "\n"
        self._editor = EDITORS[syntax]
        self._text = self._read()
        self._data = self._parse(self._text)
        if not isinstance(self._data, dict):
            raise self._error("it contains no object")

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path, syntax: Syntax, *, is_confined: bool, makes_folders: bool = False) -> Generator[Self]:
        """Open a file, which no other command changes meanwhile. A link to a file stays a link.

        With `is_confined`, a link must not lead out of the current folder: it may be part of a project of others.
        """
        with OutputFile.open(
            path, is_confined=is_confined, follows_link=True, makes_folders=makes_folders
        ) as file:  # fmt: skip
            yield cls(path, file, syntax)

    def get_entry(self, path: Sequence[str]) -> Any:
        """Return the entry at a path of keys; None if there is none."""
        value: Any = self._data
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def set_entry(self, path: Sequence[str], entry: JsonObject) -> Path | None:
        """Write the file with an entry, and return the copy of the old file, if there was one."""
        expected = self._parse(self._text)
        parent = expected
        for key in path[:-1]:
            parent = parent.setdefault(key, {})
            if not isinstance(parent, dict):
                raise self._error(f"{key!r} in it is not an object")
        parent[path[-1]] = entry
        return self._change(lambda: self._editor.set_entry(self._text, path, entry), expected)

    def remove_entry(self, path: Sequence[str]) -> Path | None:
        """Write the file without an entry, and return the copy of the old file."""
        expected = self._parse(self._text)
        parent = expected
        for key in path[:-1]:
            parent = parent[key]
        del parent[path[-1]]
        return self._change(lambda: self._editor.remove_entry(self._text, path), expected)

    def _change(self, edit: Any, expected: Any) -> Path | None:
        """Write the edited text if it means what is expected: the edit knows the usual ways to write a file."""
        try:
            text = edit()
            is_right = self._editor.parse(text) == expected
        except (ValueError, LookupError, TypeError, RecursionError):
            is_right = False
        if not is_right:
            raise self._error("it is written in an unusual way", fix="Add the entry by hand: --print shows it.")
        return self._write(text)

    def _read(self) -> str:
        try:
            text = (self._file.read() or b"").decode()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
            raise self._error(f"it cannot be read: {reason}") from error
        if text.startswith(_BYTE_ORDER_MARK):
            self._mark, text = _BYTE_ORDER_MARK, text[1:]
        if "\n" in text and text.count("\n") == text.count("\r\n"):
            self._newline, text = "\r\n", text.replace("\r\n", "\n")
        return text if text.strip() else self._editor.empty

    def _parse(self, text: str) -> Any:
        try:
            return self._editor.parse(text)
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
            raise self._error(reason, fix="Correct it, or add the entry by hand: --print shows it.") from None

    def _write(self, text: str) -> Path | None:
        backup = self._file.copy()
        is_ended = text.endswith("\n") or backup is not None
        content = self._mark + (text if is_ended else f"{text}\n").replace("\n", self._newline)
        self._file.write(content.encode(), replaces=True, new_mode=_NEW_FILE_MODE)
        return backup

    def _error(self, reason: str, *, fix: str = "Use another file: --config FILE.") -> CommandError:
        return CommandError(f"{str(self.path)!r} was not changed: {reason}. {fix}")


def to_text(syntax: Syntax, path: Sequence[str], entry: JsonObject) -> str:
    """Return an entry at a path of keys as the text of a new file."""
    editor = EDITORS[syntax]
    return editor.set_entry(editor.empty, path, entry)
