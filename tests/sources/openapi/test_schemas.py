"""Schemas of OpenAPI 3.0 and 3.1 become JSON Schema 2020-12, for requests and for responses."""

from __future__ import annotations

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
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


def tagged(values, **members):
    return {
        "type": "object",
        "required": ["role"],
        "properties": {"role": {"type": "string", **values}, **members},
    }


@pytest.mark.parametrize("own", [{"enum": ["user"]}, {"const": "user"}], ids=["enum", "const"])
@pytest.mark.parametrize("mapping", [{}, {"mapping": {"user": "User", "robot": "User"}}], ids=["unmapped", "mapped"])
def test_a_branch_that_states_its_discriminator_is_selected_by_it(own, mapping):
    union = {"oneOf": [ref("User"), ref("System")], "discriminator": {"propertyName": "role", **mapping}}
    system = {"allOf": [tagged({"enum": ["system", "developer"]}), {"required": ["content"]}]}
    schema, definitions = input_of(union, User=tagged(own), System=system)
    validator = jsonschema_rs.validator_for({**schema, "$defs": definitions})
    assert validator.is_valid({"role": "user"})
    assert validator.is_valid({"role": "developer", "content": 1})
    assert not validator.is_valid({"role": "User"})
    assert not validator.is_valid({"role": "system"})


def test_a_union_of_unions_is_not_selected_by_the_name_of_its_branches():
    inner = {"anyOf": [ref("User"), ref("System")]}
    union = {"anyOf": [ref("Inner"), ref("Tool")], "discriminator": {"propertyName": "role"}}
    schemas = {"Inner": inner, "User": tagged({"enum": ["user"]}), "System": tagged({"enum": ["system"]})}
    schema, definitions = input_of(union, **schemas, Tool=tagged({"type": "integer"}))
    validator = jsonschema_rs.validator_for({**schema, "$defs": definitions})
    assert validator.is_valid({"role": "system"})
    assert validator.is_valid({"role": 7})


def pets(discriminator=None, **pet):
    """Return schemas in which a cat and a dog inherit from a pet."""
    return {
        "Pet": {
            "type": "object",
            "required": ["kind"],
            "properties": {"kind": {"type": "string"}, "name": {"type": "string"}},
            "discriminator": {"propertyName": "kind", **(discriminator or {})},
            **pet,
        },
        "Cat": {"allOf": [ref("Pet"), {"required": ["lives"], "properties": {"lives": {"type": "integer"}}}]},
        "Dog": {"allOf": [ref("Pet"), {"properties": {"tricks": {"type": "integer"}}}]},
        "Puppy": {"allOf": [ref("Dog"), {"required": ["age"], "properties": {"age": {"type": "integer"}}}]},
    }


def test_what_inherits_from_a_schema_with_a_discriminator_is_accepted_in_its_place():
    schema, definitions = input_of(ref("Pet"), **pets())
    validator = jsonschema_rs.validator_for({**schema, "$defs": definitions})
    assert validator.is_valid({"kind": "Cat", "name": "Tom", "lives": 9})
    assert validator.is_valid({"kind": "Puppy", "age": 1})
    assert validator.is_valid({"kind": "Pet"})
    assert not validator.is_valid({"kind": "Cat"})
    assert not validator.is_valid({"kind": "Puppy"})
    assert not validator.is_valid({"kind": "Cat", "lives": 9, "name": 1})
    assert not validator.is_valid({"kind": "Bird"})


def test_a_parent_that_is_not_mapped_is_no_value_of_its_own():
    mapping = {"cat": "#/components/schemas/Cat", "dog": "Dog"}
    schema, definitions = input_of(ref("Pet"), **pets({"mapping": mapping}))
    validator = jsonschema_rs.validator_for({**schema, "$defs": definitions})
    assert validator.is_valid({"kind": "cat", "lives": 9})
    assert validator.is_valid({"kind": "dog"})
    assert not validator.is_valid({"kind": "Pet"})


def test_a_parent_that_lists_its_children_which_inherit_from_it_can_be_called():
    """Each refers to the other, so that no value would be checked in the end."""
    schema, definitions = input_of(ref("Pet"), **pets(oneOf=[ref("Cat"), ref("Dog")]))
    validator = jsonschema_rs.validator_for({**schema, "$defs": definitions})
    assert validator.is_valid({"kind": "Cat", "lives": 9})
    assert validator.is_valid({"kind": "Dog", "tricks": 2})
    assert not validator.is_valid({"kind": "Cat"})
    returned = output_of({"type": "array", "items": ref("Pet")}, **pets(oneOf=[ref("Cat"), ref("Dog")]))
    assert jsonschema_rs.validator_for(returned).is_valid({"result": [{"kind": "Cat", "lives": 9}]})


def test_a_body_that_others_inherit_from_can_be_any_of_them():
    whole = one_operation(
        {"requestBody": json_body(ref("Pet"))}, method="post", components={"schemas": pets()}, version="3.0.3"
    )
    spec = ToolSpec.from_openapi(whole)["call"]
    message = spec.exec(body={"kind": "Cat"}).error.message
    assert message == "Invalid arguments: 'body' does not match its alternative 'Cat': 'body.lives' is missing."


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


@pytest.mark.parametrize("responses", ["relaxed", "exact"])
@pytest.mark.parametrize(
    ("version", "null"),
    [("3.0.3", {"nullable": True, "type": "object"}), ("3.1.0", {"type": ["object", "null"]})],
    ids=["3.0", "3.1"],
)
def test_an_object_that_may_be_null_is_null(echo, version, null, responses):
    thing = {**null, "properties": {"id": {"type": "integer"}}}
    whole = one_operation({"responses": json_response(thing)}, version=version)
    tool = ToolSpec.from_openapi(whole, base_url=echo.url, responses=responses)["call"]
    echo.answer("/things", b"null")
    result = tool.exec()
    assert (result.error, result.value) == (None, None)
    echo.answer("/things", {"id": 1, "more": 2})
    assert tool.call() == {"id": 1, "more": 2}


_scalars = st.sampled_from([None, True, 0, 1, 2.5, "a", "bb"])
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "x"]), inner, max_size=3),
    max_leaves=6,
)
_named = st.sampled_from(["a", "b"])


def _schemas_of(inner):
    lists = st.lists(inner, min_size=1, max_size=2)
    members = st.dictionaries(_named, inner, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", "integer", ["object", "null"]]),
            "nullable": st.booleans(),
            "properties": members,
            "patternProperties": st.dictionaries(st.sampled_from(["^x", "^a"]), inner, max_size=1),
            "additionalProperties": inner | st.booleans(),
            "required": st.lists(_named, max_size=2, unique=True),
            "items": inner | st.booleans(),
            "prefixItems": lists,
            "contains": inner,
            "oneOf": lists,
            "anyOf": lists,
            "allOf": lists,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "enum": st.lists(_scalars, min_size=1, max_size=2, unique_by=repr),
            "const": _scalars,
            "dependentRequired": st.just({"a": ["b"]}),
            "unevaluatedProperties": st.booleans(),
            "minimum": st.integers(0, 2),
            "maxLength": st.just(1),
            "discriminator": st.just({"propertyName": "a"}),
        },
    )


_generated = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": "integer", "nullable": True}, {}, ref("Node")]),
    _schemas_of,
    max_leaves=8,
)


def _fits(schema, value):
    if schema is None:
        return True
    wrapped = {"result": value} if schema.get("x-fastmcp-wrap-result") else value
    return jsonschema_rs.validator_for(schema).is_valid(wrapped)


def test_a_relaxed_schema_has_the_nearest_definitions_and_leaves_the_others_open():
    """All schemas of a large document may refer to each other, and each tool would have all of them."""
    texts = {f"text{number}": {"type": "string"} for number in range(90)}
    schemas = {
        f"S{number}": {"type": "object", "properties": {**texts, "next": ref(f"S{number + 1}")}} for number in range(50)
    }
    schema = output_of(ref("S0"), "relaxed", **schemas, S50={"type": "object"})
    assert len(schema["$defs"]) < 12
    value = {"next": {"text0": 1}}
    assert not jsonschema_rs.validator_for(schema).is_valid(value)
    for _ in range(40):
        value = {"next": value}
    assert jsonschema_rs.validator_for(schema).is_valid(value)
    assert len(output_of(ref("S0"), "exact", **schemas, S50={"type": "object"})["$defs"]) == 50


@given(schema=_generated, value=_values, node=_schemas_of(st.sampled_from([{"type": "string"}, {}])))
def test_relaxed_accepts_whatever_exact_accepts(schema, value, node):
    exact, relaxed = (output_of(schema, responses, Node=node) for responses in ("exact", "relaxed"))
    if _fits(exact, value):
        assert _fits(relaxed, value)


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
