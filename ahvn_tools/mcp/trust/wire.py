"""Wire objects: the JSON object of a tool as its server sent it, whatever it was parsed into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ahvn_tools.json_types import JsonObject

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
