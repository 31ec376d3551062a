"""What an exported schema accepts: what the tool accepts, or a finding says that it is more or less, and where.

Whether an object is closed is not compared where a provider cannot close objects, or closes all of them.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import example
from hypothesis import strategies as st

from ahvn_tools import ToolDefinition, formats
from tests.formats.providers import provider
from tests.formats.test_meaning import filled
from tests.property_checks import EXAMPLES, run_examples

NAMES = ("x", "y", "z")
VALUES: list[Any] = [
    None, True, 0, 1, 3, 5.5, "", "a", "ab", "abc", "b", [], ["a"], [1], ["a", 1], ["a", 1, True], {}, {"x": "a"},
    {"x": 1}, {"y": "b"}, {"x": "a", "y": "b"}, {"x": 1, "y": 2}, {"x": {"y": 1}}, {"x": ["a"]}, {"z": None},
    {"x": "abc", "z": 1}, {"y": 1, "x": None}, {"x": "a", "y": 1, "z": ["b"]},
]  # fmt: skip
DEFINITIONS = {
    "S": {"type": "string", "maxLength": 2},
    "O": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
    "C": {"type": "object", "properties": {"x": {"$ref": "#/$defs/S"}}, "additionalProperties": False},
}
LEAVES = st.sampled_from([
    {}, {"type": "string"}, {"type": "integer"}, {"type": "null"}, {"type": ["string", "null"]}, {"type": "boolean"},
    {"type": ["string", "integer"]}, {"type": "object"}, {"type": "array"}, {"type": "number", "exclusiveMinimum": 0},
    {"enum": ["a", "b"]}, {"enum": ["a", 1, None]}, {"const": "a"}, {"const": 1}, {"const": True}, {"minLength": 2},
    {"type": "string", "minLength": 2}, {"pattern": "^a"}, {"type": "integer", "minimum": 1}, {"required": ["x"]},
    {"required": ["y"], "properties": {"y": {"type": "string"}}}, {"$ref": "#/$defs/S"}, {"$ref": "#/$defs/O"},
    {"$ref": "#/$defs/O", "required": ["y"]}, {"$ref": "#/$defs/S", "minLength": 2}, {"not": {"type": "string"}},
    {"$ref": "#/$defs/C", "properties": {"y": {"type": "integer"}}}, {"$ref": "#/$defs/C"},
    {"type": "object", "properties": {"x": {"const": "a"}}, "required": ["x"]},
])  # fmt: skip
TYPES = ["object", "string", "array", "integer", ["object", "null"], ["string", "object"], ["array", "string"]]


@st.composite
def composed(draw: Any, inner: st.SearchStrategy[Any], *, is_closed: bool) -> dict[str, Any]:
    """Draw a schema of a few keywords, of which some contain schemas."""
    keywords = {
        "type": st.sampled_from(TYPES),
        "properties": st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=2),
        "required": st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True),
        "additionalProperties": st.just(False) | inner if is_closed else inner,
        "items": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "enum": st.lists(st.sampled_from(VALUES), min_size=1, max_size=3, unique_by=json.dumps),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), st.integers(0, 2)),
        **dict.fromkeys(("anyOf", "allOf", "oneOf"), st.lists(inner, min_size=1, max_size=3)),
    }
    likely = ["type", "properties", "anyOf", "allOf", *keywords]
    chosen = draw(st.lists(st.sampled_from(likely), min_size=1, max_size=5))
    return {keyword: draw(keywords[keyword]) for keyword in dict.fromkeys(chosen)}


def schemas(*, is_closed: bool = True) -> st.SearchStrategy[Any]:
    leaves = LEAVES if is_closed else LEAVES.filter(lambda leaf: "#/$defs/C" not in leaf.values())
    return st.recursive(leaves, lambda inner: composed(inner, is_closed=is_closed), max_leaves=8)


TEXT_RULES = st.sampled_from(
    [{"minLength": 2}, {"maxLength": 2}, {"pattern": "^a"}, {"pattern": "b$"}, {"enum": ["a", "ab"]}]
)
PLAIN_LEAVES = st.sampled_from([
    {"type": "string"}, {"type": "integer"}, {"type": "null"}, {"type": ["string", "null"]}, {"type": "boolean"},
    {"type": ["string", "integer"]}, {"type": "integer", "minimum": 1}, {"type": "string", "enum": ["a", "b"]},
    {"const": "a"}, {"enum": ["a", None]}, {"$ref": "#/$defs/S"}, {"$ref": "#/$defs/O"}, {"$ref": "#/$defs/C"},
    {"$ref": "#/$defs/S", "minLength": 2}, {"type": "string", "minLength": 1}, {"type": "string", "pattern": "^a"},
    {"$ref": "#/$defs/C", "properties": {"y": {"type": "integer"}}},
    {"$ref": "#/$defs/O", "properties": {"x": {"minLength": 2}, "y": {"type": "integer"}}, "required": ["y"]},
])  # fmt: skip


@st.composite
def plain_objects(draw: Any, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Draw a schema of objects, which may have a union or `allOf` of further objects beside its members."""

    def draw_object() -> dict[str, Any]:
        properties = draw(st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=2))
        required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True))
        closed = {"additionalProperties": False} if draw(st.integers(0, 4)) == 0 else {}
        return {"type": "object", "properties": properties, **({"required": required} if required else {}), **closed}

    combined = {
        key: [draw_object() for _ in range(draw(st.integers(1, 2)))]
        for key in draw(st.lists(st.sampled_from(["anyOf", "allOf"]), unique=True, max_size=2))
    }
    return {**draw_object(), **combined}


@st.composite
def plain_texts(draw: Any) -> dict[str, Any]:
    """Draw a schema of texts with rules beside unions of further rules."""
    branches = st.lists(TEXT_RULES, min_size=1, max_size=2)
    return {"type": draw(st.sampled_from(["string", ["string", "null"]])), **draw(TEXT_RULES), "anyOf": draw(branches)}


def plain_schemas() -> st.SearchStrategy[Any]:
    """Draw schemas of which a form with few keywords loses little, so that few findings allow a difference."""
    return st.recursive(
        PLAIN_LEAVES | plain_texts(),
        lambda inner: (
            plain_objects(inner)
            | st.builds(lambda items: {"type": "array", "items": items}, inner)
            | st.builds(
                lambda kind, key, parts: {**kind, key: parts},
                st.sampled_from([{}, {"type": "string"}, {"type": "object"}, {"type": ["object", "string"]}]),
                st.sampled_from(["anyOf", "allOf"]),
                st.lists(inner, min_size=1, max_size=2),
            )
        ),
        max_leaves=5,
    )


DRAWN = {"plain": plain_schemas(), "any": schemas()}
each_kind = pytest.mark.parametrize("kind", DRAWN)

FORMS: list[tuple[str, dict[str, Any]]] = [
    ("gemini", {"form": "parameters"}), ("gemini", {}), ("openai", {}), ("bedrock", {}), ("ollama", {}), ("mcp", {}),
    ("anthropic", {}), ("prompt", {}),
]  # fmt: skip
NEVER_CLOSED = [("gemini", {"form": "parameters"}), ("ollama", {})]

each_form = pytest.mark.parametrize(
    ("name", "options"),
    [form if form == FORMS[0] else pytest.param(*form, marks=pytest.mark.exhaustive) for form in FORMS],
    ids=[f"{name}-{options}" for name, options in FORMS],
)
"""The form that changes schemas most by default, and all of them with `-m exhaustive`."""


def to_json_schema(node: Any) -> Any:
    """Return a schema of OpenAPI 3.0 as JSON Schema: `nullable` is a type there."""
    if isinstance(node, list):
        return [to_json_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    properties = {name: to_json_schema(child) for name, child in node.get("properties", {}).items()}
    plain = {key: to_json_schema(value) for key, value in node.items() if key not in {"nullable", "properties"}}
    plain |= {"properties": properties} if properties else {}
    return {"anyOf": [plain, {"type": "null"}]} if node.get("nullable") is True else plain


def exported_schema(name: str, options: dict[str, Any], definition: ToolDefinition) -> Any:
    export = formats.get(name).export([definition], **options)
    if options.get("form") == "parameters":
        return to_json_schema(export[0].get("parameters", {"type": "object"}))
    ((_, schema),) = provider(name).exported(export)
    return schema


def findings(name: str, options: dict[str, Any], definition: ToolDefinition) -> list[formats.Finding]:
    found: list[formats.Finding] = formats.get(name).findings(definition)
    return [finding for finding in found if options or "form=" not in finding.problem]


def has_closed_objects(schema: dict[str, Any]) -> bool:
    text = json.dumps({key: value for key, value in schema.items() if key != "$defs"})
    return '"additionalProperties": false' in text or '"#/$defs/C"' in text


def untold(name: str, options: dict[str, Any], schema: Any, values: list[Any]) -> list[tuple[str, Any]]:
    """Return the values that an export accepts or refuses unlike the tool, without a finding that says so."""
    definition = ToolDefinition(name="f", input_schema=schema)
    original = jsonschema_rs.validator_for(schema)
    exported = jsonschema_rs.validator_for(exported_schema(name, options, definition))
    told = {finding.effect for finding in findings(name, options, definition)}
    if (name, options) in NEVER_CLOSED and has_closed_objects(schema):
        told.add("wider")
    found = [("narrower", value) for value in values if original.is_valid(value) and not exported.is_valid(value)]
    found += [("wider", value) for value in values if exported.is_valid(value) and not original.is_valid(value)]
    return [(effect, value) for effect, value in found if effect not in told]


@each_form
@each_kind
@EXAMPLES
def test_a_parameter_accepts_what_the_tool_accepts_or_a_finding_says_otherwise(max_examples, name, options, kind):
    def check(node: Any) -> None:
        schema = {"type": "object", "properties": {"a": node}, "required": ["a"], "$defs": DEFINITIONS}
        assert untold(name, options, schema, [{"a": value} for value in VALUES]) == []

    run_examples(max_examples, check, DRAWN[kind])


@each_form
@each_kind
@EXAMPLES
def test_a_root_accepts_what_the_tool_accepts_or_a_finding_says_otherwise(max_examples, name, options, kind):
    def check(node: Any) -> None:
        schema = {**node, "type": "object", "$defs": DEFINITIONS}
        assert untold(name, options, schema, [value for value in VALUES if isinstance(value, dict)]) == []

    run_examples(max_examples, check, DRAWN[kind].filter(lambda node: node.get("$ref") != "#/$defs/S"))


def opened(node: Any) -> Any:
    """Return a schema whose objects are not closed."""
    if isinstance(node, dict):
        return {key: opened(value) for key, value in node.items() if (key, value) != ("additionalProperties", False)}
    return [opened(item) for item in node] if isinstance(node, list) else node


@pytest.mark.parametrize("name", ["openai", "anthropic", "bedrock"])
@EXAMPLES
def test_a_strict_schema_accepts_what_the_tool_accepts_or_a_finding_says_otherwise(max_examples, name):
    """With null for an absent member, which means the same."""

    @example({"properties": {"x": {"type": "null"}}, "required": ["x"]})
    @example({"anyOf": [{"properties": {"x": {"type": "string"}}}], "required": ["x"]})
    def check(node: Any) -> None:
        schema = opened({"type": "object", "properties": {"a": node}, "required": ["a"], "$defs": DEFINITIONS})
        definition = ToolDefinition(name="f", input_schema=schema)
        (tool,) = formats.get(name).export([definition], strict=True)
        if not any(part.get("strict") for part in (tool, tool.get("function", {}), tool.get("toolSpec", {}))):
            return
        ((_, strict),) = provider(name).exported([tool])
        strict = opened(strict)
        told = {finding.effect for finding in formats.get(name).findings(definition)}
        for value in ({"a": value} for value in VALUES if "null" not in json.dumps(value)):
            sent = filled(strict, value, strict)
            is_accepted, is_legal = jsonschema_rs.is_valid(strict, sent), jsonschema_rs.is_valid(schema, value)
            if is_accepted and not (is_legal or jsonschema_rs.is_valid(schema, sent)):  # a null may be a value, too
                assert "wider" in told, (value, strict)
            if is_legal and not is_accepted:
                assert "narrower" in told, (value, strict)

    run_examples(max_examples, check, schemas(is_closed=False))


@pytest.mark.parametrize(
    ("node", "exported"),
    [
        (
            {"type": "string", "anyOf": [{"minLength": 3}, {"pattern": "^a"}]},
            {"anyOf": [{"type": "string", "minLength": 3}, {"type": "string", "pattern": "^a"}]},
        ),
        (
            {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"],
             "anyOf": [{"properties": {"y": {"type": "string"}}, "required": ["y"]},
                       {"properties": {"z": {"type": "integer"}}, "required": ["z"]}]},
            {"anyOf": [{"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
                        "required": ["y", "x"]},
                       {"type": "object", "properties": {"x": {"type": "string"}, "z": {"type": "integer"}},
                        "required": ["z", "x"]}]},
        ),
        (
            {"allOf": [{"required": ["x"], "properties": {"x": {"type": "null"}}},
                       {"anyOf": [{"type": "object", "properties": {"y": {"type": "string"}}}]}]},
            {"anyOf": [{"type": "object", "properties": {"x": {"type": "null"}, "y": {"type": "string"}},
                        "required": ["x"]}]},
        ),
        (
            {"type": ["string", "null"], "anyOf": [{"type": "string", "description": "S."}, {"type": "integer"}],
             "description": "D."},
            {"anyOf": [{"type": "string", "description": "D. S."}]},
        ),
    ],
    ids=["rules of texts", "members", "allOf", "impossible branches"],
)  # fmt: skip
def test_geminis_older_form_merges_each_branch_with_what_is_beside_the_union(node, exported):
    definition = ToolDefinition(name="f", input_schema={"type": "object", "properties": {"a": node}})
    (tool,) = formats.get("gemini").export([definition], form="parameters")
    assert tool["parameters"]["properties"]["a"] == exported


def test_geminis_older_form_requires_only_members_that_are_there():
    node = {"allOf": [{"required": ["x"]}, {"anyOf": [{"properties": {"y": {"type": "string"}}}]}]}
    definition = ToolDefinition(name="f", input_schema={"type": "object", "properties": {"a": node}})
    (tool,) = formats.get("gemini").export([definition], form="parameters")
    (branch,) = tool["parameters"]["properties"]["a"]["anyOf"]
    assert branch["properties"].keys() == {"x", "y"}
    assert branch["required"] == ["x"]


def test_a_narrower_schema_has_a_finding_with_its_place():
    def narrower(name: str, node: Any) -> list[tuple[str, str]]:
        schema = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": node}}}}
        found = formats.portability(ToolDefinition(name="f", input_schema=schema))[name]
        return [(finding.place, finding.problem) for finding in found if finding.effect == "narrower"]

    anything = "it may be anything, but null and lists of lists or of null are not accepted in form='parameters'"
    assert narrower("gemini", {}) == [("a.b", anything)]
    assert narrower("openai", {"properties": {"x": {}}}) == [("a.b", "it has no type and is read as 'object'")]
    pair = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}
    assert narrower("openai", pair) == [("a.b", "further items may not be of any type")]
    assert narrower("openai", {**pair, "maxItems": 2}) == narrower("openai", {**pair, "items": {"type": "null"}}) == []


def test_a_member_that_only_some_alternatives_of_the_root_restrict_has_a_finding():
    def places(**keywords: Any) -> list[str]:
        branches = [{"properties": {"x": {"type": "string"}}, **keywords}, {"properties": {"y": {}}, **keywords}]
        definition = ToolDefinition(name="f", input_schema={"type": "object", "anyOf": branches})
        return [finding.place for finding in formats.get("openai").findings(definition) if finding.effect == "narrower"]

    assert places() == ["x", "y"]
    assert places(additionalProperties=False) == []
