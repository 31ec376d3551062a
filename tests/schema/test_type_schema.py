"""The JSON Schema of an object is made of the types of its properties."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from ahvn_tools import ToolSpec, schema
from ahvn_tools.errors import DefinitionError
from ahvn_tools.schema.jsonschema import compile_validator


class Connection:
    """A class without a JSON form."""


class Node(BaseModel):
    name: str
    children: list[Node] = []


def property_of(kind: Any) -> Any:
    return schema.from_types({"it": kind})["properties"]["it"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param(int, {"type": "integer"}, id="class"),
        pytest.param(None, {"type": "null"}, id="none"),
        pytest.param(Any, {}, id="any"),
        pytest.param(list[str], {"type": "array", "items": {"type": "string"}}, id="generic"),
        pytest.param(int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, id="union"),
        pytest.param(Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, id="literal"),
        pytest.param(date, {"type": "string", "format": "date"}, id="date"),
        pytest.param(Annotated[int, Field(ge=1)], {"type": "integer", "minimum": 1}, id="constraint"),
        pytest.param("string", {"type": "string"}, id="json-name"),
        pytest.param("str", {"type": "string"}, id="python-name"),
        pytest.param("Unknown", {}, id="unknown-name"),
        pytest.param(["integer", "null"], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, id="names"),
        pytest.param((int, "How many."), {"type": "integer", "description": "How many."}, id="described"),
        pytest.param((int, ""), {"type": "integer"}, id="empty-description"),
        pytest.param((Annotated[int, Field(description="Of the type.")], "Of the property."),
                     {"type": "integer", "description": "Of the property."}, id="described-twice"),
        pytest.param((int,), {"type": "integer"}, id="pair-of-one"),
        pytest.param([int], {"type": "array", "items": {"type": "integer"}}, id="array"),
        pytest.param({"x": int}, {"type": "object", "properties": {"x": {"type": "integer"}}}, id="object"),
        pytest.param(({"x": int}, "It."), {"type": "object", "properties": {"x": {"type": "integer"}},
                                           "description": "It."}, id="described-object"),
    ],
)  # fmt: skip
def test_a_property_has_the_schema_of_its_type(kind: Any, expected: Any) -> None:
    assert property_of(kind) == expected


@pytest.mark.parametrize(
    "kind",
    [Connection, Callable[[int], int], type, 5, "no type at all", [], (), any],
    ids=["class", "callable", "type", "value", "text", "empty-list", "empty-tuple", "function"],
)
def test_a_type_without_a_json_form_accepts_anything(kind: Any) -> None:
    assert property_of(kind) == {}


def test_a_type_without_a_json_form_keeps_its_description() -> None:
    assert property_of(Annotated[Connection, Field(description="The database.")]) == {"description": "The database."}
    assert property_of((Connection, "The database.")) == {"description": "The database."}


def test_models_are_defined_once_also_recursive_ones() -> None:
    made = schema.from_types({"root": Node, "all": list[Node], "part": {"node": (Node, "One.")}})
    reference = {"$ref": "#/$defs/Node"}
    assert list(made["$defs"]) == ["Node"]
    assert made["properties"]["root"] == made["properties"]["all"]["items"] == reference
    assert made["properties"]["part"]["properties"]["node"] == {**reference, "description": "One."}


def test_two_classes_of_one_name_have_two_definitions() -> None:
    def make(kind: type) -> type[BaseModel]:
        return type("Part", (BaseModel,), {"__annotations__": {"value": kind}})

    made = schema.from_types({"a": make(int), "b": make(str)})
    compile_validator(made)
    kinds = {part["properties"]["value"]["type"] for part in made.get("$defs", {}).values()}
    assert kinds == {"integer", "string"}


def test_no_other_property_is_allowed() -> None:
    assert schema.from_types({}) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_any_name_can_be_a_property() -> None:
    assert list(schema.from_types({"page-size": int, "class": str, "<*>": int})["properties"]) == [
        "page-size", "class", "<*>",
    ]  # fmt: skip


def test_required_properties_are_named() -> None:
    assert schema.from_types({"a": int, "b": int}, required=["b"])["required"] == ["b"]


def test_a_required_name_without_a_type_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"The required property 'limt' has no type. Did you mean 'limit'\?"):
        schema.from_types({"limit": int}, required=["limt"])


@pytest.mark.parametrize("required", ["a", 5, None], ids=str)
def test_what_is_no_list_of_names_and_no_function_is_refused(required: Any) -> None:
    with pytest.raises(DefinitionError, match="`required` are names in a list, or a function, not"):
        schema.from_types({"a": int}, required=required)


@pytest.mark.parametrize("types", [["a"], None, "abc"], ids=["list", "none", "text"])
def test_types_are_in_a_mapping(types: Any) -> None:
    with pytest.raises(DefinitionError, match="The types are in a mapping by name"):
        schema.from_types(types)


def test_names_are_texts_at_any_depth() -> None:
    with pytest.raises(DefinitionError, match="The name of a property is a text, not 1"):
        schema.from_types({"a": {1: int}})


def test_parameters_of_a_function_without_a_default_are_required() -> None:
    def find(query: str, limit: int = 3, *, user: str, **others: Any) -> None: ...

    types = {"user": str, "limit": int, "query": str, "other": int}
    assert schema.from_types(types, required=find)["required"] == ["user", "query"]


def test_a_function_without_a_signature_requires_nothing() -> None:
    assert "required" not in schema.from_types({"a": int}, required=max)


def test_a_tool_is_made_of_the_schema() -> None:
    def search(**arguments: Any) -> Any:
        return arguments

    made = schema.from_types({"page-size": (int, "Results."), "query": str}, required=["query"])
    spec = ToolSpec.from_schema("search", made, search)
    assert spec.call(**{"query": "tea", "page-size": 3}) == {"query": "tea", "page-size": 3}
    assert spec.exec(query=["tea"]).error.message == "Invalid arguments: 'query' should be of type string."


names = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null", "str", "int", "any"])
kinds = st.recursive(
    names | st.sampled_from([int, str, float, bool, list, dict, None, Any, Connection, Node]),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=1)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.tuples(inner, st.text(max_size=5))
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=4), kinds, max_size=4))
def test_every_mapping_of_types_has_a_valid_schema(types: dict[str, Any]) -> None:
    made = schema.from_types(types, required=list(types))
    compile_validator(made)
    assert list(made["properties"]) == list(types)
