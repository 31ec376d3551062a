"""The comparison of two tool lists reports which changes may break a caller."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from mcp_types import Tool

from ahvn_tools.mcp.trust.changes import MAX_REASONS, Changes, compare, to_wire
from tests.mcp.trust.test_pins import WIRE
from tests.mcp.trust.test_screening import TOOLS
from tests.property_checks import EXAMPLES, run_examples

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def tool(properties=None, required=(), name="add", output=None, **schema):
    inputs = {"type": "object", "properties": properties or {}, "required": [*required], **schema}
    return {"name": name, "inputSchema": inputs, **({"outputSchema": output} if output is not None else {})}


def tool_with_output(properties=None, required=(), **schema):
    return tool(output={"type": "object", "properties": properties or {}, "required": [*required], **schema})


def test_equal_tools_are_not_a_change():
    changes = compare([WIRE, tool()], [tool(), Tool.model_validate(WIRE)])
    assert changes == Changes()
    assert not changes


@EXAMPLES
def test_a_list_does_not_differ_from_itself(max_examples):
    def check(tools):
        assert not compare(tools, tools)

    run_examples(max_examples, check, st.lists(TOOLS, max_size=3))


def test_a_renamed_tool_is_removed_and_added():
    changes = compare([tool(name="a"), tool(name="b")], [tool(name="b"), tool(name="c")])
    assert changes == Changes(added=("c",), removed=("a",))
    assert changes


BREAKING = {
    "a required parameter is new": (tool(), tool({"a": TEXT}, ["a"]), "parameter 'a' is required"),
    "a parameter is required": (tool({"a": TEXT}), tool({"a": TEXT}, ["a"]), "parameter 'a' is required"),
    "a parameter is gone": (tool({"a": TEXT}), tool(), "parameter 'a' is gone"),
    "a parameter is renamed": (tool({"a": TEXT}), tool({"b": TEXT}), "parameter 'a' is gone"),
    "another type": (tool({"a": NUMBER}), tool({"a": TEXT}), "parameter 'a' no longer accepts integer"),
    "a type is narrower": (tool({"a": {}}), tool({"a": {"type": "object"}}), "no longer accepts"),
    "numbers have to be whole": (
        tool({"a": {"type": "number"}}),
        tool({"a": NUMBER}),
        "parameter 'a' no longer accepts number",
    ),
    "an enum has fewer values": (
        tool({"a": {"enum": [1, 2]}}),
        tool({"a": {"enum": [1]}}),
        "parameter 'a' accepts certain values only",
    ),
    "true instead of 1": (
        tool({"a": {"const": 1}}),
        tool({"a": {"const": True}}),
        "accepts certain values only",
    ),
    "a choice is gone": (
        tool({"a": {"anyOf": [TEXT, NUMBER]}}),
        tool({"a": {"anyOf": [TEXT]}}),
        "parameter 'a' has other choices",
    ),
    "null is gone": (
        tool({"a": {"type": ["string", "null"]}}),
        tool({"a": TEXT}),
        "parameter 'a' no longer accepts null",
    ),
    "a limit is new": (
        tool({"a": TEXT}),
        tool({"a": {**TEXT, "maxLength": 5}}),
        "parameter 'a' has another 'maxLength'",
    ),
    "a pattern is new": (
        tool({"a": TEXT}),
        tool({"a": {**TEXT, "pattern": "x"}}),
        "parameter 'a' has another 'pattern'",
    ),
    "deep inside": (
        tool({"a": {"type": "array", "items": {"properties": {"b": TEXT}}}}),
        tool({"a": {"type": "array", "items": {"properties": {"b": NUMBER}}}}),
        "parameter 'a[].b' no longer accepts string",
    ),
    "behind a reference": (
        tool({"a": {"$ref": "#/$defs/x"}}, **{"$defs": {"x": TEXT}}),
        tool({"a": {"$ref": "#/$defs/x"}}, **{"$defs": {"x": NUMBER}}),
        "parameter 'a' no longer accepts string",
    ),
    "an open object is closed": (tool(), tool(additionalProperties=False), "input: it accepts no other members"),
    "the output schema is gone": (tool_with_output({"a": TEXT}), tool(), "its output schema is gone"),
    "a wider output": (
        tool_with_output({"a": TEXT, "b": TEXT}),
        tool_with_output({"a": TEXT, "b": {"type": ["string", "null"]}}),
        "output: before, 'b' no longer accepts null",
    ),
    "an output property is optional": (
        tool_with_output({"a": TEXT, "b": TEXT}, ["a"]),
        tool_with_output({"a": TEXT, "b": TEXT}),
        "output: before, 'a' is required",
    ),
    "an output property is gone": (
        tool_with_output({"a": TEXT, "b": TEXT, "c": TEXT}),
        tool_with_output({"a": TEXT, "b": TEXT}),
        "output 'c' is gone",
    ),
    "the value is no longer the only property": (
        tool_with_output({"a": TEXT}),
        tool_with_output({"a": TEXT, "b": TEXT}),
        "its value is another part of the structured content",
    ),
    "the value becomes the only property": (tool(), tool_with_output({"a": TEXT}), "its value is another part"),
    "a tagged union has one more choice, which is not decided": (
        tool({"a": {"oneOf": [{"type": "object", "properties": {"t": {"const": "x"}}, "required": ["t"]}]}}),
        tool(
            {
                "a": {
                    "oneOf": [
                        {"type": "object", "properties": {"t": {"const": "y"}, "n": NUMBER}, "required": ["t"]},
                        {"type": "object", "properties": {"t": {"const": "x"}}, "required": ["t"]},
                    ]
                }
            }
        ),
        "parameter 'a' has another 'oneOf'",
    ),
    "another draft": (
        tool({"a": TEXT}),
        tool({"a": TEXT, "b": TEXT}, **{"$schema": "http://json-schema.org/draft-07/schema#"}),
        "input: it uses another JSON Schema draft",
    ),
}


@pytest.mark.parametrize(("before", "after", "reason"), BREAKING.values(), ids=BREAKING)
def test_a_change_that_may_break_a_caller_is_breaking(before, after, reason):
    changes = compare([before], [after])
    assert changes.compatible == {}
    assert any(reason in text for text in changes.breaking["add"])


DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}

COMPATIBLE = {
    "an optional parameter is new": (tool({"a": TEXT}), tool({"a": TEXT, "b": NUMBER})),
    "the first parameter is new": ({**tool(), "inputSchema": {"type": "object"}}, tool({"a": TEXT})),
    "an optional parameter is new in a closed object": (
        tool(additionalProperties=False),
        tool({"b": NUMBER}, additionalProperties=False),
    ),
    "an optional parameter is new in draft 7": (
        tool({"a": TEXT}, **DRAFT_7),
        tool({"a": TEXT, "b": NUMBER}, **DRAFT_7),
    ),
    "a parameter is no longer required": (tool({"a": TEXT}, ["a"]), tool({"a": TEXT})),
    "a type is wider": (tool({"a": NUMBER}), tool({"a": {"type": "number"}})),
    "null is allowed": (tool({"a": TEXT}), tool({"a": {"anyOf": [TEXT, {"type": "null"}]}})),
    "null as a union, then as a list of types": (
        tool({"a": {"anyOf": [TEXT, {"type": "null"}]}}),
        tool({"a": {"type": ["null", "string"]}}),
    ),
    "an enum has more values": (tool({"a": {"enum": ["x"]}}), tool({"a": {"enum": ["y", "x"]}})),
    "an enum is removed": (tool({"a": {"enum": ["x"]}}), tool({"a": TEXT})),
    "a limit is gone": (tool({"a": {**TEXT, "maxLength": 5}}), tool({"a": TEXT})),
    "a closed object is open": (tool(additionalProperties=False), tool()),
    "a definition has another name": (
        tool({"a": {"$ref": "#/$defs/x"}}, **{"$defs": {"x": TEXT}}),
        tool({"a": {"$ref": "#/$defs/y"}}, **{"$defs": {"y": TEXT}}),
    ),
    "a definition is inlined": (
        tool({"a": {"$ref": "#/$defs/x"}}, **{"$defs": {"x": TEXT}}),
        tool({"a": TEXT}),
    ),
    "a recursive schema has one more member": (
        tool({"a": {"$ref": "#/$defs/x"}}, **{"$defs": {"x": {"properties": {"in": {"$ref": "#/$defs/x"}}}}}),
        tool(
            {"a": {"$ref": "#/$defs/x"}}, **{"$defs": {"x": {"properties": {"in": {"$ref": "#/$defs/x"}, "b": TEXT}}}}
        ),
    ),
    "an output property is new": (
        tool_with_output({"a": TEXT, "b": TEXT}),
        tool_with_output({"a": TEXT, "b": TEXT, "c": TEXT}),
    ),
    "an output property is required": (
        tool_with_output({"a": TEXT, "b": TEXT}),
        tool_with_output({"a": TEXT, "b": TEXT}, ["a"]),
    ),
    "an output schema is new": (tool(), tool_with_output({"a": TEXT, "b": TEXT})),
    "an output schema has another title": (
        tool_with_output({"a": TEXT}),
        tool_with_output({"a": {**TEXT, "title": "A"}}),
    ),
}


@pytest.mark.parametrize(("before", "after"), COMPATIBLE.values(), ids=COMPATIBLE)
def test_a_compatible_change_has_no_breaking_reasons(before, after):
    changes = compare([before], [after])
    assert changes.breaking == {}
    assert list(changes.compatible) == ["add"]


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("title", "T", "the title changed"),
        ("description", "D", "the description changed"),
        ("annotations", {"readOnlyHint": True}, "the annotations changed"),
        ("icons", [{"src": "data:,"}], "the icons changed"),
        ("_meta", {"a": 1}, "the metadata changed"),
        ("execution", {"taskSupport": "required"}, "the execution changed"),
    ],
)
def test_a_change_outside_of_the_schemas_is_compatible(field, value, reason):
    assert compare([tool()], [{**tool(), field: value}]) == Changes(compatible={"add": (reason,)})


def test_1_and_true_are_different():
    changes = compare([{**tool(), "_meta": {"a": 1}}], [{**tool(), "_meta": {"a": True}}])
    assert changes.compatible == {"add": ("the metadata changed",)}


def test_the_number_of_reasons_is_limited():
    before = tool({str(i): TEXT for i in range(100)})
    assert len(compare([before], [tool()]).breaking["add"]) == MAX_REASONS


@EXAMPLES
def test_any_two_tools_can_be_compared(max_examples):
    def check(before, after):
        compare([{**before, "name": "x"}], [{**after, "name": "x"}])

    run_examples(max_examples, check, TOOLS, TOOLS)


@pytest.mark.parametrize(
    "unscreened", [{}, {"name": "add"}, tool() | {"inputSchema": None}, tool() | {"inputSchema": {"$ref": "x"}}]
)
def test_unscreened_tools_can_be_compared(unscreened):
    assert compare([unscreened], [{**unscreened, "description": "D"}])


SENT = {
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
    assert to_wire(Tool.model_validate(SENT)) == SENT


def test_a_field_that_was_not_sent_is_not_there():
    assert to_wire(Tool.model_validate({"name": "a", "inputSchema": {}})) == {"name": "a", "inputSchema": {}}


def test_a_wire_object_is_given_as_it_is():
    assert to_wire({**SENT, "unknown": 1}) == {**SENT, "unknown": 1}


def test_schemas_are_not_copied():
    tool = Tool.model_validate(SENT)
    assert to_wire(tool)["inputSchema"] is tool.input_schema


def test_a_value_that_is_not_a_tool_has_no_fields():
    assert to_wire(object()) == {}
    assert to_wire(None) == {}
    assert to_wire("a string, which has a method title()") == {}
