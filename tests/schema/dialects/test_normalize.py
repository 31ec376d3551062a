"""Standard form: loose, old and broken schemas become valid JSON Schema 2020-12, and a finding tells of each slip."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools.schema.dialects.normalize import MAX_DEPTH, TYPE_ALIASES, normalize
from ahvn_tools.schema.refs import MAX_COPIED


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def understood(node: Any, **beside: Any) -> tuple[Any, list[str]]:
    """Return a member in its standard form, and what was found there."""
    made, findings = normalize({**of(a=node), **beside})
    jsonschema_rs.meta.validate(made)
    return made["properties"].get("a"), [str(finding) for finding in findings]


@pytest.mark.parametrize(
    "node",
    [
        {"type": "string", "minLength": 1, "pattern": "^a", "format": "uri", "title": "T", "default": "a", "x-note": 1},
        {"type": ["integer", "null"], "enum": [1, None]},
        {"anyOf": [{"type": "string"}, {"const": 1}], "description": "D."},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
        {"type": "object", "patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False},
        {"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"not": {"type": "null"}}},
        {},
    ],
)
def test_what_is_standard_stays_as_it_is(node):
    assert understood(node) == (node, [])


@pytest.mark.parametrize(("word", "meant"), TYPE_ALIASES.items())
def test_words_for_types_are_understood_in_any_case(word, meant):
    assert understood({"type": word})[0] == {"type": meant}
    made, findings = understood({"type": word.upper()})
    assert made == {"type": meant}
    assert findings == [f"a: the type {word.upper()!r} is understood as {meant!r}"]


@pytest.mark.parametrize(
    ("node", "made", "findings"),
    [
        ({"type": "any", "description": "D."}, {"description": "D."}, []),
        ({"type": ["any", "string"]}, {}, []),
        ({"type": "Frob"}, {}, ["a: there is no type 'Frob'"]),
        ({"type": {"a": 1}}, {}, []),
        ({"type": [1, "string", "string"]}, {"type": "string"}, []),
        ({"type": ["dict", "object"]}, {"type": "object"}, ["a: the type 'dict' is understood as 'object'"]),
        ({"properties": {"b": {}}}, {"properties": {"b": {}}, "type": "object"}, []),
        ({"items": {}}, {"items": {}, "type": "array"}, []),
        ({"items": {}, "required": ["b"]}, {"items": {}, "type": "array"}, []),
        ({"items": {}, "properties": {}}, {"items": {}, "properties": {}, "type": ["object", "array"]}, []),
        ({"items": {}, "enum": [[1]]}, {"items": {}, "enum": [[1]]}, []),
        (
            {"type": "number", "minimum": 1, "exclusiveMinimum": True, "exclusiveMaximum": False},
            {"type": "number", "exclusiveMinimum": 1},
            [],
        ),
        (
            {"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "null"}},
            {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "null"}},
            [],
        ),
        (
            {"type": "array", "items": [{"type": "string"}], "additionalItems": False},
            {"type": "array", "prefixItems": [{"type": "string"}], "maxItems": 1},
            [],
        ),
        ({"type": "array", "items": False, "maxItems": 3}, {"type": "array", "maxItems": 0}, []),
        ({"type": "array", "items": True}, {"type": "array", "items": {}}, []),
        ({"type": "string", "nullable": True}, {"type": "string"}, ["a: 'nullable' is no word of JSON Schema"]),
        ({"type": "string", "minLength": "3"}, {"type": "string"}, ["a: 'minLength' has no value of its kind"]),
        ({"type": "string", "maxLength": -1}, {"type": "string"}, ["a: 'maxLength' has no value of its kind"]),
        ({"type": "number", "multipleOf": -2}, {"type": "number"}, ["a: 'multipleOf' has no value of its kind"]),
        ({"type": "object", "properties": []}, {"type": "object"}, []),
        ({"enum": [], "anyOf": []}, {}, []),
        (
            {"type": "string", "enum": ["a", 1]},
            {"type": "string", "enum": ["a"]},
            ["a: it holds values of other types"],
        ),
        ({"type": "string", "enum": [1, 2.5]}, {"enum": [1, 2.5]}, ["a: it holds values of other types"]),
        ({"type": ["integer", "null"], "enum": [1.0, None]}, {"type": ["integer", "null"], "enum": [1.0, None]}, []),
        ({"type": "integer", "const": "x"}, {"const": "x"}, ["a: it holds values of other types"]),
        (
            {"type": "string", "items": {}, "minimum": 1, "required": ["b"], "minLength": 1},
            {"type": "string", "minLength": 1},
            [],
        ),
        ({"enum": ["a", "a", 1, True]}, {"enum": ["a", 1, True]}, []),
        ({"anyOf": [False, {"type": "string"}, True]}, {"anyOf": [{"type": "string"}, {}]}, []),
        ({"anyOf": [False]}, {"anyOf": [{"not": {}}]}, []),
        (
            {"allOf": [{"type": "dict"}]},
            {"allOf": [{"type": "object"}]},
            ["a[0]: the type 'dict' is understood as 'object'"],
        ),
        (True, {}, []),
        (False, None, []),
        ("string", {}, ["a: it is no schema"]),
        (
            {"type": "object", "properties": {"b": {"type": "string", "required": True}, "c": {"required": False}}},
            {"type": "object", "properties": {"b": {"type": "string"}, "c": {}}, "required": ["b"]},
            [],
        ),
        ({"$id": "x", "$anchor": "y", "$dynamicRef": "#z", "definitions": {"A": {}}}, {}, []),
        ({"dependentRequired": {"b": "c"}}, {}, ["a: 'dependentRequired' has no value of its kind"]),
    ],
    ids=lambda case: json.dumps(case)[:60],
)  # fmt: skip
def test_slips_are_taken_for_what_they_were_meant_to_be(node, made, findings):
    assert understood(node) == (made, findings)


def test_a_root_is_an_object_whatever_it_says():
    for root in ({}, {"type": ["object", "null"]}, {"type": "string"}, {"$schema": "x", "$id": "y"}):
        assert normalize(root)[0] == {"type": "object"}


# references


@pytest.mark.parametrize(
    ("reference", "beside"),
    [
        ("#/definitions/A", {"definitions": {"A": {"type": "null"}}}),
        ("#/$defs/A~1b%20c", {"$defs": {"A/b c": {"type": "null"}}}),
        ("#/$defs/A/anyOf/0", {"$defs": {"A": {"anyOf": [{"type": "null"}]}}}),
        ("#here", {"$defs": {"A": {"type": "null", "$anchor": "here"}}}),
        ("#/$defs/%C3%BC", {"$defs": {"ü": {"type": "null"}}}),
    ],
)
def test_a_reference_leads_to_a_plain_name_in_defs(reference, beside):
    made, findings = normalize({**of(a={"$ref": reference}), **beside})
    name = made["properties"]["a"]["$ref"].removeprefix("#/$defs/")
    assert name.replace("_", "").isalnum()
    assert made["$defs"][name] == {"type": "null"}
    assert "definitions" not in made
    assert findings == []


def test_a_reference_into_members_still_leads_to_itself():
    made, _ = normalize(of(a=of(b={"$ref": "#/properties/a"})))
    assert made["properties"]["a"]["properties"]["b"] == {"$ref": "#/$defs/a"}
    assert made["$defs"]["a"] == of(b={"$ref": "#/$defs/a"})


def test_a_name_that_is_taken_is_not_taken_again():
    members = of(a={"$ref": "#/definitions/A"}, b={"$ref": "#/$defs/A"})
    made, _ = normalize({**members, "definitions": {"A": {"type": "null"}}, "$defs": {"A": {"type": "string"}}})
    leads = [made["properties"][name]["$ref"].removeprefix("#/$defs/") for name in "ab"]
    assert [made["$defs"][name]["type"] for name in leads] == ["null", "string"]


@pytest.mark.parametrize(
    "reference", ["#/$defs/none", "#/$defs/A/9", "https://example.org/a", "other.json#/A", "#nowhere", "#/"]
)
def test_a_reference_that_leads_nowhere_is_left_out_and_told(reference):
    member, findings = understood({"$ref": reference, "description": "D."}, **{"$defs": {"A": {"type": "null"}}})
    assert member == {"description": "D."}
    assert findings == ["a: its '$ref' leads nowhere"]


def test_a_member_named_like_a_keyword_is_a_member():
    schema = of(**{"$ref": {"const": "#/definitions/A"}, "properties": {"type": "string"}, "enum": {}})
    assert normalize(schema) == (schema, [])


def test_a_root_reference_is_resolved_through_further_references():
    made, _ = normalize(
        {"$ref": "#/$defs/x", "$defs": {"a b": of(n={"$ref": "#/$defs/x"}), "x": {"$ref": "#/$defs/a b"}}}
    )
    assert made["type"] == "object"
    assert made["properties"] == {"n": {"$ref": "#/$defs/x"}}
    for loop in ({"$ref": "#"}, {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}):
        assert "$ref" not in normalize(loop)[0]


@pytest.mark.parametrize("other", [{"type": "array", "items": {}}, {"type": "string", "minLength": 1}], ids=str)
def test_a_root_takes_nothing_over_from_a_reference_to_another_type(other):
    made, _ = normalize({"$ref": "#/$defs/A", "type": "object", "properties": {"a": {}}, "$defs": {"A": other}})
    assert {key: made[key] for key in made.keys() - {"$defs"}} == {"type": "object", "properties": {"a": {}}}


def test_references_do_not_multiply_a_schema_without_end():
    wide = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(999)}}
    members = of(**{f"r{i}": {"$ref": f"#/definitions/w/properties/v{i}"} for i in range(99)})
    schema = {**members, "definitions": {"w": of(**{f"v{i}": wide for i in range(99)})}}
    made, findings = normalize(json.loads(json.dumps(schema)))
    assert sum(len(node.get("properties", ())) for node in made["$defs"].values()) <= MAX_COPIED
    assert any("leads nowhere" in str(finding) for finding in findings)


def test_what_nests_too_deep_is_open_from_there_on():
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(MAX_DEPTH + 20):
        schema = of(a=schema)
    made, findings = normalize(schema)
    jsonschema_rs.meta.validate(made)
    assert any("levels deep" in finding.problem for finding in findings)


KEYS = st.sampled_from([
    "type", "properties", "items", "anyOf", "allOf", "enum", "const", "required", "$ref", "$defs", "definitions", "not",
    "minimum", "maxItems", "additionalProperties", "prefixItems", "exclusiveMinimum", "pattern", "default", "x",
])  # fmt: skip
LEAVES = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["string", "dict", "#", "#/$defs/x", "[", "x"])
)
SCHEMAS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)


@given(st.dictionaries(KEYS, SCHEMAS, max_size=5))
def test_whatever_comes_the_standard_form_is_a_valid_schema_of_an_object(schema):
    made, _ = normalize(json.loads(json.dumps(schema)))
    jsonschema_rs.meta.validate(made)
    assert made["type"] == "object"
    again, findings = normalize(json.loads(json.dumps(made)))
    assert again == made
    assert [finding for finding in findings if "leads nowhere" in finding.problem] == []
