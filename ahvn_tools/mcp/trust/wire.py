"""Wire objects: a tool as its server sent it, whatever it was parsed into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JsonObject = dict[str, Any]

_WIRE_NAMES = {
    "name": "name",
    "title": "title",
    "description": "description",
    "input_schema": "inputSchema",
    "output_schema": "outputSchema",
    "annotations": "annotations",
    "icons": "icons",
    "execution": "execution",
    "meta": "_meta",
}


def to_wire(tool: Any) -> JsonObject:
    """Return the wire object of an `mcp.types.Tool`, or of a mapping that is one: all fields that were sent.

    The parts are the tool's own objects, not copies, so a large one costs nothing. What is no tool gives `{}`.
    """
    if isinstance(tool, Mapping):
        return dict(tool)
    sent = getattr(tool, "model_fields_set", ())
    return {
        wire: _to_json_value(getattr(tool, name))
        for name, wire in _WIRE_NAMES.items()
        if name in sent and hasattr(tool, name)
    }


def _to_json_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_json_value(item) for item in value]
    return value.model_dump(mode="json", by_alias=True, exclude_unset=True) if hasattr(value, "model_dump") else value
