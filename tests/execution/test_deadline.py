"""Timeouts: a call returns on time, whatever its body does."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest

from ahvn_tools import ToolSpec, tool
from ahvn_tools.errors import DefinitionError, ToolCallError, ToolTimeoutError
from ahvn_tools.execution import deadline
from tests.execution.entry_points import DOORS, RESULT_DOORS, VALUE_DOORS, WAIT, Door, run, until

each_door = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
each_value_door = pytest.mark.parametrize("door", VALUE_DOORS.values(), ids=VALUE_DOORS)
each_result_door = pytest.mark.parametrize("door", RESULT_DOORS.values(), ids=RESULT_DOORS)


@pytest.fixture
def release() -> Any:
    event = threading.Event()
    yield event
    event.set()


def hanging(kind: str, release: threading.Event) -> Any:
    """Return a body that hangs."""

    def function() -> Any:
        release.wait(30)

    async def coroutine() -> Any:
        await asyncio.sleep(30)

    def generator() -> Any:
        release.wait(30)
        yield 1

    async def async_generator() -> Any:
        await asyncio.sleep(30)
        yield 1

    def gives_coroutine() -> Any:
        return coroutine()

    async def gives_generator() -> Any:
        return generator()

    return locals()[kind]


each_kind = pytest.mark.parametrize(
    "kind", ["function", "coroutine", "generator", "async_generator", "gives_coroutine", "gives_generator"]
)


@each_kind
@each_value_door
def test_call_raises_a_timeout(kind: str, door: Door, release: threading.Event) -> None:
    with pytest.raises(ToolTimeoutError, match=r"'subject' did not finish within 0\.05 seconds") as caught:
        door(ToolSpec.from_function(hanging(kind, release), name="subject", timeout=0.05))
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, ToolCallError)
    assert (caught.value.code, caught.value.timeout, caught.value.tool) == ("timeout", 0.05, "subject")


@each_kind
@each_result_door
def test_exec_tells_a_timeout(kind: str, door: Door, release: threading.Event) -> None:
    result = door(ToolSpec.from_function(hanging(kind, release), name="subject", timeout=0.05))
    assert (result.error.code, result.is_last) == ("timeout", True)
    assert 0.05 <= result.meta["duration"] < 20


@each_kind
def test_served_a_timeout_is_an_error_that_says_so(kind: str, release: threading.Event) -> None:
    spec = ToolSpec.from_function(hanging(kind, release), name="subject", timeout=0.05)
    result = run(spec.to_fastmcp().run, {})
    assert result.is_error
    assert "did not finish within 0.05 seconds" in result.content[0].text


@each_door
def test_a_timeout_cancels_an_async_body(door: Door) -> None:
    cancelled = threading.Event()

    @tool(timeout=0.05)
    async def body() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with contextlib.suppress(ToolTimeoutError):
        door(body)
    assert cancelled.is_set()


@each_result_door
def test_a_body_that_refuses_to_be_cancelled_is_left_behind_and_counted(door: Door) -> None:
    release = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    @tool(timeout=0.05)
    async def stubborn() -> None:
        loops.append(asyncio.get_running_loop())
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async def main() -> None:
        result = await stubborn.aexec()
        assert (result.error.code, deadline.count_abandoned_tasks()) == ("timeout", 1)
        release.set()

    if door in (RESULT_DOORS["exec"], RESULT_DOORS["stream"]):
        assert door(stubborn).error.code == "timeout"
        assert deadline.count_abandoned_tasks() == 1
        loops[0].call_soon_threadsafe(release.set)
    else:
        run(main)
    assert until(lambda: deadline.count_abandoned_tasks() == 0)


@pytest.mark.parametrize("is_failing", [False, True])
@each_result_door
def test_a_body_that_blocks_its_loop_past_the_deadline_is_late_all_the_same(door: Door, is_failing: bool) -> None:
    @tool(timeout=0.05)
    async def blocking() -> str:
        time.sleep(0.1)  # noqa: ASYNC251  # it blocks the loop on purpose
        if is_failing:
            raise ValueError("after the deadline")
        return "after the deadline"

    assert door(blocking).error.code == "timeout"


@each_value_door
def test_a_call_of_a_body_that_blocks_its_loop_past_the_deadline_raises(door: Door) -> None:
    @tool(timeout=0.05)
    async def blocking() -> str:
        time.sleep(0.1)  # noqa: ASYNC251  # it blocks the loop on purpose
        return "after the deadline"

    with pytest.raises(ToolTimeoutError):
        door(blocking)


@each_result_door
def test_a_timeout_error_of_the_tools_own_is_a_tool_error(door: Door) -> None:
    for error in (TimeoutError("mine"), ToolTimeoutError("of another call")):

        def function(error: BaseException = error) -> None:
            raise error

        async def coroutine(error: BaseException = error) -> None:
            raise error

        for body in (function, coroutine):
            spec = ToolSpec.from_function(body, timeout=30.0, binds={"error": "error"})
            assert door(spec).error.code == "tool_error"


@each_door
def test_a_quick_body_is_not_touched_by_its_timeout(door: Door) -> None:
    @tool(timeout=30.0)
    def quick() -> int:
        return 1

    made = door(quick)
    assert getattr(made, "value", made) == 1


@pytest.mark.parametrize(
    "timeout", [0, -1, 0.0, float("inf"), float("nan"), float("-inf"), 1e18, True, False, "5", 5j, [1]], ids=repr
)
def test_a_timeout_is_a_number_of_seconds_above_zero(timeout: Any) -> None:
    with pytest.raises(DefinitionError, match="timeout"):
        ToolSpec.from_function(lambda: 1, name="subject", timeout=timeout)


def test_a_timeout_needs_a_thread_to_leave() -> None:
    with pytest.raises(DefinitionError, match="run_in_thread"):
        ToolSpec.from_function(lambda: 1, name="subject", timeout=1, run_in_thread=False)


@pytest.mark.parametrize("timeout", [1, 1e-3, 1e9])
def test_a_timeout_may_be_any_such_number(timeout: float) -> None:
    assert ToolSpec.from_function(lambda: 1, name="subject", timeout=timeout).timeout == timeout


# async resolvers


def resolved(resolver: Any, *, is_async: bool = False, **options: Any) -> ToolSpec:
    """Make a spec with one parameter that a resolver gives."""

    def function(token: str) -> str:
        return token

    async def coroutine(token: str) -> str:
        return token

    made = ToolSpec.from_function(coroutine if is_async else function, name="subject", **options)
    return made.bind("token", "session.token", resolver=resolver)


each_body = pytest.mark.parametrize("is_async", [False, True], ids=["sync body", "async body"])
each_timeout = pytest.mark.parametrize("timeout", [None, 30.0])


@each_door
@each_body
@each_timeout
def test_an_async_resolver_is_awaited_in_every_caller(door: Door, is_async: bool, timeout: float | None) -> None:
    async def fetch(state: Any) -> str:
        await asyncio.sleep(0)
        return f"token of {state['user']}"

    spec = resolved(fetch, is_async=is_async, timeout=timeout)
    spec.state["user"] = "ann"
    made = door(spec)
    assert getattr(made, "value", made) == "token of ann"


@each_result_door
@each_body
@each_timeout
@pytest.mark.parametrize("error", [ValueError("hunter2-secret"), TimeoutError("hunter2-secret")], ids=["error", "slow"])
def test_a_resolver_that_fails_leaves_the_parameter_unbound(
    door: Door, is_async: bool, timeout: float | None, error: Exception
) -> None:
    async def fetch() -> str:
        raise error

    result = door(resolved(fetch, is_async=is_async, timeout=timeout))
    assert result.error.code == "unbound_state"
    assert "hunter2" not in result.error.message


@each_result_door
@each_body
def test_a_resolver_that_hangs_is_a_timeout(door: Door, is_async: bool) -> None:
    async def fetch() -> str:
        await asyncio.sleep(30)
        return "late"

    result = door(resolved(fetch, is_async=is_async, timeout=0.05))
    assert (result.error.code, "resolver" in result.error.message) == ("timeout", True)


@each_result_door
def test_a_resolver_that_refuses_to_be_cancelled_is_a_timeout_all_the_same(door: Door) -> None:
    release = threading.Event()

    async def fetch() -> str:
        while not release.is_set():
            try:
                await asyncio.sleep(0.3)
            except asyncio.CancelledError:
                continue
            release.set()
        return "late"

    assert door(resolved(fetch, timeout=0.05)).error.code == "timeout"


@each_result_door
@each_body
@each_timeout
def test_a_resolver_that_cancels_itself_is_no_cancellation_of_the_caller(
    door: Door, is_async: bool, timeout: float | None
) -> None:
    async def fetch() -> str:
        raise asyncio.CancelledError

    assert door(resolved(fetch, is_async=is_async, timeout=timeout)).error.code == "cancelled"


@each_timeout
async def test_a_caller_who_is_cancelled_while_a_resolver_runs_is_cancelled(timeout: float | None) -> None:
    started = asyncio.Event()

    async def fetch() -> str:
        started.set()
        await asyncio.sleep(60)
        return "late"

    task = asyncio.create_task(resolved(fetch, timeout=timeout).aexec())
    await asyncio.wait_for(started.wait(), WAIT)
    task.cancel()
    await asyncio.wait({task}, timeout=WAIT)
    assert task.cancelled()
