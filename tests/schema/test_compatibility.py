"""A schema that is reported as compatible accepts every value that the other accepts; usual changes are decided."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from ahvn_tools.schema.compatibility import find_incompatibilities
from tests.clocks import cpu_limit

SCALARS = [None, True, False, 0, 1, 2, 3, 1.5, -1, "", "a", "b", "abc"]
SOME = [None, True, 1, 1.5, "a", ""]
OBJECTS = [
    {},
    *({name: value} for name in "abz" for value in SOME),
    *({"a": a, "b": b} for a in [None, 1, "a", "b"] for b in [1, "a", True, 1.5]),
    {"a": 1, "z": "a"},
    {"a": "a", "b": "b", "z": 1},
]
LISTS = [[], *([value] for value in SCALARS), [1, 1], [1, "a"], ["a", "b"], [1, 2, 3], [None, True]]
VALUES = [
    *SCALARS,
    *LISTS,
    *OBJECTS,
    *([value] for value in OBJECTS[:12]),
    *({name: value} for name in "abz" for value in OBJECTS[:20]),
    *({name: value} for name in "ab" for value in LISTS[:12]),
    *({"a": {"a": value}} for value in OBJECTS[:12]),
    *({"a": "a", "b": value} for value in OBJECTS[:8]),
]
"""Every schema is checked with these: small values of every type, alone and nested."""

KINDS = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])
LEAVES = st.one_of(
    st.booleans(),
    st.just({}),
    KINDS.map(lambda kind: {"type": kind}),
    st.lists(KINDS, min_size=1, max_size=3, unique=True).map(lambda kinds: {"type": kinds}),
    st.lists(st.sampled_from(SCALARS), min_size=1, max_size=3, unique_by=repr).map(lambda values: {"enum": values}),
    st.sampled_from(SCALARS).map(lambda value: {"const": value}),
    st.tuples(
        st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]), st.integers(1, 3)
    ).map(lambda pair: {"type": "number", pair[0]: pair[1]}),
    st.tuples(
        st.sampled_from(["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"]),
        st.integers(0, 2),
    ).map(lambda pair: {pair[0]: pair[1]}),
    st.sampled_from(["#/$defs/x", "#/$defs/y"]).map(lambda reference: {"$ref": reference}),
)


def nested_schemas(inner):
    unions = st.sampled_from(["anyOf", "oneOf", "allOf"])
    choices = st.tuples(unions, st.lists(inner, min_size=1, max_size=3)).map(lambda pair: {pair[0]: pair[1]})
    members = st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    objects = st.fixed_dictionaries(
        {"properties": members, "additionalProperties": st.booleans() | inner},
        optional={
            "type": st.just("object"),
            "required": st.lists(st.sampled_from("ab"), min_size=1, max_size=2, unique=True),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "z"]), inner, min_size=1, max_size=1),
            "propertyNames": st.just({"enum": ["a", "b"]}),
            "dependentRequired": st.just({"a": ["b"]}),
            "unevaluatedProperties": st.just(False),
        },
    )
    lists = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=1),
            "uniqueItems": st.booleans(),
            "contains": inner,
        },
    )
    conditions = st.fixed_dictionaries({}, optional={"not": inner, "if": inner, "then": inner})
    return (
        objects
        | objects
        | lists
        | choices
        | st.builds(lambda *parts: parts[0] | parts[1], choices, objects | conditions)
    )


SCHEMAS = st.recursive(LEAVES, nested_schemas, max_leaves=8)
ROOTS = st.builds(
    lambda root, x, y: {**root, "$defs": {"x": x, "y": y}},
    SCHEMAS.filter(lambda schema: isinstance(schema, dict)),
    SCHEMAS,
    LEAVES,
)
_MAPS = ("properties", "patternProperties", "$defs")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "if", "then", "contains")


def iter_paths(node: Any, path=()):
    """Yield the path of every schema in a schema."""
    yield path
    if not isinstance(node, dict):
        return
    for key in _MAPS:
        for name in node.get(key, {}):
            yield from iter_paths(node[key][name], (*path, key, name))
    for key in _LISTS:
        for i, part in enumerate(node.get(key, ())):
            yield from iter_paths(part, (*path, key, i))
    for key in _SINGLE:
        if key in node:
            yield from iter_paths(node[key], (*path, key))


@st.composite
def changed(draw, root):
    """Draw a schema that differs from another in one or two places."""
    root = copy.deepcopy(root)
    for _ in range(draw(st.integers(1, 2))):
        *path, last = draw(st.sampled_from([path for path in iter_paths(root) if path]))
        parent = root
        for step in path:
            parent = parent[step]
        node = parent[last]
        change = draw(st.sampled_from(["replace", "widen", "drop", "add", "append", "member"]))
        if change == "replace":
            parent[last] = draw(LEAVES)
        elif change == "widen":
            parent[last] = {"anyOf": [node, {"type": "null"}]}
        elif isinstance(node, dict) and change == "drop" and node:
            del node[draw(st.sampled_from(sorted(node)))]
        elif isinstance(node, dict) and change == "add":
            parent[last] = {**draw(LEAVES.filter(lambda leaf: isinstance(leaf, dict))), **node}
        elif isinstance(node, dict) and change == "append" and "anyOf" in node:
            node["anyOf"].append(draw(SCHEMAS))
        elif isinstance(node, dict) and change == "member" and "properties" in node:
            node["properties"][draw(st.sampled_from("abc"))] = draw(LEAVES)
    return root


PAIRS = ROOTS.flatmap(lambda root: st.tuples(st.just(root), changed(root)))


def validator(schema):
    try:
        return jsonschema_rs.validator_for(schema, offline=True)
    except (ValueError, jsonschema_rs.ValidationError):
        return None


@given(PAIRS, st.booleans())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_compatible_schemas_refuse_no_value_that_was_valid(pair, allow_removed):
    before, after = pair
    old, new = validator(before), validator(after)
    reasons = find_incompatibilities(before, after, allow_removed=allow_removed)
    if old is None or new is None or reasons:
        return
    event("compatible" if before != after else "equal")
    assert [value for value in VALUES if old.is_valid(value) and not new.is_valid(value)] == []


def close_objects(node: Any) -> Any:
    """Return a schema whose objects have only the declared properties, unless it describes others."""
    if not isinstance(node, dict):
        return node
    result = dict(node)
    for key in _MAPS:
        if key in node:
            result[key] = {name: close_objects(part) for name, part in node[key].items()}
    for key in _LISTS:
        if key in node:
            result[key] = [close_objects(part) for part in node[key]]
    for key in ("items", "additionalProperties", "then", "contains"):
        if key in node:
            result[key] = close_objects(node[key])
    if "properties" in node and {"additionalProperties", "patternProperties"}.isdisjoint(node):
        result["additionalProperties"] = False
    return result


def without_additional(node: Any) -> Any:
    """Return a schema without any `additionalProperties`."""
    if isinstance(node, list):
        return [without_additional(part) for part in node]
    if not isinstance(node, dict):
        return node
    return {key: without_additional(part) for key, part in node.items() if key != "additionalProperties"}


@given(PAIRS, st.booleans())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_open_objects_are_assumed_to_have_only_declared_properties(pair, allow_removed):
    before, after = map(without_additional, pair)
    old, new, declared = validator(before), validator(after), validator(close_objects(before))
    reasons = find_incompatibilities(before, after, allow_removed=allow_removed)
    if old is None or new is None or declared is None or reasons:
        return
    event("compatible" if before != after else "equal")
    usual = [value for value in VALUES if declared.is_valid(value) and old.is_valid(value)]
    assert [value for value in usual if not new.is_valid(value)] == []


@given(ROOTS)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_a_schema_is_compatible_with_itself_whatever_its_annotations(schema):
    annotations = {
        "title": "T",
        "description": "D",
        "default": 1,
        "$comment": "C",
        "examples": [1],
        "x-own": {"type": 1},
    }

    annotated = {**schema, **annotations}
    assert find_incompatibilities(schema, copy.deepcopy(schema)) == ()
    results = {find_incompatibilities(schema, annotated), find_incompatibilities(annotated, schema)}
    assert results in ({()}, {("it cannot be compared",)})


TEXT = {"type": "string"}
NULL = {"type": "null"}
LIST = {"type": "array"}
TAGGED = [{"type": "object", "properties": {"t": {"const": tag}}, "required": ["t"]} for tag in "xyz"]

COMPATIBLE = {
    "anything": (TEXT, True),
    "nothing was valid": (False, TEXT),
    "a false property": ({"properties": {"a": False}}, {"properties": {}}),
    "a false property of a closed object": (
        {"properties": {"a": False}, "additionalProperties": False},
        {"additionalProperties": False},
    ),
    "integer to number": ({"type": "integer"}, {"type": "number"}),
    "integers in an enum": ({"enum": [1.0, 2]}, {"type": "integer"}),
    "lower minimum": ({"minimum": 2, "type": "integer"}, {"minimum": 1, "type": "integer"}),
    "reordered enum": ({"enum": [1, 2], "maximum": 3}, {"enum": [2, 1]}),
    "maxLength removed": ({"minimum": 1, "maxLength": 3}, {"minimum": 1}),
    "implied by the exclusive bound": ({"minimum": 1, "exclusiveMinimum": 5}, {"minimum": 4}),
    "exclusive to inclusive": ({"exclusiveMaximum": 2}, {"maximum": 2}),
    "higher maxLength": ({"maxLength": 2}, {"maxLength": 3}),
    "union to list of types": ({"anyOf": [TEXT, NULL]}, {"type": ["string", "null"]}),
    "const to union": ({"const": "a"}, {"anyOf": [{"const": "b"}, TEXT]}),
    "one more choice": ({"anyOf": [TEXT]}, {"anyOf": [NULL, TEXT]}),
    "the same choices and one more property": (
        {"anyOf": TAGGED, "properties": {}},
        {"anyOf": TAGGED, "properties": {"n": TEXT}},
    ),
    "the same oneOf and one more property": (
        {"oneOf": TAGGED, "properties": {}},
        {"oneOf": TAGGED, "properties": {"n": TEXT}},
    ),
    "a union next to another keyword": (
        {"type": "object", "required": ["a"], "anyOf": [{"required": ["b"]}, {"required": ["c"]}]},
        {"required": ["a"]},
    ),
    "all parts of allOf": ({"type": "string", "maxLength": 3}, {"allOf": [TEXT, {"maxLength": 4}]}),
    "wider additionalProperties": (
        {"additionalProperties": TEXT},
        {"additionalProperties": {"type": ["string", "null"]}},
    ),
    "patterns removed": ({"patternProperties": {"^a": TEXT}}, {}),
    "the same patterns": (
        {"patternProperties": {"^a": TEXT}, "minProperties": 1},
        {"patternProperties": {"^a": TEXT}},
    ),
    "wider items": ({**LIST, "items": {"const": "a"}}, {**LIST, "items": TEXT}),
    "the same prefixItems": ({**LIST, "prefixItems": [TEXT], "minItems": 1}, {**LIST, "prefixItems": [TEXT]}),
    "the same condition": (
        {"if": TEXT, "then": {"minLength": 1}, "maxLength": 9},
        {"if": TEXT, "then": {"minLength": 1}},
    ),
    "not removed": ({"not": TEXT}, {}),
    "unevaluatedProperties removed": ({"unevaluatedProperties": False}, {}),
    "a property of an open object removed": ({"properties": {"a": TEXT}}, {"properties": {}}),
    "a recursive schema with one more property": (
        {"properties": {"a": {"$ref": "#"}}, "additionalProperties": False},
        {"properties": {"a": {"$ref": "#"}, "b": TEXT}, "additionalProperties": False},
    ),
}


@pytest.mark.parametrize(("before", "after"), COMPATIBLE.values(), ids=COMPATIBLE)
def test_compatible_changes_have_no_reasons(before, after):
    assert find_incompatibilities({"properties": {"v": before}}, {"properties": {"v": after}}) == ()


BREAKING = {
    "nothing": (TEXT, False),
    "inclusive to exclusive": ({"minimum": 1}, {"exclusiveMinimum": 1}),
    "a higher exclusive bound": ({"minimum": 3}, {"minimum": 1, "exclusiveMinimum": 5}),
    "lower maximum": ({"maximum": 2}, {"maximum": 1}),
    "maximum added": ({}, {"maximum": 1}),
    "a bound in a keyword that JSON Schema does not have": ({"exclusiveMinlength": 5}, {"minLength": 3}),
    "multipleOf changed": ({"multipleOf": 3}, {"multipleOf": 6}),
    "uniqueItems added": (LIST, {**LIST, "uniqueItems": True}),
    "other prefixItems": ({**LIST, "prefixItems": [TEXT]}, {**LIST, "prefixItems": [True, TEXT]}),
    "items added": (LIST, {**LIST, "items": TEXT}),
    "oneOf with an overlapping choice": ({"oneOf": [TEXT]}, {"oneOf": [TEXT, {"minLength": 1}]}),
    "oneOf with a choice that fits anything": ({"oneOf": [TEXT]}, {"oneOf": [TEXT, True]}),
    "patternProperties added": ({"additionalProperties": True}, {"patternProperties": {"^a": TEXT}}),
    "a typed property of a map": (
        {"additionalProperties": True, "properties": {"b": {}}},
        {"properties": {"a": TEXT, "b": {}}},
    ),
    "other properties have a type": (
        {"properties": {"a": {}}},
        {"properties": {"a": {}}, "additionalProperties": TEXT},
    ),
    "a typed property of a free object": ({"type": "object"}, {"properties": {"a": TEXT}}),
    "a property that may match a pattern": (
        {"properties": {}, "patternProperties": {"^a": {}}},
        {"properties": {"a": TEXT}, "patternProperties": {"^a": {}}},
    ),
    "both const and enum": ({"const": 1}, {"const": 1, "enum": [2]}),
    "unevaluatedProperties added": ({"type": "object"}, {"type": "object", "unevaluatedProperties": False}),
    "condition added": (TEXT, {"if": TEXT, "then": {"minLength": 1}}),
    "minContains removed": ({**LIST, "contains": TEXT, "minContains": 0}, {**LIST, "contains": TEXT}),
    "a property of a closed object removed": (
        {"properties": {"a": TEXT}},
        {"properties": {}, "additionalProperties": False},
    ),
    "a property of a map removed": ({"properties": {"a": TEXT}}, {"properties": {}, "additionalProperties": NULL}),
    "undecided: one part of allOf": ({"allOf": [TEXT, {"maxLength": 3}]}, {"maxLength": 3}),
    "undecided: properties from all parts": (
        {"allOf": [{"properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"b": TEXT}}]},
        {"properties": {"a": TEXT, "b": TEXT}, "required": ["a"]},
    ),
    "undecided: nothing fits all parts": ({"allOf": [False]}, TEXT),
    "undecided: a divisor": ({"multipleOf": 6}, {"multipleOf": 3}),
    "undecided: oneOf with one more disjoint choice": ({"oneOf": TAGGED[:2]}, {"oneOf": TAGGED}),
    "undecided: a bound for another type": (TEXT, {"minItems": 2}),
}


@pytest.mark.parametrize(("before", "after"), BREAKING.values(), ids=BREAKING)
def test_breaking_and_undecided_changes_have_reasons(before, after):
    assert find_incompatibilities({"properties": {"v": before}}, {"properties": {"v": after}})


def test_a_removed_property_is_a_reason_only_where_removal_is_not_allowed():
    before, after = {"properties": {"a": {"properties": {"b": TEXT}}}}, {"properties": {"a": {"properties": {}}}}
    assert find_incompatibilities(before, after) == ()
    assert find_incompatibilities(before, after, allow_removed=False) == ("'a.b' is gone",)


@pytest.mark.parametrize("keyword", ["anyOf", "allOf"])
def test_a_property_that_moves_into_a_branch_is_not_removed(keyword):
    before = {"properties": {"a": TEXT}, "required": ["a"], "type": "object"}
    after = {keyword: [{"properties": {"a": TEXT}, "type": "object"}]}
    assert find_incompatibilities(before, after, allow_removed=False) == ()


@pytest.mark.parametrize(
    "invalid", [{"$ref": "http://x/y"}, {"$ref": "#/no"}, {"allOf": 5}, {"type": 5}, {"properties": {"a": 5}}]
)
def test_an_invalid_schema_cannot_be_compared(invalid):
    assert find_incompatibilities({"minLength": 1}, invalid) == ("it cannot be compared",)


DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def test_a_reference_hides_other_keywords_in_draft_7():
    before = {
        "$schema": DRAFT_7,
        "definitions": {"t": TEXT},
        "properties": {"a": {"$ref": "#/definitions/t", "const": "x"}},
    }
    after = {"$schema": DRAFT_7, "properties": {"a": {"const": "x"}}}
    assert find_incompatibilities(before, after) == ("'a' accepts certain values only",)
    assert find_incompatibilities(after, before) == ()


def test_schemas_of_an_unknown_draft_have_to_be_equal():
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True}
    assert find_incompatibilities(schema, {**schema, "title": "T"}) == ()
    assert find_incompatibilities(schema, {**schema, "minimum": 0}) == (
        "it uses another JSON Schema draft: 'http://json-schema.org/draft-04/schema'",
    )


def test_a_comparison_that_would_take_too_long_is_refused():
    choices = [{"properties": {"a": {"const": number}}, "required": ["a"]} for number in range(300)]
    before, after = {"anyOf": choices}, {"anyOf": [{**choice, "minProperties": 1} for choice in reversed(choices)]}
    with cpu_limit(30):
        assert find_incompatibilities(before, after) == ("it is too complex to compare",)


def test_a_reason_is_reported_once_with_its_path():
    before = {"properties": {"a": LIST | {"items": {"additionalProperties": TEXT}}}}
    after = {"properties": {"a": LIST | {"items": {"additionalProperties": NULL}}}}
    assert find_incompatibilities(before, after) == ("'a[].*' no longer accepts string",)
    assert find_incompatibilities(TEXT, {"allOf": [NULL] * 2}) == ("it no longer accepts string",)


def test_references_into_equal_definitions_are_equal():
    schema = {"$defs": {"x": TEXT}, "properties": {"a": {"oneOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]}}}
    after = {**schema, "properties": {**schema["properties"], "b": TEXT}}
    assert find_incompatibilities(schema, after) == ()
    assert find_incompatibilities(schema, {**after, "$defs": {"x": NULL}}) == ("'a' has another 'oneOf'",)
