"""Every entry point of a call behaves the same for every kind of body, every caller and every way to run the body."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import date
from typing import Any

import pytest

from ahvn_tools import ToolError, ToolResult, ToolSpec, tool
from ahvn_tools.errors import CallCancelledError, InvalidParametersError, ToolCallError
from tests.execution.entry_points import (
    BODIES,
    ENTRY_POINTS,
    RESULT_ENTRY_POINTS,
    STREAM_ENTRY_POINTS,
    VALUE_ENTRY_POINTS,
    WAYS,
    EntryPoint,
    combinations,
    program,
    run,
)

each_entry_point = pytest.mark.parametrize("entry_point", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
each_result_entry_point = pytest.mark.parametrize("entry_point", RESULT_ENTRY_POINTS.values(), ids=RESULT_ENTRY_POINTS)
TIMEOUTS = {"no timeout": {}, "timeout": {"timeout": 30.0}}


Case = tuple[Any, Any]
"""A body, and its value for 3."""


def spec_of(body: Any, **options: Any) -> ToolSpec:
    return ToolSpec.from_function(body, name="subject", **options)


# values


@combinations(case=BODIES, way=WAYS, entry_point=VALUE_ENTRY_POINTS)
def test_call_returns_the_value_of_any_body(case: Case, way: dict[str, Any], entry_point: EntryPoint) -> None:
    body, value = case
    assert entry_point(spec_of(body, **way), n=3) == value


@combinations(case=BODIES, way=WAYS, entry_point=RESULT_ENTRY_POINTS)
def test_exec_returns_a_result_for_any_body(case: Case, way: dict[str, Any], entry_point: EntryPoint) -> None:
    body, value = case
    result = entry_point(spec_of(body, **way), n=3)
    assert (result.value, result.is_error, result.is_last, result.is_interrupted) == (value, False, True, False)
    assert 0 <= result.meta["duration"] < 30


@combinations(case=BODIES, way=WAYS, entry_point=STREAM_ENTRY_POINTS)
def test_a_stream_yields_one_chunk_per_item_and_then_the_result_of_exec(
    case: Case, way: dict[str, Any], entry_point: EntryPoint
) -> None:
    body, value = case
    *chunks, last = entry_point(spec_of(body, **way), n=3)
    assert [chunk.value for chunk in chunks] == (value if isinstance(value, list) else [])
    assert not any(chunk.is_last for chunk in chunks)
    expected = spec_of(body, **way).exec(n=3)
    assert (last.value, last.structured_content, last.content, last.error, last.is_last) == (
        expected.value, expected.structured_content, expected.content, None, True,
    )  # fmt: skip


@each_entry_point
def test_arguments_are_always_validated(entry_point: EntryPoint) -> None:
    spec = spec_of(BODIES["function"][0])
    try:
        code = entry_point(spec, n="not a number").error.code
    except InvalidParametersError as error:
        code = error.code
    assert code == "invalid_parameters"


# what bodies raise


class SilentError(Exception):
    """An exception whose text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class CustomBaseException(BaseException):
    """Not an Exception, and not one of Python's own exceptions."""


EXCEPTIONS: dict[str, BaseException] = {
    "ValueError": ValueError("wrong"),
    "TimeoutError": TimeoutError("slow"),
    "silent": SilentError(),
    "group": ExceptionGroup("many", [ValueError("a"), KeyError("b")]),
    "StopAsyncIteration": StopAsyncIteration("over"),
    "ToolError": ToolError("text for the model"),
    "error of another call": InvalidParametersError("Invalid arguments: 'x' is missing."),
}
TEXTS = {
    "ValueError": "ValueError: wrong",
    "TimeoutError": "TimeoutError: slow",
    "silent": "SilentError: its text cannot be read",
    "group": "ExceptionGroup: many (2 sub-exceptions)",
    "StopAsyncIteration": "StopAsyncIteration: over",
    "ToolError": "text for the model",
    "error of another call": "InvalidParametersError: Invalid arguments: 'x' is missing.",
}
EXITS: dict[str, BaseException] = {
    "KeyboardInterrupt": KeyboardInterrupt(),
    "SystemExit": SystemExit(3),
    "GeneratorExit": GeneratorExit(),
    "custom BaseException": CustomBaseException(),
    "BaseExceptionGroup": BaseExceptionGroup("many", [SystemExit(3)]),
}


def raising(error: BaseException, kind: str) -> Any:
    """Return a body of the kind that raises the error."""

    def function() -> Any:
        raise error

    async def coroutine() -> Any:
        raise error

    async def late() -> Any:
        await asyncio.sleep(0)
        raise error

    def generator() -> Any:
        yield 1
        raise error

    async def async_generator() -> Any:
        yield 1
        raise error

    def returns_coroutine() -> Any:
        return coroutine()

    async def returns_generator() -> Any:
        return generator()

    return locals()[kind]


KINDS = [
    "function", "coroutine", "late", "generator", "async_generator", "returns_coroutine", "returns_generator",
]  # fmt: skip
each_kind = pytest.mark.parametrize("kind", KINDS)


@combinations(kind=KINDS, way=WAYS, entry_point=VALUE_ENTRY_POINTS)
def test_call_raises_the_exception_object_of_the_body(kind: str, way: dict[str, Any], entry_point: EntryPoint) -> None:
    error = LookupError("as it is")
    with pytest.raises(LookupError) as caught:
        entry_point(spec_of(raising(error, kind), **way))
    assert caught.value is error


@combinations(name=EXCEPTIONS.keys(), kind=["function", "coroutine"], entry_point=VALUE_ENTRY_POINTS)
def test_call_raises_any_exception_unchanged(name: str, kind: str, entry_point: EntryPoint) -> None:
    with pytest.raises(type(EXCEPTIONS[name])) as caught:
        entry_point(spec_of(raising(EXCEPTIONS[name], kind)))
    assert caught.value is EXCEPTIONS[name]


@combinations(name=EXCEPTIONS.keys(), kind=["function", "late"], way=TIMEOUTS, entry_point=RESULT_ENTRY_POINTS)
def test_exec_returns_any_exception_as_a_tool_error(
    name: str, kind: str, way: dict[str, Any], entry_point: EntryPoint
) -> None:
    result = entry_point(spec_of(raising(EXCEPTIONS[name], kind), **way))
    assert (result.error.code, result.error.message) == ("tool_error", TEXTS[name])
    assert (result.value, result.structured_content, result.text) == (None, None, TEXTS[name])
    assert "duration" in result.meta


@combinations(kind=KINDS, way=WAYS, entry_point=RESULT_ENTRY_POINTS)
def test_exec_does_not_raise_the_exception_of_any_body(kind: str, way: dict[str, Any], entry_point: EntryPoint) -> None:
    result = entry_point(spec_of(raising(ValueError("wrong"), kind), **way))
    assert (result.error.code, result.error.message) == ("tool_error", "ValueError: wrong")


@combinations(kind=["generator", "async_generator"], way=WAYS, entry_point=STREAM_ENTRY_POINTS)
def test_a_stream_that_fails_after_some_items_ends_with_the_error(
    kind: str, way: dict[str, Any], entry_point: EntryPoint
) -> None:
    chunk, last = entry_point(spec_of(raising(ValueError("wrong"), kind), **way))
    assert (chunk.value, chunk.is_last) == (1, False)
    assert (last.error.message, last.value, last.is_last) == ("ValueError: wrong", [1], True)


@combinations(kind=["generator", "async_generator"], way=WAYS, entry_point=RESULT_ENTRY_POINTS)
def test_the_result_of_a_generator_that_fails_has_its_items_so_far(
    kind: str, way: dict[str, Any], entry_point: EntryPoint
) -> None:
    result = entry_point(spec_of(raising(ValueError("wrong"), kind), **way))
    assert (result.value, result.structured_content, result.text) == ([1], None, "ValueError: wrong")
    assert (result.is_interrupted, result.to_mcp().structured_content) == (False, None)


@combinations(is_async=[False, True], output=["json", "raw"], entry_point=RESULT_ENTRY_POINTS)
def test_the_result_of_a_generator_that_times_out_has_its_items_so_far(
    is_async: bool, output: Any, entry_point: EntryPoint
) -> None:
    may_end = threading.Event()

    def count() -> Iterator[Any]:
        yield date(2026, 1, 2)
        yield 2
        may_end.wait()

    async def acount() -> AsyncIterator[Any]:
        yield date(2026, 1, 2)
        yield 2
        await asyncio.Event().wait()

    result = entry_point(spec_of(acount if is_async else count, timeout=0.3, output=output))
    may_end.set()
    first = date(2026, 1, 2) if output == "raw" else "2026-01-02"
    assert (result.error.code, result.value, result.is_raw) == ("timeout", [first, 2], output == "raw")
    assert result.text == result.error.message
    assert result.to_mcp().is_error


@combinations(name=EXITS.keys(), kind=KINDS, way=WAYS, entry_point=ENTRY_POINTS)
def test_exits_are_raised_in_a_local_caller(name: str, kind: str, way: dict[str, Any], entry_point: EntryPoint) -> None:
    with pytest.raises(type(EXITS[name])) as caught:
        entry_point(spec_of(raising(EXITS[name], kind), **way))
    assert caught.value is EXITS[name]


def test_the_background_loop_survives_every_exit() -> None:
    @tool
    async def loop_identity() -> int:
        return id(asyncio.get_running_loop())

    before = loop_identity()
    for error in EXITS.values():
        for kind in KINDS:
            with pytest.raises(type(error)):
                spec_of(raising(error, kind), timeout=30.0).call()
    assert loop_identity() == before


@pytest.mark.parametrize("kind", ["function", "coroutine", "returns_coroutine"])
@each_result_entry_point
def test_stop_iteration_is_an_error_result(kind: str, entry_point: EntryPoint) -> None:
    result = entry_point(spec_of(raising(StopIteration("over"), kind)))
    assert result.error.code == "tool_error"
    assert "StopIteration" in result.error.message


def test_stop_iteration_is_raised_from_a_sync_call() -> None:
    with pytest.raises(StopIteration):
        spec_of(raising(StopIteration(), "function")).call()


def test_python_turns_stop_iteration_from_an_awaited_call_into_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        run(spec_of(raising(StopIteration(), "function")).acall)


# cancellation


@combinations(kind=KINDS, way=WAYS, entry_point=RESULT_ENTRY_POINTS)
def test_a_body_that_raises_cancelled_error_is_a_cancelled_result(
    kind: str, way: dict[str, Any], entry_point: EntryPoint
) -> None:
    result = entry_point(spec_of(raising(asyncio.CancelledError(), kind), **way))
    assert result.error.code == "cancelled"
    assert isinstance(result.exception, CallCancelledError)  # as `call` raises it


@combinations(kind=KINDS, way=WAYS)
def test_a_body_that_raises_cancelled_error_does_not_cancel_an_async_caller(kind: str, way: dict[str, Any]) -> None:
    with pytest.raises(CallCancelledError, match="cancelled itself") as caught:
        run(spec_of(raising(asyncio.CancelledError(), kind), **way).acall)
    assert caught.value.code == "cancelled"


@each_kind
@pytest.mark.parametrize("way", [{"timeout": 30.0}, {"binds": {"token": "token"}}], ids=["timeout", "bound"])
def test_a_body_that_raises_cancelled_error_does_not_cancel_a_sync_caller(kind: str, way: dict[str, Any]) -> None:
    inner = raising(asyncio.CancelledError(), kind)

    def body(n: int = 1, token: str = "") -> Any:
        return inner()

    with pytest.raises(CallCancelledError, match="cancelled itself"):
        spec_of(body, **way).call()
    with pytest.raises(CallCancelledError, match="cancelled itself"):
        spec_of(body, **way).call(1)


def test_a_coroutine_called_by_position_that_raises_cancelled_error_does_not_cancel_the_caller() -> None:
    async def body(n: int) -> int:
        raise asyncio.CancelledError

    with pytest.raises(CallCancelledError, match="cancelled itself"):
        run(spec_of(body).acall, 1)


def test_an_exception_of_a_function_called_by_position_is_raised_unchanged() -> None:
    error = ValueError("as it is")

    def body(n: int) -> int:
        raise error

    with pytest.raises(ValueError, match="as it is") as caught:
        spec_of(body).call(1)
    assert caught.value is error


@pytest.mark.parametrize("way", [{}, {"timeout": 30.0}], ids=["no timeout", "timeout"])
@pytest.mark.parametrize(
    "entry_point", [RESULT_ENTRY_POINTS["exec"], RESULT_ENTRY_POINTS["stream"], RESULT_ENTRY_POINTS["astream"]]
)
def test_a_body_that_cancels_its_task_is_a_cancelled_result(way: dict[str, Any], entry_point: EntryPoint) -> None:
    async def cancels_its_task() -> int:
        asyncio.current_task().cancel()
        await asyncio.sleep(30)
        return 1

    assert entry_point(spec_of(cancels_its_task, **way)).error.code == "cancelled"


@combinations(way=WAYS, method=["acall", "aexec", "astream"], is_async=[True, False])
async def test_a_cancellation_of_the_caller_propagates(way: dict[str, Any], method: str, is_async: bool) -> None:
    if not is_async:
        way = {**way, "run_in_thread": True}
    started, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    async def waits() -> int:
        started.set()
        await asyncio.sleep(60)
        return 1

    def blocks() -> int:
        loop.call_soon_threadsafe(started.set)
        release.wait(30)
        return 1

    spec = spec_of(waits if is_async else blocks, **way)

    async def read() -> Any:
        if method == "astream":
            return [result async for result in spec.astream()]
        return await getattr(spec, method)()

    task = asyncio.create_task(read())
    try:
        await asyncio.wait_for(started.wait(), 10)
        task.cancel()
        await asyncio.wait({task}, timeout=10)
    finally:
        release.set()
    assert task.cancelled()


@pytest.mark.parametrize("method", ["acall", "aexec"])
async def test_a_timeout_scope_of_the_caller_raises_the_callers_timeout_error(method: str) -> None:
    async def waits() -> int:
        await asyncio.sleep(60)
        return 1

    spec = spec_of(waits)
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0.05):
            await getattr(spec, method)()
    assert not isinstance(caught.value, ToolCallError)


@each_result_entry_point
def test_a_body_may_handle_its_own_timeout_scope(entry_point: EntryPoint) -> None:
    async def body() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(30)
        except TimeoutError:
            return "continued"
        return "never"

    assert entry_point(spec_of(body)).value == "continued"


# served


@combinations(error=EXCEPTIONS | EXITS, kind=["function", "coroutine", "late", "returns_coroutine"], way=TIMEOUTS)
def test_served_anything_that_a_body_raises_is_an_error_result(
    error: BaseException, kind: str, way: dict[str, Any]
) -> None:
    result = run(spec_of(raising(error, kind), **way).to_fastmcp().run, {})
    assert result.is_error
    expected = "text for the model" if isinstance(error, ToolError) else "Error calling tool 'subject'"
    assert [block.text for block in result.content] == [expected]


def test_served_the_text_of_a_fastmcp_tool_error_reaches_the_model() -> None:
    from fastmcp.exceptions import ToolError as FastMCPToolError

    result = run(spec_of(raising(FastMCPToolError("say it"), "function")).to_fastmcp().run, {})
    assert (result.is_error, result.content[0].text) == (True, "say it")
    assert spec_of(raising(FastMCPToolError("say it"), "function")).exec().error.message == "say it"


def test_served_a_cancelled_request_is_cancelled() -> None:
    async def main() -> bool:
        started = asyncio.Event()

        async def waits() -> int:
            started.set()
            await asyncio.sleep(60)
            return 1

        task = asyncio.create_task(spec_of(waits).to_fastmcp().run({}))
        await asyncio.wait_for(started.wait(), 10)
        task.cancel()
        await asyncio.wait({task}, timeout=10)
        return task.cancelled()

    assert asyncio.run(main())


def test_a_result_that_its_schema_refuses_is_an_error_locally_and_served() -> None:
    def breaks_its_schema() -> int:
        return "not a number"

    assert spec_of(breaks_its_schema).exec().is_error
    assert run(spec_of(breaks_its_schema).to_fastmcp().run, {}).is_error


def test_served_results_have_the_content_and_nothing_of_the_call_in_their_meta() -> None:
    result = run(spec_of(BODIES["function"][0], output_schema=None).to_fastmcp().run, {"n": 3})
    assert (result.content[0].text, result.is_error, result.meta) == ("4", False, None)


# results of the body are not modified


def test_a_tool_result_that_the_body_returns_is_not_modified() -> None:
    original = ToolResult({"a": 1}, {"a": 1}, meta={"cost": 2})

    def body() -> Any:
        return original

    for entry_point in RESULT_ENTRY_POINTS.values():
        result = entry_point(spec_of(body))
        assert (result.value, result.meta["cost"]) == ({"a": 1}, 2)
    assert original == ToolResult({"a": 1}, {"a": 1}, meta={"cost": 2})


def test_a_tool_result_that_the_body_yields_is_not_modified() -> None:
    original = ToolResult(1, meta={"cost": 2})

    def body() -> Any:
        yield original
        yield original

    for entry_point in STREAM_ENTRY_POINTS.values():
        first, second, last = entry_point(spec_of(body))
        first.meta["cost"] = 9
        assert (second.meta, second.is_last, last.value) == ({"cost": 2}, False, [1, 1])
    assert original == ToolResult(1, meta={"cost": 2})


def test_a_returned_chunk_becomes_a_last_result() -> None:
    def body() -> Any:
        return ToolResult(1, is_last=False)

    assert all(entry_point(spec_of(body)).is_last for entry_point in RESULT_ENTRY_POINTS.values())


def test_a_local_sync_call_imports_neither_asyncio_nor_fastmcp() -> None:
    code = """
import sys
from ahvn_tools import tool

@tool
def add(a: int, b: int) -> int:
    return a + b

assert add(1, 2) == add.call(1, 2) == add.exec(1, 2).value == 3
print(sorted({"asyncio", "fastmcp", "mcp", "mcp_types"} & set(sys.modules)))
"""
    assert program(code) == (0, "[]\n", "")
