"""Translation to dialects: unsupported keywords are replaced or described, and each loss is a finding."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import example, given

from ahvn_tools.schema.dialects import dialect as dialects
from ahvn_tools.schema.dialects.dialect import (
    ANTHROPIC,
    BEDROCK,
    GEMINI,
    GEMINI_PARAMETERS,
    MCP,
    OLLAMA,
    OPENAI,
    Dialect,
)
from ahvn_tools.schema.dialects.translate import MAX_INLINED, MAX_RULE_CHARS, translate
from tests.schema.dialects.translation import SCHEMAS, object_of, translate_member, translate_schema

DIALECTS = {name: value for name, value in vars(dialects).items() if isinstance(value, Dialect)}
TREE = {**object_of(value={"type": "integer"}, children={"type": "array", "items": {"$ref": "#/$defs/Tree"}}),
        "required": ["value"]}  # fmt: skip

PAIR = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2, "maxItems": 2}


@pytest.mark.parametrize("dialect", [OPENAI, BEDROCK])
def test_a_tuple_becomes_an_array_and_the_description_states_the_order(dialect):
    assert translate_member(PAIR, dialect) == {
        "type": "array", "minItems": 2, "maxItems": 2, "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "description": "The items, in order: string, integer.",
    }  # fmt: skip
    alike = {"type": "array", "prefixItems": [{"type": "string"}] * 2}
    assert translate_member(alike, dialect) == {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize("dialect", [ANTHROPIC, MCP])
def test_a_dialect_of_all_of_json_schema_changes_nothing(dialect):
    node = {**PAIR, "oneOf": [{"const": ["a", 1]}], "not": {"const": 2}, "default": None}
    assert translate_member(node, dialect) == node


@pytest.mark.parametrize("dialect", [OPENAI, BEDROCK, GEMINI, OLLAMA])
def test_an_array_without_items_gets_items_that_accept_anything(dialect):
    assert translate_member({"type": "array"}, dialect) == {"type": "array", "items": {}}


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"const": "x"}, {"type": "string", "enum": ["x"]}),
        ({"const": None}, {"type": "null"}),
        ({"const": True}, {"type": "boolean", "description": "One of: true."}),
        ({"enum": [1, 2.5]}, {"type": ["integer", "number"], "enum": [1, 2.5]}),
        (
            {"type": ["string", "null"], "enum": ["x", None], "description": "D."},
            {"anyOf": [{"type": "string", "enum": ["x"]}, {"type": "null"}], "description": "D."},
        ),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (
            {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9},
            {"type": "integer", "minimum": 1, "maximum": 8},
        ),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "number", "description": "exclusiveMinimum: 0."}),
        (
            {"type": "string", "minLength": 1, "format": "uri", "default": "ü", "title": "T", "examples": ["x"]},
            {"type": "string", "description": 'minLength: 1. format: "uri". Default: "ü".'},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string", "maxLength": 2}},
            {"type": "object", "additionalProperties": {"type": "string", "description": "maxLength: 2."}},
        ),
        (
            {"allOf": [{"type": "string", "description": "D."}, {"minLength": 2}, {"allOf": [{"maxLength": 4}]}]},
            {"type": "string", "description": "D. minLength: 2. maxLength: 4."},
        ),
        (
            {"allOf": [{**object_of(a={"type": "null"}), "required": ["a"]},
                       {**object_of(b={"type": "null"}), "required": ["b"]}]},
            {**object_of(b={"type": "null"}, a={"type": "null"}), "required": ["a", "b"]},
        ),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "string", "description": 'type: "integer".'}),
        (
            {"allOf": [{"allOf": [{"maxLength": 4}, {"maxLength": 2}]}], "type": "string"},
            {"type": "string", "description": "maxLength: 2."},
        ),
        (
            {"allOf": [object_of(a={"type": "string", "format": "date"}), object_of(a={"minLength": 1})]},
            object_of(a={"type": "string", "description": 'format: "date". minLength: 1.'}),
        ),
        (
            {"type": "object", "patternProperties": {"^x": {"type": "null"}}, "additionalProperties": False},
            {"type": "object", "description": 'patternProperties: {"^x": {"type": "null"}}.'},
        ),
        ({"not": {"const": 1}}, {"description": 'not: {"const": 1}.'}),
        (
            {"allOf": [{"$ref": "#/$defs/Named"}, {"$ref": "#/$defs/Endless"}], "description": "D."},
            {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"], "description": "D."},
        ),
    ],
    ids=lambda case: json.dumps(case)[:60],
)  # fmt: skip
def test_gemini_receives_its_keywords_and_the_description_states_the_others(node, expected):
    definitions = {
        "Named": {**object_of(n={"type": "string"}), "required": ["n"], "description": "N."},
        "Endless": {"allOf": [{"$ref": "#/$defs/Endless"}]},
    }
    assert translate_member(node, GEMINI, **{"$defs": definitions}) == expected


def test_a_second_union_that_loses_a_rule_is_described():
    node = {"allOf": [{"anyOf": [{}]}, {"oneOf": [{"not": {}}]}]}
    assert "oneOf: [" in json.dumps(translate_member(node, GEMINI))
    assert "not: {}" in json.dumps(translate_member(node, GEMINI_PARAMETERS))


def test_each_keyword_that_is_only_described_is_a_finding():
    translated, findings = translate(object_of(a={"type": "string", "minLength": 1, "default": "x"}), GEMINI)
    assert [(f.severity, f.place, f.problem) for f in findings] == [("note", "a", "'minLength' is not enforced")]
    assert translate(object_of(a={"type": "string"}), GEMINI)[1] == []
    assert translated["properties"]["a"]["description"] == 'minLength: 1. Default: "x".'


def test_a_clash_in_a_nested_all_of_is_a_finding():
    schema = object_of(a={"allOf": [{"type": "string"}, {"allOf": [{"type": "string"}, {"type": "integer"}]}]})
    assert [str(finding) for finding in translate(schema, GEMINI)[1]] == ["a: 'type' is not enforced"]


@pytest.mark.parametrize("dialect", [OPENAI, BEDROCK])
def test_one_of_becomes_any_of_when_its_branches_lose_rules(dialect):
    pairs = [{"type": "array", "items": False, "prefixItems": [{"type": kind}, {}]} for kind in ("string", "integer")]
    assert "oneOf" not in translate_member({"oneOf": pairs}, dialect)
    assert translate_member({"oneOf": [{"type": "string"}]}, dialect) == {"oneOf": [{"type": "string"}]}


def test_a_rule_that_is_too_long_is_only_named():
    assert translate_member({"type": "string", "not": {"enum": ["x" * MAX_RULE_CHARS]}}, GEMINI) == {
        "type": "string", "description": "The tool also checks a 'not' rule that is too long to show here.",
    }  # fmt: skip


def test_a_bare_reference_has_no_siblings_and_its_description_survives():
    definitions: dict[str, Any] = {"$defs": {"A": {"type": "string"}, "L": {"type": "array", "items": {}}}}
    assert translate_member({"$ref": "#/$defs/A", "title": "T"}, GEMINI, **definitions) == {"$ref": "#/$defs/A"}
    assert translate_member({"$ref": "#/$defs/A", "description": "D."}, GEMINI, **definitions) == {
        "description": "D.", "anyOf": [{"$ref": "#/$defs/A"}],
    }  # fmt: skip
    assert translate_member({"$ref": "#/$defs/L", "minItems": 1}, GEMINI, **definitions) == {
        "type": "array",
        "items": {},
        "minItems": 1,
    }


def test_recursion_through_an_optional_member_stays():
    translated = translate_schema(
        {**object_of(a={"$ref": "#/$defs/Tree"}), "required": ["a"], "$defs": {"Tree": TREE}}, GEMINI
    )
    assert translated["properties"]["a"] == {"$ref": "#/$defs/Tree"}
    assert translated["$defs"] == {"Tree": TREE}


def test_recursion_through_required_members_ends_in_a_description():
    tree = {**TREE, "required": ["value", "children"]}
    translated = translate_schema(
        {**object_of(a={"$ref": "#/$defs/Tree"}), "required": ["a"], "$defs": {"Tree": tree}}, GEMINI
    )
    assert translated["$defs"]["Tree"]["properties"]["children"]["items"] == {
        "type": "object", "description": "Another `Tree`, with the structure described above.",
    }  # fmt: skip
    pair = {
        "A": {**object_of(b={"$ref": "#/$defs/B"}), "required": ["b"]},
        "B": {**object_of(a={"$ref": "#/$defs/A"}), "required": ["a"]},
    }
    translated = translate_schema({**object_of(a={"$ref": "#/$defs/A"}), "$defs": pair}, GEMINI)
    inner = translated["$defs"]["A"]["properties"]["b"]["properties"]["a"]
    assert inner == {"type": "object", "description": "Another `A`, with the structure described above."}
    rooted = translate_schema({**object_of(a={"$ref": "#"}), "required": ["a"]}, GEMINI)
    assert rooted["properties"]["a"] == {"type": "object", "description": "The same structure as the root object."}


def test_a_required_member_without_a_schema_gets_one():
    translated = translate_schema(
        {"type": "object", "properties": {"a": {"type": "object", "required": ["b"]}}}, GEMINI
    )
    assert translated["properties"]["a"] == {"type": "object", "required": ["b"], "properties": {"b": {}}}


@pytest.mark.parametrize("dialect", [BEDROCK, GEMINI_PARAMETERS, OLLAMA])
def test_a_reference_is_replaced_by_its_target(dialect):
    schema = {
        **object_of(a={"$ref": "#/$defs/A", "description": "D."}),
        "$defs": {"A": {"type": "string", "description": "A."}},
    }
    translated = translate_schema(schema, dialect)
    assert translated["properties"]["a"] == {"type": "string", "description": "D."}
    assert "$defs" not in translated


@pytest.mark.parametrize("dialect", [BEDROCK, GEMINI_PARAMETERS, OLLAMA])
def test_a_recursive_schema_is_named_at_its_second_occurrence(dialect):
    tree = {**object_of(value={"type": "integer"}, next={"$ref": "#/$defs/Tree", "description": "What follows."})}
    translated = json.dumps(
        translate_schema({**object_of(a={"$ref": "#/$defs/Tree"}), "$defs": {"Tree": tree}}, dialect)
    )
    assert translated.count("What follows. Another `Tree`, with the structure described above.") == 1
    assert "$ref" not in translated


def test_a_recursive_union_ends_in_a_description():
    endless = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/E"}}]}
    translated = translate_schema({**object_of(a={"$ref": "#/$defs/E"}), "$defs": {"E": endless}}, BEDROCK)
    assert translated["properties"]["a"]["anyOf"][1]["items"] == {
        "description": "Another `E`, with the structure described above."
    }


@pytest.mark.parametrize("name", DIALECTS)
def test_references_are_inlined_up_to_a_limit(name):
    definitions: dict[str, Any] = {
        f"d{i}": object_of(left={"$ref": f"#/$defs/d{i + 1}"}, right={"$ref": f"#/$defs/d{i + 1}"}) for i in range(30)
    }
    translated = translate_schema(
        {**object_of(a={"$ref": "#/$defs/d0"}), "$defs": {**definitions, "d30": {"type": "string"}}}, DIALECTS[name]
    )
    assert len(json.dumps(translated)) < MAX_INLINED * 200


@pytest.mark.parametrize("name", DIALECTS)
@given(schema=SCHEMAS.filter(lambda schema: isinstance(schema, dict)))
@example(schema={"type": None, "required": ["string", "string"]})
@example(schema={"allOf": [{"enum": [1, 1.0], "required": ["a", "a"]}]})
@pytest.mark.exhaustive
def test_the_translation_of_any_schema_is_valid(name, schema):
    translated = translate_schema(schema, DIALECTS[name])
    jsonschema_rs.meta.validate({key: value for key, value in translated.items() if key != "nullable"})
    assert translated["type"] == "object"


@pytest.mark.parametrize("other", [{"type": "array"}, {"required": ["a"]}])
def test_a_described_rule_may_refer_to_a_schema_of_another_type(other):
    node = {"allOf": [{"type": "object", "additionalProperties": {}}, {"$ref": "#/$defs/A"}]}
    node_in_object = {"type": "object", "additionalProperties": node}
    for dialect in (GEMINI_PARAMETERS, OLLAMA):
        assert (
            translate_member(node_in_object, dialect, **{"$defs": {"A": {**other, "prefixItems": [{}]}}})["type"]
            == "object"
        )
