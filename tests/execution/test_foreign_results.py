"""Conversion of results by code of a tool's author: serializers, computed fields, encoders, and readers of content.

It may block, and raise anything. It stops no event loop, and its time is the call's.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, PlainSerializer, WrapSerializer, computed_field, field_serializer, model_serializer

from ahvn_tools import ToolContext, Toolkit, ToolResult, ToolSpec
from ahvn_tools.encoders import registry
from ahvn_tools.schema.output import Output
from tests.execution.entry_points import RESULT_ENTRY_POINTS, WAIT, EntryPoint, combinations, run
from tests.ids import named

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


async def passing(call: Any, next: Any) -> Any:
    return await next(call)


async def acall(entry_point: str, spec: ToolSpec) -> Any:
    """Call a spec, and return its value."""
    if entry_point == "acall":
        return await spec.acall()
    if entry_point == "aexec":
        return (await spec.aexec()).value
    if entry_point == "astream":
        return [result async for result in spec.astream()][-1].value
    if entry_point == "served":
        return (await spec.to_fastmcp().run({})).content[0].text
    return await Toolkit("kit", middleware=[passing]).add(spec).acall("subject")


@combinations(
    returned=RETURNED,
    make=SPECS,
    entry_point=["acall", "aexec", "astream", "toolkit", "served"],
    timeout=[None, 60.0],
)
async def test_it_does_not_stop_the_event_loop(
    returned: tuple[Any, Any], make: Callable[..., ToolSpec], entry_point: str, timeout: float | None
) -> None:
    started, released = asyncio.Event(), threading.Event()
    loop, was_released = asyncio.get_running_loop(), []

    def wait() -> None:
        loop.call_soon_threadsafe(started.set)
        was_released.append(released.wait(WAIT))

    spec = make(*returned, timeout=timeout)
    _ = spec.definition.output_schema  # made before: for a schema, pydantic serializes defaults
    hooks.append(wait)
    call = asyncio.create_task(acall(entry_point, spec))
    await asyncio.wait_for(started.wait(), WAIT)
    released.set()
    assert "value" in str(await call)
    assert all(was_released)


@combinations(returned=RETURNED, make=SPECS, entry_point=RESULT_ENTRY_POINTS)
def test_its_time_is_limited_by_the_timeout(
    returned: tuple[Any, Any], make: Callable[..., ToolSpec], entry_point: EntryPoint
) -> None:
    released = threading.Event()
    hooks.append(lambda: released.wait(30))
    try:
        result = entry_point(make(*returned, timeout=0.05))
    finally:
        released.set()
    assert result.error.code == "timeout"


@combinations(
    returned=RETURNED,
    make=SPECS,
    entry_point=RESULT_ENTRY_POINTS,
    error={type(error).__name__: error for error in (RecursionError(), ValueError("hunter2"))},
    timeout=[None, 30.0],
)
def test_what_it_raises_is_an_invalid_result(
    returned: tuple[Any, Any],
    make: Callable[..., ToolSpec],
    entry_point: EntryPoint,
    error: BaseException,
    timeout: float | None,
) -> None:
    def fail() -> None:
        raise error

    hooks.append(fail)
    result = entry_point(make(*returned, timeout=timeout))
    assert (result.error.code, result.text) == ("invalid_result", "The tool returned an invalid result.")


async def test_what_a_tool_appends_does_not_stop_the_event_loop() -> None:
    def body(context: ToolContext) -> str:
        context.append_output(FieldSerializer())
        return "done"

    hooks.append(lambda: threads.append(threading.current_thread()))
    threads: list[threading.Thread] = []
    results = [result async for result in Toolkit("kit").add(body).astream("body")]
    assert [result.value for result in results] == [{"x": "value"}, "done"]
    assert threading.main_thread() not in threads


def test_a_sync_body_and_its_serializers_run_in_one_thread() -> None:
    threads: list[threading.Thread] = []
    hooks.append(lambda: threads.append(threading.current_thread()))

    def body() -> FieldSerializer:
        threads.append(threading.current_thread())
        return FieldSerializer()

    assert run(ToolSpec.from_function(body).acall) == "value"
    assert (len(threads), len({*threads})) == (2, 1)


class Point(BaseModel):
    x: int = 1


class Sub(Point):
    y: int = 2


@dataclass
class Pair:
    a: int
    b: Point


PLAIN = {
    "number": (float, 1.5),
    "None": (int | None, None),
    "list": (list[int], [1, 2]),
    "object": (dict[str, Any], {"a": [1, {"b": "c"}]}),
    "no annotation": (Any, {"a": [1, (2, {"b"})], 1: Decimal(1)}),
    "model": (Point, Point()),
    "models": (list[Point], [Point(), Point()]),
    "model with any data": (Plain, Plain(more={"a": [1]})),
    "dataclass": (Pair, Pair(1, Point())),
    "result": (Any, ToolResult({"a": 1}, {"a": 1})),
}


@pytest.mark.parametrize(("annotation", "returned"), PLAIN.values(), ids=PLAIN)
def test_plain_results_are_converted_in_the_event_loop(annotation: Any, returned: Any) -> None:
    assert not Output(annotation).may_block(returned)


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("annotation", "returned"),
    [(Any, object()), (Any, Point()), (Point, Sub()), (Any, LOOP), (list[int], [0] * 20_000), (Any, {(1, "a"): 1})],
    ids=named,
)
def test_other_results_are_converted_in_a_thread(annotation: Any, returned: Any) -> None:
    assert Output(annotation).may_block(returned)
