"""Code of the tool's author and its host around a body: resolvers, states, validators, texts of exceptions.

It may block, and raise anything. It stops no event loop, and its time is the call's.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import UserDict
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field, PlainSerializer, create_model, field_serializer

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.execution import runner
from ahvn_tools.middleware.cache import cache
from tests.execution.entry_points import RESULT_ENTRY_POINTS, WAIT, EntryPoint, combinations, run
from tests.ids import named

Hook = Callable[[], Any]
"""What the foreign code does: it waits, or raises."""


def sync_body(token: str) -> str:
    return token


async def async_body(token: str) -> str:
    return token


class SlowMapping(UserDict[str, Any]):
    """A mapping that calls a function whenever it is read."""

    def __init__(self, hook: Hook) -> None:
        super().__init__(token="value")
        self._hook = hook

    def __getitem__(self, key: str) -> Any:
        self._hook()
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[str]:
        self._hook()
        return super().__iter__()


class SlowObject:
    """An object with a property that calls a function."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    @property
    def token(self) -> str:
        self._hook()
        return "value"


def with_resolver(body: Callable[..., Any], hook: Hook, **options: Any) -> ToolSpec:
    def resolve() -> str:
        hook()
        return "value"

    return ToolSpec.from_function(body, name="subject", **options).bind("token", resolver=resolve)


def with_resolver_of_state(body: Callable[..., Any], hook: Hook, **options: Any) -> ToolSpec:
    def resolve(state: Any) -> str:
        hook()
        return str(state["token"])

    spec = ToolSpec.from_function(body, name="subject", **options).bind("token", resolver=resolve)
    spec.state = {"token": "value"}
    return spec


def with_mapping(body: Callable[..., Any], hook: Hook, **options: Any) -> ToolSpec:
    spec = ToolSpec.from_function(body, name="subject", **options).bind("token")
    spec.state = SlowMapping(hook)
    return spec


def with_nested_mapping(body: Callable[..., Any], hook: Hook, **options: Any) -> ToolSpec:
    spec = ToolSpec.from_function(body, name="subject", **options).bind("token", "user.token")
    spec.state = {"user": SlowMapping(hook)}
    return spec


def with_property(body: Callable[..., Any], hook: Hook, **options: Any) -> ToolSpec:
    spec = ToolSpec.from_function(body, name="subject", **options).bind("token", "user.token")
    spec.state = {"user": SlowObject(hook)}
    return spec


def validated(body: Callable[..., Any], hook: Hook, **options: Any) -> ToolSpec:
    def check(value: str) -> str:
        hook()
        return value

    def sync_subject(token: Annotated[str, AfterValidator(check)]) -> str:
        return token

    async def async_subject(token: Annotated[str, AfterValidator(check)]) -> str:
        return token

    return ToolSpec.from_function(async_subject if body is async_body else sync_subject, name="subject", **options)


def with_validator_of_bound(body: Callable[..., Any], hook: Hook, **options: Any) -> ToolSpec:
    return validated(body, hook, **options).bind("token", default="value")


def with_default_factory(body: Callable[..., Any], hook: Hook, **options: Any) -> ToolSpec:
    def make() -> str:
        hook()
        return "value"

    def sync_subject(token: str = Field(default_factory=make)) -> str:
        return token

    async def async_subject(token: str = Field(default_factory=make)) -> str:
        return token

    return ToolSpec.from_function(async_subject if body is async_body else sync_subject, name="subject", **options)


SOURCES = {
    "resolver": with_resolver,
    "resolver of the state": with_resolver_of_state,
    "mapping": with_mapping,
    "nested mapping": with_nested_mapping,
    "property": with_property,
    "validator of a bound value": with_validator_of_bound,
    "default factory": with_default_factory,
}
BODIES = {"sync body": sync_body, "async body": async_body}
ASYNC_ENTRY_POINTS = ["acall", "aexec", "astream", "toolkit", "cache"]


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
    middleware = [passing] if entry_point == "toolkit" else [cache(all_tools=True)]
    return await Toolkit("kit", middleware=middleware).add(spec).acall("subject")


@combinations(source=SOURCES, body=BODIES, entry_point=ASYNC_ENTRY_POINTS, timeout=[None, 60.0])
async def test_it_does_not_stop_the_event_loop(
    source: Callable[..., ToolSpec], body: Any, entry_point: str, timeout: float | None
) -> None:
    started, released = asyncio.Event(), threading.Event()
    loop, was_released = asyncio.get_running_loop(), []

    def wait() -> None:
        loop.call_soon_threadsafe(started.set)
        was_released.append(released.wait(WAIT))

    call = asyncio.create_task(acall(entry_point, source(body, wait, timeout=timeout)))
    await asyncio.wait_for(started.wait(), WAIT)
    released.set()
    assert await call == "value"
    assert all(was_released)


@combinations(source=SOURCES, body=BODIES, entry_point=RESULT_ENTRY_POINTS)
def test_its_time_is_limited_by_the_timeout(
    source: Callable[..., ToolSpec], body: Any, entry_point: EntryPoint
) -> None:
    released = threading.Event()
    try:
        result = entry_point(source(body, lambda: released.wait(30), timeout=0.05))
    finally:
        released.set()
    assert result.error.code == "timeout"


async def test_the_body_has_the_time_that_is_left() -> None:
    spec = with_resolver(sync_body, lambda: time.sleep(0.2), timeout=60.0)
    values, seconds = await runner.prepare(spec.compiled.plan, (), {}, spec.state_scopes)
    assert (values, seconds is not None and seconds <= 59.8) == ({"token": "value"}, True)


@combinations(body=BODIES)
async def test_a_plain_state_is_read_in_the_event_loop(body: Any) -> None:
    class User(BaseModel):
        token: str = "value"

    class Slots:
        __slots__ = ("token",)

        def __init__(self) -> None:
            self.token = "value"

    holders = [{"token": "value"}, User(), Slots(), [{"token": "value"}]]
    spec = ToolSpec.from_function(body)
    for holder in holders:
        spec.bind("token", "user[0].token" if isinstance(holder, list) else "user.token")
        spec.state = {"user": holder}
        assert spec.compiled.plan.prepare_without_blocking((), {}, spec.state_scopes) == {"token": "value"}


@pytest.mark.parametrize(
    "annotation", [int, str, list[int], dict[str, float], BaseModel, Annotated[int, Field(gt=1)]], ids=named
)
def test_validators_of_pydantic_run_in_the_event_loop(annotation: Any) -> None:
    def body(value: Any) -> None: ...

    body.__annotations__["value"] = annotation
    assert not ToolSpec.from_function(body).compiled.plan.may_block


@pytest.mark.parametrize("name", ["metadata", "serialization", "config", "default", "title"])
def test_a_validator_and_a_serializer_are_found_in_a_member_of_any_name(name: str) -> None:
    def body(value: Any) -> Any: ...

    kind = Annotated[str, AfterValidator(lambda text: text), PlainSerializer(lambda text: text)]
    body.__annotations__.update(dict.fromkeys(("value", "return"), create_model("Model", **{name: (kind, ...)})))
    plan = ToolSpec.from_function(body).compiled.plan
    assert (plan.may_block, plan.output.may_block("text")) == (True, True)


RAISED: dict[str, BaseException] = {type(error).__name__: error for error in (RecursionError(), ValueError("hunter2"))}


def raising(error: BaseException) -> Hook:
    def hook() -> None:
        raise error

    return hook


@combinations(source=SOURCES, body=BODIES, entry_point=RESULT_ENTRY_POINTS, error=RAISED, timeout=[None, 30.0])
def test_what_it_raises_is_an_error_of_the_call(
    source: Callable[..., ToolSpec], body: Any, entry_point: EntryPoint, error: BaseException, timeout: float | None
) -> None:
    result = entry_point(source(body, raising(error), timeout=timeout))
    assert result.error.code in {"unbound_state", "invalid_parameters"}
    assert "hunter2" not in result.error.message


@combinations(error=RAISED, body=BODIES, source=SOURCES)
def test_served_what_it_raises_is_an_error_of_the_call(
    error: BaseException, body: Any, source: Callable[..., ToolSpec]
) -> None:
    result = run(source(body, raising(error)).to_fastmcp().run, {})
    assert result.is_error


@combinations(error=RAISED, entry_point=RESULT_ENTRY_POINTS, body=BODIES)
def test_what_a_serializer_raises_is_an_invalid_result(
    error: BaseException, entry_point: EntryPoint, body: Any
) -> None:
    class Answer(BaseModel):
        text: str = "value"

        @field_serializer("text")
        def serialize(self, _text: str) -> Any:
            raise error

    def sync_subject() -> Any:
        return Answer()

    async def async_subject() -> Any:
        return Answer()

    result = entry_point(ToolSpec.from_function(async_subject if body is async_body else sync_subject))
    assert result.error.code == "invalid_result"


class TextError(Exception):
    """An exception whose text calls a function."""

    def __init__(self, hook: Hook) -> None:
        super().__init__()
        self._hook = hook

    def __str__(self) -> str:
        self._hook()
        return "the text"


def failing(body: Any, error: BaseException, **options: Any) -> ToolSpec:
    def sync_subject() -> None:
        raise error

    async def async_subject() -> None:
        raise error

    subject = async_subject if body is async_body else sync_subject
    return ToolSpec.from_function(subject, name="subject", **options)


@combinations(error=RAISED, body=BODIES, entry_point=RESULT_ENTRY_POINTS, timeout=[None, 30.0])
def test_a_text_that_raises_is_replaced(
    error: BaseException, body: Any, entry_point: EntryPoint, timeout: float | None
) -> None:
    result = entry_point(failing(body, TextError(raising(error)), timeout=timeout))
    assert result.error.message == "TextError: its text cannot be read"
