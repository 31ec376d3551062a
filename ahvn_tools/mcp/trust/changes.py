"""The differences between two lists of one server's tools, and which of them may break a caller."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.compatibility import find_incompatibilities

_WIRE_NAMES = {
    **{name: name for name in ("name", "title", "description", "annotations", "icons", "execution")},
    "input_schema": "inputSchema",
    "output_schema": "outputSchema",
    "meta": "_meta",
}


def to_wire(tool: Any) -> JsonObject:
    """Return the wire object of an `mcp.types.Tool`, or of a mapping that is one: the fields that were sent.

    Its parts are those of the tool, not copies, so that a large tool costs nothing. Anything else has no fields.
    """
    if isinstance(tool, Mapping):
        return dict(tool)
    sent = getattr(tool, "model_fields_set", ())
    return {wire: _to_json_value(getattr(tool, name)) for name, wire in _WIRE_NAMES.items() if name in sent}


def _to_json_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_json_value(item) for item in value]
    return value.model_dump(mode="json", by_alias=True, exclude_unset=True) if hasattr(value, "model_dump") else value


Reasons = tuple[str, ...]

MAX_REASONS = 20
"""The maximum number of reasons for one tool."""

_FIELD_LABELS = {
    "title": "the title",
    "description": "the description",
    "inputSchema": "the input schema",
    "outputSchema": "the output schema",
    "annotations": "the annotations",
    "icons": "the icons",
    "execution": "the execution",
    "_meta": "the metadata",
}


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The differences between two lists of tools, by tool name. Tools that are the same in both are not in it."""

    added: Reasons = ()
    """Names of new tools."""
    removed: Reasons = ()
    """Names of tools that are gone."""
    breaking: dict[str, Reasons] = field(default_factory=dict)
    """Tools that may refuse a call that was valid, or guarantee less about their results; with the reasons."""
    compatible: dict[str, Reasons] = field(default_factory=dict)
    """Tools with other changes; with the fields that changed."""

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return bool(self.added or self.removed or self.breaking or self.compatible)


def compare(before: Iterable[Any], after: Iterable[Any]) -> Changes:
    """Return the differences between two lists of tools, either `mcp.types.Tool`s or wire objects.

    A change is breaking when a call that was valid may be refused, when a parameter is gone, or when a result may not
    fit the output schema of before. What cannot be decided is breaking.

    >>> tool = {"name": "add", "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    >>> compare([tool], [{**tool, "inputSchema": {**tool["inputSchema"], "required": ["a"]}}]).breaking
    {'add': ("parameter 'a' is required",)}
    """
    old, new = ({str(wire.get("name")): wire for wire in map(to_wire, tools)} for tools in (before, after))
    changes = Changes(
        added=tuple(name for name in new if name not in old), removed=tuple(name for name in old if name not in new)
    )
    for name in [name for name in new if name in old]:
        before_tool, after_tool = old[name], new[name]
        fields = [key for key in _FIELD_LABELS if _differ(before_tool.get(key), after_tool.get(key))]
        if not fields:
            continue
        reasons = (*_compare_inputs(before_tool, after_tool), *_compare_outputs(before_tool, after_tool))
        if reasons:
            changes.breaking[name] = reasons[:MAX_REASONS]
        else:
            changes.compatible[name] = tuple(f"{_FIELD_LABELS[key]} changed" for key in fields)
    return changes


def _differ(old: Any, new: Any) -> bool:
    """Return whether two JSON values differ; in Python, unlike in JSON, 1 equals true."""
    return json.dumps(old, sort_keys=True) != json.dumps(new, sort_keys=True)


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
    for name in _get_properties(before):
        if name not in _get_properties(after):
            yield f"output {name!r} is gone"
    yield from (f"output: before, {reason}" for reason in find_incompatibilities(after, before))


def _get_only_property(schema: JsonObject | None) -> str | None:
    """Return the only property of a schema: the value of a tool is what is in it."""
    names = list(_get_properties(schema or {}))
    return names[0] if len(names) == 1 else None


def _get_properties(schema: JsonObject) -> JsonObject:
    """Return the properties of a schema, which a server may have written."""
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}
