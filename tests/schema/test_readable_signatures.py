"""Signatures of which parts were lost: wrappers, unpacked options, aliases and texts inside of annotations."""

from __future__ import annotations

import functools
import pickle
from typing import Annotated, Any, Literal, NotRequired, Optional, Required, TypedDict, Unpack

import pytest
from pydantic import Field

from ahvn_tools import Secret, Toolkit, ToolSpec
from ahvn_tools.errors import DefinitionError


def add(a: int, b: int = 2) -> int:
    """Add.

    Args:
        a: One.
        b: Two.
    """
    return a + b


@functools.wraps(add)
def narrow(a):
    return add(a)


@functools.wraps(add)
def other_default(a, b=5):
    return add(a, b)


@functools.wraps(add)
def passing(*args, **kwargs):
    return add(*args, **kwargs)


@functools.wraps(add)
def by_position(*args):
    return add(*args)


@functools.wraps(add)
def with_more(token, *args, **kwargs):
    return f"{token}{add(*args, **kwargs)}"


@pytest.mark.parametrize(
    ("function", "names", "arguments", "value"),
    [
        (narrow, ["a"], {"a": 1}, 3),
        (other_default, ["a", "b"], {"a": "1"}, 6),
        (passing, ["a", "b"], {"a": 1, "b": 3}, 4),
        (by_position, ["a", "b"], {"a": 1, "b": 3}, 4),
        (by_position, ["a", "b"], {"a": 1}, 3),
        (with_more, ["token", "a", "b"], {"token": "x", "a": 1}, "x3"),
    ],
)
def test_a_wrapper_takes_what_it_passes_on(function, names, arguments, value):
    spec = ToolSpec.from_function(function, output="raw")
    assert list(spec.params) == names
    assert spec.params["a"] == {"type": "integer", "description": "One."}
    assert spec(**arguments) == value


def test_a_method_may_be_a_narrower_wrapper():
    class Calculator:
        def add(self, a: int, b: int = 2) -> int:
            return a + b

        @functools.wraps(add)
        def narrow(self, a):
            return self.add(a)

    spec = ToolSpec.from_function(Calculator().narrow)
    assert list(spec.params) == ["a"]
    assert spec(a=1) == 3


class Options(TypedDict, total=False):
    size: Required[int]
    unit: Annotated[str, "The unit."]
    kind: NotRequired[Literal["a", "b"]]


def unpacking(query: str, **options: Unpack[Options]) -> dict[str, Any]:
    """Search.

    Args:
        query: What to look for.

    Keyword Args:
        size: How many.
    """
    return {"query": query, **options}


class TestUnpackedOptions:
    def test_each_member_is_a_parameter(self):
        schema = ToolSpec.from_function(unpacking).definition.input_schema
        assert schema == {
            "additionalProperties": False,
            "properties": {
                "query": {"type": "string", "description": "What to look for."},
                "size": {"type": "integer", "description": "How many."},
                "unit": {"type": "string", "description": "The unit."},
                "kind": {"enum": ["a", "b"], "type": "string"},
            },
            "required": ["query", "size"],
            "type": "object",
        }

    @pytest.mark.parametrize("options", [{}, {"unit": "m"}, {"unit": "m", "kind": "b"}])
    def test_the_body_gets_the_members_of_the_call(self, options):
        arguments = {"query": "tea", "size": 3, **options}
        spec = ToolSpec.from_function(unpacking)
        assert spec(**arguments) == arguments
        assert pickle.loads(pickle.dumps(spec))(**arguments) == arguments
        kit = Toolkit("kit")
        kit.add(spec)
        assert kit.call("unpacking", arguments) == arguments

    def test_a_null_for_an_optional_member_is_absent(self):
        assert ToolSpec.from_function(unpacking)(query="tea", size=3, unit=None) == {"query": "tea", "size": 3}

    def test_others_are_refused(self):
        text = ToolSpec.from_function(unpacking).exec(query="tea", size="much", colour=1).text
        assert "unknown argument 'colour'" in text
        assert "'size' should be a valid integer" in text

    def test_a_member_can_be_bound(self):
        spec = ToolSpec.from_function(unpacking).bind("unit", default="km")
        assert list(spec.params) == ["query", "size", "kind"]
        assert spec(query="tea", size=3) == {"query": "tea", "size": 3, "unit": "km"}

    def test_an_optional_member_can_be_bound_without_a_value(self):
        spec = ToolSpec.from_function(unpacking, binds={"unit": "unit"})
        assert spec(query="tea", size=3) == {"query": "tea", "size": 3}


class TestAliases:
    @pytest.fixture(params=["annotated", "default"])
    def function(self, request):
        def annotated(where: Annotated[str, Field(alias="city")] = "Paris") -> str:
            return where

        def default(where: str = Field("Paris", alias="city")) -> str:
            return where

        made = {"annotated": annotated, "default": default}[request.param]
        made.__doc__ = "Look.\n\nArgs:\n    where: The place.\n"
        return made

    def test_the_text_of_the_docstring_is_kept(self, function):
        spec = ToolSpec.from_function(function)
        assert spec.params["city"]["description"] == "The place."

    @pytest.mark.parametrize("name", ["city", "where"])
    def test_a_change_by_either_name_applies(self, function, name):
        spec = ToolSpec.from_function(function, arguments={name: {"description": "A town.", "examples": ["Oslo"]}})
        assert spec.params["city"]["description"] == "A town."
        assert spec.params["city"]["examples"] == ["Oslo"]
        assert spec(city="Rome") == "Rome"

    def test_another_name_is_an_error(self, function):
        with pytest.raises(DefinitionError, match="There is no argument 'town' to change"):
            ToolSpec.from_function(function, arguments={"town": {"description": "A town."}})


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (Annotated[int, "A text.", Field(ge=1)], {"minimum": 1, "type": "integer", "description": "A text."}),
        (Annotated[int, Field(ge=1), "A text."], {"minimum": 1, "type": "integer", "description": "A text."}),
        (
            Annotated[int, "A text.", Field(description="Another.")],
            {"type": "integer", "description": "Another."},
        ),
        (
            Optional[Annotated[str, "A text."]],
            {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "A text."},
        ),
        (
            Annotated[str, "A text.", Field(min_length=1)] | None,
            {"anyOf": [{"minLength": 1, "type": "string"}, {"type": "null"}], "description": "A text."},
        ),
        (
            list[Annotated[str, "A text."]],
            {"type": "array", "items": {"type": "string", "description": "A text."}},
        ),
        (
            dict[str, Optional[Annotated[int, "A text."]]],
            {
                "type": "object",
                "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "A text."},
            },
        ),
        (
            Annotated[Optional[Annotated[str, "Inner."]], "Outer."],
            {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "Outer."},
        ),
    ],
)
def test_a_text_in_an_annotation_is_a_description(annotation, expected):
    def take(value: Any) -> None:
        """Take it."""

    take.__annotations__["value"] = annotation
    assert ToolSpec.from_function(take).params["value"] == expected


def test_a_secret_with_a_text_stays_secret():
    def take(token: Annotated[str, "The token.", Field(min_length=2), Secret]) -> None:
        """Take it."""

    spec = ToolSpec.from_function(take)
    assert spec.params["token"]["description"] == "The token."
    assert spec.compiled.template.inputs.parameters["token"].is_secret
