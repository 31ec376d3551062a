"""Two schemas as one: what it accepts, what it leaves out, and which schemas exclude each other."""

from __future__ import annotations

from typing import Any

import pytest

from ahvn_tools.schema.dialects.merge import MAX_COMPARED, are_exclusive, merge

TEXT = {"type": "string"}
CLOSED = {"type": "object", "properties": {"a": TEXT}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("first", "second", "merged", "omitted"),
    [
        (TEXT, {"minLength": 1}, {"type": "string", "minLength": 1}, []),
        ({"type": ["string", "number"]}, {"type": ["integer", "null"]}, {"type": "integer"}, []),
        ({"minimum": 1, "maximum": 9}, {"minimum": 3, "maximum": 7}, {"minimum": 3, "maximum": 7}, []),
        ({"type": ["string", "array"], "minItems": 1}, TEXT, TEXT, []),
        ({"enum": ["a", 1, True]}, {"enum": [1, "a", "b"]}, {"enum": ["a", 1]}, []),
        ({"enum": ["a", 1]}, TEXT, {"type": "string", "enum": ["a"]}, []),
        ({"enum": ["a", 1]}, {"const": "a"}, {"const": "a"}, []),
        ({"required": ["a"]}, {"required": ["b", "a"]}, {"required": ["a", "b"]}, []),
        ({"uniqueItems": False}, {"uniqueItems": True}, {"uniqueItems": True}, []),
        ({"items": {}}, {"items": TEXT}, {"items": TEXT}, []),
        ({"pattern": "a"}, {"pattern": "b"}, {"pattern": "a"}, ["pattern"]),
        ({"pattern": "a"}, {"pattern": "a"}, {"pattern": "a"}, []),
        ({"anyOf": [TEXT]}, {"anyOf": [{}]}, {"anyOf": [TEXT]}, ["anyOf"]),
        ({"allOf": [TEXT]}, {"allOf": [{}]}, {"allOf": [TEXT, {}]}, []),
        ({"title": "A", "default": 1}, {"title": "B", "description": "D."},
         {"title": "A", "default": 1, "description": "D."}, []),
        (CLOSED, {"properties": {"b": TEXT}}, CLOSED, []),
        (CLOSED, {"additionalProperties": {"minLength": 1}},
         {**CLOSED, "properties": {"a": {"allOf": [TEXT, {"minLength": 1}]}}}, []),
        ({"properties": {"a": TEXT}}, {"properties": {"a": {"minLength": 1}, "b": TEXT}},
         {"properties": {"a": {"allOf": [TEXT, {"minLength": 1}]}, "b": TEXT}}, []),
        ({"properties": {"a": {"const": 1}}}, {"properties": {"a": {"const": True}}},
         {"properties": {"a": {"allOf": [{"const": 1}, {"const": True}]}}}, []),
        ({"patternProperties": {"a": TEXT}}, {"additionalProperties": False, "properties": {"b": TEXT}},
         {"patternProperties": {"a": TEXT}}, ["properties", "additionalProperties"]),
        ({"prefixItems": [TEXT]}, {"items": {"minLength": 1}}, {"prefixItems": [TEXT]}, ["items"]),
        ({"contains": TEXT}, {"minContains": 2}, {"contains": TEXT}, ["minContains"]),
        ({"if": TEXT, "then": TEXT}, {"else": TEXT}, {"if": TEXT, "then": TEXT}, ["else"]),
    ],
    ids=str,
)  # fmt: skip
def test_the_merged_schema_accepts_what_both_accept(first, second, merged, omitted):
    assert merge(first, second) == (merged, omitted)


@pytest.mark.parametrize(
    ("first", "second"), [(TEXT, {"type": "integer"}), ({"const": 1}, {"const": True}), ({"enum": [1]}, TEXT)], ids=str
)
def test_schemas_without_a_common_value_cannot_be_merged(first, second):
    assert merge(first, second) == (None, [])


def tagged(tag: Any, *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"kind": tag}, "required": list(required)}


@pytest.mark.parametrize(
    ("branches", "expected"),
    [
        ([TEXT, {"type": "integer"}], True),
        ([{"type": "integer"}, {"type": "number"}], False),
        ([{"const": 1}, {"enum": [2, 3]}, {"const": True}], True),
        ([tagged({"const": "a"}, "kind"), tagged({"const": "b"})], True),
        ([tagged({"const": "a"}), tagged({"const": "b"})], False),
        ([tagged({"const": "a"}, "kind"), tagged({}, "kind")], False),
        ([{**tagged({"const": "a"}, "kind"), "type": ["object", "null"]}, tagged({"const": "b"}, "kind")], True),
        ([tagged({"const": "a"}, "kind"), {}], False),
        ([tagged({"const": "a"}, "kind"), True], False),
        ([tagged(True, "kind"), tagged({"const": "b"}, "kind")], False),
        ([{"const": number} for number in range(MAX_COMPARED + 1)], False),
    ],
    ids=lambda case: str(case)[:60],
)
def test_schemas_exclude_each_other_by_type_value_or_tag(branches, expected):
    assert are_exclusive(branches, lambda branch: branch) is expected
