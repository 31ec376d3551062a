"""Flattened roots: one plain object, and sentences for the rules that it cannot express."""

from __future__ import annotations

import copy
import json

import pytest

from ahvn_tools.schema.dialects.merge import FURTHER_RULES, MAX_BRANCHES, add_missing_properties, flatten_root
from ahvn_tools.schema.dialects.normalize import normalize

CIRCLE = {"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}},
          "required": ["kind", "radius"], "additionalProperties": False}  # fmt: skip
SQUARE = {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}},
          "required": ["kind", "side"], "additionalProperties": False}  # fmt: skip


def flatten(schema):
    return flatten_root(normalize(copy.deepcopy(schema))[0])[:2]


def test_a_plain_object_does_not_change():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert flatten(schema) == (schema, [])


def test_a_union_of_objects_is_merged_and_described():
    merged, rules = flatten({"oneOf": [CIRCLE, {"$ref": "#/$defs/Square"}], "$defs": {"Square": SQUARE},
                        "discriminator": {"propertyName": "kind"}})  # fmt: skip
    assert merged == {
        "type": "object",
        "properties": {
            "kind": {"anyOf": [{"const": "circle"}, {"const": "square"}]},
            "radius": {"type": "number"},
            "side": {"type": "number"},
        },
        "required": ["kind"],
        "additionalProperties": False,
    }
    combinations = '`kind` = "circle" with `radius`; `kind` = "square" with `side`'
    assert rules == [f"Pass exactly one of these combinations of arguments: {combinations}."]


def test_a_union_of_required_names_is_described():
    schema = {"properties": {"a": {}, "b": {}, "c": {}}, "required": ["c"],
              "anyOf": [{"required": ["a"]}, {"required": ["a", "b"]}, {}, True]}  # fmt: skip
    merged, rules = flatten(schema)
    assert merged["required"] == ["c"]
    assert rules == ["Pass at least one of these combinations of arguments: `a`; `a` with `b`; any other combination."]


def test_equal_members_of_branches_are_merged():
    merged, _ = flatten(
        {"anyOf": [{"properties": {"a": {"const": 1}, "b": {}}}, {"properties": {"a": {"const": True}, "b": {}}}]}
    )
    assert merged["properties"] == {"a": {"anyOf": [{"const": 1}, {"const": True}]}, "b": {}}
    assert merged["properties"]["a"]["anyOf"][1]["const"] is True


def test_branches_other_than_objects_are_ignored():
    merged, rules = flatten({"anyOf": [{"type": "null"}, False, {**CIRCLE, "type": ["object", "null"]}]})
    assert merged["required"] == ["kind", "radius"]
    assert rules == ['Pass at least one of these combinations of arguments: `kind` = "circle" with `radius`.']
    impossible = 'The arguments must match the JSON Schema {"anyOf": [{"type": "null"}]}.'
    assert flatten({"anyOf": [{"type": "null"}]}) == ({"type": "object"}, [impossible])


def test_all_of_is_merged_without_a_description():
    merged, rules = flatten({"allOf": [
        {"properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": {"type": "string"}},
        {"properties": {"a": {"minimum": 1}, "b": {}}, "required": ["b", "a"]},
    ]})  # fmt: skip
    assert merged == {
        "type": "object",
        "properties": {"a": {"allOf": [{"type": "integer"}, {"minimum": 1}]}, "b": {"type": "string"}},
        "required": ["a", "b"],
        "additionalProperties": {"type": "string"},
    }
    assert rules == []


def test_other_rules_of_an_all_of_branch_are_described():
    _, rules = flatten({"allOf": [{"if": {"required": ["a"]}, "then": {"required": ["b"]}}]})
    assert rules == [
        'The arguments must match the JSON Schema {"if": {"required": ["a"]}, "then": {"required": ["b"]}}.'
    ]


@pytest.mark.parametrize("rule", [{"not": {"required": ["a"]}}, {"enum": [{"a": 1}]}, {"const": {"a": "ü"}}])
def test_other_rules_of_a_root_are_described(rule):
    merged, rules = flatten({"type": "object", **rule})
    assert merged == {"type": "object"}
    assert rules == [f"The arguments must match the JSON Schema {json.dumps(rule, ensure_ascii=False)}."]


def test_a_closed_root_gains_no_members_from_its_branches():
    merged, _ = flatten({"properties": {"a": {"type": "string"}}, "additionalProperties": False,
                    "anyOf": [{"properties": {"a": {"const": "x"}, "b": {}}}]})  # fmt: skip
    assert merged["properties"] == {"a": {"type": "string"}}


def test_unused_definitions_are_removed():
    assert "$defs" not in flatten({"anyOf": [{"$ref": "#/$defs/C"}], "$defs": {"C": CIRCLE}})[0]


def test_endless_unions_are_merged_to_a_limit():
    loop = {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/Self"}],
            "$defs": {"Self": {"anyOf": [{"$ref": "#/$defs/Self"}, {"required": ["a"]}]}}}  # fmt: skip
    assert FURTHER_RULES in flatten(loop)[1]
    wide = {"allOf": [{"properties": {f"p{i}": {}}} for i in range(MAX_BRANCHES + 9)]}
    merged, rules = flatten(wide)
    assert len(merged["properties"]) == MAX_BRANCHES - 1
    assert rules == [FURTHER_RULES]


def test_every_object_gets_properties():
    assert add_missing_properties({"type": "object", "items": {"type": "object"}, "default": {"type": "object"}}) == {
        "type": "object", "items": {"type": "object", "properties": {}}, "default": {"type": "object"},
        "properties": {},
    }  # fmt: skip
