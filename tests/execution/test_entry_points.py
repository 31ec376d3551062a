"""The doors of a call mean the same everywhere: whatever the body is, whoever calls, however it is run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ahvn_tools import ToolError, ToolResult, ToolSpec, tool
from ahvn_tools.errors import CallCancelledError, InvalidParametersError, ToolCallError
from tests.execution.entry_points import (
    BODIES,
    DOORS,
    RESULT_DOORS,
    STREAM_DOORS,
    VALUE_DOORS,
    WAYS,
    Door,
    program,
    run,
)

each_body = pytest.mark.parametrize(("body", "value"), BODIES.values(), ids=BODIES)
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
each_door = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
each_value_door = pytest.mark.parametrize("door", VALUE_DOORS.values(), ids=VALUE_DOORS)
each_result_door = pytest.mark.parametrize("door", RESULT_DOORS.values(), ids=RESULT_DOORS)
each_stream_door = pytest.mark.parametrize("door", STREAM_DOORS.values(), ids=STREAM_DOORS)


def spec_of(body: Any, **options: Any) -> ToolSpec:
    return ToolSpec.from_function(body, name="subject", **options)


# values


@each_body
@each_way
@each_value_door
def test_call_gives_the_value_of_any_body(body: Any, value: Any, way: dict[str, Any], door: Door) -> None:
    assert door(spec_of(body, **way), n=3) == value


@each_body
@each_way
@each_result_door
def test_exec_gives_a_result_of_any_body(body: Any, value: Any, way: dict[str, Any], door: Door) -> None:
    result = door(spec_of(body, **way), n=3)
    assert (result.value, result.is_error, result.is_last, result.is_interrupted) == (value, False, True, False)
    assert 0 <= result.meta["duration"] < 30


@each_body
@each_way
@each_stream_door
def test_a_stream_gives_one_chunk_per_item_and_then_what_exec_gives(
    body: Any, value: Any, way: dict[str, Any], door: Door
) -> None:
    *chunks, last = door(spec_of(body, **way), n=3)
    assert [chunk.value for chunk in chunks] == (value if isinstance(value, list) else [])
    assert not any(chunk.is_last for chunk in chunks)
    whole = spec_of(body, **way).exec(n=3)
    assert (last.value, last.structured_content, last.content, last.error, last.is_last) == (
        whole.value, whole.structured_content, whole.content, None, True,
    )  # fmt: skip


@each_door
def test_arguments_are_always_validated(door: Door) -> None:
    spec = spec_of(BODIES["function"][0])
    try:
        code = door(spec, n="no number").error.code
    except InvalidParametersError as error:
        code = error.code
    assert code == "invalid_parameters"


# what bodies raise


class SilentError(Exception):
    """Its text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class StrangeExit(BaseException):
    """No Exception, and none that Python knows."""


EXCEPTIONS: dict[str, BaseException] = {
    "ValueError": ValueError("wrong"),
    "TimeoutError": TimeoutError("slow"),
    "silent": SilentError(),
    "group": ExceptionGroup("many", [ValueError("a"), KeyError("b")]),
    "StopAsyncIteration": StopAsyncIteration("over"),
    "ToolError": ToolError("tell the model"),
    "error of another call": InvalidParametersError("Invalid arguments: 'x' is missing."),
}
TEXTS = {
    "ValueError": "ValueError: wrong",
    "TimeoutError": "TimeoutError: slow",
    "silent": "SilentError: its text cannot be read",
    "group": "ExceptionGroup: many (2 sub-exceptions)",
    "StopAsyncIteration": "StopAsyncIteration: over",
    "ToolError": "tell the model",
    "error of another call": "InvalidParametersError: Invalid arguments: 'x' is missing.",
}
EXITS: dict[str, BaseException] = {
    "KeyboardInterrupt": KeyboardInterrupt(),
    "SystemExit": SystemExit(3),
    "GeneratorExit": GeneratorExit(),
    "own BaseException": StrangeExit(),
    "BaseExceptionGroup": BaseExceptionGroup("many", [SystemExit(3)]),
}


def raising(error: BaseException, kind: str) -> Any:
    """Return a body of a kind that raises an error."""

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

    def gives_coroutine() -> Any:
        return coroutine()

    async def gives_generator() -> Any:
        return generator()

    return locals()[kind]


KINDS = [
    "function", "coroutine", "late", "generator", "async_generator", "gives_coroutine", "gives_generator",
]  # fmt: skip
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
@each_way
@each_value_door
def test_call_raises_the_very_exception_of_the_body(kind: str, way: dict[str, Any], door: Door) -> None:
    error = LookupError("as it is")
    with pytest.raises(LookupError) as caught:
        door(spec_of(raising(error, kind), **way))
    assert caught.value is error


@pytest.mark.parametrize("name", EXCEPTIONS)
@pytest.mark.parametrize("kind", ["function", "coroutine"])
@each_value_door
def test_call_raises_any_exception_unchanged(name: str, kind: str, door: Door) -> None:
    with pytest.raises(type(EXCEPTIONS[name])) as caught:
        door(spec_of(raising(EXCEPTIONS[name], kind)))
    assert caught.value is EXCEPTIONS[name]


@pytest.mark.parametrize("name", EXCEPTIONS)
@pytest.mark.parametrize("kind", ["function", "late"])
@pytest.mark.parametrize("way", [{}, {"timeout": 30.0}], ids=["no timeout", "timeout"])
@each_result_door
def test_exec_tells_any_exception_as_a_tool_error(name: str, kind: str, way: dict[str, Any], door: Door) -> None:
    result = door(spec_of(raising(EXCEPTIONS[name], kind), **way))
    assert (result.error.code, result.error.message) == ("tool_error", TEXTS[name])
    assert (result.value, result.structured_content, result.text) == (None, None, TEXTS[name])
    assert "duration" in result.meta


@each_kind
@each_way
@each_result_door
def test_exec_does_not_raise_what_any_body_raises(kind: str, way: dict[str, Any], door: Door) -> None:
    result = door(spec_of(raising(ValueError("wrong"), kind), **way))
    assert (result.error.code, result.error.message) == ("tool_error", "ValueError: wrong")


@pytest.mark.parametrize("kind", ["generator", "async_generator"])
@each_way
@each_stream_door
def test_a_stream_that_fails_half_way_ends_with_the_error(kind: str, way: dict[str, Any], door: Door) -> None:
    chunk, last = door(spec_of(raising(ValueError("wrong"), kind), **way))
    assert (chunk.value, chunk.is_last) == (1, False)
    assert (last.error.message, last.value, last.is_last) == ("ValueError: wrong", None, True)


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in EXITS for kind in KINDS])
@each_way
@each_door
def test_exits_are_raised_again_in_a_local_caller(name: str, kind: str, way: dict[str, Any], door: Door) -> None:
    with pytest.raises(type(EXITS[name])) as caught:
        door(spec_of(raising(EXITS[name], kind), **way))
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


@pytest.mark.parametrize("kind", ["function", "coroutine", "gives_coroutine"])
@each_result_door
def test_stop_iteration_is_an_error_result(kind: str, door: Door) -> None:
    result = door(spec_of(raising(StopIteration("over"), kind)))
    assert result.error.code == "tool_error"
    assert "StopIteration" in result.error.message


def test_stop_iteration_is_raised_from_a_sync_call() -> None:
    with pytest.raises(StopIteration):
        spec_of(raising(StopIteration(), "function")).call()


def test_stop_iteration_from_an_awaited_call_is_what_python_makes_of_it() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        run(spec_of(raising(StopIteration(), "function")).acall)


# cancellation


@each_kind
@each_way
@each_result_door
def test_a_cancellation_of_the_bodys_own_is_a_result(kind: str, way: dict[str, Any], door: Door) -> None:
    result = door(spec_of(raising(asyncio.CancelledError(), kind), **way))
    assert result.error.code == "cancelled"


@each_kind
@each_way
def test_a_cancellation_of_the_bodys_own_is_no_cancellation_of_an_async_caller(kind: str, way: dict[str, Any]) -> None:
    with pytest.raises(CallCancelledError, match="cancelled itself") as caught:
        run(spec_of(raising(asyncio.CancelledError(), kind), **way).acall)
    assert caught.value.code == "cancelled"


@each_kind
@pytest.mark.parametrize("way", [{"timeout": 30.0}, {"binds": {"token": "token"}}], ids=["timeout", "bound"])
def test_a_cancellation_of_the_bodys_own_is_no_cancellation_of_a_sync_caller(kind: str, way: dict[str, Any]) -> None:
    inner = raising(asyncio.CancelledError(), kind)

    def body(n: int = 1, token: str = "") -> Any:
        return inner()

    with pytest.raises(CallCancelledError, match="cancelled itself"):
        spec_of(body, **way).call()
    with pytest.raises(CallCancelledError, match="cancelled itself"):
        spec_of(body, **way).call(1)


def test_a_cancellation_of_a_coroutine_called_by_position_is_no_cancellation_of_the_caller() -> None:
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
@pytest.mark.parametrize("door", [RESULT_DOORS["exec"], RESULT_DOORS["stream"], RESULT_DOORS["astream"]])
def test_a_body_that_cancels_the_task_it_was_given_is_a_result(way: dict[str, Any], door: Door) -> None:
    async def suicide() -> int:
        asyncio.current_task().cancel()
        await asyncio.sleep(30)
        return 1

    assert door(spec_of(suicide, **way)).error.code == "cancelled"


@each_way
@pytest.mark.parametrize("method", ["acall", "aexec", "astream"])
@pytest.mark.parametrize("is_async", [True, False])
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
async def test_a_timeout_of_the_caller_is_the_callers(method: str) -> None:
    async def waits() -> int:
        await asyncio.sleep(60)
        return 1

    spec = spec_of(waits)
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0.05):
            await getattr(spec, method)()
    assert not isinstance(caught.value, ToolCallError)


@each_result_door
def test_a_body_that_handles_its_own_cancellation_scopes_is_left_alone(door: Door) -> None:
    async def body() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(30)
        except TimeoutError:
            return "went on"
        return "never"

    assert door(spec_of(body)).value == "went on"


# served


@pytest.mark.parametrize("error", [*EXCEPTIONS.values(), *EXITS.values()], ids=[*EXCEPTIONS, *EXITS])
@pytest.mark.parametrize("kind", ["function", "coroutine", "late", "gives_coroutine"])
@pytest.mark.parametrize("way", [{}, {"timeout": 30.0}], ids=["no timeout", "timeout"])
def test_served_whatever_a_body_raises_is_an_error_result(error: BaseException, kind: str, way: dict[str, Any]) -> None:
    result = run(spec_of(raising(error, kind), **way).to_fastmcp().run, {})
    assert result.is_error
    shown = "tell the model" if isinstance(error, ToolError) else "Error calling tool 'subject'"
    assert [block.text for block in result.content] == [shown]


def test_served_a_fastmcp_tool_error_speaks_to_the_model() -> None:
    from fastmcp.exceptions import ToolError as FastMCPToolError

    result = run(spec_of(raising(FastMCPToolError("say it"), "function")).to_fastmcp().run, {})
    assert (result.is_error, result.content[0].text) == (True, "say it")
    assert spec_of(raising(FastMCPToolError("say it"), "function")).exec().error.message == "say it"


def test_served_a_cancelled_request_is_cancelled() -> None:
    async def main() -> bool:
        async def waits() -> int:
            await asyncio.sleep(60)
            return 1

        task = asyncio.create_task(spec_of(waits).to_fastmcp().run({}))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task}, timeout=10)
        return task.cancelled()

    assert asyncio.run(main())


def test_a_served_result_that_its_schema_refuses_is_an_error() -> None:
    def lies() -> int:
        return "no number"

    assert spec_of(lies).exec().value == "no number"
    assert run(spec_of(lies).to_fastmcp().run, {}).is_error


def test_served_results_carry_content_structure_and_duration() -> None:
    result = run(spec_of(BODIES["function"][0], output_schema=None).to_fastmcp().run, {"n": 3})
    assert (result.content[0].text, result.is_error) == ("4", False)
    assert result.meta["duration"] >= 0


# nobody is changed


def test_a_tool_result_that_the_body_made_is_not_changed() -> None:
    made = ToolResult({"a": 1}, {"a": 1}, meta={"cost": 2})

    def body() -> Any:
        return made

    for door in RESULT_DOORS.values():
        result = door(spec_of(body))
        assert (result.value, result.meta["cost"]) == ({"a": 1}, 2)
    assert made == ToolResult({"a": 1}, {"a": 1}, meta={"cost": 2})


def test_a_tool_result_that_the_body_yielded_is_not_changed() -> None:
    made = ToolResult(1, meta={"cost": 2})

    def body() -> Any:
        yield made
        yield made

    for door in STREAM_DOORS.values():
        first, second, last = door(spec_of(body))
        first.meta["cost"] = 9
        assert (second.meta, second.is_last, last.value) == ({"cost": 2}, False, [1, 1])
    assert made == ToolResult(1, meta={"cost": 2})


def test_a_returned_chunk_is_a_last_result_all_the_same() -> None:
    def body() -> Any:
        return ToolResult(1, is_last=False)

    assert all(door(spec_of(body)).is_last for door in RESULT_DOORS.values())


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
