"""Ollama's form: a type, items, an enum and a description for each parameter; the description states the rest."""

from __future__ import annotations

import json

import pytest

from ahvn_tools.schema.dialects.dialect import OLLAMA
from tests.schema.dialects.translation import object_of, translate_member, translate_schema


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        *[(node, node) for node in [{"type": "string", "enum": ["a"], "description": "D."}]],
        ({"type": "string", "default": "a", "title": "T"}, {"type": "string", "description": 'Default: "a".'}),
        ({"type": "integer", "minimum": 1}, {"type": "integer", "description": "minimum: 1."}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": ["string", "null"]}),
        ({"const": "x"}, {"type": "string", "enum": ["x"]}),
        (
            object_of(b={"type": "string"}),
            {"type": "object",
             "description": 'As JSON Schema: {"type": "object", "properties": {"b": {"type": "string"}}}.'},
        ),
        (
            {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "integer"}], "description": "D."},
            {"type": ["string", "integer"],
             "description": 'D. As JSON Schema: {"anyOf": [{"type": "string", "minLength": 1}, {"type": "integer"}]}.'},
        ),
        (
            {"anyOf": [{"enum": ["a", 1]}, {"anyOf": [{"type": "null"}]}]},
            {"type": ["string", "integer", "null"],
             "description": 'As JSON Schema: {"anyOf": [{"enum": ["a", 1]}, {"anyOf": [{"type": "null"}]}]}.'},
        ),
        (
            {"anyOf": [{"not": {"const": 1}}, {"type": "integer"}]},
            {"description": 'As JSON Schema: {"anyOf": [{"not": {"const": 1}}, {"type": "integer"}]}.'},
        ),
        ({"anyOf": [{}, {"minimum": 1}]}, {"description": 'As JSON Schema: {"anyOf": [{}, {"minimum": 1}]}.'}),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "object",
             "description": 'As JSON Schema: {"type": "object", "additionalProperties": {"type": "string"}}.'},
        ),
        (
            {"type": "array", "items": {"$ref": "#/$defs/A"}},
            {"type": "array", "items": {"type": "string", "minLength": 1}},
        ),
    ],
    ids=lambda case: json.dumps(case)[:60],
)  # fmt: skip
def test_the_description_of_a_parameter_states_what_ollama_drops(node, expected):
    assert translate_member(node, OLLAMA, **{"$defs": {"A": {"type": "string", "minLength": 1}}}) == expected


def test_the_root_has_only_members_and_required_names():
    schema = {**object_of(a={"type": "string"}), "required": ["a"], "additionalProperties": False, "title": "T"}
    assert translate_schema(schema, OLLAMA) == {**object_of(a={"type": "string"}), "required": ["a"]}
    ruled = {**schema, "additionalProperties": {"type": "null"}, "minProperties": 2}
    description = 'additionalProperties: {"type": "null"}. minProperties: 2.'
    assert translate_schema(ruled, OLLAMA) == {
        **object_of(a={"type": "string"}),
        "required": ["a"],
        "description": description,
    }
