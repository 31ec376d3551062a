"""Edits of YAML text in blocks: all other text stays as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from ahvn_tools.errors import SourceError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.loading.yaml_file import read_yaml


def parse(text: str, *, comments: bool) -> Any:  # noqa: ARG001  # as the other siblings
    """Return the value of a text. Raises ValueError, also for aliases that repeat too much."""
    try:
        return read_yaml(text, "the file").value or {}
    except SourceError as error:
        raise ValueError(str(error).rstrip(".")) from None


def set_entry(text: str, path: Sequence[str], entry: JsonObject, *, comments: bool) -> str:
    """Return the text with an entry at a path of two keys, in place of one that is there. Raises ValueError."""
    section, name = path
    data = parse(text, comments=comments)
    if isinstance(data.get(section), dict) and name in data[section]:
        text = remove_entry(text, path, comments=comments)
    lines = text.splitlines(keepends=True)
    start = _find_key(lines, section, "")
    if start is None:
        lines = [*lines, "" if not lines or lines[-1].endswith("\n") else "\n", f"{section}:\n"]
        start = len(lines) - 1
    elif re.match(rf"{re.escape(section)}:\s*(?:\{{\s*\}}|null|~)\s*$", lines[start]):
        lines[start] = f"{section}:\n"
    if not lines[start].endswith("\n"):
        lines[start] += "\n"
    indent = _find_indent(lines, start) or "  "
    block = yaml.safe_dump({name: entry}, sort_keys=False, allow_unicode=True, width=10_000)
    added = [f"{indent}{line}\n" for line in block.splitlines()]
    return "".join([*lines[: start + 1], *added, *lines[start + 1 :]])


def remove_entry(text: str, path: Sequence[str], *, comments: bool) -> str:  # noqa: ARG001  # as above
    """Return the text without the entry at a path of two keys. Raises ValueError if there is none."""
    section, name = path
    lines = text.splitlines(keepends=True)
    parent = _find_key(lines, section, "")
    indent = None if parent is None else _find_indent(lines, parent)
    start = None if indent is None else _find_key(lines, name, indent, after=parent or 0)
    if parent is None or indent is None or start is None:
        raise ValueError(f"there is no {section}.{name} in blocks")
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(f"{indent} ")):
        end += 1
    kept = [*lines[:start], *lines[end:]]
    if _find_indent(kept, parent) is None:
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


def _find_indent(lines: list[str], start: int) -> str | None:
    """Return the indentation of what a block contains; None if it contains nothing."""
    for line in lines[start + 1 :]:
        if line.strip() and not line.lstrip().startswith("#"):
            return line[: len(line) - len(line.lstrip())] or None
    return None
