"""Dialects: each provider's part of JSON Schema; what it lacks is told in the description and found."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given

from ahvn_tools.schema.dialects import dialect
from ahvn_tools.schema.dialects.dialect import (
    ANTHROPIC,
    BEDROCK,
    GEMINI,
    GEMINI_PARAMETERS,
    MAX_INLINED,
    MAX_RULE_CHARS,
    MCP,
    OLLAMA,
    OPENAI,
    Dialect,
    translate,
)
from ahvn_tools.schema.dialects.flatten_root import flatten_root
from ahvn_tools.schema.dialects.normalize import normalize
from tests.schema.dialects.test_normalize import SCHEMAS, of

DIALECTS = {name: value for name, value in vars(dialect).items() if isinstance(value, Dialect)}
TREE = {**of(value={"type": "integer"}, children={"type": "array", "items": {"$ref": "#/$defs/Tree"}}),
        "required": ["value"]}  # fmt: skip


def say(node: Any, chosen: Dialect, **beside: Any) -> Any:
    """Return a member as a dialect says it."""
    return whole({**of(a=node), **beside}, chosen)["properties"]["a"]


def whole(schema: dict[str, Any], chosen: Dialect) -> dict[str, Any]:
    return translate(flatten_root(normalize(json.loads(json.dumps(schema)))[0])[0], chosen)[0]


# tuples, arrays

PAIR = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2, "maxItems": 2}


@pytest.mark.parametrize("chosen", [OPENAI, BEDROCK])
def test_a_tuple_is_an_array_of_any_of_its_items_in_an_order_that_is_told(chosen):
    assert say(PAIR, chosen) == {
        "type": "array", "minItems": 2, "maxItems": 2, "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "description": "The items, in this order: string, integer.",
    }  # fmt: skip
    alike = {"type": "array", "prefixItems": [{"type": "string"}] * 2}
    assert say(alike, chosen) == {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize("chosen", [ANTHROPIC, MCP])
def test_all_of_json_schema_is_said_as_it_is(chosen):
    node = {**PAIR, "oneOf": [{"const": ["a", 1]}], "not": {"const": 2}, "default": None}
    assert say(node, chosen) == node


@pytest.mark.parametrize("chosen", [OPENAI, BEDROCK, GEMINI, OLLAMA])
def test_an_array_says_what_is_in_it_be_it_anything(chosen):
    assert say({"type": "array"}, chosen) == {"type": "array", "items": {}}


# Gemini


@pytest.mark.parametrize(
    ("node", "made"),
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
            {"allOf": [{**of(a={"type": "null"}), "required": ["a"]}, {**of(b={"type": "null"}), "required": ["b"]}]},
            {**of(b={"type": "null"}, a={"type": "null"}), "required": ["a", "b"]},
        ),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "string", "description": 'type: "integer".'}),
        (
            {"allOf": [{"allOf": [{"maxLength": 4}, {"maxLength": 2}]}], "type": "string"},
            {"type": "string", "description": "maxLength: 2. maxLength: 4."},
        ),
        (
            {"allOf": [of(a={"type": "string", "format": "date"}), of(a={"minLength": 1})]},
            of(a={"type": "string", "description": 'format: "date". minLength: 1.'}),
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
def test_gemini_gets_its_part_of_json_schema_and_the_rest_in_words(node, made):
    definitions = {
        "Named": {**of(n={"type": "string"}), "required": ["n"], "description": "N."},
        "Endless": {"allOf": [{"$ref": "#/$defs/Endless"}]},
    }
    assert say(node, GEMINI, **{"$defs": definitions}) == made


def test_two_choices_at_once_are_told_where_one_loses_a_rule():
    node = {"allOf": [{"anyOf": [{}]}, {"oneOf": [{"not": {}}]}]}
    for chosen in (GEMINI, GEMINI_PARAMETERS):
        assert "oneOf: [" in json.dumps(say(node, chosen))


def test_every_word_instead_of_a_keyword_is_a_finding():
    made, findings = translate(of(a={"type": "string", "minLength": 1, "default": "x"}), GEMINI)
    assert [(f.severity, f.place, f.problem) for f in findings] == [("warning", "a", "'minLength' is not enforced")]
    assert translate(of(a={"type": "string"}), GEMINI)[1] == []
    assert made["properties"]["a"]["description"] == 'minLength: 1. Default: "x".'


def test_a_clash_deep_in_parts_is_a_finding():
    schema = of(a={"allOf": [{"type": "string"}, {"allOf": [{"type": "string"}, {"type": "integer"}]}]})
    assert [str(finding) for finding in translate(schema, GEMINI)[1]] == ["a: 'type' is not enforced"]


@pytest.mark.parametrize("chosen", [OPENAI, BEDROCK])
def test_of_choices_that_say_less_than_they_did_more_than_one_may_hold(chosen):
    pairs = [{"type": "array", "items": False, "prefixItems": [{"type": kind}, {}]} for kind in ("string", "integer")]
    assert "oneOf" not in say({"oneOf": pairs}, chosen)
    assert say({"oneOf": [{"type": "string"}]}, chosen) == {"oneOf": [{"type": "string"}]}


def test_a_rule_too_long_to_tell_is_only_named():
    assert say({"type": "string", "not": {"enum": ["x" * MAX_RULE_CHARS]}}, GEMINI) == {
        "type": "string", "description": "A rule on 'not' is checked when the tool is called.",
    }  # fmt: skip


def test_a_bare_reference_stands_alone_and_keeps_its_words():
    definitions = {"$defs": {"A": {"type": "string"}}}
    assert say({"$ref": "#/$defs/A", "title": "T"}, GEMINI, **definitions) == {"$ref": "#/$defs/A"}
    assert say({"$ref": "#/$defs/A", "description": "D."}, GEMINI, **definitions) == {
        "description": "D.", "anyOf": [{"$ref": "#/$defs/A"}],
    }  # fmt: skip
    assert say({"$ref": "#/$defs/A", "minItems": 1}, GEMINI, **definitions) == {"type": "string", "minItems": 1}


def test_a_loop_through_a_member_that_is_not_required_stays():
    made = whole({**of(a={"$ref": "#/$defs/Tree"}), "required": ["a"], "$defs": {"Tree": TREE}}, GEMINI)
    assert made["properties"]["a"] == {"$ref": "#/$defs/Tree"}
    assert made["$defs"] == {"Tree": TREE}


def test_a_loop_through_required_members_ends_in_words():
    tree = {**TREE, "required": ["value", "children"]}
    made = whole({**of(a={"$ref": "#/$defs/Tree"}), "required": ["a"], "$defs": {"Tree": tree}}, GEMINI)
    assert made["$defs"]["Tree"]["properties"]["children"]["items"] == {
        "type": "object", "description": "One more `Tree`, of the form told above.",
    }  # fmt: skip
    pair = {
        "A": {**of(b={"$ref": "#/$defs/B"}), "required": ["b"]},
        "B": {**of(a={"$ref": "#/$defs/A"}), "required": ["a"]},
    }
    made = whole({**of(a={"$ref": "#/$defs/A"}), "$defs": pair}, GEMINI)
    inner = made["$defs"]["A"]["properties"]["b"]["properties"]["a"]
    assert inner == {"type": "object", "description": "One more `A`, of the form told above."}
    rooted = whole({**of(a={"$ref": "#"}), "required": ["a"]}, GEMINI)
    assert rooted["properties"]["a"] == {"type": "object", "description": "The same form as the whole."}


def test_what_is_needed_but_nowhere_described_is_described():
    made = whole({"type": "object", "properties": {"a": {"type": "object", "required": ["b"]}}}, GEMINI)
    assert made["properties"]["a"] == {"type": "object", "required": ["b"], "properties": {"b": {}}}


# without references


@pytest.mark.parametrize("chosen", [BEDROCK, GEMINI_PARAMETERS, OLLAMA])
def test_what_a_reference_leads_to_stands_in_its_place(chosen):
    schema = {
        **of(a={"$ref": "#/$defs/A", "description": "D."}),
        "$defs": {"A": {"type": "string", "description": "A."}},
    }
    made = whole(schema, chosen)
    assert made["properties"]["a"] == {"type": "string", "description": "D."}
    assert "$defs" not in made


@pytest.mark.parametrize("chosen", [BEDROCK, GEMINI_PARAMETERS, OLLAMA])
def test_a_schema_in_itself_is_named_the_second_time(chosen):
    tree = {**of(value={"type": "integer"}, next={"$ref": "#/$defs/Tree", "description": "What follows."})}
    made = json.dumps(whole({**of(a={"$ref": "#/$defs/Tree"}), "$defs": {"Tree": tree}}, chosen))
    assert made.count("What follows. One more `Tree`, of the form told above.") == 1
    assert "$ref" not in made


def test_a_choice_in_itself_stays_open():
    endless = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/E"}}]}
    made = whole({**of(a={"$ref": "#/$defs/E"}), "$defs": {"E": endless}}, BEDROCK)
    assert made["properties"]["a"]["anyOf"][1]["items"] == {"description": "One more `E`, of the form told above."}


@pytest.mark.parametrize("name", DIALECTS)
def test_references_that_multiply_end_within_a_budget(name):
    definitions: dict[str, Any] = {
        f"d{i}": of(left={"$ref": f"#/$defs/d{i + 1}"}, right={"$ref": f"#/$defs/d{i + 1}"}) for i in range(30)
    }
    made = whole({**of(a={"$ref": "#/$defs/d0"}), "$defs": {**definitions, "d30": {"type": "string"}}}, DIALECTS[name])
    assert len(json.dumps(made)) < MAX_INLINED * 200


@pytest.mark.parametrize("name", DIALECTS)
@given(schema=SCHEMAS.filter(lambda schema: isinstance(schema, dict)))
def test_any_schema_is_said_as_a_valid_one(name, schema):
    made = whole(schema, DIALECTS[name])
    jsonschema_rs.meta.validate({key: value for key, value in made.items() if key != "nullable"})
    assert made["type"] == "object"


# Gemini's older form


@pytest.mark.parametrize(
    ("node", "made"),
    [
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        (
            {"type": ["string", "array"], "items": {"type": "null"}, "description": "D."},
            {"anyOf": [{"type": "string", "description": "D."},
                       {"type": "array", "items": {"type": "null"}, "description": "D."}]},
        ),
        (
            {"anyOf": [{"type": "string", "description": "S."}, {"type": "null"}], "description": "D."},
            {"type": "string", "nullable": True, "description": "D. S."},
        ),
        (
            {"anyOf": [{"type": "string", "description": "S."}, {"type": "integer"}, {"type": "null"}],
             "description": "D."},
            {"anyOf": [{"type": "string", "nullable": True, "description": "D. S."},
                       {"type": "integer", "nullable": True, "description": "D."}]},
        ),
        ({"enum": ["a", "b", None]}, {"type": "string", "enum": ["a", "b"], "nullable": True}),
        ({"enum": [1, 2]}, {"type": "integer", "description": "One of: 1, 2."}),
        ({"enum": ["", "a"]}, {"type": "string", "description": 'One of: "", "a".'}),
        ({"type": "object"}, {"type": "object"}),
        (
            {"type": "object", "additionalProperties": {"$ref": "#/$defs/A"}},
            {"type": "object", "description": 'additionalProperties: {"type": "string"}.'},
        ),
        (
            {"type": "object", "patternProperties": {"^x": {"$ref": "#/$defs/A"}}},
            {"type": "object", "description": 'patternProperties: {"^x": {"type": "string"}}.'},
        ),
        ({"type": "object", "properties": {}, "required": []}, {"type": "object"}),
        (
            {"type": ["string", "integer"], "anyOf": [{"type": "string"}, {"type": "integer"}]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        ),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "string", "format": "date"}, {"type": "string", "description": 'format: "date".'}),
    ],
    ids=lambda case: json.dumps(case)[:60],
)  # fmt: skip
def test_the_older_form_says_null_beside_the_type_and_choices_alone(node, made):
    assert say(node, GEMINI_PARAMETERS, **{"$defs": {"A": {"type": "string"}}}) == made


def test_anything_is_a_choice_of_all_types_in_the_older_form():
    types = [branch["type"] for branch in say({}, GEMINI_PARAMETERS)["anyOf"]]
    assert types == ["string", "number", "boolean", "object", "array"]


# Ollama


@pytest.mark.parametrize(
    ("node", "made"),
    [
        *[(node, node) for node in [{"type": "string", "enum": ["a"], "description": "D."}]],
        ({"type": "string", "default": "a", "title": "T"}, {"type": "string", "description": 'Default: "a".'}),
        ({"type": "integer", "minimum": 1}, {"type": "integer", "description": "minimum: 1."}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": ["string", "null"]}),
        ({"const": "x"}, {"type": "string", "enum": ["x"]}),
        (
            of(b={"type": "string"}),
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
def test_a_flat_parameter_tells_what_it_cannot_hold(node, made):
    assert say(node, OLLAMA, **{"$defs": {"A": {"type": "string", "minLength": 1}}}) == made


def test_a_flat_root_holds_members_and_what_is_required():
    schema = {**of(a={"type": "string"}), "required": ["a"], "additionalProperties": False, "title": "T"}
    assert whole(schema, OLLAMA) == {**of(a={"type": "string"}), "required": ["a"]}
    ruled = {**schema, "additionalProperties": {"type": "null"}, "minProperties": 2}
    told = 'additionalProperties: {"type": "null"}. minProperties: 2.'
    assert whole(ruled, OLLAMA) == {**of(a={"type": "string"}), "required": ["a"], "description": told}


@pytest.mark.parametrize("other", [{"type": "array"}, {"required": ["a"]}])
def test_a_rule_that_is_told_beside_another_type_does_not_end_an_export(other):
    node = {"allOf": [{"type": "object", "additionalProperties": {}}, {"$ref": "#/$defs/A"}]}
    whole_node = {"type": "object", "additionalProperties": node}
    for chosen in (GEMINI_PARAMETERS, OLLAMA):
        assert say(whole_node, chosen, **{"$defs": {"A": {**other, "prefixItems": [{}]}}})["type"] == "object"
