"""Timeouts: a call returns in time whatever its body does."""

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
from tests.execution.entry_points import (
    ENTRY_POINTS,
    RESULT_ENTRY_POINTS,
    VALUE_ENTRY_POINTS,
    WAIT,
    EntryPoint,
    combinations,
    run,
    until,
)

each_entry_point = pytest.mark.parametrize("entry_point", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
each_value_entry_point = pytest.mark.parametrize("entry_point", VALUE_ENTRY_POINTS.values(), ids=VALUE_ENTRY_POINTS)
each_result_entry_point = pytest.mark.parametrize("entry_point", RESULT_ENTRY_POINTS.values(), ids=RESULT_ENTRY_POINTS)


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

    def returns_coroutine() -> Any:
        return coroutine()

    async def returns_generator() -> Any:
        return generator()

    return locals()[kind]


KINDS = ["function", "coroutine", "generator", "async_generator", "returns_coroutine", "returns_generator"]


@combinations(kind=KINDS, entry_point=VALUE_ENTRY_POINTS)
def test_call_raises_a_timeout(kind: str, entry_point: EntryPoint, release: threading.Event) -> None:
    with pytest.raises(ToolTimeoutError, match=r"'subject' did not finish within 0\.05 seconds") as caught:
        entry_point(ToolSpec.from_function(hanging(kind, release), name="subject", timeout=0.05))
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, ToolCallError)
    assert (caught.value.code, caught.value.timeout, caught.value.tool) == ("timeout", 0.05, "subject")


@combinations(kind=KINDS, entry_point=RESULT_ENTRY_POINTS)
def test_exec_returns_a_timeout_error(kind: str, entry_point: EntryPoint, release: threading.Event) -> None:
    result = entry_point(ToolSpec.from_function(hanging(kind, release), name="subject", timeout=0.05))
    assert (result.error.code, result.is_last) == ("timeout", True)
    assert 0.05 <= result.meta["duration"] < 20


@combinations(kind=KINDS)
def test_served_a_timeout_is_a_readable_error(kind: str, release: threading.Event) -> None:
    spec = ToolSpec.from_function(hanging(kind, release), name="subject", timeout=0.05)
    result = run(spec.to_fastmcp().run, {})
    assert result.is_error
    assert "did not finish within 0.05 seconds" in result.content[0].text


@each_entry_point
def test_a_timeout_cancels_an_async_body(entry_point: EntryPoint) -> None:
    cancelled = threading.Event()

    @tool(timeout=0.05)
    async def body() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with contextlib.suppress(ToolTimeoutError):
        entry_point(body)
    assert cancelled.wait(WAIT)


@each_result_entry_point
def test_a_body_that_ignores_cancellation_is_abandoned_and_counted(entry_point: EntryPoint) -> None:
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
        assert result.error.message.endswith("; it may still be running.")
        release.set()

    if entry_point in (RESULT_ENTRY_POINTS["exec"], RESULT_ENTRY_POINTS["stream"]):
        error = entry_point(stubborn).error
        assert (error.code, error.message.partition("; ")[2]) == ("timeout", "it may still be running.")
        assert deadline.count_abandoned_tasks() == 1
        loops[0].call_soon_threadsafe(release.set)
    else:
        run(main)
    assert until(lambda: deadline.count_abandoned_tasks() == 0)


@combinations(entry_point=RESULT_ENTRY_POINTS, is_failing=[False, True])
def test_a_body_that_blocks_its_loop_past_the_deadline_is_a_timeout(entry_point: EntryPoint, is_failing: bool) -> None:
    @tool(timeout=0.05)
    async def blocking() -> str:
        time.sleep(0.1)  # noqa: ASYNC251  # it blocks the loop on purpose
        if is_failing:
            raise ValueError("after the deadline")
        return "after the deadline"

    assert entry_point(blocking).error.code == "timeout"


@each_result_entry_point
def test_the_error_of_an_async_body_that_ran_to_its_end_does_not_say_that_it_was_cancelled(
    entry_point: EntryPoint,
) -> None:
    @tool(timeout=0.05)
    async def blocking() -> None:
        time.sleep(0.1)  # noqa: ASYNC251  # it blocks the loop on purpose

    @tool(timeout=0.05)
    async def finishing() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(WAIT)
        return "finished"

    @tool(timeout=0.05)
    async def cancelled() -> None:
        await asyncio.sleep(WAIT)

    endings = [entry_point(body).error.message.partition("; ")[2] for body in (blocking, finishing, cancelled)]
    assert endings == ["it ended too late.", "it ended too late.", "it was cancelled."]


@each_value_entry_point
def test_a_call_of_a_body_that_blocks_its_loop_past_the_deadline_raises(entry_point: EntryPoint) -> None:
    @tool(timeout=0.05)
    async def blocking() -> str:
        time.sleep(0.1)  # noqa: ASYNC251  # it blocks the loop on purpose
        return "after the deadline"

    with pytest.raises(ToolTimeoutError):
        entry_point(blocking)


@each_result_entry_point
def test_a_timeout_error_that_the_tool_raises_is_a_tool_error(entry_point: EntryPoint) -> None:
    for error in (TimeoutError("mine"), ToolTimeoutError("of another call")):

        def function(error: BaseException = error) -> None:
            raise error

        async def coroutine(error: BaseException = error) -> None:
            raise error

        for body in (function, coroutine):
            spec = ToolSpec.from_function(body, timeout=30.0, binds={"error": "error"})
            assert entry_point(spec).error.code == "tool_error"


@each_entry_point
def test_a_fast_body_is_not_affected_by_its_timeout(entry_point: EntryPoint) -> None:
    @tool(timeout=30.0)
    def quick() -> int:
        return 1

    result = entry_point(quick)
    assert getattr(result, "value", result) == 1


@pytest.mark.parametrize(
    "timeout", [0, -1, 0.0, float("inf"), float("nan"), float("-inf"), 1e18, True, False, "5", 5j, [1]], ids=repr
)
def test_a_timeout_is_a_number_of_seconds_above_zero(timeout: Any) -> None:
    with pytest.raises(DefinitionError, match="timeout"):
        ToolSpec.from_function(lambda: 1, name="subject", timeout=timeout)


def test_a_timeout_of_a_sync_body_needs_a_thread() -> None:
    with pytest.raises(DefinitionError, match="run_in_thread"):
        ToolSpec.from_function(lambda: 1, name="subject", timeout=1, run_in_thread=False)


@pytest.mark.parametrize("timeout", [1, 1e-3, 1e9])
def test_a_timeout_may_be_any_such_number(timeout: float) -> None:
    assert ToolSpec.from_function(lambda: 1, name="subject", timeout=timeout).timeout == timeout


# async resolvers


def resolved(resolver: Any, *, is_async: bool = False, **options: Any) -> ToolSpec:
    """Make a spec with one parameter that is bound to a resolver."""

    def function(token: str) -> str:
        return token

    async def coroutine(token: str) -> str:
        return token

    spec = ToolSpec.from_function(coroutine if is_async else function, name="subject", **options)
    return spec.bind("token", "session.token", resolver=resolver)


IS_ASYNC = {"sync body": False, "async body": True}
TIMEOUTS = [None, 30.0]


@combinations(entry_point=ENTRY_POINTS, is_async=IS_ASYNC, timeout=TIMEOUTS)
def test_an_async_resolver_is_awaited_in_every_caller(
    entry_point: EntryPoint, is_async: bool, timeout: float | None
) -> None:
    async def fetch(state: Any) -> str:
        await asyncio.sleep(0)
        return f"token of {state['user']}"

    spec = resolved(fetch, is_async=is_async, timeout=timeout)
    spec.state["user"] = "ann"
    result = entry_point(spec)
    assert getattr(result, "value", result) == "token of ann"


@combinations(
    entry_point=RESULT_ENTRY_POINTS,
    is_async=IS_ASYNC,
    timeout=TIMEOUTS,
    error={"error": ValueError("hunter2-secret"), "slow": TimeoutError("hunter2-secret")},
)
def test_a_resolver_that_fails_leaves_the_parameter_unbound(
    entry_point: EntryPoint, is_async: bool, timeout: float | None, error: Exception
) -> None:
    async def fetch() -> str:
        raise error

    result = entry_point(resolved(fetch, is_async=is_async, timeout=timeout))
    assert result.error.code == "unbound_state"
    assert "hunter2" not in result.error.message


@combinations(entry_point=RESULT_ENTRY_POINTS, is_async=IS_ASYNC)
def test_a_resolver_that_hangs_is_a_timeout(entry_point: EntryPoint, is_async: bool) -> None:
    async def fetch() -> str:
        await asyncio.sleep(30)
        return "late"

    result = entry_point(resolved(fetch, is_async=is_async, timeout=0.05))
    assert (result.error.code, "resolver" in result.error.message) == ("timeout", True)


@each_result_entry_point
def test_a_resolver_that_ignores_cancellation_is_a_timeout(entry_point: EntryPoint) -> None:
    release = threading.Event()

    async def fetch() -> str:
        while not release.is_set():
            try:
                await asyncio.sleep(0.3)
            except asyncio.CancelledError:
                continue
            release.set()
        return "late"

    assert entry_point(resolved(fetch, timeout=0.05)).error.code == "timeout"


@combinations(entry_point=RESULT_ENTRY_POINTS, is_async=IS_ASYNC, timeout=TIMEOUTS)
def test_a_resolver_that_raises_cancelled_error_does_not_cancel_the_caller(
    entry_point: EntryPoint, is_async: bool, timeout: float | None
) -> None:
    async def fetch() -> str:
        raise asyncio.CancelledError

    assert entry_point(resolved(fetch, is_async=is_async, timeout=timeout)).error.code == "unbound_state"


@pytest.mark.parametrize("timeout", TIMEOUTS)
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
