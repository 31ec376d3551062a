"""Edits of TOML text: all other text stays as it is."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any, Final

from ahvn_tools.json_types import JsonObject

_HEADER: Final = re.compile(r"^\s*\[\[?(?P<keys>[^\]]+)\]\]?\s*(?:#.*)?$")
_KEY: Final = re.compile(r"""\s*(?:"([^"\\]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*(?:\.|$)""")


def parse(text: str, *, comments: bool) -> Any:  # noqa: ARG001  # as the other siblings
    """Return the value of a text. Raises ValueError."""
    return tomllib.loads(text)


def set_entry(text: str, path: Sequence[str], entry: JsonObject, *, comments: bool) -> str:
    """Return the text with a table at a path of keys, at its end, in place of one that is there. Raises ValueError."""
    data: Any = parse(text, comments=comments)
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    kept = _without_table(text, path) if data is not None else text
    space = "\n\n" if kept.strip() else ""
    return f"{kept.rstrip()}{space}{_dump(path, entry)}"


def remove_entry(text: str, path: Sequence[str], *, comments: bool) -> str:  # noqa: ARG001  # as above
    """Return the text without the table at a path, and without the tables in it. Raises ValueError if there is none.

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


def _dump(path: Sequence[str], entry: JsonObject) -> str:
    """Return a table: the values first, then the tables in it."""
    lines = [f"[{'.'.join(map(_dump_key, path))}]"]
    lines += [f"{_dump_key(key)} = {_dump_value(value)}" for key, value in entry.items() if not isinstance(value, dict)]
    tables = [_dump([*path, key], value) for key, value in entry.items() if isinstance(value, dict)]
    return "\n".join(["\n".join(lines) + "\n", *tables])


def _dump_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _dump_value(key)


def _dump_value(value: Any) -> str:
    """Return a value as TOML: as JSON, whose texts, numbers, truth values and lists TOML has, too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
