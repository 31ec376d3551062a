"""Changes: a caller is told what of a server's news may break it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import Tool

from ahvn_tools.mcp.trust.changes import MAX_REASONS, Changes, compare
from tests.mcp.trust.test_pins import WIRE
from tests.mcp.trust.test_screening import TOOLS

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def tool(properties=None, required=(), name="add", output=None, **schema):
    inputs = {"type": "object", "properties": properties or {}, "required": [*required], **schema}
    return {"name": name, "inputSchema": inputs, **({"outputSchema": output} if output is not None else {})}


def giving(properties=None, required=(), **schema):
    return tool(output={"type": "object", "properties": properties or {}, "required": [*required], **schema})


def test_the_same_tools_are_no_change():
    changes = compare([WIRE, tool()], [tool(), Tool.model_validate(WIRE)])
    assert changes == Changes()
    assert not changes


@settings(max_examples=100, deadline=None)
@given(st.lists(TOOLS, max_size=3))
def test_a_list_compared_with_itself_is_no_change(tools):
    assert not compare(tools, tools)


def test_tools_come_and_go_and_one_that_is_renamed_does_both():
    changes = compare([tool(name="a"), tool(name="b")], [tool(name="b"), tool(name="c")])
    assert changes == Changes(added=("c",), removed=("a",))
    assert changes


BREAKING = {
    "a required parameter is new": (tool(), tool({"a": TEXT}, ["a"]), "parameter 'a' is required"),
    "a parameter is required": (tool({"a": TEXT}), tool({"a": TEXT}, ["a"]), "parameter 'a' is required"),
    "a parameter is gone": (tool({"a": TEXT}), tool(), "parameter 'a' is gone"),
    "a parameter is renamed": (tool({"a": TEXT}), tool({"b": TEXT}), "parameter 'a' is gone"),
    "a type is another": (tool({"a": NUMBER}), tool({"a": TEXT}), "parameter 'a' no longer takes integer"),
    "a type is narrower": (tool({"a": {}}), tool({"a": {"type": "object"}}), "no longer takes"),
    "numbers have to be whole": (
        tool({"a": {"type": "number"}}),
        tool({"a": NUMBER}),
        "parameter 'a' no longer takes number",
    ),
    "an enum has fewer values": (
        tool({"a": {"enum": [1, 2]}}),
        tool({"a": {"enum": [1]}}),
        "parameter 'a' takes certain values only",
    ),
    "a value is true and no longer 1": (
        tool({"a": {"const": 1}}),
        tool({"a": {"const": True}}),
        "takes certain values only",
    ),
    "a choice is gone": (
        tool({"a": {"anyOf": [TEXT, NUMBER]}}),
        tool({"a": {"anyOf": [TEXT]}}),
        "parameter 'a' has other choices",
    ),
    "null is gone": (
        tool({"a": {"type": ["string", "null"]}}),
        tool({"a": TEXT}),
        "parameter 'a' no longer takes null",
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
        "parameter 'a[].b' no longer takes string",
    ),
    "behind a reference": (
        tool({"a": {"$ref": "#/$defs/x"}}, **{"$defs": {"x": TEXT}}),
        tool({"a": {"$ref": "#/$defs/x"}}, **{"$defs": {"x": NUMBER}}),
        "parameter 'a' no longer takes string",
    ),
    "an open object is closed": (tool(), tool(additionalProperties=False), "input: it takes no other members"),
    "what comes back is not promised": (giving({"a": TEXT}), tool(), "its output schema is gone"),
    "what comes back may be another": (
        giving({"a": TEXT, "b": TEXT}),
        giving({"a": TEXT, "b": {"type": ["string", "null"]}}),
        "output: before, 'b' no longer takes null",
    ),
    "what comes back may lack a part": (
        giving({"a": TEXT, "b": TEXT}, ["a"]),
        giving({"a": TEXT, "b": TEXT}),
        "output: before, 'a' is required",
    ),
    "a part no longer comes back": (
        giving({"a": TEXT, "b": TEXT, "c": TEXT}),
        giving({"a": TEXT, "b": TEXT}),
        "output 'c' is gone",
    ),
    "the value is no longer the one part": (
        giving({"a": TEXT}),
        giving({"a": TEXT, "b": TEXT}),
        "its value is another part of the structured content",
    ),
    "the value is a part of what it was": (tool(), giving({"a": TEXT}), "its value is another part"),
    "another dialect": (
        tool({"a": TEXT}),
        tool({"a": TEXT, "b": TEXT}, **{"$schema": "http://json-schema.org/draft-07/schema#"}),
        "input: it is written in another dialect",
    ),
}


@pytest.mark.parametrize(("before", "after", "reason"), BREAKING.values(), ids=BREAKING)
def test_what_may_break_a_caller_is_breaking(before, after, reason):
    changes = compare([before], [after])
    assert changes.compatible == {}
    assert any(reason in told for told in changes.breaking["add"])


DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}

COMPATIBLE = {
    "an optional parameter is new": (tool({"a": TEXT}), tool({"a": TEXT, "b": NUMBER})),
    "the first parameter is new": ({**tool(), "inputSchema": {"type": "object"}}, tool({"a": TEXT})),
    "… of a closed object": (tool(additionalProperties=False), tool({"b": NUMBER}, additionalProperties=False)),
    "… in an older dialect": (tool({"a": TEXT}, **DRAFT_7), tool({"a": TEXT, "b": NUMBER}, **DRAFT_7)),
    "a parameter is no longer required": (tool({"a": TEXT}, ["a"]), tool({"a": TEXT})),
    "a type is wider": (tool({"a": NUMBER}), tool({"a": {"type": "number"}})),
    "null is legal": (tool({"a": TEXT}), tool({"a": {"anyOf": [TEXT, {"type": "null"}]}})),
    "null is legal, said otherwise": (
        tool({"a": {"anyOf": [TEXT, {"type": "null"}]}}),
        tool({"a": {"type": ["null", "string"]}}),
    ),
    "an enum has more values": (tool({"a": {"enum": ["x"]}}), tool({"a": {"enum": ["y", "x"]}})),
    "an enum is free": (tool({"a": {"enum": ["x"]}}), tool({"a": TEXT})),
    "a limit is gone": (tool({"a": {**TEXT, "maxLength": 5}}), tool({"a": TEXT})),
    "a closed object is open": (tool(additionalProperties=False), tool()),
    "a definition has another name": (
        tool({"a": {"$ref": "#/$defs/x"}}, **{"$defs": {"x": TEXT}}),
        tool({"a": {"$ref": "#/$defs/y"}}, **{"$defs": {"y": TEXT}}),
    ),
    "a definition is written where it is used": (
        tool({"a": {"$ref": "#/$defs/x"}}, **{"$defs": {"x": TEXT}}),
        tool({"a": TEXT}),
    ),
    "a recursive schema has one more member": (
        tool({"a": {"$ref": "#/$defs/x"}}, **{"$defs": {"x": {"properties": {"in": {"$ref": "#/$defs/x"}}}}}),
        tool(
            {"a": {"$ref": "#/$defs/x"}}, **{"$defs": {"x": {"properties": {"in": {"$ref": "#/$defs/x"}, "b": TEXT}}}}
        ),
    ),
    "one more kind that its tag tells apart": (
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
    ),
    "more comes back": (giving({"a": TEXT, "b": TEXT}), giving({"a": TEXT, "b": TEXT, "c": TEXT})),
    "what comes back is promised": (giving({"a": TEXT, "b": TEXT}), giving({"a": TEXT, "b": TEXT}, ["a"])),
    "an output schema is new": (tool(), giving({"a": TEXT, "b": TEXT})),
    "an output schema has another wording": (giving({"a": TEXT}), giving({"a": {**TEXT, "title": "A"}})),
}


@pytest.mark.parametrize(("before", "after"), COMPATIBLE.values(), ids=COMPATIBLE)
def test_what_breaks_nobody_is_compatible(before, after):
    changes = compare([before], [after])
    assert changes.breaking == {}
    assert list(changes.compatible) == ["add"]


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("title", "T", "the title changed"),
        ("description", "D", "the description changed"),
        ("annotations", {"readOnlyHint": True}, "the annotations changed"),
        ("icons", [{"src": "data:,"}], "the icons changed"),
        ("_meta", {"a": 1}, "the meta data changed"),
        ("execution", {"taskSupport": "required"}, "how it is executed changed"),
    ],
)
def test_another_wording_is_told_and_breaks_nobody(field, value, told):
    assert compare([tool()], [{**tool(), field: value}]) == Changes(compatible={"add": (told,)})


def test_one_is_not_true():
    changes = compare([{**tool(), "_meta": {"a": 1}}], [{**tool(), "_meta": {"a": True}}])
    assert changes.compatible == {"add": ("the meta data changed",)}


def test_reasons_are_only_so_many():
    before = tool({str(i): TEXT for i in range(100)})
    assert len(compare([before], [tool()]).breaking["add"]) == MAX_REASONS


@settings(max_examples=100, deadline=None)
@given(TOOLS, TOOLS)
def test_no_two_tools_are_too_much_to_compare(before, after):
    compare([{**before, "name": "x"}], [{**after, "name": "x"}])


@pytest.mark.parametrize(
    "odd", [{}, {"name": "add"}, tool() | {"inputSchema": None}, tool() | {"inputSchema": {"$ref": "x"}}]
)
def test_what_was_not_screened_is_compared_as_far_as_it_goes(odd):
    assert compare([odd], [{**odd, "description": "D"}])
