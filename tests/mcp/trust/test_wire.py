"""Wire objects: all that a server sent of a tool, and nothing that it did not send."""

from __future__ import annotations

from mcp_types import Tool

from ahvn_tools.mcp.trust.changes import to_wire

WIRE = {
    "name": "look up",
    "title": "Look up",
    "description": None,
    "inputSchema": {"type": "object", "properties": {"from": {"$ref": "#/$defs/day"}}, "$defs": {"day": {"x-own": 1}}},
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
    "icons": [{"src": "data:,", "mimeType": "image/png"}],
    "execution": {"taskSupport": "optional"},
    "_meta": {"fastmcp": {"tags": ["a"]}, "z": None},
}


def test_a_parsed_tool_gives_the_wire_object_that_it_was_parsed_from():
    assert to_wire(Tool.model_validate(WIRE)) == WIRE


def test_a_field_that_was_not_sent_is_not_there():
    assert to_wire(Tool.model_validate({"name": "a", "inputSchema": {}})) == {"name": "a", "inputSchema": {}}


def test_a_wire_object_is_given_as_it_is():
    assert to_wire({**WIRE, "unknown": 1}) == {**WIRE, "unknown": 1}


def test_schemas_are_not_copied():
    tool = Tool.model_validate(WIRE)
    assert to_wire(tool)["inputSchema"] is tool.input_schema


def test_a_value_that_is_not_a_tool_has_no_fields():
    assert to_wire(object()) == {}
    assert to_wire(None) == {}
    assert to_wire("a string, which has a method title()") == {}
