"""ToolDefinition: a frozen value, and a fingerprint of everything a model can see."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools import ToolDefinition, ToolSpec

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

FULL = {
    "name": "add",
    "title": "Add",
    "description": "Add numbers.",
    "input_schema": SCHEMA,
    "output_schema": {"type": "object", "properties": {"result": {"type": "integer"}}},
    "tags": frozenset({"math"}),
    "annotations": {"readOnlyHint": True},
    "examples": [{"inputs": {"a": 1}}],
    "meta": {"owner": "me"},
    "version": "1.0",
    "icons": [{"src": "data:,"}],
    "returns": "The sum.",
}

OTHER = {
    "name": "plus",
    "title": None,
    "description": "",
    "input_schema": {**SCHEMA, "required": []},
    "output_schema": None,
    "tags": frozenset({"math", "new"}),
    "annotations": {"readOnlyHint": False},
    "examples": [{"inputs": {"a": 2}}],
    "meta": {"owner": "you"},
    "version": "1.1",
    "icons": None,
    "returns": "",
}


def full() -> ToolDefinition:
    return ToolDefinition(**FULL)


def test_every_field_is_covered_here():
    names = {field.name for field in dataclasses.fields(ToolDefinition)}
    assert names == FULL.keys() == OTHER.keys()


@pytest.mark.parametrize("field", FULL)
def test_a_definition_has_the_values_of_its_arguments(field):
    assert getattr(full(), field) == FULL[field]


@pytest.mark.parametrize("field", FULL)
def test_no_field_can_be_set(field):
    definition = full()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(definition, field, OTHER[field])
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(definition, field)
    assert definition == full()


@pytest.mark.parametrize("field", FULL)
def test_a_change_of_any_field_changes_the_fingerprint(field):
    changed = dataclasses.replace(full(), **{field: OTHER[field]})
    assert changed.fingerprint != full().fingerprint
    assert changed != full()
    assert hash(changed) != hash(full())


@pytest.mark.parametrize("field", ["input_schema", "output_schema", "annotations", "examples", "meta", "icons"])
def test_reading_a_json_field_returns_a_copy(field):
    definition = full()
    fingerprint = definition.fingerprint
    given = getattr(definition, field)
    given.clear()
    assert getattr(definition, field) == FULL[field]
    assert definition.fingerprint == fingerprint


def test_changing_an_argument_later_does_not_change_the_definition():
    schema = copy.deepcopy(SCHEMA)
    definition = ToolDefinition(name="add", input_schema=schema)
    schema["properties"]["b"] = {"type": "string"}
    assert definition.input_schema == SCHEMA


def test_equal_definitions_have_the_same_hash():
    assert full() == full()
    assert len({full(), full()}) == 1
    assert full() != "add"
    assert full() != FULL


def test_the_order_of_keys_makes_no_difference():
    turned = {name: SCHEMA[name] for name in reversed(SCHEMA)}
    assert ToolDefinition(name="add", input_schema=turned) == ToolDefinition(name="add", input_schema=SCHEMA)


def test_a_fingerprint_is_64_hex_digits_and_the_same_in_a_copy():
    definition = full()
    assert len(definition.fingerprint) == 64
    int(definition.fingerprint, 16)
    for twin in (copy.copy(definition), copy.deepcopy(definition), pickle.loads(pickle.dumps(definition))):
        assert twin == definition
        assert twin.fingerprint == definition.fingerprint


def test_a_definition_without_a_schema_takes_no_arguments():
    definition = ToolDefinition(name="ping")
    assert definition.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert definition.output_schema is None


def test_a_value_without_a_json_form_is_refused():
    with pytest.raises(TypeError):
        ToolDefinition(name="add", meta={"handle": object()})
    with pytest.raises(ValueError, match="JSON"):
        ToolDefinition(name="add", meta={"number": float("nan")})


def test_a_repr_is_one_line_with_the_name_and_the_parameters():
    assert repr(full()) == "<ToolDefinition 'add'(a)>"


@given(st.text(), st.text())
def test_different_texts_have_different_fingerprints(one, other):
    prints = {ToolDefinition(name="x", description=text).fingerprint for text in (one, other)}
    assert len(prints) == len({one, other})


@pytest.mark.parametrize(
    ("options", "is_same"),
    [
        ({}, True),
        ({"title": "T"}, False),
        ({"description": "other"}, False),
        ({"tags": {"t"}}, False),
        ({"annotations": {"readOnlyHint": True}}, False),
        ({"meta": {"a": 1}}, False),
        ({"version": "2"}, False),
        ({"examples": [{"a": 1}]}, False),
        ({"output_schema": {"type": "object", "properties": {"x": {}}}}, False),
        ({"timeout": 3}, True),
    ],
)
def test_the_fingerprint_changes_with_what_the_model_sees(options, is_same):
    def add(a: int, b: int = 2) -> int:
        """Add.

        Args:
            a: One number.
        """
        return a + b

    plain = ToolSpec.from_function(add)
    assert (ToolSpec.from_function(add, **options).definition == plain.definition) is is_same


def test_binding_changes_the_definition_and_state_does_not():
    def add(a: int, b: int = 2) -> int:
        return a + b

    spec = ToolSpec.from_function(add)
    free = spec.definition
    bound = spec.bind("b").definition
    assert bound != free
    spec.state["b"] = 5
    assert spec.definition is bound
    assert spec.unbind("b").definition == free


def test_schemas_of_a_spec_are_copies():
    spec = ToolSpec.from_function(
        len, name="size", input_schema={"type": "object", "properties": {"obj": {"type": "string"}}}
    )
    for name in ("input_schema", "params"):
        getattr(spec, name).clear()
        assert getattr(spec, name)
    spec = ToolSpec.from_function(full, name="full", output_schema={"type": "object"})
    spec.output_schema.clear()
    assert spec.output_schema == {"type": "object"}
