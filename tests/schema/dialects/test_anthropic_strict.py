"""Closed schemas: strict as Anthropic takes it, never at the cost of the meaning."""

from __future__ import annotations

import copy

import pytest

from ahvn_tools.schema.dialects.anthropic_strict import to_anthropic_strict


def objects(**properties):
    return {"type": "object", "properties": properties}


def test_objects_are_closed_at_any_depth_and_optional_members_stay_optional():
    inner = {**objects(b={"type": "string"}), "title": "Inner"}
    made, reasons = to_anthropic_strict(
        {**objects(a={"$ref": "#/$defs/Inner"}), "required": ["a"], "$defs": {"Inner": inner}}
    )
    assert reasons == []
    assert made == {
        "type": "object", "properties": {"a": {"$ref": "#/$defs/Inner"}}, "required": ["a"],
        "additionalProperties": False,
        "$defs": {"Inner": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": False}},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"type": "integer", "minimum": 1, "default": 3},
         {"type": "integer", "description": "minimum: 1. Default: 3."}),
        ({"type": "string", "description": "A.", "pattern": "^a$"},
         {"type": "string", "description": 'A. pattern: "^a$".'}),
        ({"type": "string", "format": "binary"}, {"type": "string", "description": 'format: "binary".'}),
        ({"type": "string", "format": "uri"}, {"type": "string", "format": "uri"}),
        ({"type": ["string", "null"], "default": None}, {"type": ["string", "null"]}),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"$ref": "#/$defs/E", "description": "Which."}, {"description": "Which.", "anyOf": [{"$ref": "#/$defs/E"}]}),
        ({"const": 1}, {"const": 1}),
    ],
)  # fmt: skip
def test_what_a_strict_grammar_does_not_take_is_told_or_said_otherwise(node, expected):
    made, losses = to_anthropic_strict({**objects(a=node), "$defs": {"E": {"enum": [1, 2]}}})
    assert made["properties"]["a"] == expected
    assert {(finding.severity, finding.place) for finding in losses} <= {("warning", "a")}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (objects(a={"type": "object"}), "a: its members are not named"),
        (objects(a={}), "a: it may be anything"),
        (objects(a={"allOf": [{"type": "string"}]}), "the schema: 'allOf' is not allowed"),
        (objects(a={"$ref": "#"}), "the schema: it contains itself"),
        ({**objects(a={"$ref": "#/$defs/A"}), "$defs": {
            "A": objects(b={"$ref": "#/$defs/B"}), "B": objects(a={"$ref": "#/$defs/A"}),
        }}, "$defs.B: it contains itself"),
    ],
)  # fmt: skip
def test_what_cannot_be_closed_is_left_alone_with_the_reason(schema, reason):
    before = copy.deepcopy(schema)
    made, reasons = to_anthropic_strict(schema)
    assert made is None
    assert schema == before
    assert reason in map(str, reasons)


def test_what_leads_to_a_loop_is_no_loop():
    schema = {**objects(a={"$ref": "#/$defs/A"}), "$defs": {"A": objects(a={"$ref": "#/$defs/A"})}}
    assert [str(reason) for reason in to_anthropic_strict(schema)[1]] == ["$defs.A: it contains itself"]
