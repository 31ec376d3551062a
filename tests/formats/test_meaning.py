"""Exports keep the meaning of a schema: what a tool accepts, every export allows, strict or not."""

from __future__ import annotations

import itertools
from typing import Any

import jsonschema_rs
import pytest

from ahvn_tools import ToolDefinition, formats
from tests.formats.awkward_schemas import CASES
from tests.formats.providers import provider

ACCEPTED: dict[str, list[Any]] = {
    "recursive": [{"a": {"value": "x", "next": {"value": "y"}}}],
    "recursive through items": [{"a": {"leaves": [{"leaves": []}]}}],
    "recursive through a map": [{"a": {"x": {"y": {}}}}],
    "recursive through a choice": [{"a": "x"}, {"a": [1, ["x"]]}],
    "mutually recursive": [{"a": {}}, {"a": {"b": {"a": {}}}}],
    "recursive through allOf": [{"a": {"b": {"b": {}}}}],
    "recursive at the root": [{"name": "x"}, {"name": "x", "child": {"name": "y"}}],
    "root is a reference": [{"value": "x"}, {"value": "x", "next": {"value": "y"}}],
    "escaped references": [{"a": "x", "b": 1, "c": {"x": "y"}, "d": None}],
    "odd names of definitions": [{"a": [1]}],
    "old definitions": [{"a": {"x": "y"}}, {"a": {}}],
    "definitions further in": [{"a": {"x": "x", "y": 1}}],
    "references into members": [{"a": {"x": "x"}, "b": {"y": 1}, "c": "x"}],
    "references into a list": [{"a": {"x": 1}, "b": {"x": 1}}],
    "a reference to an anchor": [{"a": "x"}],
    "a reference into an unknown keyword": [{"a": {"x": "y"}}],
    "a reference with words": [{"a": {"x": "y"}}],
    "a required reference with a default": [{"a": "blue"}],
    "a required reference with words and a default": [{"a": "blue"}],
    "a recursive reference with a default": [{"a": {"next": None}}, {"a": {"next": {"next": None}}}],
    "a reference with a constraint": [{"a": "xyz"}],
    "a reference with a tighter constraint": [{"a": "xyz"}],
    "a reference with members": [{"a": {"x": "x", "y": 1}}],
    "a reference bomb": [{"a": {"left": {"right": {}}}}, {"a": {}}],
    "a reference bomb of choices": [{"a": "x"}],
    "nothing": [{}, {"any": [1, None]}],
    "no type": [{"a": "x"}],
    "an object that may be missing": [{"a": "x"}],
    "oneOf at the root": [{"a": "x"}, {"b": 1}],
    "anyOf at the root": [{"a": "x"}, {"a": 1, "b": 1}],
    "anyOf of requirements": [{"a": "x"}, {"b": "x"}],
    "allOf at the root": [{"a": "x", "b": 1}],
    "allOf and anyOf at the root": [{"a": "x", "b": 1, "c": None}, {"b": "x"}],
    "not at the root": [{"a": "x"}, {"b": "x"}],
    "if at the root": [{"a": "x", "b": "y"}],
    "enum at the root": [{"a": "x"}],
    "dependentRequired": [{"b": "x"}, {"a": "x", "b": "y"}],
    "old dependencies": [{}, {"a": "x", "b": "y"}],
    "items of an object": [{"a": "x"}],
    "allOf of one": [{"a": {"x": "y"}}],
    "allOf of two objects": [{"a": {"x": "x", "y": 1}}],
    "allOf of limits": [{"a": "xyz"}],
    "oneOf with discriminator": [{"a": {"kind": "cat", "lives": 9}}, {"a": {"kind": "dog"}}],
    "oneOf of references with discriminator": [{"a": {"kind": "cat"}}, {"a": {"kind": "dog", "name": "x"}}],
    "oneOf next to members": [{"a": {"x": "x", "y": "y"}}, {"a": {"x": "x", "z": 1}}],
    "anyOf next to a type": [{"a": "xyz"}, {"a": "x"}],
    "anyOf with null": [{}, {"a": None}, {"a": "x"}],
    "anyOf of only null": [{"a": None}],
    "anyOf of anyOf": [{"a": "x"}, {"a": None}, {"a": {"x": "y"}}],
    "oneOf of const of any type": [{"a": 1}, {"a": "x"}, {"a": None}],
    "not next to a type": [{"a": "y"}],
    "if further in": [{"a": {"x": "1", "y": "y"}}],
    "const 'x'": [{"a": "x"}], "const 1": [{"a": 1}], "const None": [{"a": None}], "const ['x', 1]": [{"a": ["x", 1]}],
    "const {'x': 1}": [{"a": {"x": 1}}],
    "const that may be missing": [{}, {"a": "x"}],
    "enum that may be missing": [{}, {"a": "y"}],
    "enum with null": [{"a": "x"}, {"a": None}],
    "enum with null and types": [{"a": "x"}, {"a": None}],
    "enum of integers": [{"a": 2}],
    "enum of integers without a type": [{"a": 2}],
    "enum of booleans": [{"a": True}],
    "mixed enum": [{"a": 1}, {"a": "x"}, {"a": None}, {"a": ["x"]}, {"a": {"x": 1}}],
    "mixed enum with one type": [{"a": "x"}],
    "enum of objects": [{"a": {"x": 2}}],
    "enum of arrays": [{"a": [1]}],
    "array of anything": [{"a": [1, "x", None, {}]}],
    "items without a type": [{"a": ["x"]}],
    "array of arrays": [{"a": [[[1]], []]}],
    "tuple": [{"a": ["x", 1]}],
    "tuple with more": [{"a": ["x", {"x": 1}, True]}, {"a": []}],
    "tuple, closed": [{"a": ["x"]}],
    "contains": [{"a": ["x", 1]}],
    "unique items": [{"a": ["x", "y"]}],
    "array or null": [{"a": [1]}, {"a": None}, {}],
    "free object": [{"a": {"x": {"y": 1}}}, {"a": {}}],
    "map": [{"a": {"x": 1}}],
    "map next to members": [{"a": {"x": "x", "y": 1}}],
    "object or null": [{"a": {"x": 1}}, {"a": None}, {}],
    "object with members or null": [{}, {"a": None}, {"a": {"x": "y"}}],
    "members without a type": [{"a": {"x": "y"}}],
    "required that is not there": [{"a": "x", "b": 1}],
    "pattern properties": [{"a": {"x-y": "z"}}],
    "pattern properties at the root": [{"x-y": 1}],
    "property names": [{"a": {"xyz": 1}}],
    "unevaluated properties": [{"a": {"x": "y"}}],
    "dependentRequired further in": [{"a": {"y": "y"}}],
    "odd names of members": [{"Content-Type": "x", "$ref": "y", "天气": "z"}, {}],
    "members named like keywords": [{"a": {"enum": "x", "$defs": "y", "items": ["z"], "anyOf": 1}}],
    "anything": [{"a": 1}, {"a": [{}]}],
    "anything that may be missing": [{}, {"a": "x", "b": [1]}],
    "type string|integer": [{"a": "x"}, {"a": 1}],
    "type object|null": [{"a": {"x": 1}}, {"a": None}],
    "type object|array": [{"a": {"x": 1}}, {"a": [1]}],
    "all types": [{"a": 1.5}, {"a": {"x": 1}}, {"a": [None]}, {"a": None}],
    "null that may be missing": [{}, {"a": None}],
    "type 'float'": [{"a": 1.5}], "type 'dict'": [{"a": {"x": 1}}], "type 'tuple'": [{"a": [1, "x"]}],
    "type 'any'": [{"a": 1}, {"a": [None]}], "type 'HashMap'": [{"a": {"x": 1}}], "type 'String'": [{"a": "x"}],
    "dict with members": [{"a": {"x": 1.5}}],
    "types of other languages in a list": [{"a": 1.5}, {"a": None}],
    "nullable": [{"a": "x", "b": {"x": "y"}}],
    "required on a member": [{"a": "x"}],
    "limits of numbers": [{"a": 4.5}],
    "limits of arrays": [{"a": ["x"]}],
    "pattern with lookahead": [{"a": "x"}],
    "defaults everywhere": [{}, {"a": "x", "d": {}, "g": {"k": 2}, "e": [1]}],
    "wide, all optional": [{}, {"m7": 1}],
}  # fmt: skip
FORMATS_AND_STRICTNESS = [(name, strict) for name, strict in itertools.product(formats.BUILT_IN, (False, True))]


def accepts(schema: Any, value: Any) -> bool:
    return jsonschema_rs.validator_for(schema).is_valid(value)


def filled(node: Any, value: Any, root: dict[str, Any]) -> Any:
    """Return a value as a model writes it for a schema: with null for an absent required member."""
    if not isinstance(node, dict):
        return value
    if "$ref" in node:
        return filled(_target(node["$ref"], root), value, root)
    for branch in node.get("anyOf", ()):
        made = filled(branch, value, root)
        if accepts({**branch, "$defs": root.get("$defs", {})}, made):
            return made
    if isinstance(value, list):
        return [filled(node.get("items"), item, root) for item in value]
    if not isinstance(value, dict):
        return value
    members = node.get("properties", {})
    absent = [name for name in node.get("required", ()) if name not in value]
    return {**{key: filled(members.get(key), item, root) for key, item in value.items()}, **dict.fromkeys(absent)}


def _target(reference: str, root: dict[str, Any]) -> Any:
    return root if reference == "#" else root["$defs"][reference.removeprefix("#/$defs/")]


@pytest.mark.parametrize("case", ACCEPTED)
@pytest.mark.default_cases(40)
def test_every_export_allows_what_the_tool_accepts(case):
    schema = CASES[case]
    if jsonschema_rs.meta.is_valid(schema):
        assert [arguments for arguments in ACCEPTED[case] if not accepts(schema, arguments)] == []
    definition = ToolDefinition(name="awkward", input_schema=schema)
    forbidden = []
    for (name, strict), arguments in itertools.product(FORMATS_AND_STRICTNESS, ACCEPTED[case]):
        ((_, exported),) = provider(name).exported(formats.get(name).export([definition], strict=strict))
        if not accepts(exported, filled(exported, arguments, exported)):
            forbidden.append((name, strict, arguments))
    assert forbidden == []


def test_schemas_are_strict_for_the_providers_that_can_enforce_them():
    """Exports that are never strict would pass all other tests."""
    wanted = {
        "openai": {"recursive": True, "oneOf with discriminator": True, "map": False, "many optional members": True},
        "anthropic": {
            "recursive": False,
            "oneOf with discriminator": True,
            "map": False,
            "many optional members": False,
        },
    }
    for name, cases in wanted.items():
        for case, is_strict in cases.items():
            (tool,) = formats.get(name).export([ToolDefinition(name="f", input_schema=CASES[case])], strict=True)
            assert (case, tool.get("function", tool)["strict"]) == (case, is_strict)


PLAIN = (
    "a reference with words", "a reference with a default", "a required reference with a default",
    "a required reference with words and a default", "a reference with a constraint", "old definitions",
    "escaped references", "references into members", "components of OpenAPI", "oneOf of references with discriminator",
    "anyOf with null", "anyOf of const", "const 1", "const that may be missing", "enum that may be missing",
    "enum with null and types", "enum of integers without a type", "array of arrays", "unique items", "empty object",
    "object with members or null", "members without a type", "odd names of members", "members named like keywords",
    "type string|null", "type string|integer", "type 'float'", "type 'str'", "dict with members", "nullable", "labels",
    "required on a member", "exclusive limits of draft 4", "unknown keywords", "limits of numbers", "limits of texts",
    "limits of arrays", "pattern with lookahead", "format uri", "format x-own", "half a character", "wide", "deep",
)  # fmt: skip


@pytest.mark.parametrize("name", ["anthropic", "bedrock", "mistral", "openai", "openai-responses"])
def test_plain_schemas_are_strict(name):
    """Exports that are never strict would pass all other tests."""
    definitions = {case: ToolDefinition(name="f", input_schema=CASES[case]) for case in PLAIN}
    tools = {case: formats.get(name).export([definition], strict=True)[0] for case, definition in definitions.items()}
    bare = {case: tool.get("function") or tool.get("toolSpec") or tool for case, tool in tools.items()}
    assert [case for case, tool in bare.items() if tool["strict"] is not True] == []
