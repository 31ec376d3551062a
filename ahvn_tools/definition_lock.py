"""Lock files: the definitions of tools at one time, so that a later change is noticed and can be explained.

A lock file is JSON with the definition and the fingerprint of each tool. It contains what models see and nothing else:
no bound value and no state. The same definitions always give the same text.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ahvn_tools import atomic_file
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import SourceError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.mcp.trust.changes import Changes
from ahvn_tools.mcp.trust.changes import compare as compare_wire_tools
from ahvn_tools.regular_file import read_regular

VERSION: Final = 1
"""Another version may calculate the fingerprints differently."""

FIELDS: Final[dict[str, type]] = {
    **dict.fromkeys(("name", "title", "description", "version", "returns"), str),
    **dict.fromkeys(("input_schema", "output_schema", "annotations", "meta"), dict),
    **dict.fromkeys(("tags", "examples", "icons"), list),
}
"""The types of the fields of a definition in JSON."""
_WIRE_NAMES: Final = {"input_schema": "inputSchema", "output_schema": "outputSchema", "meta": "_meta"}
_OTHER_FIELDS: Final = {
    "tags": "the tags",
    "examples": "the examples",
    "version": "the version",
    "returns": "the description of the result",
}
"""What MCP's definition of a tool does not have."""


def write(path: str | os.PathLike[str], definitions: Iterable[ToolDefinition]) -> None:
    """Write the definitions to a lock file, in place of one that is there. Raises OSError, also for a link."""
    atomic_file.write_text(path, to_text(definitions))


def to_text(definitions: Iterable[ToolDefinition]) -> str:
    """Return the text of a lock file."""
    tools = {
        definition.name: {"definition": to_json(definition), "fingerprint": definition.fingerprint}
        for definition in definitions
    }
    return json.dumps({"version": VERSION, "tools": tools}, indent=2, sort_keys=True) + "\n"


def is_lock_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a lock file: its name ends in `.lock`, or it is JSON as `write` writes it."""
    file = Path(path)
    if file.suffix == ".lock":
        return True
    if file.suffix != ".json" or not file.is_file():
        return False
    with contextlib.suppress(OSError, ValueError, RecursionError):
        data = json.loads(read_regular(os.path.realpath(file)).decode())
        return isinstance(data, dict) and "version" in data and isinstance(data.get("tools"), dict)
    return False


def read(path: str | os.PathLike[str]) -> list[ToolDefinition]:
    """Return the definitions in a lock file. Raises SourceError for a file that `write` did not write as it is."""
    try:
        text = read_regular(os.path.realpath(path)).decode()
    except FileNotFoundError:
        raise _error(path, "there is no such file", fix="Write it with `ahvn-tools pin`.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _error(path, f"it cannot be read ({getattr(error, 'strerror', None) or type(error).__name__})") from error
    try:
        data = json.loads(text, object_pairs_hook=_refuse_duplicates)
    except (ValueError, RecursionError) as error:
        raise _error(path, str(error) if isinstance(error, _DuplicateKeyError) else "it is not JSON") from None
    if not isinstance(data, dict) or not isinstance(data.get("tools"), dict):
        raise _error(path, "it does not contain pinned tools")
    if data.get("version") != VERSION:
        raise _error(path, f"its version is {data.get('version')!r}, not {VERSION}")
    return [_to_definition(path, name, tool) for name, tool in data["tools"].items()]


def compare(before: Iterable[ToolDefinition], after: Iterable[ToolDefinition]) -> Changes:
    """Return the differences between two lists of definitions, by tool name; breaking ones with their reasons.

    >>> compare([ToolDefinition(name="add")], [ToolDefinition(name="add", description="Add.")]).compatible
    {'add': ('the description changed',)}
    """
    old, new = list(before), list(after)
    changes = compare_wire_tools(map(_to_wire, old), map(_to_wire, new))
    by_name = {definition.name: definition for definition in old}
    for definition in new:
        other = by_name.get(definition.name)
        if other is None or definition.name in changes.breaking or definition == other:
            continue
        labels = [
            label for field, label in _OTHER_FIELDS.items() if getattr(definition, field) != getattr(other, field)
        ]
        known = changes.compatible.get(definition.name, ())
        changes.compatible[definition.name] = (*known, *(f"{label} changed" for label in labels))
    return changes


def to_json(definition: ToolDefinition) -> JsonObject:
    """Return a definition as JSON, without the fields that have no value."""
    values = {name: getattr(definition, name) for name in FIELDS}
    return {
        name: sorted(value) if name == "tags" else value
        for name, value in values.items()
        if value is not None and value not in ("", frozenset())
    }


def _to_wire(definition: ToolDefinition) -> JsonObject:
    return {_WIRE_NAMES.get(name, name): value for name, value in to_json(definition).items()}


def from_json(fields: JsonObject) -> ToolDefinition:
    """Return the definition that `to_json` wrote. Raises KeyError, TypeError or ValueError for other JSON."""
    if any(not isinstance(value, FIELDS[field]) for field, value in fields.items()):
        raise TypeError
    return ToolDefinition(**{**fields, "tags": frozenset(fields.get("tags", ()))})


def _to_definition(path: Any, name: str, tool: Any) -> ToolDefinition:
    fields = tool.get("definition") if isinstance(tool, dict) else None
    if not isinstance(fields, dict) or fields.get("name") != name:
        raise _error(path, f"the tool {name!r} has no definition")
    try:
        definition = from_json(fields)
        fingerprint = definition.fingerprint
    except (KeyError, TypeError, ValueError, RecursionError):
        raise _error(path, f"the definition of {name!r} is malformed") from None
    if fingerprint != tool.get("fingerprint"):
        raise _error(path, f"the definition of {name!r} does not fit its fingerprint")
    return definition


class _DuplicateKeyError(ValueError):
    pass


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> JsonObject:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise _DuplicateKeyError("it has a key twice")
    return data


def _error(path: Any, reason: str, *, fix: str = "Restore it, or write it with `ahvn-tools pin`.") -> SourceError:
    return SourceError(f"The lock file {os.fspath(path)!r} cannot be used: {reason}. {fix}", file=os.fspath(path))
