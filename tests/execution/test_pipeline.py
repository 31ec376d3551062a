"""A call through its middleware: in order, in the right thread and context, to the end, from sync and async code."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from mcp_types import TextContent
from pydantic import BaseModel, SecretStr

from ahvn_tools import ToolContext, Toolkit, ToolResult
from ahvn_tools.errors import (
    CallCancelledError,
    InvalidParametersError,
    ToolCallError,
    ToolkitError,
    ToolSpecError,
)
from ahvn_tools.middleware import inline
from ahvn_tools.results import ErrorDetail
from ahvn_tools.toolkit import calls

mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")


def noting(name: str, log: list[str], *, is_inline: bool) -> Any:
    async def note(call, next):
        log.append(f"{name} before")
        if not is_inline:
            await asyncio.sleep(0)
        result = await next(call)
        log.append(f"{name} after")
        return result

    return inline(note) if is_inline else note


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
        return [threading.current_thread().name, mark.get()]

    return kit


async def through(kit: Toolkit, door: str, name: str, arguments: dict[str, Any]) -> Any:
    """Call by any door; a stream gives the list of its results."""
    if door in ("call", "exec"):
        return getattr(kit, door)(name, arguments)
    if door in ("acall", "aexec"):
        return await getattr(kit, door)(name, arguments)
    if door == "stream":
        return list(kit.stream(name, arguments))
    return [result async for result in kit.astream(name, arguments)]


def value_of(made: Any) -> Any:
    """Return the value of what any door gave."""
    last = made[-1] if isinstance(made, list) and isinstance(made[-1], ToolResult) else made
    return last.value if isinstance(last, ToolResult) else last


each_door = pytest.mark.parametrize("door", ["call", "acall", "exec", "aexec", "stream", "astream"])
each_kind = pytest.mark.parametrize("is_inline", [True, False], ids=["inline", "awaiting"])


@each_door
@each_kind
@pytest.mark.parametrize("name", ["add", "add_later"])
async def test_the_first_is_the_outermost(door, is_inline, name):
    log: list[str] = []
    kit = kit_of(noting("a", log, is_inline=is_inline), noting("b", log, is_inline=is_inline))
    made = await through(kit, door, name, {"a": 1})
    assert value_of(made) == 2
    assert log == ["a before", "b before", "b after", "a after"]


@each_kind
def test_a_tools_own_stand_inside_of_the_toolkits(is_inline):
    log: list[str] = []
    kit = kit_of(noting("kit", log, is_inline=is_inline))

    def own() -> int:
        return 1

    kit.add(own, middleware=[noting("own", log, is_inline=is_inline)])
    assert kit.call("own") == 1
    assert log == ["kit before", "own before", "own after", "kit after"]
    log.clear()
    kit.call("add", {"a": 1})
    assert log == ["kit before", "kit after"]


def test_adding_returns_its_undo():
    log: list[str] = []
    kit = kit_of()
    layer = noting("a", log, is_inline=True)
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


@pytest.mark.parametrize("thing", [None, "log", 3])
def test_what_cannot_be_called_is_no_middleware(thing):
    with pytest.raises(ToolkitError, match="A middleware is"):
        kit_of(thing)


@each_kind
def test_a_sync_body_runs_in_the_thread_of_its_sync_caller(is_inline):
    kit = kit_of(noting("a", [], is_inline=is_inline))
    assert kit.call("where")[0] == threading.current_thread().name
    names: list[str] = []
    thread = threading.Thread(target=lambda: names.append(kit.call("where")[0]), name="caller")
    thread.start()
    thread.join(10)
    assert names == ["caller"]


@each_door
@each_kind
async def test_what_a_middleware_sets_is_seen_inside_and_not_by_the_caller(door, is_inline):
    async def scope(call, next):
        token = mark.set("inside")
        try:
            return await next(call)
        finally:
            mark.reset(token)

    kit = kit_of(inline(scope) if is_inline else scope)
    made = await through(kit, door, "where", {})
    assert value_of(made)[1] == "inside"
    assert mark.get() == "none"


@each_door
async def test_a_reader_never_runs_inside_of_a_scope(door):
    async def scope(call, next):
        mark.set("inside")
        return await next(call)

    kit = kit_of(scope)
    seen: list[str] = []
    if door == "stream":
        seen += [mark.get() for _ in kit.stream("count", {"n": 2})]
    elif door == "astream":
        seen += [mark.get() async for _ in kit.astream("count", {"n": 2})]
    else:
        await through(kit, "exec", "add", {"a": 1})
        seen.append(mark.get())
    assert set(seen) == {"none"}


# results and errors


@each_kind
@pytest.mark.parametrize("door", ["call", "acall"])
async def test_call_raises_what_the_body_raised(door, is_inline):
    kit = kit_of(noting("a", [], is_inline=is_inline))
    with pytest.raises(LookupError, match="gone"):
        await through(kit, door, "fail", {"text": "gone"})
    with pytest.raises(InvalidParametersError):
        await through(kit, door, "add", {"a": "x"})


@pytest.mark.parametrize("door", ["call", "acall"])
async def test_call_raises_what_a_middleware_made_of_it(door):
    @inline
    async def soften(call, next):
        result = await next(call)
        return result if result.error is None else ToolResult(error=ErrorDetail(code="cancelled", message="Softly."))

    with pytest.raises(CallCancelledError, match=r"Softly\."):
        await through(kit_of(soften), door, "fail", {})

    @inline
    async def own_code(call, next):
        return ToolResult(error=ErrorDetail(code="teapot", message="Short and stout."))

    with pytest.raises(ToolCallError, match="stout") as caught:
        await through(kit_of(own_code), door, "add", {"a": 1})
    assert caught.value.code == "teapot"


@pytest.mark.parametrize("door", ["exec", "aexec", "stream", "astream"])
@each_kind
async def test_a_middleware_that_fails_is_an_error_result_without_its_text(door, is_inline, caplog):
    async def broken(call, next):
        raise ValueError("hunter2-hunter2")

    kit = kit_of(inline(broken) if is_inline else broken)
    made = await through(kit, door, "add", {"a": 1})
    result = made[-1] if isinstance(made, list) else made
    assert (result.error.code, result.error.message) == ("tool_error", "A middleware of tool 'add' failed.")
    assert "hunter2" not in caplog.text
    assert "raised ValueError" in caplog.text


@pytest.mark.parametrize("door", ["call", "acall"])
async def test_call_raises_what_a_middleware_raised(door):
    async def broken(call, next):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        await through(kit_of(broken), door, "add", {"a": 1})


async def test_a_middleware_that_returns_no_result_is_told():
    @inline
    async def forgetful(call, next):
        await next(call)

    assert kit_of(forgetful).exec("add", {"a": 1}).error.code == "tool_error"
    with pytest.raises(TypeError, match=r"returned a NoneType and no ToolResult"):
        kit_of(forgetful).call("add", {"a": 1})


def test_a_false_inline_mark_is_told():
    @inline
    async def waits(call, next):
        await asyncio.sleep(0)
        return await next(call)

    with pytest.raises(Exception, match="marked `inline` waited for something"):
        kit_of(waits).exec("add", {"a": 1})


@each_door
async def test_arguments_may_be_changed_and_the_call_answered_without_its_tool(door):
    @inline
    async def change(call, next):
        if call.arguments.get("a") == 0:
            return ToolResult("skipped")
        return await next(replace(call, arguments={**call.arguments, "b": 10}))

    kit = kit_of(change)
    for a, expected in ((1, 11), (0, "skipped")):
        made = await through(kit, door, "add", {"a": a})
        assert value_of(made) == expected


@each_kind
def test_next_may_be_called_again(is_inline):
    async def twice(call, next):
        await next(call)
        return await next(call)

    ran: list[int] = []
    kit = Toolkit("kit", middleware=[inline(twice) if is_inline else twice])

    @kit.tool
    def note() -> int:
        ran.append(1)
        return len(ran)

    assert kit.call("note") == 2


@each_kind
@pytest.mark.parametrize("door", ["exec", "call"])
def test_a_body_that_ends_the_program_ends_it_in_a_local_caller(door, is_inline):
    kit = kit_of(noting("a", [], is_inline=is_inline))

    @kit.tool
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        getattr(kit, door)("leave")
    assert kit.call("add", {"a": 1}) == 2


# streams


@pytest.mark.parametrize("name", ["count", "count_later"])
@pytest.mark.parametrize("door", ["stream", "astream"])
async def test_chunks_pass_through_and_the_whole_comes_last(door, name):
    @inline
    async def shout(call, next):
        emit = call.emit
        assert emit is not None

        async def louder(chunk):
            await emit(replace(chunk, value=chunk.value * 10))

        return await next(replace(call, emit=louder))

    made = await through(kit_of(shout), door, name, {"n": 3})
    assert [(result.value, result.is_last) for result in made] == [
        (0, False), (10, False), (20, False), ([0, 1, 2], True),
    ]  # fmt: skip
    assert len({result.id for result in made}) == 1


async def test_a_reader_who_leaves_ends_the_call_and_nothing_stays():
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
    assert ended == ["body", "middleware"]
    assert len(asyncio.all_tasks()) == 1
    stream = await asyncio.to_thread(kit.stream, "endless")
    assert (await asyncio.to_thread(next, stream)).value == 0
    await asyncio.to_thread(stream.close)
    assert ended == ["body", "middleware"] * 2


async def test_the_time_of_a_slow_reader_does_not_count():
    kit = kit_of(noting("a", [], is_inline=True))
    made = []
    async for result in kit.astream("count_later", {"n": 3}, timeout=0.2):
        made.append(result)
        await asyncio.sleep(0.15)
    assert made[-1].error is None


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
    assert len(asyncio.all_tasks()) == 1


def test_many_sync_callers_do_not_wait_for_each_other():
    async def slow(call, next):
        await asyncio.sleep(0.1)
        return await next(call)

    kit = kit_of(slow)
    made: list[int] = []
    threads = [threading.Thread(target=lambda n=n: made.append(kit.call("add", {"a": n}))) for n in range(30)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(made) == list(range(1, 31))
    assert time.perf_counter() - started < 30 * 0.1


async def test_a_call_from_inside_a_tool_passes_the_middleware_too():
    log: list[str] = []
    kit = kit_of(noting("a", log, is_inline=False))

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
    """Return a postprocess that does something to the chunks, or to the result."""
    return lambda call, result: change(result) if result.is_last is not chunks else None


@pytest.mark.parametrize("door", ["stream", "astream"])
async def test_a_stream_has_one_last_result_whatever_middleware_makes_of_it(door):
    kit = Toolkit("kit")
    kit.add(lambda: 1, rename="one", postprocess=lambda call, result: replace(result, is_last=False, id=None))
    (last,) = await through(kit, door, "one", {})
    assert (last.is_last, last.value) == (True, 1)
    assert last.id is not None


@each_door
@pytest.mark.parametrize("name", ["add", "add_later", "count"])
async def test_a_cancellation_that_a_middleware_raises_by_itself_is_a_result(door, name):
    def cancel(_result):
        raise asyncio.CancelledError

    kit = kit_of()
    kit.use(passing)
    given = kit[name]
    own = Toolkit("own").add(given, rename="one", postprocess=changing(cancel, chunks=False))
    arguments = {"n": 1} if name == "count" else {"a": 1}
    if door in ("call", "acall"):
        with pytest.raises(CallCancelledError):
            await through(own, door, "one", arguments)
    else:
        made = await through(own, door, "one", arguments)
        last = made[-1] if isinstance(made, list) else made
        assert last.error.code == "cancelled"
    assert asyncio.current_task().cancelling() == 0


@each_door
@each_kind
async def test_a_cancellation_of_the_tools_own_is_raised_as_ours(door, is_inline):
    async def own():
        raise asyncio.CancelledError

    kit = Toolkit("kit", middleware=[noting("x", [], is_inline=is_inline)]).add(own)
    if door in ("call", "acall"):
        with pytest.raises(CallCancelledError):
            await through(kit, door, "own", {})
    else:
        made = await through(kit, door, "own", {})
        last = made[-1] if isinstance(made, list) else made
        assert last.error.code == "cancelled"


@pytest.mark.parametrize("door", ["stream", "astream"])
@pytest.mark.parametrize("name", ["count", "count_later"])
async def test_what_a_middleware_raises_on_a_chunk_is_not_the_tools_error(door, name):
    def fail(_result):
        raise ValueError("hunter2-hunter2")

    kit = Toolkit("own").add(kit_of()[name], postprocess=changing(fail, chunks=True))
    last = (await through(kit, door, name, {"n": 2}))[-1]
    assert last.error.message == f"A middleware of tool {name!r} failed."


@pytest.mark.parametrize("name", ["count", "count_later"])
async def test_what_ends_a_program_reaches_the_reader_and_not_the_loop(name):
    def leave(_result):
        raise SystemExit(3)

    kit = Toolkit("own").add(kit_of()[name], postprocess=changing(leave, chunks=True))
    with pytest.raises(SystemExit):
        await through(kit, "astream", name, {"n": 2})
    with pytest.raises(SystemExit):
        await through(kit, "stream", name, {"n": 2})
    assert await kit_of().acall("add_later", {"a": 1}) == 2  # both loops live


@pytest.mark.parametrize("door", ["stream", "astream"])
async def test_chunks_that_a_middleware_makes_have_the_id_of_the_call(door):
    async def adding(call, next):
        if call.emit is not None:
            await call.emit(ToolResult("first"))
        return await next(call)

    first, last = await through(kit_of(adding), door, "add", {"a": 1})
    assert first.id == last.id is not None


def test_a_sync_body_is_streamed_in_its_readers_thread_where_all_middleware_is_inline():
    kit = kit_of(noting("x", [], is_inline=True))

    @kit.tool
    def threads() -> Any:
        mark.set("inside")
        yield threading.current_thread().name
        yield mark.get()

    here = threading.current_thread().name
    results = kit.stream("threads")
    assert next(results).value == here
    assert mark.get() == "none"  # nothing of its context reaches the reader
    assert [result.value for result in results] == ["inside", [here, "inside"]]


def test_a_reader_who_leaves_such_a_stream_closes_the_body_and_middleware_hears_of_it():
    seen: list[Any] = []
    closed: list[str] = []

    @inline
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
    assert kind is GeneratorExit
    assert (interrupted.value, interrupted.is_interrupted) == ([0, 1], True)


def test_a_middleware_that_is_wrongly_marked_is_an_error_in_a_stream_too():
    async def sleepy(call, next):
        await asyncio.sleep(0)
        return await next(call)

    with pytest.raises(ToolSpecError, match="Take the mark away"):
        list(kit_of(inline(sleepy)).stream("count", {"n": 1}))


@pytest.mark.parametrize("door", ["exec", "stream"])
async def test_a_sync_caller_is_answered_on_time_when_a_body_blocks_the_loop(door):
    kit = Toolkit("kit", middleware=[passing])

    @kit.tool(timeout=0.1)
    async def block() -> None:
        time.sleep(1)  # noqa: ASYNC251  # the fault that is tested

    began = time.monotonic()
    made = await asyncio.to_thread(lambda: kit.exec("block") if door == "exec" else list(kit.stream("block"))[-1])
    assert made.error.code == "timeout"
    assert time.monotonic() - began < 0.9
    await asyncio.sleep(1)


def blocked_loop(kit: Toolkit) -> threading.Thread:
    """Let a body block the background loop for a second, from now on."""
    begun = threading.Event()

    async def block_all() -> None:
        begun.set()
        time.sleep(1)  # noqa: ASYNC251  # the fault that is tested

    kit.add(block_all)
    thread = threading.Thread(target=kit.exec, args=("block_all",))
    thread.start()
    assert begun.wait(10)
    return thread


@pytest.mark.parametrize("door", ["exec", "stream"])
@pytest.mark.parametrize("middleware", [inline(passing), passing], ids=["inline", "awaiting"])
async def test_a_sync_caller_is_answered_on_time_when_the_loop_is_blocked_before_its_call_begins(door, middleware):
    kit = Toolkit("kit", middleware=[middleware])

    @kit.tool(timeout=0.1)
    async def quick() -> int:
        return 1

    def run() -> tuple[ToolResult, float]:
        thread = blocked_loop(kit)
        began = time.monotonic()
        made = kit.exec("quick") if door == "exec" else list(kit.stream("quick"))[-1]
        took = time.monotonic() - began
        thread.join()
        return made, took

    made, took = await asyncio.to_thread(run)
    assert made.error is not None
    assert made.error.code == "timeout"
    assert took < 0.8
    assert made.meta["duration"] == pytest.approx(took, abs=0.2)


@pytest.mark.parametrize("door", ["call", "stream"])
@pytest.mark.parametrize("name", ["quick", "quick_later"])
def test_a_middleware_takes_its_own_time_when_the_body_was_on_time(door, name):
    async def slow(call, next):
        result = await next(call)
        await asyncio.sleep(0.6)
        return result

    kit = Toolkit("kit", middleware=[slow], timeout=0.1)

    @kit.tool
    def quick() -> int:
        return 1

    @kit.tool
    async def quick_later() -> int:
        return 1

    assert (kit.call(name) if door == "call" else list(kit.stream(name))[-1].value) == 1


@pytest.mark.parametrize("door", ["stream", "astream"])
async def test_chunks_that_a_tool_appends_stay_in_their_order(door):
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

    *chunks, _ = await through(kit, door, "append", {})
    assert [chunk.value for chunk in chunks] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("door", ["stream", "astream"])
@pytest.mark.parametrize(("raised", "code"), [(asyncio.CancelledError, "cancelled"), (ValueError, "tool_error")])
async def test_what_a_middleware_raises_on_a_chunk_that_was_appended_ends_the_call(door, raised, code):
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

    async with asyncio.timeout(5):
        *chunks, last = await through(kit, door, "append", {})
    assert chunks == []
    assert last.error.code == code
    assert seen[0] == 0


@pytest.mark.parametrize("middleware", [[], [passing]], ids=["straight", "through middleware"])
async def test_the_time_of_a_client_that_does_not_read_counts_for_a_served_tool(middleware):
    kit = Toolkit("kit", timeout=0.2, middleware=middleware)

    @kit.tool
    async def count_for_ever():
        while True:
            yield 1

    @kit.tool
    def count_in_a_thread():
        yield from range(1_000)

    async def stuck(_chunk):
        await asyncio.sleep(60)

    for name in kit:
        async with asyncio.timeout(5):
            result = await calls.aexecute(kit._view, name.name, {}, calls.CallOptions(is_served=True, emit=stuck))
        assert result.error.code == "timeout"


@pytest.mark.parametrize("door", ["stream", "astream"])
async def test_what_a_tool_appends_has_the_form_that_its_items_have(door):
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

    point, pair, block, odd, last = await through(kit, door, "append", {})
    assert (point.value, pair.value) == ({"x": 1, "key": "**********"}, {"at": [1, 2]})
    assert block.content[0].text == "block"
    assert odd.error.code == "invalid_result"
    assert all(chunk.meta["output"] is True for chunk in (point, pair, block, odd))
    assert last.value == "done"


def test_a_sync_body_is_told_when_a_middleware_waits_for_it_no_longer():
    async def impatient(call, next):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                return await next(call)
        return ToolResult("too late")

    kit = Toolkit("kit", middleware=[impatient])

    @kit.tool
    def look(context: ToolContext) -> None:
        until = time.monotonic() + 5
        while time.monotonic() < until:
            context.check_cancelled()
            time.sleep(0.005)

    began = time.monotonic()
    assert kit.call("look") == "too late"
    assert time.monotonic() - began < 2


async def test_what_is_appended_after_the_end_goes_nowhere_and_keeps_nothing_waiting():
    kit, threads = Toolkit("kit", middleware=[passing]), []

    @kit.tool
    def leave_somebody(context: ToolContext) -> str:
        threads.append(threading.Timer(0.05, context.append_output, ["too late"]))
        threads[0].start()
        return "done"

    results = [result.value async for result in kit.astream("leave_somebody")]
    await asyncio.to_thread(threads[0].join)
    await asyncio.sleep(0.01)
    assert results == ["done"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_call_may_be_driven_without_a_task():
    kit, loop = Toolkit("kit", middleware=[inline(passing)]), asyncio.get_running_loop()
    done = loop.create_future()

    @kit.tool
    async def at_once() -> int:
        return 1

    def drive() -> None:
        with pytest.raises(StopIteration) as stopped:
            kit.acall("at_once").send(None)
        done.set_result(stopped.value.value)

    loop.call_soon(drive)
    assert await done == 1


def test_what_is_appended_when_the_loop_is_closed_goes_nowhere():
    kit, ended = Toolkit("kit"), threading.Event()

    @kit.tool
    def slow(context: ToolContext) -> None:
        while not loop.is_closed():
            time.sleep(0.005)
        context.append_output("nobody reads")
        ended.set()

    async def read() -> None:
        async for _ in kit.astream("slow"):
            raise AssertionError

    loop = asyncio.new_event_loop()
    reading = loop.create_task(read())
    loop.run_until_complete(asyncio.wait([reading], timeout=0.05))
    reading.cancel()
    loop.run_until_complete(asyncio.wait([reading]))
    loop.close()
    assert ended.wait(10)
