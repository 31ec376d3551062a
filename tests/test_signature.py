"""The Python signature, name and docstring of a tool, as `inspect` and a notebook's `tool?` read them."""

from __future__ import annotations

import inspect
import pickle
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from ahvn_tools import Secret, ToolContext, Toolkit, ToolSpec, tool
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.signature import python_signature, python_type
from ahvn_tools.text import MAX_CHOICES


class Filter(BaseModel):
    field: str


class Named(ToolSpec):
    """A subclass of the user's."""


def search(
    query: str,
    user: str,
    context: ToolContext,
    kind: Literal["note", "task"] | None = None,
    filters: list[Filter] = [],
    token: Annotated[str, Secret] = "hunter2-hunter2",
    limit: Annotated[int, Field(ge=1)] = 10,
) -> list[str]:
    """Find notes.

    Args:
        query: What to look for.
    """
    return [query]


def of(properties: dict[str, Any], required: tuple[str, ...] = (), output_schema: Any = None) -> str:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return str(python_signature(ToolDefinition(name="f", input_schema=schema, output_schema=output_schema)))


def test_a_spec_has_the_signature_of_its_visible_parameters():
    spec = ToolSpec.from_function(search).bind("user", "session.user", "ann-the-secret")
    assert str(inspect.signature(spec)) == (
        "(query: str, kind: Optional[Literal['note', 'task']] = None, filters: list[dict[str, typing.Any]] = [], "
        "token: str = ..., limit: int = 10) -> list[str]"
    )


def test_a_binding_is_seen_at_once():
    spec = ToolSpec.from_function(search)
    assert list(inspect.signature(spec).parameters)[:2] == ["query", "user"]
    spec.bind("user")
    assert list(inspect.signature(spec).parameters)[:2] == ["query", "kind"]
    spec.unbind("user")
    assert list(inspect.signature(spec).parameters)[:2] == ["query", "user"]


def test_a_tool_of_a_toolkit_has_the_signature_and_the_name_there():
    kit = Toolkit("k").add(search, prefix="my_").bind("user")
    spec = kit["my_search"]
    assert spec.__name__ == "my_search"
    assert "user" not in inspect.signature(spec).parameters
    assert inspect.getdoc(spec).startswith("Find notes.")


@pytest.mark.parametrize("make", [ToolSpec.from_function, Named.from_function, tool])
def test_a_spec_has_the_name_and_the_docstring_of_its_tool(make):
    spec = make(search).bind("user", default="ann-the-secret")
    assert spec.__name__ == "search"
    assert spec.__doc__ == spec.docstring
    assert "query (str): What to look for." in spec.__doc__
    assert "secret" not in spec.__doc__ + str(inspect.signature(spec))
    assert "hunter2" not in spec.__doc__ + str(inspect.signature(spec))


def test_classes_keep_their_own_docstring_name_and_signature():
    assert ToolSpec.__doc__.startswith("One tool: define it once")
    assert Named.__doc__ == "A subclass of the user's."
    assert type("Silent", (ToolSpec,), {}).__doc__ is None
    assert (ToolSpec.__name__, Named.__name__) == ("ToolSpec", "Named")
    assert list(inspect.signature(Named).parameters) == ["template", "body", "compiled"]
    with pytest.raises(AttributeError, match="'Named' has no attribute '__signature__'"):
        _ = Named.__signature__


def test_a_pickled_spec_has_them_too():
    spec = pickle.loads(pickle.dumps(ToolSpec.from_function(search)))
    assert (spec.__name__, spec.__doc__) == ("search", ToolSpec.from_function(search).docstring)


def test_a_required_parameter_after_an_optional_one_is_keyword_only():
    properties = {"a": {"type": "integer", "default": 1}, "b": {"type": "string"}, "c": {"type": "boolean"}}
    assert of(properties, ("b",)) == "(a: int = 1, *, b: str, c: bool = ...) -> Any"


def test_names_that_python_does_not_allow_are_changed():
    assert of({"class": {}, "a-b": {}}, ("class", "a-b")) == "(class_: Any, a_b: Any) -> Any"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "number"}, "float"),
        ({"const": 3}, "Literal[3]"),
        ({"enum": list(range(MAX_CHOICES + 1)), "type": "integer"}, "int"),
        ({"enum": [1.5, 2.5]}, "Any"),
        ({"type": ["integer", "null"]}, "int | None"),
        ({"anyOf": [{"type": "integer"}, {}]}, "Any"),
        ({"oneOf": []}, "Any"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}, "list[list[str]]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"type": "object", "properties": {"x": {}}, "additionalProperties": False}, "dict[str, typing.Any]"),
        ({"$ref": "#/$defs/missing"}, "Any"),
        ({"type": {"not": "a name"}}, "Any"),
        (True, "Any"),
    ],
)
def test_a_schema_has_a_python_type(schema, expected):
    assert of({"x": schema}, ("x",)) == f"(x: {expected}) -> Any"


def test_a_type_that_contains_itself_ends():
    tree = {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    assert python_type(tree, {"$defs": {"Tree": tree}}) == list[list[list[list[list[Any]]]]]


def test_the_value_of_a_single_field_is_what_a_call_returns():
    wrapped = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    assert of({}, (), wrapped) == "() -> int"
    assert of({}, (), {"type": "object", "properties": {"a": {}, "b": {}}}) == "() -> dict[str, typing.Any]"
