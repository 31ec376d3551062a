"""The texts of a function's parameters are those of its JSON Schema, which is not generated for them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import inspect
import pathlib
import uuid
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, PlainSerializer, WithJsonSchema
from typing_extensions import TypedDict

from ahvn_tools import ToolSpec
from ahvn_tools.schema.parameter_texts import schema_texts
from tests.property_checks import EXAMPLES, run_examples


class Place(BaseModel):
    """Where something is."""

    city: str = Field(description="Its city.")
    near: list[Place] = []


class Color(enum.Enum):
    """A color."""

    RED = "red"


class Box(TypedDict):
    """A box."""

    width: int


@dataclasses.dataclass
class Point:
    """A point."""

    x: int


class Pair(NamedTuple):
    """Two numbers."""

    left: int
    right: int


LEAVES: list[Any] = [
    str, int, float, bool, bytes, Any, None, dt.date, dt.datetime, dt.timedelta, uuid.UUID, pathlib.Path,
    Literal["a", 1], Place, Color, Box, Point, Pair,
    Annotated[str, WithJsonSchema({"type": "string", "description": "By hand."})],
    Annotated[int, AfterValidator(abs)],
    Annotated[int, PlainSerializer(str)],
]  # fmt: skip

types = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        inner.map(lambda kind: list[kind]),
        inner.map(lambda kind: dict[str, kind]),
        inner.map(lambda kind: dict[Annotated[str, Field(min_length=1, description="A key.")], kind]),
        inner.map(lambda kind: set[str] | list[kind]),
        inner.map(lambda kind: kind | None if isinstance(kind, type) else Any),
        inner.map(lambda kind: tuple[kind, int]),
        inner.map(lambda kind: Annotated[kind, Field(description="What it is.")]),
        inner.map(lambda kind: Annotated[kind, Field(title="A title", examples=["one"])]),
        inner.map(lambda kind: Annotated[kind, "A text alone."]),
    ),
    max_leaves=4,
)


def make_tool(kinds: list[Any], described: bool, has_defaults: bool) -> ToolSpec:
    def function(**arguments: Any) -> None:
        """Do something."""

    names = [f"parameter_{number}" for number in range(len(kinds))]
    default = None if has_defaults else inspect.Parameter.empty
    function.__signature__ = inspect.Signature([
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, kind in zip(names, kinds, strict=True)
    ])  # fmt: skip
    function.__annotations__ = dict(zip(names, kinds, strict=True))
    if described:
        function.__doc__ = "Do something.\n\nArgs:\n" + "".join(f"    {name}: About {name}.\n" for name in names)
    return ToolSpec.from_function(function)


@EXAMPLES
def test_the_texts_are_those_of_the_schema(max_examples):
    def check(kinds: list[Any], described: bool, has_defaults: bool, bound: int) -> None:
        inputs = make_tool(kinds, described, has_defaults).compiled.template.inputs
        hidden = frozenset(list(inputs.parameters)[:bound]) | inputs.parameters_without_schema
        assert sorted(set(inputs.texts(hidden))) == sorted(set(schema_texts(inputs.schema(hidden))))

    kinds, flags = st.lists(types, max_size=4), st.booleans()
    run_examples(max_examples, check, kinds, flags, flags, st.integers(0, 4))


@pytest.mark.parametrize("kind", [str, Annotated[int, Field(description="How many.", ge=1)], list[str] | None])
def test_no_schema_is_generated_for_simple_types(kind, monkeypatch):
    inputs = make_tool([kind], described=True, has_defaults=True).compiled.template.inputs
    monkeypatch.setattr(type(inputs), "schema", None)
    assert "parameter_0" in inputs.texts(frozenset())
