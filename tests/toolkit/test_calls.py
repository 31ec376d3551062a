"""Calls of a toolkit by every method: values, errors, timeouts."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from ahvn_tools import ToolCallError, Toolkit, ToolResult, ToolSpec
from ahvn_tools.errors import InvalidParametersError, ToolkitError, ToolNotFoundError, ToolTimeoutError
from tests.toolkit.subjects import acount, add, asearch, count, fail, search


async def by_exec(kit: Toolkit, *args: Any, **options: Any) -> ToolResult:
    return kit.exec(*args, **options)


async def by_aexec(kit: Toolkit, *args: Any, **options: Any) -> ToolResult:
    return await kit.aexec(*args, **options)


async def by_stream(kit: Toolkit, *args: Any, **options: Any) -> ToolResult:
    *_, last = kit.stream(*args, **options)
    return last


async def by_astream(kit: Toolkit, *args: Any, **options: Any) -> ToolResult:
    return [result async for result in kit.astream(*args, **options)][-1]


ENTRY_POINTS = [by_exec, by_aexec, by_stream, by_astream]
EntryPoint = Callable[..., Awaitable[ToolResult]]


@pytest.fixture
def kit() -> Toolkit:
    kit = Toolkit("k", state={"user": "ann"})
    for function in (search, asearch, count, acount, add, fail):
        kit.add(function)
    return kit.bind("user")


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("search", {"query": "q"}, "ann:q:3"),
        ("asearch", {"query": "q"}, "ann:q"),
        ("count", {"until": 2}, ["ann0", "ann1"]),
        ("acount", {"until": 2}, ["ann0", "ann1"]),
    ],
)
async def test_every_call_method_returns_the_same_value(kit, entry_point, name, arguments, value):
    result = await entry_point(kit, name, arguments)
    assert (result.value, result.is_last, result.is_error) == (value, True, False)
    assert kit.call(name, arguments) == await kit.acall(name, arguments) == value


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("nothing", {}, "not_found"),
        ("add", None, "invalid_parameters"),
        ("add", {"a": 1, "user": "x"}, "invalid_parameters"),
        ("add", ["a", 1], "invalid_parameters"),
        ("add", "a", "invalid_parameters"),
        ("fail", {}, "tool_error"),
    ],
)
async def test_methods_that_return_results_never_raise(kit, entry_point, name, arguments, code):
    assert (await entry_point(kit, name, arguments)).error.code == code


async def test_methods_that_return_values_raise_the_tools_error_or_ours(kit):
    with pytest.raises(ValueError, match="nothing for ann"):
        kit.call("fail")
    with pytest.raises(ValueError, match="nothing for ann"):
        await kit.acall("fail")
    with pytest.raises(ToolNotFoundError, match=r"There is no tool 'serch'\. Did you mean 'search' or 'asearch'\?"):
        kit.call("serch")
    with pytest.raises(InvalidParametersError, match="Pass a dict by parameter"):
        await kit.acall("add", [1])


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
async def test_a_message_quotes_only_the_beginning_of_a_long_name(kit, entry_point):
    error = (await entry_point(kit, "x" * 1_000_000, {})).error
    assert error.code == "not_found"
    assert error.message.startswith(f"There is no tool {'x' * 200!r}…. ")
    assert len(error.message) < 1_000


def test_arguments_may_be_left_out_where_none_are_needed():
    def now() -> int:
        return 1

    kit = Toolkit("k").add(now)
    assert kit.call("now") == kit.call("now", None) == kit.call("now", {}) == 1


def test_the_callers_arguments_are_not_changed(kit):
    arguments = {"query": "q"}
    kit.exec("search", arguments)
    assert arguments == {"query": "q"}


def test_nothing_runs_before_a_stream_is_read(kit):
    stream = kit.stream("add", {"a": 1})
    kit.remove("add")
    assert next(stream).error.code == "not_found"


async def test_closing_a_stream_closes_the_body():
    closed = []

    def numbers() -> Iterator[int]:
        try:
            yield from range(9)
        finally:
            closed.append("sync")

    async def anumbers() -> AsyncIterator[int]:
        try:
            for number in range(9):
                yield number
        finally:
            closed.append("async")

    kit = Toolkit("k").add(numbers).add(anumbers)
    stream = kit.stream("numbers")
    assert next(stream).value == 0
    stream.close()
    astream = kit.astream("anumbers")
    assert (await anext(astream)).value == 0
    await astream.aclose()
    assert closed == ["sync", "async"]


# timeouts


is_over = threading.Event()


@pytest.fixture(autouse=True)
def end_of_bodies() -> Iterator[None]:
    """Let bodies that a timeout has left behind end with their test."""
    is_over.clear()
    yield
    is_over.set()


def sleep(seconds: float) -> str:
    is_over.wait(seconds)
    return "late"


async def asleep(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "late"


def drip(seconds: float) -> Iterator[int]:
    yield 0
    is_over.wait(seconds)
    yield 1


async def adrip(seconds: float) -> AsyncIterator[int]:
    yield 0
    await asyncio.sleep(seconds)
    yield 1


WHERE: dict[str, Callable[[Callable[..., Any]], tuple[Toolkit, dict[str, float]]]] = {
    "spec": lambda body: (Toolkit("k", timeout=60).add(ToolSpec.from_function(body, timeout=0.05), timeout=60), {}),
    "entry": lambda body: (Toolkit("k", timeout=60).add(body, timeout=0.05), {"timeout": 60}),
    "toolkit": lambda body: (Toolkit("k", timeout=0.05).add(body, timeout=60), {"timeout": 60}),
    "call": lambda body: (Toolkit("k", timeout=60).add(body), {"timeout": 0.05}),
    "call alone": lambda body: (Toolkit("k").add(body), {"timeout": 0.05}),
    "inner toolkit": lambda body: (Toolkit("k").add(Toolkit("i", timeout=0.05).add(body)), {"timeout": 60}),
}


@pytest.mark.parametrize(
    "entry_point",
    [by_exec, *[pytest.param(method, marks=pytest.mark.exhaustive) for method in (by_aexec, by_stream)], by_astream],
)
@pytest.mark.parametrize(
    "body", [sleep, *[pytest.param(body, marks=pytest.mark.exhaustive) for body in (asleep, drip)], adrip]
)
@pytest.mark.parametrize("where", WHERE)
async def test_the_shortest_timeout_applies(entry_point, body, where):
    kit, options = WHERE[where](body)
    started = time.perf_counter()
    result = await entry_point(kit, body.__name__, {"seconds": 8}, **options)
    assert result.error.code == "timeout"
    assert "did not finish within 0.05 seconds" in result.text
    assert time.perf_counter() - started < 7


async def test_methods_that_return_values_raise_a_timeout_error():
    kit = Toolkit("k").add(sleep).add(asleep)
    with pytest.raises(TimeoutError):
        kit.call("asleep", {"seconds": 1}, timeout=0.02)
    with pytest.raises(ToolTimeoutError) as late:
        await kit.acall("sleep", {"seconds": 0.2}, timeout=0.02)
    assert (late.value.tool, late.value.timeout) == ("sleep", 0.02)


@pytest.mark.parametrize("timeout", [0, -1])
@pytest.mark.parametrize("body", [sleep, asleep])
def test_a_call_without_time_left_is_a_timeout(body, timeout):
    result = Toolkit("k").add(body).exec(body.__name__, {"seconds": 0.2}, timeout=timeout)
    assert result.error.code == "timeout"


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
@pytest.mark.parametrize("timeout", [float("nan"), float("inf"), 1e18, True, "3"], ids=repr)
async def test_an_invalid_timeout_of_a_call_is_refused(kit, entry_point, timeout):
    with pytest.raises(ToolkitError, match=r"A timeout is a number of seconds, not .*\. Omit it for no timeout\."):
        await entry_point(kit, "add", {"a": 1}, timeout=timeout)


def test_the_timeout_of_one_call_does_not_apply_to_the_next():
    kit = Toolkit("k").add(asleep)
    assert kit.exec("asleep", {"seconds": 0.05}, timeout=0.01).is_error
    assert kit.exec("asleep", {"seconds": 0.05}).value == "late"


async def test_cancelling_the_task_cancels_the_call_and_nothing_keeps_running():
    ended = asyncio.Event()

    async def forever() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    kit = Toolkit("k").add(forever)
    task = asyncio.create_task(kit.aexec("forever"))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


def test_call_errors_have_one_base_class(kit):
    for name, arguments in (("nothing", {}), ("add", {}), ("add", 3)):
        with pytest.raises(ToolCallError):
            kit.call(name, arguments)


def test_a_timeout_of_an_uninterruptible_call_is_refused():
    kit = Toolkit("k").add(ToolSpec.from_function(one, run_in_thread=False))
    assert kit.call("one") == 1
    with pytest.raises(ToolkitError, match="has run_in_thread=False"):
        kit.exec("one", {}, timeout=1)


def one() -> int:
    return 1


@pytest.mark.parametrize("tool", ["add", "aadd"])
@pytest.mark.parametrize("call", ENTRY_POINTS)
async def test_middleware_of_one_call_is_outside_of_the_toolkits_and_wraps_no_other(
    call: EntryPoint, tool: str
) -> None:
    order: list[str] = []

    def named(name: str) -> Any:
        async def note(call: Any, next: Any) -> ToolResult:  # the word for it
            order.append(name)
            result: ToolResult = await next(call)
            return result

        return note

    async def aadd(a: int) -> int:
        return a + 1

    kit = Toolkit("numbers", middleware=[named("shared")]).add(lambda a: a + 1, name="add").add(aadd)
    result = await call(kit.session(), tool, {"a": 1}, middleware=[named("first"), named("second")])
    assert (result.value, order) == (2, ["first", "second", "shared"])
    order.clear()
    await call(kit, tool, {"a": 1})
    assert order == ["shared"]
    with pytest.raises(ToolkitError, match="A middleware is"):
        await call(kit, tool, {"a": 1}, middleware=[len])


def test_middleware_of_one_call_may_be_a_recorder(tmp_path: Any) -> None:
    from ahvn_tools.middleware import record, replay

    kit = Toolkit("numbers").add(add)
    kit.exec("add", {"a": 1}, middleware=[record(tmp_path / "calls.jsonl")])
    assert kit.exec("add", {"a": 1}, middleware=[replay(tmp_path / "calls.jsonl")]).value == kit.call("add", {"a": 1})
