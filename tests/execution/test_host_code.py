"""Code of the tool's author and its host around a body: resolvers, states, validators; what they raise."""

from __future__ import annotations

import time
from collections import UserDict
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from ahvn_tools import ToolSpec
from ahvn_tools.execution import runner
from tests.execution.entry_points import RESULT_ENTRY_POINTS, EntryPoint, combinations

Hook = Callable[[], Any]
"""What the code does: it waits, or raises."""


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
RAISED = ValueError("hunter2")


def fail() -> None:
    raise RAISED


@combinations(source=SOURCES, body=BODIES, entry_point=RESULT_ENTRY_POINTS, timeout=[None, 30.0])
def test_what_it_raises_is_an_error_of_the_call(
    source: Callable[..., ToolSpec], body: Any, entry_point: EntryPoint, timeout: float | None
) -> None:
    result = entry_point(source(body, fail, timeout=timeout))
    assert result.error.code in {"unbound_state", "invalid_parameters"}
    assert "hunter2" not in result.error.message


@combinations(body=BODIES, entry_point=RESULT_ENTRY_POINTS)
def test_its_time_counts_towards_the_timeout(body: Any, entry_point: EntryPoint) -> None:
    spec = with_resolver(body, lambda: time.sleep(0.06), timeout=0.05)
    assert entry_point(spec).error.code == "timeout"


async def test_the_body_has_the_time_that_is_left() -> None:
    spec = with_resolver(async_body, lambda: time.sleep(0.01), timeout=30.0)
    values, seconds = await runner.prepare(spec.compiled.plan, (), {}, spec.state_scopes)
    assert values == {"token": "value"}
    assert 0 < seconds < 29.995


class Handle:
    """An object whose text and repr differ."""

    def __str__(self) -> str:
        return "the text of a handle"

    def __repr__(self) -> str:
        return "Handle(of='hunter2')"


@combinations(
    body=BODIES,
    entry_point=RESULT_ENTRY_POINTS,
    kind={kind.__name__: kind for kind in (ValueError, KeyError, RuntimeError)},
)
def test_a_bound_object_as_an_argument_of_an_exception_is_masked(
    body: Any, entry_point: EntryPoint, kind: type[Exception]
) -> None:
    def sync_subject(handle: Any) -> None:
        raise kind(handle)

    async def async_subject(handle: Any) -> None:
        raise kind(handle)

    subject = async_subject if body is async_body else sync_subject
    spec = ToolSpec.from_function(subject, binds={"handle": "handle"})
    spec.state = {"handle": Handle()}
    assert entry_point(spec).error.message == f"{kind.__name__}: <handle>"
