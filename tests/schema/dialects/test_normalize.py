"""Normalization: loose, old and invalid schemas become valid JSON Schema 2020-12, with a finding for each mistake."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools.schema.dialects.description import EXACTLY_ONE
from ahvn_tools.schema.dialects.merge import flatten_root
from ahvn_tools.schema.dialects.normalize import MAX_DEPTH, TYPE_ALIASES, normalize
from ahvn_tools.schema.refs import MAX_COPIED
from tests.schema.dialects.translation import KEYS, SCHEMAS, object_of


def normalize_member(node: Any, **keywords: Any) -> tuple[Any, list[str]]:
    """Return a member in its normal form, and the findings as text."""
    normalized, findings = normalize({**object_of(a=node), **keywords})
    jsonschema_rs.meta.validate(normalized)
    return normalized["properties"].get("a"), [str(finding) for finding in findings]


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
def test_a_valid_schema_does_not_change(node):
    assert normalize_member(node) == (node, [])


@pytest.mark.parametrize(("alias", "expected"), TYPE_ALIASES.items())
def test_type_aliases_are_read_in_any_case(alias, expected):
    assert normalize_member({"type": alias})[0] == {"type": expected}
    normalized, findings = normalize_member({"type": alias.upper()})
    assert normalized == {"type": expected}
    assert findings == [f"a: the type {alias.upper()!r} is read as {expected!r}"]


@pytest.mark.parametrize(
    ("node", "expected", "findings"),
    [
        ({"type": "any", "description": "D."}, {"description": "D."}, []),
        ({"type": ["any", "string"]}, {}, []),
        ({"type": "Frob"}, {}, ["a: there is no type 'Frob'"]),
        ({"type": {"a": 1}}, {}, []),
        ({"type": [1, "string", "string"]}, {"type": "string"}, []),
        ({"type": ["dict", "object"]}, {"type": "object"}, ["a: the type 'dict' is read as 'object'"]),
        (
            {"properties": {"b": {}}},
            {"properties": {"b": {}}, "type": "object"},
            ["a: it has no type and is read as 'object'"],
        ),
        ({"items": {}}, {"items": {}, "type": "array"}, ["a: it has no type and is read as 'array'"]),
        (
            {"items": {}, "required": ["b"]},
            {"items": {}, "type": "array"},
            ["a: it has no type and is read as 'array'"],
        ),
        (
            {"items": {}, "properties": {}},
            {"items": {}, "properties": {}, "type": ["object", "array"]},
            ["a: it has no type and is read as 'object' or 'array'"],
        ),
        (
            {"type": "object", "anyOf": [{"properties": {}}]},
            {"type": "object", "anyOf": [{"properties": {}, "type": "object"}]},
            [],
        ),
        ({"not": {"properties": {}}}, {"not": {"properties": {}}}, []),
        ({"not": {"anyOf": [{"items": {}}]}}, {"not": {"anyOf": [{"items": {}}]}}, []),
        (
            {"oneOf": [{"properties": {}}, {"type": "null"}]},
            {"anyOf": [{"properties": {}, "type": "object"}, {"type": "null"}], "description": EXACTLY_ONE},
            ["a[0]: it has no type and is read as 'object'", "a: 'oneOf' is not enforced"],
        ),
        (
            {"oneOf": [{"properties": {}}], "anyOf": [{"type": "null"}]},
            {
                "anyOf": [{"type": "null"}],
                "allOf": [{"anyOf": [{"properties": {}, "type": "object"}]}],
                "description": EXACTLY_ONE,
            },
            ["a[0]: it has no type and is read as 'object'", "a: 'oneOf' is not enforced"],
        ),
        (
            {"type": "object", "properties": {"b": False, "c": {}}},
            {"type": "object", "properties": {"c": {}}},
            ["a.b: it is not allowed, which is not enforced"],
        ),
        (
            {"type": "object", "properties": {"b": False, "c": {}}, "additionalProperties": False},
            {"type": "object", "properties": {"c": {}}, "additionalProperties": False},
            [],
        ),
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
        ({"type": "string", "nullable": True}, {"type": "string"}, ["a: 'nullable' is not a JSON Schema keyword"]),
        ({"type": "string", "minLength": "3"}, {"type": "string"}, ["a: 'minLength' has an invalid value"]),
        ({"type": "string", "maxLength": -1}, {"type": "string"}, ["a: 'maxLength' has an invalid value"]),
        ({"type": "number", "multipleOf": -2}, {"type": "number"}, ["a: 'multipleOf' has an invalid value"]),
        ({"type": "object", "properties": []}, {"type": "object"}, []),
        ({"enum": [], "anyOf": []}, {}, []),
        (
            {"type": "string", "enum": ["a", 1]},
            {"type": "string", "enum": ["a"]},
            ["a: its values do not match its type"],
        ),
        ({"type": "string", "enum": [1, 2.5]}, {"enum": [1, 2.5]}, ["a: its values do not match its type"]),
        ({"type": ["integer", "null"], "enum": [1.0, None]}, {"type": ["integer", "null"], "enum": [1.0, None]}, []),
        ({"type": "integer", "const": "x"}, {"const": "x"}, ["a: its values do not match its type"]),
        (
            {"type": "string", "items": {}, "minimum": 1, "required": ["b"], "minLength": 1},
            {"type": "string", "minLength": 1},
            [],
        ),
        ({"enum": ["a", "a", 1, True]}, {"enum": ["a", 1, True]}, []),
        ({"enum": [1, 1.0, {"b": 1, "c": 2}, {"c": 2, "b": 1}]}, {"enum": [1, {"b": 1, "c": 2}]}, []),
        ({"type": ["string", "null", "string"]}, {"type": ["string", "null"]}, []),
        ({"required": ["b", "c", "b"]}, {"required": ["b", "c"]}, []),
        ({"type": "object", "required": ["b", "b"]}, {"type": "object", "required": ["b"]}, []),
        ({"dependentRequired": {"b": ["c", "c"]}}, {"dependentRequired": {"b": ["c"]}}, []),
        ({"anyOf": [False, {"type": "string"}, True]}, {"anyOf": [{"type": "string"}, {}]}, []),
        ({"anyOf": [False]}, {"anyOf": [{"not": {}}]}, []),
        (
            {"allOf": [{"type": "dict"}]},
            {"allOf": [{"type": "object"}]},
            ["a[0]: the type 'dict' is read as 'object'"],
        ),
        (True, {}, []),
        (False, None, ["a: it is not allowed, which is not enforced"]),
        ("string", {}, ["a: it is not a schema"]),
        (
            {"type": "object", "properties": {"b": {"type": "string", "required": True}, "c": {"required": False}}},
            {"type": "object", "properties": {"b": {"type": "string"}, "c": {}}, "required": ["b"]},
            [],
        ),
        ({"$id": "x", "$anchor": "y", "$dynamicRef": "#z", "definitions": {"A": {}}}, {}, []),
        ({"dependentRequired": {"b": "c"}}, {}, ["a: 'dependentRequired' has an invalid value"]),
    ],
    ids=lambda case: json.dumps(case)[:60],
)  # fmt: skip
def test_mistakes_are_read_as_they_were_probably_intended(node, expected, findings):
    assert normalize_member(node) == (expected, findings)


def test_the_root_is_always_an_object():
    for root in ({}, {"type": ["object", "null"]}, {"type": "string"}, {"$schema": "x", "$id": "y"}):
        assert normalize(root)[0] == {"type": "object"}


@pytest.mark.parametrize(
    ("reference", "keywords"),
    [
        ("#/definitions/A", {"definitions": {"A": {"type": "null"}}}),
        ("#/$defs/A~1b%20c", {"$defs": {"A/b c": {"type": "null"}}}),
        ("#/$defs/A/anyOf/0", {"$defs": {"A": {"anyOf": [{"type": "null"}]}}}),
        ("#/definitions/A/items/0", {"definitions": {"A": {"items": [{"type": "null"}]}}}),
        ("#here", {"$defs": {"A": {"type": "null", "$anchor": "here"}}}),
        ("#/$defs/%C3%BC", {"$defs": {"ü": {"type": "null"}}}),
    ],
)
def test_a_reference_is_rewritten_to_a_plain_name_in_defs(reference, keywords):
    normalized, findings = normalize({**object_of(a={"$ref": reference}), **keywords})
    name = normalized["properties"]["a"]["$ref"].removeprefix("#/$defs/")
    assert name.replace("_", "").isalnum()
    assert normalized["$defs"][name] == {"type": "null"}
    assert "definitions" not in normalized
    assert findings == []


def test_a_recursive_reference_into_members_stays_recursive():
    normalized, _ = normalize(object_of(a=object_of(b={"$ref": "#/properties/a"})))
    assert normalized["properties"]["a"]["properties"]["b"] == {"$ref": "#/$defs/a"}
    assert normalized["$defs"]["a"] == object_of(b={"$ref": "#/$defs/a"})


def test_references_in_the_list_form_of_items_are_rewritten():
    normalized, findings = normalize(
        {**object_of(a={"type": "array", "items": [{"$ref": "#/definitions/A"}]}), "definitions": {"A": {}}}
    )
    assert normalized["properties"]["a"]["prefixItems"] == [{"$ref": "#/$defs/A"}]
    assert findings == []


def test_a_new_definition_does_not_replace_another():
    members = object_of(a={"$ref": "#/definitions/A"}, b={"$ref": "#/$defs/A"})
    normalized, _ = normalize({**members, "definitions": {"A": {"type": "null"}}, "$defs": {"A": {"type": "string"}}})
    targets = [normalized["properties"][name]["$ref"].removeprefix("#/$defs/") for name in "ab"]
    assert [normalized["$defs"][name]["type"] for name in targets] == ["null", "string"]


@pytest.mark.parametrize(
    "reference", ["#/$defs/none", "#/$defs/A/9", "https://example.org/a", "other.json#/A", "#nowhere", "#/"]
)
def test_a_reference_that_leads_nowhere_is_dropped_and_reported(reference):
    member, findings = normalize_member({"$ref": reference, "description": "D."}, **{"$defs": {"A": {"type": "null"}}})
    assert member == {"description": "D."}
    assert findings == ["a: its '$ref' leads nowhere"]


def test_a_member_may_have_the_name_of_a_keyword():
    schema = object_of(**{"$ref": {"const": "#/definitions/A"}, "properties": {"type": "string"}, "enum": {}})
    assert normalize(schema) == (schema, [])


def test_a_root_reference_is_resolved_through_further_references():
    normalized, _ = normalize(
        {"$ref": "#/$defs/x", "$defs": {"a b": object_of(n={"$ref": "#/$defs/x"}), "x": {"$ref": "#/$defs/a b"}}}
    )
    assert normalized["type"] == "object"
    assert normalized["properties"] == {"n": {"$ref": "#/$defs/x"}}
    for loop in ({"$ref": "#"}, {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}):
        assert "$ref" not in normalize(loop)[0]


@pytest.mark.parametrize("other", [{"type": "array", "items": {}}, {"type": "string", "minLength": 1}], ids=str)
def test_a_root_ignores_the_keywords_of_a_target_of_another_type(other):
    normalized, _ = normalize({"$ref": "#/$defs/A", "type": "object", "$defs": {"A": other}})
    assert {key: normalized[key] for key in normalized.keys() - {"$defs"}} == {"type": "object"}


def test_keywords_beside_the_reference_of_a_root_apply_too():
    target = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    root = {"$ref": "#/$defs/A", "properties": {"b": {}}, "required": ["b"], "$defs": {"A": target}}
    merged = flatten_root(normalize(root)[0])[0]
    assert merged["properties"] == {"a": {"type": "string"}, "b": {}}
    assert sorted(merged["required"]) == ["a", "b"]


def test_targets_are_copied_up_to_a_limit():
    wide = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(999)}}
    members = object_of(**{f"r{i}": {"$ref": f"#/definitions/w/properties/v{i}"} for i in range(99)})
    schema = {**members, "definitions": {"w": object_of(**{f"v{i}": wide for i in range(99)})}}
    normalized, findings = normalize(json.loads(json.dumps(schema)))
    assert sum(len(node.get("properties", ())) for node in normalized["$defs"].values()) <= MAX_COPIED
    assert any("leads nowhere" in str(finding) for finding in findings)


def test_a_schema_that_is_nested_too_deep_accepts_anything_there():
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(MAX_DEPTH + 20):
        schema = object_of(a=schema)
    normalized, findings = normalize(schema)
    jsonschema_rs.meta.validate(normalized)
    assert any("levels deep" in finding.problem for finding in findings)


@given(st.dictionaries(KEYS, SCHEMAS, max_size=5))
def test_the_normal_form_of_any_schema_is_a_valid_object_schema(schema):
    normalized, _ = normalize(json.loads(json.dumps(schema)))
    jsonschema_rs.meta.validate(normalized)
    assert normalized["type"] == "object"
    again, findings = normalize(json.loads(json.dumps(normalized)))
    assert again == normalized
    assert [finding for finding in findings if "leads nowhere" in finding.problem] == []


PLAIN_MEMBERS = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "number", "boolean", "int", "null", ["string"], 1])},
    optional={
        "title": st.sampled_from(["A", None]),
        "description": st.sampled_from(["A text.", 1]),
        "default": st.sampled_from([None, 1, "a", [1]]),
        "minLength": st.just(1),
    },
)
PLAIN_OBJECTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["object", "dict"]), "properties": st.dictionaries(KEYS, PLAIN_MEMBERS | st.just(True))},
    optional={
        "required": st.lists(KEYS, max_size=3) | st.just(True),
        "additionalProperties": st.sampled_from([False, False, True, {}]),
        "$schema": st.just("http://json-schema.org/draft-07/schema#"),
    },
)


@given(PLAIN_OBJECTS)
def test_a_schema_that_is_in_normal_form_already_is_left_as_it_is(schema):
    found = normalize(json.loads(json.dumps(schema)))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("is_plain_object", "is_plain_scalar"):
            patch.setattr(f"ahvn_tools.schema.dialects.normalize.{name}", lambda _: False)
        normalized, findings = normalize(json.loads(json.dumps(schema)))
    assert json.dumps(found[0]) == json.dumps(normalized)
    assert found[1] == findings
