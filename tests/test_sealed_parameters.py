"""Bound parameters of tools from a JSON Schema, wherever their schema names them, are neither shown nor accepted."""

from __future__ import annotations

import copy
import json
from typing import Any, get_args

import jsonschema_rs
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.code_mode.stubs import make_stubs
from ahvn_tools.errors import BindError, ToolSpecError
from ahvn_tools.formats import FormatName

USER = "zq_user"
TEXT = {"type": "string"}
NAMED = {"properties": {USER: TEXT}, "required": [USER]}

DECLARED = {"properties": {"q": TEXT, USER: TEXT}}
PLACES: dict[str, dict[str, Any]] = {
    "properties": DECLARED,
    "required": {**DECLARED, "required": [USER]},
    "parts about others": {**DECLARED, "allOf": [{"required": ["q"]}], "not": {"required": ["other"]}},
    "a list of an extension": {**DECLARED, "x-order": ["q", USER]},
    "examples of all arguments": {
        **DECLARED,
        "examples": [{"q": "x", USER: "eve"}],
        "default": {USER: "eve"},
    },
}

UNSEALABLE: dict[str, dict[str, Any]] = {
    "allOf": {"allOf": [NAMED]},
    "nested allOf": {"allOf": [{"allOf": [NAMED]}]},
    "anyOf": {"anyOf": [NAMED, {**NAMED, "required": ["q"]}]},
    "oneOf": {"oneOf": [{**NAMED, "required": ["q"]}, {**NAMED, "required": ["other"]}]},
    "$ref": {"$ref": "#/$defs/A", "$defs": {"A": NAMED}},
    "a reference in draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "allOf": [{"$ref": "#/definitions/A"}],
        "definitions": {"A": NAMED},
    },
    "a reference to an unknown keyword": {"$ref": "#/x-parts/A", "x-parts": {"A": NAMED}},
    "$anchor": {"$ref": "#a", "$defs": {"A": {"$anchor": "a", **NAMED}}},
    "a chain of references": {
        "allOf": [{"$ref": "#/$defs/A"}],
        "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/B"}]}, "B": NAMED},
    },
    "then": {"if": {"required": ["q"]}, "then": NAMED},
    "dependentSchemas": {"dependentSchemas": {"q": NAMED}},
    "dependencies": {"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"q": [USER]}},
    "only required": {"required": [USER]},
    "dependentRequired": {**DECLARED, "dependentRequired": {"q": [USER]}},
    "a key of dependentRequired": {**DECLARED, "dependentRequired": {USER: ["q"]}},
    "properties and allOf": {**DECLARED, "allOf": [NAMED]},
    "properties and required in anyOf": {**DECLARED, "anyOf": [{"required": [USER]}, {"required": ["q"]}]},
    "minProperties": {**DECLARED, "minProperties": 2},
    "patternProperties": {**DECLARED, "patternProperties": {"^z": {"maxLength": 2}}},
    "a reference to its own schema": {"properties": {USER: TEXT, "q": {"$ref": f"#/properties/{USER}"}}},
    "not": {"properties": {USER: TEXT}, "not": {"required": [USER, "q"]}},
    "if": {"properties": {USER: TEXT}, "if": {"required": [USER]}, "then": {"required": ["q"]}},
    "other values in each choice": {
        "oneOf": [{"properties": {USER: {"const": "a"}}}, {"properties": {USER: {"const": "b"}}}]
    },
    "a rule for names in one choice": {
        "required": [USER],
        "anyOf": [{"propertyNames": {"pattern": "^[a-z]$"}}, {"required": ["q"]}],
    },
    "a choice that refuses it": {"anyOf": [NAMED, {"properties": {"q": TEXT}, "additionalProperties": False}]},
    "additionalProperties": {"required": [USER], "additionalProperties": False},
    "unevaluatedProperties": {"anyOf": [NAMED, {"required": ["q"]}], "unevaluatedProperties": False},
    "propertyNames": {"properties": {USER: TEXT}, "propertyNames": {"enum": ["q", USER]}},
    "maxProperties": {"properties": {USER: TEXT}, "maxProperties": 0},
    "enum of all arguments": {"properties": {USER: TEXT}, "enum": [{USER: "a"}]},
    "a reference inside a part with its own $id": {
        "$ref": "#/$defs/X/$defs/Y",
        "$defs": {
            "X": {
                "$id": "https://a.example/x",
                "$defs": {"Y": {"$ref": "#/$defs/Z"}, "Z": NAMED},
            },
            "Z": {},
        },
    },
    "one anchor of two parts": {
        "$ref": "#a",
        "$defs": {"A": {"$anchor": "a", **NAMED}, "B": {"$anchor": "a"}},
    },
    "a part with its own $id": {"allOf": [{"$id": "https://a.example/b", **NAMED}]},
    "$dynamicRef": {"$dynamicRef": "#a", "$defs": {"A": {"$dynamicAnchor": "a", **NAMED}}},
}


def echo(**arguments: Any) -> dict[str, Any]:
    return arguments


def spec_of(schema: dict[str, Any]) -> ToolSpec:
    inputs = {"type": "object", "properties": {"q": TEXT}, **copy.deepcopy(schema)}
    return ToolSpec.from_schema("find", inputs, echo, coerce_numbers_to_str=False)


def texts_of(spec: ToolSpec) -> list[str]:
    """Return everything that a model may read about a tool."""
    texts = [json.dumps(spec.definition.input_schema), repr(spec.definition), spec.to_prompt(), *spec.params]
    for name in get_args(FormatName):
        for options in ({}, {"strict": True}):
            try:
                texts.append(json.dumps(spec.to(name, **options), default=str))
            except (ToolSpecError, TypeError):
                continue  # the format has no such option, or cannot express the schema
    texts += [stub.text("full") for stub in make_stubs([spec.definition]).values()]
    return texts


@pytest.mark.parametrize("place", PLACES)
class TestPlaces:
    def test_a_toolkits_binding_seals_it(self, place):
        kit = Toolkit("k", state={USER: "ann"}).add(spec_of(PLACES[place])).bind(USER)
        assert list(kit["find"].binds) == [USER]
        assert not [text for text in texts_of(kit["find"]) if USER in text]
        assert kit.exec("find", {"q": "x", USER: "eve"}).error.code == "invalid_parameters"
        assert kit.call("find", {"q": "x"}) == {"q": "x", USER: "ann"}

    def test_a_binding_of_the_spec_seals_it(self, place):
        spec = spec_of(PLACES[place]).bind(USER, default="ann")
        assert not [text for text in texts_of(spec) if USER in text]
        assert spec.exec(q="x", **{USER: "eve"}).error.code == "invalid_parameters"
        assert spec(q="x") == {"q": "x", USER: "ann"}

    def test_a_preset_seals_it(self, place):
        kit = Toolkit("k").add(spec_of(PLACES[place]), preset={USER: "ann"})
        assert not [text for text in texts_of(kit["find"]) if USER in text]
        assert kit.call("find", {"q": "x"}) == {"q": "x", USER: "ann"}

    def test_unbind_restores_the_schema(self, place):
        spec = spec_of(PLACES[place])
        before = spec.definition.input_schema
        assert spec.bind(USER).unbind(USER).definition.input_schema == before

    def test_check_knows_the_parameter(self, place):
        kit = Toolkit("k").add(spec_of(PLACES[place])).bind(USER)
        assert "unused-binding" not in {finding.rule for finding in kit.check()}


@pytest.mark.parametrize("place", UNSEALABLE)
class TestUnsealable:
    def test_binding_it_on_the_spec_is_an_error(self, place):
        spec = spec_of(UNSEALABLE[place])
        with pytest.raises(BindError, match="'zq_user' of 'find' cannot be bound: "):
            spec.bind(USER, default="ann")
        assert dict(spec.binds) == {}

    def test_binding_it_in_the_toolkit_is_an_error_and_binds_nothing(self, place):
        kit = Toolkit("k", state={USER: "ann"}).add(spec_of(UNSEALABLE[place]))
        with pytest.raises(BindError, match="cannot be bound"):
            kit.bind(USER)
        with pytest.raises(BindError, match="cannot be bound"):
            kit["find"].bind(USER)
        assert dict(kit["find"].binds) == {}

    def test_a_toolkit_that_binds_it_refuses_the_tool(self, place):
        kit = Toolkit("k", state={USER: "ann"}).bind(USER)
        with pytest.raises(BindError, match="cannot be bound"):
            kit.add(spec_of(UNSEALABLE[place]))
        with pytest.raises(BindError, match="cannot be bound"):
            Toolkit("k").add(spec_of(UNSEALABLE[place]), preset={USER: "ann"})


class TestMeaning:
    def test_without_a_value_an_optional_parameter_is_left_out(self):
        spec = spec_of(DECLARED).bind(USER)
        assert spec(q="x") == {"q": "x"}

    def test_the_bound_value_matches_its_schema(self):
        for value, is_valid in (("ann", True), ("a", False), (3, False)):
            schema = {"properties": {USER: {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string", "minLength": 3}}}
            result = spec_of(schema).bind(USER, default=value).exec(q="x")
            assert (result.error is None) is is_valid

    def test_a_definition_of_another_parameter_keeps_its_own_property_of_that_name(self):
        schema = {
            "properties": {USER: TEXT, "friend": {"$ref": "#/$defs/A"}},
            "$defs": {"A": {"properties": {USER: TEXT, "friend": {"$ref": "#/$defs/A"}}}},
        }
        spec = spec_of(schema).bind(USER, default="ann")
        assert spec.exec(friend={USER: 3}).error.code == "invalid_parameters"
        assert spec(friend={USER: "eve"}) == {"friend": {USER: "eve"}, USER: "ann"}

    def test_secret_parameters_are_secret_in_parts_too(self):
        for schema in ({}, {"allOf": [{"properties": {USER: {"writeOnly": True}}}]}):
            spec = spec_of({"properties": {USER: {"type": "string", "writeOnly": True}}, **schema})
            assert spec.compiled.template.inputs.parameters[USER].is_secret

    def test_a_name_that_only_a_pattern_allows_cannot_be_bound_or_passed(self):
        spec = spec_of({"patternProperties": {"^zq": TEXT}})
        with pytest.raises(BindError, match="has no parameter"):
            spec.bind(USER)
        kit = Toolkit("k", state={USER: "ann"}).add(spec).bind(USER)
        assert kit.exec("find", {USER: "eve"}).error.code == "invalid_parameters"
        assert kit.call("find", {"zq_other": "x"}) == {"zq_other": "x"}

    def test_the_option_binds_is_checked_as_bind_is(self):
        inputs = {"type": "object", **UNSEALABLE["not"]}
        with pytest.raises(BindError, match="cannot be bound"):
            ToolSpec.from_schema("find", inputs, echo, binds={USER: "user"})

    def test_a_typed_parameter_of_the_function_is_sealed_in_its_schema(self):
        def find(q: str, zq_user: str = "") -> str:
            return f"{q} {zq_user}"

        spec = ToolSpec.from_function(find, input_schema=PLACES["required"])
        spec.bind(USER, default="ann")
        assert not [text for text in texts_of(spec) if USER in text]
        assert spec(q="x") == "x ann"
        with pytest.raises(BindError, match="cannot be bound"):
            ToolSpec.from_function(find, input_schema={"properties": {"q": TEXT}, "allOf": [NAMED]}).bind(USER)


class TestHostileSchemas:
    def test_references_in_a_circle_and_many_of_them_end(self):
        count = 60
        definitions = {f"D{i}": {"allOf": [{"$ref": f"#/$defs/D{i + 1}"}] * 2} for i in range(count)}
        circle = {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"required": ["q"]}]}}
        for name, parts in (("D0", {**definitions, f"D{count}": {"required": ["q"]}}), ("A", circle)):
            spec = spec_of({**DECLARED, "$ref": f"#/$defs/{name}", "$defs": parts}).bind(USER, default="ann")
            assert USER not in json.dumps(spec.definition.input_schema)


OTHERS = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from([TEXT, {"type": "integer"}, {}]))
NAMES = st.sampled_from(["a", "b", "a", "b", USER])


def members(properties: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    rules = {
        "minProperties": st.integers(0, 3),
        "maxProperties": st.integers(0, 3),
        "unevaluatedProperties": st.just(False),
        "propertyNames": st.sampled_from([{"pattern": "^[a-z]$"}, {"pattern": "^[a-z_]*$"}]),
        "patternProperties": st.sampled_from([{"^z": TEXT}, {"^a": {"type": "integer"}}]),
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, unique=True, max_size=2), max_size=2),
    }
    common = {
        "required": st.lists(NAMES, unique=True, max_size=2),
        "additionalProperties": st.sampled_from([True, False, TEXT]),
    }
    plain = st.fixed_dictionaries({"properties": properties}, optional=common)
    return plain | plain | st.fixed_dictionaries({"properties": properties}, optional={**common, **rules})


MEMBERS = members(OTHERS | OTHERS | st.just({USER: TEXT}))
ROOTS = members(OTHERS.map(lambda properties: {**properties, USER: {**TEXT, "title": "T"}}))
REFERENCES = st.sampled_from([{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}])


def combine(
    parts: st.SearchStrategy[dict[str, Any]], own: st.SearchStrategy[dict[str, Any]] = MEMBERS
) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.lists(parts, min_size=1, max_size=2)
    combined = st.fixed_dictionaries(
        {},
        optional={
            "allOf": lists,
            "anyOf": lists,
            "oneOf": lists,
            "if": parts,
            "then": parts,
            "else": parts,
            "not": parts,
            "dependentSchemas": st.dictionaries(NAMES, parts, max_size=1),
        },
    )
    keys = [("allOf",), ("anyOf",), ("oneOf",), ("if", "then", "else"), ("not",), ("dependentSchemas",), ("$ref",)]
    chosen = st.tuples(own, combined, st.lists(st.sampled_from(keys), max_size=2))
    return chosen.map(lambda one: {**one[0], **{key: one[1][key] for keys in one[2] for key in keys if key in one[1]}})


PARTS = st.recursive(MEMBERS | REFERENCES, combine, max_leaves=4)
SCHEMAS = st.tuples(combine(PARTS, ROOTS), combine(MEMBERS), combine(MEMBERS | st.just({"$ref": "#/$defs/A"}))).map(
    lambda parts: {**parts[0], "type": "object", "$defs": {"A": parts[1], "B": parts[2]}}
)
ARGUMENTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from([1, "x"]))


@given(SCHEMAS, st.lists(ARGUMENTS, min_size=1, max_size=6), st.sampled_from(["ann", 5]))
def test_a_sealed_tool_takes_exactly_the_arguments_that_the_whole_schema_takes_with_the_value(schema, calls, value):
    spec = ToolSpec.from_schema("find", schema, echo, coerce_numbers_to_str=False)
    kit = Toolkit("k", state={USER: value}).add(spec)
    try:
        kit.bind(USER)
    except BindError:
        return
    event("it is sealed" if USER in kit["find"].binds else "it is not there")
    if USER not in kit["find"].binds:
        return
    assert not [text for text in texts_of(kit["find"]) if USER in text]
    validator = jsonschema_rs.validator_for(schema)
    for arguments in calls:
        assert kit.exec("find", {**arguments, USER: "eve"}).error is not None
        result = kit.exec("find", arguments)
        is_valid = validator.is_valid({**arguments, USER: value})
        if value == "ann":
            assert (result.error is None) is is_valid
        else:
            assert is_valid or result.error is not None
        if result.error is None:
            assert result.value == {**arguments, USER: value}
