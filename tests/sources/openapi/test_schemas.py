"""Schemas of OpenAPI 3.0 and 3.1 become JSON Schema 2020-12, for requests and for responses."""

from __future__ import annotations

import jsonschema_rs
import pytest
from inline_snapshot import snapshot

from ahvn_tools import ToolSpec
from tests.sources.openapi.documents import document, json_body, json_response, one_operation, parameter, ref


def input_of(schema, version="3.0.3", **schemas):
    """Return the schema of the argument `value`, and the definitions."""
    operation = {"parameters": [parameter("value", schema=schema)]}
    whole = one_operation(operation, version=version, components={"schemas": schemas})
    made = ToolSpec.from_openapi(whole)["call"].input_schema
    return made["properties"]["value"], made.get("$defs")


def output_of(schema, responses="exact", version="3.1.0", **schemas):
    """Return the output schema of an operation that returns this schema."""
    operation = {"responses": json_response(schema)}
    whole = one_operation(operation, version=version, components={"schemas": schemas})
    return ToolSpec.from_openapi(whole, responses=responses)["call"].output_schema


def test_nullable_becomes_a_type():
    assert input_of({"type": "string", "nullable": True})[0] == {"type": ["string", "null"]}
    assert input_of({"type": "string", "nullable": True, "enum": ["a"]})[0] == {
        "type": ["string", "null"],
        "enum": ["a", None],
    }
    assert input_of({"type": "string", "nullable": False})[0] == {"type": "string"}


def test_a_nullable_reference_accepts_null():
    thing = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema, definitions = input_of({"allOf": [ref("Thing")], "nullable": True}, Thing=thing)
    assert schema == {"anyOf": [{"allOf": [{"$ref": "#/$defs/Thing"}]}, {"type": "null"}]}
    assert definitions == {"Thing": thing}
    assert input_of({**ref("Thing"), "nullable": True}, Thing=thing)[0] == {
        "anyOf": [{"$ref": "#/$defs/Thing"}, {"type": "null"}]
    }


def test_boolean_exclusive_bounds_become_numbers():
    bounds = {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False}
    assert input_of(bounds)[0] == {"type": "number", "exclusiveMinimum": 0, "maximum": 9}


def test_an_example_becomes_examples():
    assert input_of({"type": "string", "example": "Ann"})[0] == {"type": "string", "examples": ["Ann"]}


def test_keywords_of_openapi_alone_are_dropped():
    schema = {"type": "string", "xml": {"name": "a"}, "externalDocs": {"url": "x"}, "x-internal": 1}
    assert input_of(schema)[0] == {"type": "string"}


def test_formats_of_openapi_alone_are_dropped():
    assert input_of({"type": "integer", "format": "int64"})[0] == {"type": "integer"}
    assert input_of({"type": "string", "format": "byte"})[0] == {"type": "string", "contentEncoding": "base64"}
    assert input_of({"type": "string", "format": "date"})[0] == {"type": "string", "format": "date"}


def test_beside_a_reference_openapi_30_keeps_only_the_description_and_31_keeps_all():
    schema = {**ref("Name"), "description": "Whose.", "maxLength": 3}
    name = {"type": "string"}
    assert input_of(schema, Name=name)[0] == {"$ref": "#/$defs/Name", "description": "Whose."}
    assert input_of(schema, "3.1.0", Name=name)[0] == {"$ref": "#/$defs/Name", "description": "Whose.", "maxLength": 3}


def test_cyclic_schemas_become_definitions():
    tree = {"type": "object", "properties": {"left": ref("Tree"), "leaf": ref("Leaf")}}
    schema, definitions = input_of(ref("Tree"), Tree=tree, Leaf={"type": "array", "items": ref("Tree")}, Other={})
    assert schema == {"$ref": "#/$defs/Tree"}
    assert definitions == snapshot(
        {
            "Tree": {
                "type": "object",
                "properties": {"left": {"$ref": "#/$defs/Tree"}, "leaf": {"$ref": "#/$defs/Leaf"}},
            },
            "Leaf": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
        }
    )


def test_a_long_chain_of_references_is_followed():
    chain = {f"S{number}": {"type": "object", "properties": {"n": ref(f"S{number + 1}")}} for number in range(300)}
    _, definitions = input_of(ref("S0"), **chain, S300={"type": "string"})
    assert len(definitions) == 301


def test_definitions_of_one_name_in_different_places_are_kept_apart():
    other = {"$ref": "#/components/schemas/Outer/properties/Name"}
    outer = {"type": "object", "properties": {"Name": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"a": ref("Name"), "b": other}}
    _, definitions = input_of(schema, Name={"type": "string"}, Outer=outer)
    assert definitions == {"Name": {"type": "string"}, "Name_2": {"type": "integer"}}


def test_an_anchor_is_found():
    schema, definitions = input_of({"$ref": "#name"}, "3.1.0", Name={"$anchor": "name", "type": "string"})
    assert schema == {"$ref": "#/$defs/Name"}
    assert definitions == {"Name": {"type": "string"}}


def test_a_discriminator_selects_the_branch():
    cat = {"type": "object", "properties": {"kind": {"type": "string"}, "lives": {"type": "integer"}}}
    dog = {"type": "object", "properties": {"kind": {"type": "string"}, "tricks": {"type": "integer"}}}
    discriminator = {"propertyName": "kind", "mapping": {"cat": "#/components/schemas/Cat", "kitten": "Cat"}}
    union = {"oneOf": [ref("Cat"), ref("Dog")], "discriminator": discriminator}
    schema, definitions = input_of(union, Cat=cat, Dog=dog)
    validator = jsonschema_rs.validator_for({**schema, "$defs": definitions})
    assert "discriminator" not in schema
    assert validator.is_valid({"kind": "cat", "lives": 9})
    assert validator.is_valid({"kind": "kitten"})
    assert validator.is_valid({"kind": "Dog"})
    assert not validator.is_valid({"kind": "bird"})
    assert not validator.is_valid({"lives": 9})


def test_what_is_read_only_is_not_sent_and_what_is_write_only_not_received():
    thing = {
        "type": "object",
        "required": ["id", "code", "name"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "code": {"type": "string", "writeOnly": True},
            "name": {"type": "string"},
            "stamp": ref("Stamp"),
        },
    }
    operation = {"requestBody": json_body(ref("Thing")), "responses": json_response(ref("Thing"))}
    schemas = {"Thing": thing, "Stamp": {"type": "string", "readOnly": True}}
    whole = one_operation(operation, method="post", components={"schemas": schemas})
    spec = ToolSpec.from_openapi(whole, responses="exact")["call"]
    assert list(spec.input_schema["properties"]) == ["code", "name"]
    assert spec.input_schema["required"] == ["code", "name"]
    assert list(spec.output_schema["properties"]) == ["id", "name", "stamp"]
    assert spec.output_schema["required"] == ["id", "name"]


def test_a_pattern_of_another_language_is_dropped():
    assert input_of({"type": "string", "pattern": "(?<x"})[0] == {"type": "string"}
    assert input_of({"type": "string", "pattern": "^a+$"})[0] == {"type": "string", "pattern": "^a+$"}


def test_relaxed_responses_have_names_and_types_only():
    thing = {
        "type": "object",
        "required": ["name"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "maxLength": 3},
            "kind": {"type": "string", "enum": ["a", "b"]},
            "parts": {"type": "array", "items": ref("Thing"), "minItems": 1},
            "owner": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        },
    }
    assert output_of(ref("Thing"), "relaxed", Thing=thing) == snapshot(
        {
            "description": "It worked.",
            "type": "object",
            "properties": {
                "name": {"type": ["string", "null"]},
                "kind": {"type": ["string", "null"], "examples": ["a", "b"]},
                "parts": {"type": ["array", "null"], "items": {"$ref": "#/$defs/Thing"}},
                "owner": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
            },
            "$defs": {
                "Thing": {
                    "type": "object",
                    "properties": {
                        "name": {"type": ["string", "null"]},
                        "kind": {"type": ["string", "null"], "examples": ["a", "b"]},
                        "parts": {"type": ["array", "null"], "items": {"$ref": "#/$defs/Thing"}},
                        "owner": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
                    },
                }
            },
        }
    )


def test_a_response_that_is_no_object_is_wrapped():
    assert output_of({"type": "array", "items": {"type": "string"}}) == snapshot(
        {
            "type": "object",
            "properties": {"result": {"type": "array", "items": {"type": "string"}}},
            "required": ["result"],
            "x-fastmcp-wrap-result": True,
            "description": "It worked.",
        }
    )


def test_exact_responses_are_those_of_the_document():
    thing = {"type": "object", "required": ["a"], "additionalProperties": False, "properties": {"a": {"enum": [1]}}}
    assert output_of(thing) == {"description": "It worked.", **thing}


@pytest.mark.parametrize(
    "responses",
    [
        {"200": {"description": "Text.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
        {"204": {"description": "Nothing."}},
        {"404": json_response({"type": "object"})["200"]},
        {"default": json_response({"type": "object"})["200"]},
        json_response({"type": "object"}) | {"202": {"description": "Later."}},
        json_response({"type": "object"}) | {"201": json_response({"type": "array"})["200"]},
        json_response({}),
    ],
    ids=["text", "nothing", "an error", "default", "also nothing", "two schemas", "anything"],
)
def test_without_one_schema_for_all_successes_there_is_no_output_schema(responses):
    whole = one_operation({"responses": responses})
    assert ToolSpec.from_openapi(whole)["call"].output_schema is None


@pytest.mark.parametrize("status", ["200", "201", "2XX", 200])
def test_any_success_has_the_output_schema(status):
    whole = one_operation({"responses": {status: json_response({"type": "object", "properties": {"a": {}}})["200"]}})
    assert ToolSpec.from_openapi(whole)["call"].output_schema["properties"] == {"a": {}}


def test_the_output_schema_can_be_left_out():
    assert output_of({"type": "object"}, "none") is None


def test_schemas_of_paths_that_repeat_are_independent():
    paths = {
        f"/{name}": {"post": {"operationId": name, "requestBody": json_body(ref("Thing")), "responses": {}}}
        for name in ("first", "second")
    }
    specs = ToolSpec.from_openapi(
        document(paths, components={"schemas": {"Thing": {"type": "object", "properties": {"a": {"default": [1]}}}}})
    )
    specs["first"].input_schema["properties"]["a"]["default"].append(2)
    assert specs["second"].input_schema["properties"]["a"]["default"] == [1]
