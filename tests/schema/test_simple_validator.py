"""The simple validator: it agrees with the complete one, or refuses the schema."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ahvn_tools.schema.jsonschema import compile_validator
from ahvn_tools.schema.simple_validator import compile_simple

VALUES: list[Any] = [
    None, True, 0, 1, 1.0, 1.5, "", "a", "b", [], [1], ["a", 1], [True], {}, {"a": 1}, {"a": "a"}, {"a": 1, "b": None},
    {"a": {"a": {}}}, {"next": {"next": None}}, {"next": {"next": 1}},
]  # fmt: skip

NEXT = {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}
SCHEMAS: list[dict[str, Any]] = [
    {},
    *({"type": kind} for kind in ("string", "boolean", "null", "object", "array", "number", "integer")),
    {"type": ["string", "null"], "title": "A"},
    {"type": "array", "items": {"type": "integer"}},
    {"items": {"type": "string"}},
    {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "boolean"}}]},
    {"enum": ["a", "b"]},
    {"const": "a"},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "additionalProperties": True},
    {"required": ["a"]},
    {
        "$ref": "#/$defs/Node",
        "$defs": {"Node": {"type": "object", "properties": {"next": NEXT}}},
    },
]  # fmt: skip

OTHERS: list[dict[str, Any]] = [
    {"enum": [1, "a"]},
    {"const": True},
    {"type": "string", "pattern": "^a"},
    {"type": "integer", "minimum": 1},
    {"type": "array", "items": {"type": "string", "minLength": 1}},
    {"oneOf": [{"type": "integer"}]},
    {"properties": {"a": False}},
    {"$ref": "#"},
    {"$ref": "#/$defs/Missing"},
    {"type": "array", "prefixItems": [{}]},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_it_agrees_with_the_complete_validator(schema: dict[str, Any]) -> None:
    check, validator = compile_simple(schema), compile_validator(schema)
    for first, second in itertools.product(VALUES, repeat=2):
        for value in (first, [first, second], {"a": first, "b": second}):
            assert check(value) == validator.is_valid(value), value


@pytest.mark.parametrize("schema", OTHERS, ids=str)
def test_it_refuses_other_schemas(schema: dict[str, Any]) -> None:
    assert compile_simple(schema) is None
