"""Schemas for Anthropic's strict tools, which never change their meaning."""

from __future__ import annotations

import copy

import pytest

from ahvn_tools.schema.dialects.strict import to_anthropic_strict


def objects(**properties):
    return {"type": "object", "properties": properties}


def test_objects_are_closed_at_any_depth_and_optional_members_stay_optional():
    inner = {**objects(b={"type": "string"}), "title": "Inner"}
    strict, reasons = to_anthropic_strict(
        {**objects(a={"$ref": "#/$defs/Inner"}), "required": ["a"], "$defs": {"Inner": inner}}
    )
    assert reasons == []
    assert strict == {
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
def test_unsupported_keywords_are_replaced_or_described(node, expected):
    strict, losses = to_anthropic_strict({**objects(a=node), "$defs": {"E": {"enum": [1, 2]}}})
    assert strict["properties"]["a"] == expected
    assert {(finding.severity, finding.place) for finding in losses} <= {("note", "a")}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (objects(a={"type": "object"}), "a: its members are not named"),
        (objects(a={}), "a: it accepts any value"),
        (objects(a={"allOf": [{"type": "string"}]}), "the schema: 'allOf' is not allowed"),
        (objects(a={"$ref": "#"}), "the schema: it is recursive"),
        ({**objects(a={"$ref": "#/$defs/A"}), "$defs": {
            "A": objects(b={"$ref": "#/$defs/B"}), "B": objects(a={"$ref": "#/$defs/A"}),
        }}, "$defs.B: it is recursive"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_strict_has_reasons_and_does_not_change(schema, reason):
    before = copy.deepcopy(schema)
    strict, reasons = to_anthropic_strict(schema)
    assert strict is None
    assert schema == before
    assert reason in map(str, reasons)


def test_only_the_recursive_definition_is_reported():
    schema = {**objects(a={"$ref": "#/$defs/A"}), "$defs": {"A": objects(a={"$ref": "#/$defs/A"})}}
    assert [str(reason) for reason in to_anthropic_strict(schema)[1]] == ["$defs.A: it is recursive"]
