"""Calls with middleware: its order, threads, contextvars, errors and streams, from sync and async code."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import re
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from mcp_types import TextContent
from pydantic import BaseModel, SecretStr

from ahvn_tools import ToolContext, Toolkit, ToolResult
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import (
    CallCancelledError,
    InvalidParametersError,
    ToolCallError,
    ToolkitError,
)
from ahvn_tools.toolkit import calls
from tests.execution.entry_points import WAIT, auntil, combinations

scope_name: contextvars.ContextVar[str] = contextvars.ContextVar("scope_name", default="none")


def noting(name: str, log: list[str]) -> Any:
    async def note(call, next):
        log.append(f"{name} before")
        await asyncio.sleep(0)
        result = await next(call)
        log.append(f"{name} after")
        return result

    return note


def kit_of(*middleware: Any) -> Toolkit:
    kit = Toolkit("kit", middleware=middleware)

    @kit.tool
    def add(a: int, b: int = 1) -> int:
        return a + b

    @kit.tool
    async def add_later(a: int, b: int = 1) -> int:
        await asyncio.sleep(0)
        return a + b

    @kit.tool
    def fail(text: str = "no") -> None:
        raise LookupError(text)

    @kit.tool
    def count(n: int) -> Any:
        yield from range(n)

    @kit.tool
    async def count_later(n: int) -> Any:
        for number in range(n):
            yield number

    @kit.tool
    def where() -> list[str]:
        return [threading.current_thread().name, scope_name.get()]

    return kit


async def call_through(kit: Toolkit, entry_point: str, name: str, arguments: dict[str, Any]) -> Any:
    """Call by any entry point; a stream returns the list of its results."""
    if entry_point in ("call", "exec"):
        return getattr(kit, entry_point)(name, arguments)
    if entry_point in ("acall", "aexec"):
        return await getattr(kit, entry_point)(name, arguments)
    if entry_point == "stream":
        return list(kit.stream(name, arguments))
    return [result async for result in kit.astream(name, arguments)]


def value_of(returned: Any) -> Any:
    """Return the value of what `call_through` returned."""
    last = returned[-1] if isinstance(returned, list) and isinstance(returned[-1], ToolResult) else returned
    return last.value if isinstance(last, ToolResult) else last


ENTRY_POINTS = ["call", "acall", "exec", "aexec", "stream", "astream"]
each_entry_point = pytest.mark.parametrize("entry_point", ENTRY_POINTS)


@combinations(entry_point=ENTRY_POINTS, name=["add", "add_later"])
async def test_the_first_middleware_is_the_outermost(entry_point, name):
    log: list[str] = []
    kit = kit_of(noting("a", log), noting("b", log))
    returned = await call_through(kit, entry_point, name, {"a": 1})
    assert value_of(returned) == 2
    assert log == ["a before", "b before", "b after", "a after"]


def test_middleware_of_a_tool_runs_inside_the_toolkits():
    log: list[str] = []
    kit = kit_of(noting("kit", log))

    def own() -> int:
        return 1

    kit.add(own, middleware=[noting("own", log)])
    assert kit.call("own") == 1
    assert log == ["kit before", "own before", "own after", "kit after"]
    log.clear()
    kit.call("add", {"a": 1})
    assert log == ["kit before", "kit after"]


def test_use_returns_a_function_that_removes_the_middleware():
    log: list[str] = []
    kit = kit_of()
    layer = noting("a", log)
    first, second = kit.use(layer), kit.use(layer)
    kit.call("add", {"a": 1})
    assert log.count("a before") == 2
    first()
    first()
    kit.call("add", {"a": 1})
    assert log.count("a before") == 3
    second()
    kit.call("add", {"a": 1})
    assert log.count("a before") == 3


@pytest.mark.parametrize("value", [None, "log", 3])
def test_a_middleware_must_be_callable(value):
    with pytest.raises(ToolkitError, match="A middleware is"):
        kit_of(value)


def test_a_sync_body_runs_in_the_thread_of_its_sync_caller():
    kit = kit_of(noting("a", []))
    assert kit.call("where")[0] == threading.current_thread().name
    names: list[str] = []
    thread = threading.Thread(target=lambda: names.append(kit.call("where")[0]), name="caller")
    thread.start()
    thread.join(10)
    assert names == ["caller"]


@combinations(entry_point=ENTRY_POINTS)
async def test_contextvars_of_a_middleware_reach_the_body_and_not_the_caller(entry_point):
    async def scope(call, next):
        token = scope_name.set("inside")
        try:
            return await next(call)
        finally:
            scope_name.reset(token)

    kit = kit_of(scope)
    returned = await call_through(kit, entry_point, "where", {})
    assert value_of(returned)[1] == "inside"
    assert scope_name.get() == "none"


@each_entry_point
async def test_contextvars_of_a_middleware_do_not_reach_the_reader_of_a_stream(entry_point):
    async def scope(call, next):
        scope_name.set("inside")
        return await next(call)

    kit = kit_of(scope)
    seen: list[str] = []
    if entry_point == "stream":
        seen += [scope_name.get() for _ in kit.stream("count", {"n": 2})]
    elif entry_point == "astream":
        seen += [scope_name.get() async for _ in kit.astream("count", {"n": 2})]
    else:
        await call_through(kit, "exec", "add", {"a": 1})
        seen.append(scope_name.get())
    assert set(seen) == {"none"}


# results and errors


@combinations(entry_point=["call", "acall"])
async def test_call_raises_the_exception_of_the_body(entry_point):
    kit = kit_of(noting("a", []))
    with pytest.raises(LookupError, match="gone"):
        await call_through(kit, entry_point, "fail", {"text": "gone"})
    with pytest.raises(InvalidParametersError):
        await call_through(kit, entry_point, "add", {"a": "x"})


@pytest.mark.parametrize("entry_point", ["call", "acall"])
async def test_call_raises_the_error_of_a_result_that_a_middleware_replaced(entry_point):
    async def soften(call, next):
        result = await next(call)
        return result if result.error is None else ToolResult(error=ErrorDetail(code="cancelled", message="Softly."))

    with pytest.raises(CallCancelledError, match=r"Softly\."):
        await call_through(kit_of(soften), entry_point, "fail", {})

    async def own_code(call, next):
        return ToolResult(error=ErrorDetail(code="teapot", message="Short and stout."))

    with pytest.raises(ToolCallError, match="stout") as caught:
        await call_through(kit_of(own_code), entry_point, "add", {"a": 1})
    assert caught.value.code == "teapot"


@combinations(entry_point=["exec", "aexec", "stream", "astream"])
async def test_a_failing_middleware_is_an_error_result_without_its_text(entry_point, caplog):
    async def passing(call, next):
        return await next(call)

    async def broken(call, next):
        raise ValueError("hunter2-hunter2")

    kit = kit_of(passing, broken)
    returned = await call_through(kit, entry_point, "add", {"a": 1})
    result = returned[-1] if isinstance(returned, list) else returned
    assert (result.error.code, result.error.message) == ("tool_error", "A middleware of tool 'add' failed.")
    assert str(result.exception) == "hunter2-hunter2"
    assert "hunter2" not in caplog.text
    (record,) = caplog.records
    line = broken.__code__.co_firstlineno + 1
    assert record.getMessage() == (f"A middleware of tool 'add' failed: ValueError (test_pipeline.py, line {line})")


@pytest.mark.parametrize("entry_point", ["call", "acall"])
async def test_call_raises_the_exception_of_a_middleware(entry_point):
    async def broken(call, next):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        await call_through(kit_of(broken), entry_point, "add", {"a": 1})


@pytest.mark.parametrize("is_outermost", [True, False])
def test_a_middleware_that_returns_no_result_is_an_error_that_names_it(is_outermost, caplog):
    async def forgetful(call, next):
        result = await next(call)
        return result if call.name == "other" else None

    async def reading(call, next):
        return replace(await next(call), meta={})

    kit = kit_of(*([] if is_outermost else [reading]), forgetful)
    assert kit.exec("add", {"a": 1}).error.code == "tool_error"
    name = re.escape(forgetful.__qualname__)
    assert re.search(f"The middleware {name} of tool 'add' returned NoneType, not a ToolResult", caplog.text)
    with pytest.raises(TypeError, match="returned NoneType, not a ToolResult"):
        kit.call("add", {"a": 1})


def test_a_middleware_that_is_not_async_is_an_error_that_names_it():
    def instant(call, next):
        return 1

    with pytest.raises(TypeError, match="instant of tool 'add' returned int, not a ToolResult"):
        kit_of(instant).call("add", {"a": 1})


def test_the_log_names_the_function_of_the_host_that_a_middleware_called(caplog):
    def broken(call, result):
        raise KeyError("hunter2-hunter2")

    kit = Toolkit("own").add(kit_of()["add"], postprocess=broken)
    assert kit.exec("add", {"a": 1}).error.code == "tool_error"
    assert "A middleware of tool 'add' failed: KeyError (test_pipeline.py, line" in caplog.text


@each_entry_point
async def test_arguments_may_be_changed_and_the_call_answered_without_its_tool(entry_point):
    async def change(call, next):
        if call.arguments.get("a") == 0:
            return ToolResult("skipped")
        return await next(replace(call, arguments={**call.arguments, "b": 10}))

    kit = kit_of(change)
    for a, expected in ((1, 11), (0, "skipped")):
        returned = await call_through(kit, entry_point, "add", {"a": a})
        assert value_of(returned) == expected


@combinations(entry_point=["exec", "call"])
def test_system_exit_of_a_body_is_raised_in_a_local_caller(entry_point):
    kit = kit_of(noting("a", []))

    @kit.tool
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        getattr(kit, entry_point)("leave")
    assert kit.call("add", {"a": 1}) == 2


# streams


@pytest.mark.parametrize("name", ["count", "count_later"])
@pytest.mark.parametrize("entry_point", ["stream", "astream"])
async def test_chunks_pass_through_and_the_result_comes_last(entry_point, name):
    async def shout(call, next):
        emit = call.emit
        assert emit is not None

        async def louder(chunk):
            await emit(replace(chunk, value=chunk.value * 10))

        return await next(replace(call, emit=louder))

    returned = await call_through(kit_of(shout), entry_point, name, {"n": 3})
    assert [(result.value, result.is_last) for result in returned] == [
        (0, False), (10, False), (20, False), ([0, 1, 2], True),
    ]  # fmt: skip
    assert len({result.id for result in returned}) == 1


async def test_closing_a_stream_ends_the_call_and_leaves_no_task():
    ended: list[str] = []

    async def watch(call, next):
        try:
            return await next(call)
        finally:
            ended.append("middleware")

    kit = Toolkit("kit", middleware=[watch])

    @kit.tool
    async def endless() -> Any:
        try:
            number = 0
            while True:
                yield number
                number += 1
        finally:
            ended.append("body")

    results = kit.astream("endless")
    assert (await anext(results)).value == 0
    await results.aclose()
    assert await auntil(lambda: ended == ["body", "middleware"])
    assert await auntil(lambda: len(asyncio.all_tasks()) == 1)
    stream = await asyncio.to_thread(kit.stream, "endless")
    assert (await asyncio.to_thread(next, stream)).value == 0
    await asyncio.to_thread(stream.close)
    assert await auntil(lambda: ended == ["body", "middleware"] * 2)


@pytest.mark.parametrize("name", ["add", "add_later"])
async def test_a_cancelled_call_leaves_nothing_running(name):
    begun = asyncio.Event()

    async def wait(call, next):
        begun.set()
        await asyncio.sleep(60)
        return await next(call)

    task = asyncio.create_task(kit_of(wait).aexec(name, {"a": 1}))
    await begun.wait()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert await auntil(lambda: len(asyncio.all_tasks()) == 1)


def test_many_sync_callers_do_not_wait_for_each_other():
    everyone = asyncio.Barrier(30)

    async def meet(call, next):
        async with asyncio.timeout(WAIT):
            await everyone.wait()
        return await next(call)

    kit = kit_of(meet)
    values: list[int] = []
    threads = [threading.Thread(target=lambda n=n: values.append(kit.call("add", {"a": n}))) for n in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(values) == list(range(1, 31))


async def test_a_call_from_inside_a_tool_passes_through_the_middleware():
    log: list[str] = []
    kit = kit_of(noting("a", log))

    @kit.tool
    async def outer() -> int:
        return await kit.acall("add", {"a": 1})

    @kit.tool
    def outer_sync() -> int:
        return kit.call("add_later", {"a": 1})

    assert await kit.acall("outer") == 2
    assert await kit.acall("outer_sync") == 2
    assert await asyncio.to_thread(kit.call, "outer_sync") == 2
    assert log.count("a before") == 6


async def passing(call, next):
    return await next(call)


def changing(change: Any, *, chunks: bool) -> Any:
    """Return a postprocess that changes the chunks, or the result."""
    return lambda call, result: change(result) if result.is_last is not chunks else None


@pytest.mark.parametrize("entry_point", ["stream", "astream"])
async def test_a_stream_has_one_last_result_although_middleware_changes_it(entry_point):
    kit = Toolkit("kit")
    kit.add(lambda: 1, rename="one", postprocess=lambda call, result: replace(result, is_last=False, id=None))
    (last,) = await call_through(kit, entry_point, "one", {})
    assert (last.is_last, last.value) == (True, 1)
    assert last.id is not None


@combinations(entry_point=ENTRY_POINTS, name=["add", "add_later", "count"])
async def test_a_middleware_that_raises_cancelled_error_is_a_cancelled_result(entry_point, name):
    def cancel(_result):
        raise asyncio.CancelledError

    kit = kit_of()
    kit.use(passing)
    own = Toolkit("own").add(kit[name], rename="one", postprocess=changing(cancel, chunks=False))
    arguments = {"n": 1} if name == "count" else {"a": 1}
    if entry_point in ("call", "acall"):
        with pytest.raises(CallCancelledError):
            await call_through(own, entry_point, "one", arguments)
    else:
        returned = await call_through(own, entry_point, "one", arguments)
        last = returned[-1] if isinstance(returned, list) else returned
        assert last.error.code == "cancelled"
    assert asyncio.current_task().cancelling() == 0


@combinations(entry_point=ENTRY_POINTS)
async def test_a_tool_that_raises_cancelled_error_raises_call_cancelled_error(entry_point):
    async def own():
        raise asyncio.CancelledError

    kit = Toolkit("kit", middleware=[noting("x", [])]).add(own)
    if entry_point in ("call", "acall"):
        with pytest.raises(CallCancelledError):
            await call_through(kit, entry_point, "own", {})
    else:
        returned = await call_through(kit, entry_point, "own", {})
        last = returned[-1] if isinstance(returned, list) else returned
        assert last.error.code == "cancelled"


@pytest.mark.parametrize("entry_point", ["stream", "astream"])
@pytest.mark.parametrize("name", ["count", "count_later"])
async def test_an_exception_of_a_middleware_on_a_chunk_is_reported_as_the_middlewares(entry_point, name):
    def fail(_result):
        raise ValueError("hunter2-hunter2")

    kit = Toolkit("own").add(kit_of()[name], postprocess=changing(fail, chunks=True))
    last = (await call_through(kit, entry_point, name, {"n": 2}))[-1]
    assert last.error.message == f"A middleware of tool {name!r} failed."


@pytest.mark.parametrize("name", ["count", "count_later"])
async def test_system_exit_of_a_middleware_reaches_the_reader_and_not_the_loop(name):
    def leave(_result):
        raise SystemExit(3)

    kit = Toolkit("own").add(kit_of()[name], postprocess=changing(leave, chunks=True))
    with pytest.raises(SystemExit):
        await call_through(kit, "astream", name, {"n": 2})
    with pytest.raises(SystemExit):
        await call_through(kit, "stream", name, {"n": 2})
    assert await kit_of().acall("add_later", {"a": 1}) == 2  # both loops still run


@pytest.mark.parametrize("entry_point", ["stream", "astream"])
async def test_chunks_of_a_middleware_have_the_id_of_the_call(entry_point):
    async def adding(call, next):
        if call.emit is not None:
            await call.emit(ToolResult("first"))
        return await next(call)

    first, last = await call_through(kit_of(adding), entry_point, "add", {"a": 1})
    assert first.id == last.id is not None


def test_closing_a_stream_closes_the_body_and_middleware_sees_the_interrupted_result():
    seen: list[Any] = []
    closed: list[str] = []

    async def note(call, next):
        try:
            return await next(call)
        except BaseException as error:
            seen.append((type(error), call.interrupted))
            raise

    kit = Toolkit("kit", middleware=[note])

    @kit.tool
    def count() -> Any:
        try:
            yield from range(9)
        finally:
            closed.append("closed")

    results = kit.stream("count")
    assert [next(results).value, next(results).value] == [0, 1]
    results.close()
    assert closed == ["closed"]
    ((kind, interrupted),) = seen
    assert kind is asyncio.CancelledError
    assert (interrupted.value, interrupted.is_interrupted) == ([0, 1], True)


@combinations(entry_point=["call", "stream"], name=["quick", "quick_later"])
def test_the_time_of_a_middleware_after_the_body_does_not_count(entry_point, name):
    async def slow(call, next):
        result = await next(call)
        await asyncio.sleep(0.4)
        return result

    kit = Toolkit("kit", middleware=[slow], timeout=0.3)

    @kit.tool
    def quick() -> int:
        return 1

    @kit.tool
    async def quick_later() -> int:
        return 1

    assert (kit.call(name) if entry_point == "call" else list(kit.stream(name))[-1].value) == 1


@pytest.mark.parametrize("entry_point", ["stream", "astream"])
async def test_output_that_a_tool_appends_stays_in_order(entry_point):
    async def uneven(call, next):
        async def emit(chunk):
            await asyncio.sleep(0 if chunk.value % 2 else 0.02)
            await call.emit(chunk)

        return await next(replace(call, emit=emit))

    kit = Toolkit("kit", middleware=[uneven])

    @kit.tool
    def append(context: ToolContext) -> None:
        for number in range(6):
            context.append_output(number)

    *chunks, _ = await call_through(kit, entry_point, "append", {})
    assert [chunk.value for chunk in chunks] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("entry_point", ["stream", "astream"])
@pytest.mark.parametrize(("raised", "code"), [(asyncio.CancelledError, "cancelled"), (ValueError, "tool_error")])
async def test_an_exception_of_a_middleware_on_appended_output_ends_the_call(entry_point, raised, code):
    seen = []

    async def refuse(call, next):
        async def emit(chunk):
            seen.append(chunk.value)
            raise raised("no")

        return await next(replace(call, emit=emit))

    kit = Toolkit("kit", middleware=[refuse])

    @kit.tool
    def append(context: ToolContext) -> None:
        for number in range(6):
            context.append_output(number)
        time.sleep(0.05)

    async with asyncio.timeout(WAIT):
        *chunks, last = await call_through(kit, entry_point, "append", {})
    assert chunks == []
    assert last.error.code == code
    assert seen[0] == 0


@pytest.mark.parametrize("middleware", [[], [passing]], ids=["no middleware", "middleware"])
async def test_the_time_of_a_client_that_does_not_read_counts_for_a_served_tool(middleware):
    kit = Toolkit("kit", timeout=0.2, middleware=middleware)

    @kit.tool
    async def count_endlessly():
        while True:
            yield 1

    @kit.tool
    def count_in_a_thread():
        yield from range(1_000)

    async def stuck(_chunk):
        await asyncio.sleep(60)

    for name in kit:
        async with asyncio.timeout(WAIT):
            result = await calls.aexecute(kit._view, name.name, {}, calls.CallOptions(is_served=True, emit=stuck))
        assert result.error.code == "timeout"


@pytest.mark.parametrize("entry_point", ["stream", "astream"])
async def test_output_that_a_tool_appends_is_converted_like_items(entry_point):
    class Point(BaseModel):
        x: int
        key: SecretStr = SecretStr("hidden")

    class Odd:
        def __repr__(self) -> str:
            raise ValueError

    kit = Toolkit("kit")

    @kit.tool
    def append(context: ToolContext) -> str:
        context.append_output(Point(x=1))
        context.append_output({"at": (1, 2)})
        context.append_output(TextContent(type="text", text="block"))
        context.append_output(Odd())
        return "done"

    point, pair, block, odd, last = await call_through(kit, entry_point, "append", {})
    assert (point.value, pair.value) == ({"x": 1, "key": "**********"}, {"at": [1, 2]})
    assert block.content[0].text == "block"
    assert odd.error.code == "invalid_result"
    assert all(chunk.meta["output"] is True for chunk in (point, pair, block, odd))
    assert last.value == "done"


def test_a_sync_body_sees_that_a_middleware_cancelled_it():
    async def impatient(call, next):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                return await next(call)
        return ToolResult("too late")

    kit, stopped = Toolkit("kit", middleware=[impatient]), threading.Event()

    @kit.tool
    def look(context: ToolContext) -> None:
        end = time.monotonic() + WAIT
        try:
            while time.monotonic() < end:
                context.check_cancelled()
                time.sleep(0.005)
        except CallCancelledError:
            stopped.set()
            raise

    assert kit.call("look") == "too late"
    assert stopped.wait(WAIT)


async def test_output_appended_after_the_end_is_dropped():
    kit, threads = Toolkit("kit", middleware=[passing]), []

    @kit.tool
    def leave_timer(context: ToolContext) -> str:
        threads.append(threading.Timer(0.05, context.append_output, ["too late"]))
        threads[0].start()
        return "done"

    results = [result.value async for result in kit.astream("leave_timer")]
    await asyncio.to_thread(threads[0].join)
    await asyncio.sleep(0.01)
    assert results == ["done"]
    assert await auntil(lambda: asyncio.all_tasks() == {asyncio.current_task()})


def test_output_appended_after_the_loop_was_closed_is_dropped():
    kit, started, ended = Toolkit("kit"), threading.Event(), threading.Event()

    @kit.tool
    def slow(context: ToolContext) -> None:
        started.set()
        while not loop.is_closed():
            time.sleep(0.005)
        context.append_output("not read")
        ended.set()

    async def read() -> None:
        async for _ in kit.astream("slow"):
            raise AssertionError

    loop = asyncio.new_event_loop()
    reading = loop.create_task(read())
    assert loop.run_until_complete(auntil(started.is_set))
    reading.cancel()
    loop.run_until_complete(asyncio.wait([reading]))
    loop.close()
    assert ended.wait(WAIT)
