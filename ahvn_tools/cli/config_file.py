"""ConfigFile: a configuration file, to which one entry is added while all else stays as it is."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Self

from ahvn_tools.cli.config_texts import JsonText, TomlText, YamlText
from ahvn_tools.cli.output import CommandError
from ahvn_tools.cli.output_file import OutputFile
from ahvn_tools.json_types import JsonObject

Syntax = Literal["json", "jsonc", "toml", "yaml"]
"""`"jsonc"`: JSON with comments and trailing commas."""

EDITORS: Final[Mapping[Syntax, JsonText | TomlText | YamlText]] = {
    "json": JsonText(comments=False),
    "jsonc": JsonText(comments=True),
    "toml": TomlText(),
    "yaml": YamlText(),
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
        self._mark = ""
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
        except ValueError:
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
        content = self._mark + text + ("" if is_ended else "\n")
        self._file.write(content.encode(), replaces=True, new_mode=_NEW_FILE_MODE)
        return backup

    def _error(self, reason: str, *, fix: str = "Use another file: --config FILE.") -> CommandError:
        return CommandError(f"{str(self.path)!r} was not changed: {reason}. {fix}")


def to_text(syntax: Syntax, path: Sequence[str], entry: JsonObject) -> str:
    """Return an entry at a path of keys as the text of a new file."""
    editor = EDITORS[syntax]
    return editor.set_entry(editor.empty, path, entry)
