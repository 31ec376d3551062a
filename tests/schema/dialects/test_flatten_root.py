"""Roots that providers take: one plain object, with what it cannot say in words."""

from __future__ import annotations

import copy
import json

import pytest

from ahvn_tools.schema.dialects.flatten_root import FURTHER_RULES, MAX_BRANCHES, add_missing_properties, flatten_root
from ahvn_tools.schema.dialects.normalize import normalize

CIRCLE = {"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}},
          "required": ["kind", "radius"], "additionalProperties": False}  # fmt: skip
SQUARE = {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}},
          "required": ["kind", "side"], "additionalProperties": False}  # fmt: skip


def flat(schema):
    return flatten_root(normalize(copy.deepcopy(schema))[0])


def test_a_plain_object_stays_as_it_is():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert flat(schema) == (schema, [])


def test_a_choice_between_objects_is_merged_and_told():
    made, rules = flat({"oneOf": [CIRCLE, {"$ref": "#/$defs/Square"}], "$defs": {"Square": SQUARE},
                        "discriminator": {"propertyName": "kind"}})  # fmt: skip
    assert made == {
        "type": "object",
        "properties": {
            "kind": {"anyOf": [{"const": "circle"}, {"const": "square"}]},
            "radius": {"type": "number"},
            "side": {"type": "number"},
        },
        "required": ["kind"],
        "additionalProperties": False,
    }
    assert rules == ['Exactly one of these must hold: `kind` = "circle" with `radius`; `kind` = "square" with `side`.']


def test_a_choice_of_what_is_required_is_told():
    schema = {"properties": {"a": {}, "b": {}, "c": {}}, "required": ["c"],
              "anyOf": [{"required": ["a"]}, {"required": ["a", "b"]}, {}, True]}  # fmt: skip
    made, rules = flat(schema)
    assert made["required"] == ["c"]
    assert rules == ["At least one of these must hold: `a`; `a` with `b`; anything else; anything else."]


def test_alike_members_of_branches_are_shown_once():
    made, _ = flat(
        {"anyOf": [{"properties": {"a": {"const": 1}, "b": {}}}, {"properties": {"a": {"const": True}, "b": {}}}]}
    )
    assert made["properties"] == {"a": {"anyOf": [{"const": 1}, {"const": True}]}, "b": {}}
    assert made["properties"]["a"]["anyOf"][1]["const"] is True


def test_branches_that_are_no_objects_do_not_count():
    made, rules = flat({"anyOf": [{"type": "null"}, False, {**CIRCLE, "type": ["object", "null"]}]})
    assert made["required"] == ["kind", "radius"]
    assert rules == ['At least one of these must hold: `kind` = "circle" with `radius`.']
    assert flat({"anyOf": [{"type": "null"}]}) == ({"type": "object"}, [])


def test_parts_that_all_hold_are_merged_without_a_word():
    made, rules = flat({"allOf": [
        {"properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": {"type": "string"}},
        {"properties": {"a": {"minimum": 1}, "b": {}}, "required": ["b", "a"]},
    ]})  # fmt: skip
    assert made == {
        "type": "object",
        "properties": {"a": {"allOf": [{"type": "integer"}, {"minimum": 1}]}, "b": {}},
        "required": ["a", "b"],
        "additionalProperties": {"type": "string"},
    }
    assert rules == []


def test_what_a_part_says_beyond_its_members_is_told():
    _, rules = flat({"allOf": [{"if": {"required": ["a"]}, "then": {"required": ["b"]}}]})
    assert rules == ['These arguments must fit the rule {"if": {"required": ["a"]}, "then": {"required": ["b"]}}.']


@pytest.mark.parametrize("rule", [{"not": {"required": ["a"]}}, {"enum": [{"a": 1}]}, {"const": {"a": "ü"}}])
def test_other_rules_of_a_root_are_told(rule):
    made, rules = flat({"type": "object", **rule})
    assert made == {"type": "object"}
    assert rules == [f"These arguments must fit the rule {json.dumps(rule, ensure_ascii=False)}."]


def test_a_closed_root_takes_no_members_of_its_branches():
    made, _ = flat({"properties": {"a": {"type": "string"}}, "additionalProperties": False,
                    "anyOf": [{"properties": {"a": {"const": "x"}, "b": {}}}]})  # fmt: skip
    assert made["properties"] == {"a": {"type": "string"}}


def test_definitions_that_nothing_leads_to_any_more_go():
    assert "$defs" not in flat({"anyOf": [{"$ref": "#/$defs/C"}], "$defs": {"C": CIRCLE}})[0]


def test_endless_choices_come_to_an_end():
    loop = {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/Self"}],
            "$defs": {"Self": {"anyOf": [{"$ref": "#/$defs/Self"}, {"required": ["a"]}]}}}  # fmt: skip
    assert FURTHER_RULES in flat(loop)[1]
    wide = {"allOf": [{"properties": {f"p{i}": {}}} for i in range(MAX_BRANCHES + 9)]}
    made, rules = flat(wide)
    assert len(made["properties"]) == MAX_BRANCHES - 1
    assert rules == [FURTHER_RULES]


def test_every_object_names_its_members():
    assert add_missing_properties({"type": "object", "items": {"type": "object"}, "default": {"type": "object"}}) == {
        "type": "object", "items": {"type": "object", "properties": {}}, "default": {"type": "object"},
        "properties": {},
    }  # fmt: skip
