"""Conversion of results by code of a tool's author: serializers, computed fields, encoders, and readers of content."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, PlainSerializer, WrapSerializer, computed_field, field_serializer, model_serializer

from ahvn_tools import ToolResult, ToolSpec
from ahvn_tools.encoders import registry
from tests.execution.entry_points import RESULT_ENTRY_POINTS, EntryPoint, combinations

hooks: list[Callable[[], Any]] = []
"""What the foreign code calls."""


def call_hook() -> str:
    for hook in hooks:
        hook()
    return "value"


class FieldSerializer(BaseModel):
    x: str = "x"

    @field_serializer("x")
    def dump_x(self, _: str) -> str:
        return call_hook()


class WholeSerializer(BaseModel):
    x: str = "x"

    @model_serializer
    def dump(self) -> dict[str, str]:
        return {"x": call_hook()}


class Computed(BaseModel):
    y: str = "y"

    @computed_field
    @property
    def x(self) -> str:
        return call_hook()


class Outer(BaseModel):
    inner: list[FieldSerializer] = [FieldSerializer()]


@dataclass
class Custom:
    """A class with an encoder."""


class Plain(BaseModel):
    x: int = 1
    more: dict[str, Any] = {}


Slow = Annotated[str, PlainSerializer(lambda _: call_hook(), return_type=str)]
Wrapped = Annotated[str, WrapSerializer(lambda _, __: call_hook(), return_type=str)]

RETURNED: dict[str, tuple[Any, Any]] = {
    "field serializer": (FieldSerializer, FieldSerializer()),
    "model serializer": (WholeSerializer, WholeSerializer()),
    "computed field": (Computed, Computed()),
    "nested": (Outer, Outer()),
    "plain serializer": (Slow, "text"),
    "wrap serializer": (list[Wrapped], ["text"]),
    "union": (int | FieldSerializer, FieldSerializer()),
    "no annotation": (Any, FieldSerializer()),
    "inside of any": (dict[str, Any], {"a": [FieldSerializer()]}),
    "in a plain model": (Plain, Plain(more={"a": FieldSerializer()})),
    "encoder": (Any, Custom()),
    "encoder in a list": (Any, [Custom()]),
    "in a result": (Any, ToolResult(FieldSerializer())),
}


@pytest.fixture(autouse=True)
def _setup(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_registered", {Custom: lambda _: call_hook()})
    yield
    hooks.clear()


def sync_spec(annotation: Any, returned: Any, **options: Any) -> ToolSpec:
    def subject() -> Any:
        return returned

    subject.__annotations__["return"] = annotation
    return ToolSpec.from_function(subject, **options)


def async_spec(annotation: Any, returned: Any, **options: Any) -> ToolSpec:
    async def subject() -> Any:
        return returned

    subject.__annotations__["return"] = annotation
    return ToolSpec.from_function(subject, **options)


def sync_stream(annotation: Any, returned: Any, **options: Any) -> ToolSpec:
    def subject() -> Any:
        yield returned

    subject.__annotations__["return"] = Iterator[annotation]
    return ToolSpec.from_function(subject, **options)


def async_stream(annotation: Any, returned: Any, **options: Any) -> ToolSpec:
    async def subject() -> Any:
        yield returned

    subject.__annotations__["return"] = AsyncIterator[annotation]
    return ToolSpec.from_function(subject, **options)


SPECS = {"sync": sync_spec, "async": async_spec, "sync stream": sync_stream, "async stream": async_stream}


@combinations(returned=RETURNED, make=SPECS, entry_point=RESULT_ENTRY_POINTS)
def test_what_it_raises_is_an_invalid_result(
    returned: tuple[Any, Any], make: Callable[..., ToolSpec], entry_point: EntryPoint
) -> None:
    def fail() -> None:
        raise ValueError("hunter2")

    hooks.append(fail)
    result = entry_point(make(*returned))
    assert (result.error.code, result.text) == ("invalid_result", "The tool returned an invalid result.")


@combinations(returned=RETURNED, make=SPECS, entry_point=RESULT_ENTRY_POINTS)
def test_it_makes_the_value(returned: tuple[Any, Any], make: Callable[..., ToolSpec], entry_point: EntryPoint) -> None:
    assert "value" in entry_point(make(*returned)).text
