"""Changes: what differs between two lists of one server's tools, and what of it may break a caller."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ahvn_tools.mcp.trust.wire import JsonObject, to_wire
from ahvn_tools.schema.compatibility import find_incompatibilities

Reasons = tuple[str, ...]

MAX_REASONS = 20
"""So many reasons are given for one tool at most."""

_FIELD_LABELS = {
    "title": "the title",
    "description": "the description",
    "inputSchema": "the input schema",
    "outputSchema": "the output schema",
    "annotations": "the annotations",
    "icons": "the icons",
    "execution": "how it is executed",
    "_meta": "the meta data",
}


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What differs between two lists of tools, by name. A tool that is the same in both is not in it."""

    added: Reasons = ()
    """Names of tools that are new."""
    removed: Reasons = ()
    """Names of tools that are gone."""
    breaking: dict[str, Reasons] = field(default_factory=dict)
    """Tools that may refuse a call that was valid, or promise less of their answers; with the reasons."""
    compatible: dict[str, Reasons] = field(default_factory=dict)
    """Tools that changed otherwise; with what changed."""

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return bool(self.added or self.removed or self.breaking or self.compatible)


def compare(before: Iterable[Any], after: Iterable[Any]) -> Changes:
    """Return what differs between two lists of tools, each given as `mcp.types.Tool`s or as wire objects.

    A change is breaking when a call that was valid may be refused, when a parameter is gone, or when an answer may be
    what the output schema of before refuses. What cannot be decided is breaking.

    >>> tool = {"name": "add", "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    >>> compare([tool], [{**tool, "inputSchema": {**tool["inputSchema"], "required": ["a"]}}]).breaking
    {'add': ("parameter 'a' is required",)}
    """
    old, new = _index_by_name(before), _index_by_name(after)
    changes = Changes(
        added=tuple(name for name in new if name not in old), removed=tuple(name for name in old if name not in new)
    )
    for name, wire in new.items():
        changed = [
            key
            for key in _FIELD_LABELS
            if _to_canonical_json(wire.get(key)) != _to_canonical_json(old.get(name, wire).get(key))
        ]
        if not changed:
            continue
        reasons = (*_compare_inputs(old[name], wire), *_compare_outputs(old[name], wire))
        told = changes.breaking if reasons else changes.compatible
        told[name] = reasons[:MAX_REASONS] or tuple(f"{_FIELD_LABELS[key]} changed" for key in changed)
    return changes


def _compare_inputs(old: JsonObject, new: JsonObject) -> Iterator[str]:
    before, after = ({"properties": {}, **(wire.get("inputSchema") or {})} for wire in (old, new))
    reasons = find_incompatibilities(before, after, allow_removed=False)
    yield from (f"parameter {reason}" if reason.startswith("'") else f"input: {reason}" for reason in reasons)


def _compare_outputs(old: JsonObject, new: JsonObject) -> Iterator[str]:
    before, after = old.get("outputSchema"), new.get("outputSchema")
    if before is None and after is None:
        return
    if after is None:
        yield "its output schema is gone"
        return
    if _get_only_property(before) != _get_only_property(after):
        yield "its value is another part of the structured content"
    if before is None:
        return
    for name in before.get("properties", {}):
        if name not in after.get("properties", {}):
            yield f"output {name!r} is gone"
    yield from (f"output: before, {reason}" for reason in find_incompatibilities(after, before))


def _get_only_property(schema: JsonObject | None) -> str | None:
    """Return the one property of a schema that has exactly one: a tool's value is what is in it."""
    names = list((schema or {}).get("properties", {}))
    return names[0] if len(names) == 1 else None


def _index_by_name(tools: Iterable[Any]) -> dict[str, JsonObject]:
    return {str(wire.get("name")): wire for wire in map(to_wire, tools)}


def _to_canonical_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
