"""Faults in calls and around them: every method ends correctly and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from ahvn_tools import ToolCall, ToolContext, Toolkit, ToolResult, execution
from ahvn_tools.errors import SyncCallError
from tests.execution.entry_points import WAIT, program, run, until


async def waiting(call, next):
    """Wrap a call and wait before and after it."""
    await asyncio.sleep(0)
    result = await next(call)
    await asyncio.sleep(0)
    return result


AROUND: dict[str, list[Any]] = {"bare": [], "awaiting": [waiting]}
"""The middleware of the calls; each case takes another path."""


async def all_of(kit: Toolkit, name: str, arguments: dict[str, Any] | None) -> list[ToolResult]:
    return [result async for result in kit.astream(name, arguments)]


RESULTS: dict[str, Callable[..., ToolResult]] = {
    "exec": lambda kit, name, arguments=None: kit.exec(name, arguments),
    "aexec": lambda kit, name, arguments=None: run(kit.aexec, name, arguments),
    "stream": lambda kit, name, arguments=None: list(kit.stream(name, arguments))[-1],
    "astream": lambda kit, name, arguments=None: run(all_of, kit, name, arguments)[-1],
    "run": lambda kit, name, arguments=None: kit.run(two(name, arguments)).results[0][1],
    "arun": lambda kit, name, arguments=None: run(kit.arun, two(name, arguments)).results[0][1],
}
"""The methods that return a result; `run` and `arun` run the call twice at once."""


def two(name: str, arguments: dict[str, Any] | None) -> list[ToolCall]:
    return [ToolCall(id=f"c{number}", name=name, arguments=arguments or {}) for number in range(2)]


each_method = pytest.mark.parametrize(
    "method",
    [
        name if name in {"exec", "astream", "arun"} else pytest.param(name, marks=pytest.mark.exhaustive)
        for name in RESULTS
    ],
)


@pytest.fixture(params=["bare", "awaiting"])
def kit(request) -> Toolkit:
    """Return a toolkit without tools, with nothing or a middleware around its calls."""
    return Toolkit("kit", middleware=AROUND[request.param], mask_errors=False)


# cancelled at every await


class Desk:
    """A toolkit with everything that a call can wait for, and a count of what is open in it."""

    def __init__(self) -> None:
        self.open = 0
        self.kit = Toolkit("desk", middleware=[self.middleware, waiting], approver=self.approve, max_concurrency=2)
        options: dict[str, Any] = {"exclusive": "path", "timeout": WAIT, "requires_approval": True}
        self.kit.add(self.write, postprocess=self.postprocess, **options)
        self.kit.add(self.write_sync, postprocess=self.postprocess, **options)
        self.kit.add(self.lines, postprocess=self.postprocess, **options)
        self.kit.add(self.lines_sync, postprocess=self.postprocess, **options)

    async def middleware(self, call, next):
        self.open += 1
        try:
            return await waiting(call, next)
        finally:
            self.open -= 1

    async def approve(self, request) -> bool:
        await asyncio.sleep(0)
        return True

    async def postprocess(self, call, result) -> ToolResult | None:
        await asyncio.sleep(0)
        return None

    async def write(self, path: str, context: ToolContext) -> str:
        """Write, with a wait in between."""
        self.open += 1
        try:
            context.report_progress(1, 2)
            context.append_output("begun")
            await asyncio.sleep(0)
        finally:
            self.open -= 1
        return path

    def write_sync(self, path: str, context: ToolContext) -> str:
        """Write in a thread."""
        context.append_output("begun")
        return path

    async def lines(self, path: str, context: ToolContext) -> AsyncIterator[str]:
        """Yield lines."""
        self.open += 1
        try:
            for number in range(2):
                context.append_output(number)
                yield f"{path}{number}"
        finally:
            self.open -= 1

    def lines_sync(self, path: str, context: ToolContext) -> Iterator[str]:
        """Yield lines from a thread."""
        for number in range(2):
            context.append_output(number)
            yield f"{path}{number}"

    def batch(self) -> list[ToolCall]:
        """Return calls of which some share a key, and some run at the same time."""
        names = ["write", "write_sync", "write", "lines", "write"]
        return [
            ToolCall(id=f"c{number}", name=name, arguments={"path": "ab"[number == 4]})
            for number, name in enumerate(names)
        ]


PATH = {"path": "a"}

DEEDS: dict[str, Callable[[Toolkit, list[ToolCall]], Awaitable[Any]]] = {
    "acall": lambda kit, _: kit.acall("write", PATH),
    "aexec": lambda kit, _: kit.aexec("write", PATH),
    "aexec, a thread": lambda kit, _: kit.aexec("write_sync", PATH),
    "astream": lambda kit, _: all_of(kit, "write", PATH),
    "astream, a generator": lambda kit, _: all_of(kit, "lines", PATH),
    "astream, a thread": lambda kit, _: all_of(kit, "lines_sync", PATH),
    "arun": lambda kit, batch: kit.arun(batch),
}


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.default_cases(2)
async def test_a_task_cancelled_at_any_step_leaves_nothing_running_and_holds_no_key(deed):
    desk, steps, is_done = Desk(), 0, False
    while not is_done:
        task = asyncio.ensure_future(DEEDS[deed](desk.kit, desk.batch()))
        for _ in range(steps):
            await asyncio.sleep(0)
        is_done = task.done()
        task.cancel()
        await asyncio.wait({task}, timeout=WAIT)
        assert task.cancelled() is not is_done
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert await asyncio.to_thread(until, lambda: desk.open == 0 and execution.abandoned() == 0)
        for path in "ab":
            assert await asyncio.wait_for(desk.kit.acall("write", {"path": path}), WAIT) == path
        steps += 1 + steps // 20  # threads take many steps
    assert steps >= 8
    task.result()


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.default_cases(2)
async def test_a_task_cancelled_at_any_step_while_it_waits_for_a_key_does_not_block_the_key(deed):
    desk, begun, go_on = Desk(), asyncio.Event(), asyncio.Event()

    @desk.kit.tool(exclusive="path")
    async def hold(path: str) -> None:
        begun.set()
        await go_on.wait()

    for steps in range(24):
        begun.clear()
        go_on.clear()
        holding = asyncio.create_task(desk.kit.aexec("hold", PATH))
        await begun.wait()
        task = asyncio.ensure_future(DEEDS[deed](desk.kit, desk.batch()))
        behind = asyncio.create_task(desk.kit.acall("write", PATH))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=WAIT)
        assert task.cancelled()
        assert not behind.done()
        go_on.set()
        assert await asyncio.wait_for(behind, WAIT) == "a"
        await holding
        assert asyncio.all_tasks() == {asyncio.current_task()}
    assert await asyncio.to_thread(until, lambda: desk.open == 0)


@pytest.mark.parametrize("is_stream", [False, True], ids=["call", "stream"])
async def test_a_cancelled_thread_is_counted_until_its_body_ends_and_holds_no_key(kit, is_stream):
    begun, go_on = threading.Event(), threading.Event()

    def hang(path: str) -> str:
        begun.set()
        go_on.wait(WAIT)
        return path

    kit.add(hang, exclusive="path")
    before = execution.abandoned()
    task = asyncio.create_task(all_of(kit, "hang", PATH) if is_stream else kit.aexec("hang", PATH))
    assert await asyncio.to_thread(begun.wait, WAIT)
    task.cancel()
    await asyncio.wait({task}, timeout=WAIT)
    assert task.cancelled()
    assert execution.abandoned() == before + 1
    go_on.set()
    assert await asyncio.wait_for(kit.acall("hang", PATH), WAIT) == "a"
    assert await asyncio.to_thread(until, lambda: execution.abandoned() == before)


# bodies that hang


class Hanging:
    """Bodies that hang until an event is set."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def sync(self) -> None:
        self.go_on.wait(WAIT)

    async def polite(self) -> None:
        await asyncio.sleep(60)

    async def deaf(self) -> None:
        end = time.perf_counter() + 0.3  # `asyncio.run` waits for it, whatever we do
        while time.perf_counter() < end:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    def items(self) -> Iterator[int]:
        yield 1
        self.go_on.wait(WAIT)

    async def aitems(self) -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(60)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    bodies = Hanging()
    yield bodies
    bodies.go_on.set()
    assert until(lambda: execution.abandoned() == 0)


@each_method
@pytest.mark.parametrize(
    "body",
    [
        "sync",
        pytest.param("polite", marks=pytest.mark.exhaustive),
        "deaf",
        pytest.param("items", marks=pytest.mark.exhaustive),
        "aitems",
    ],
)
def test_a_hanging_body_times_out_and_does_not_starve_other_calls(kit, hanging, method, body):
    kit.add(getattr(hanging, body), timeout=0.05).add(lambda: "ok", rename="other")
    started = time.perf_counter()
    assert RESULTS[method](kit, body).error.code == "timeout"
    assert time.perf_counter() - started < WAIT / 4
    assert RESULTS[method](kit, "other").value == "ok"


@pytest.mark.exhaustive
def test_a_hanging_tool_does_not_delay_the_exit_of_the_interpreter():
    code = """if True:
        import asyncio, sys, time
        from ahvn_tools import Toolkit

        async def waiting(call, next):
            await asyncio.sleep(0)
            return await next(call)

        kit = Toolkit("kit", middleware=[waiting])

        @kit.tool(exclusive=True, timeout=0.05)
        def hang() -> None:
            time.sleep(60)

        print(kit.exec("hang").error.code, asyncio.run(kit.aexec("hang")).error.code)
        """
    started = time.perf_counter()
    status, output, errors = program(code)
    assert (status, output.split(), errors) == (0, ["timeout", "timeout"], "")
    assert time.perf_counter() - started < 50


# what bodies raise


@each_method
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_system_exit_is_raised_in_the_caller_alone(kit, method, error, is_async, caplog):
    def end() -> None:
        raise error

    async def end_async() -> None:
        await asyncio.sleep(0)
        raise error

    kit.add(end_async if is_async else end, rename="end", exclusive=True).add(lambda: "ok", rename="other")
    with pytest.raises(type(error)):
        RESULTS[method](kit, "end")
    with pytest.raises(type(error)):
        RESULTS[method](kit, "end")
    assert RESULTS[method](kit, "other").value == "ok"
    assert caplog.records == []


class WithoutText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def endlessly() -> None:
    endlessly()


def circle() -> list[Any]:
    outcomes: list[Any] = []
    outcomes.append(outcomes)
    return outcomes


def raising(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


FAILING: dict[str, tuple[Callable[[], Any], str, str]] = {
    "group": (raising(ExceptionGroup("two", [ValueError("a"), KeyError("b")])), "tool_error", "ExceptionGroup: two"),
    "no text": (raising(WithoutText()), "tool_error", "WithoutText: its text cannot be read"),
    "stop": (raising(StopIteration(1)), "tool_error", "StopIteration: 1"),
    "async stop": (raising(StopAsyncIteration(1)), "tool_error", "StopAsyncIteration: 1"),
    "recursion": (endlessly, "tool_error", "RecursionError"),
    "cancelled": (raising(asyncio.CancelledError()), "cancelled", "cancelled itself"),
    "object": (object, "invalid_result", "invalid result"),
    "nan": (lambda: float("nan"), "invalid_result", "invalid result"),
    "deep": (lambda: deep(100_000), "invalid_result", "invalid result"),
    "circle": (circle, "invalid_result", "invalid result"),
}


def deep(levels: int) -> list[Any]:
    outcomes: list[Any] = []
    for _ in range(levels):
        outcomes = [outcomes]
    return outcomes


@each_method
@pytest.mark.parametrize("what", FAILING)
@pytest.mark.parametrize("is_async", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["sync", "async"])
@pytest.mark.default_cases(12)
def test_an_error_in_a_body_is_an_error_result(kit, method, what, is_async):
    body, code, text = FAILING[what]

    def fail() -> Any:
        return body()

    async def fail_async() -> Any:
        await asyncio.sleep(0)
        return body()

    kit.add(fail_async if is_async else fail, rename="fail")
    result = RESULTS[method](kit, "fail")
    if (what, is_async) == ("stop", True):  # a coroutine cannot raise it
        text = "RuntimeError: coroutine raised StopIteration"
    assert (result.error.code, result.is_last) == (code, True)
    assert text in result.error.message


@pytest.mark.parametrize("method", ["stream", "astream"])
def test_an_item_without_a_json_form_is_an_error_chunk_and_the_whole_is_invalid(kit, method):
    def items() -> Iterator[Any]:
        yield 1
        yield object()

    kit.add(items)
    results = list(kit.stream("items")) if method == "stream" else run(all_of, kit, "items", None)
    assert [(result.is_last, result.error and result.error.code) for result in results] == [
        (False, None), (False, "invalid_result"), (True, "invalid_result"),
    ]  # fmt: skip


# post-processing


def raise_always(call, result):
    raise ValueError("hunter2-hunter2")


async def raise_later(call, result):
    await asyncio.sleep(0)
    raise ValueError("hunter2-hunter2")


@each_method
@pytest.mark.parametrize("postprocess", [raise_always, raise_later, lambda call, result: "text"])
def test_post_processing_that_fails_is_an_error_result_without_its_text(kit, method, postprocess):
    kit.add(lambda: 1, rename="one", postprocess=postprocess, exclusive=True)
    for _ in range(2):
        assert RESULTS[method](kit, "one").error.message == "A middleware of tool 'one' failed."


@pytest.mark.parametrize("method", ["stream", "astream"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_post_processing_that_fails_half_way_ends_the_stream_with_an_error_and_closes_the_body(kit, method, is_async):
    closed: list[str] = []

    def fail_at_two(call, result) -> None:
        if result.value == 2:
            raise LookupError

    def count() -> Iterator[int]:
        try:
            yield from range(1, 4)
        finally:
            closed.append("closed")

    async def count_async() -> AsyncIterator[int]:
        try:
            for number in range(1, 4):
                yield number
        finally:
            closed.append("closed")

    kit.add(count_async if is_async else count, rename="count", postprocess=fail_at_two)
    results = list(kit.stream("count")) if method == "stream" else run(all_of, kit, "count", None)
    assert [(result.is_last, result.is_error) for result in results] == [(False, False), (True, True)]
    assert closed == ["closed"]


# calls from inside of calls


@each_method
@pytest.mark.parametrize("exclusive", [False, True, "depth", lambda arguments: "one"])
def test_a_tool_may_call_itself_by_any_method_under_any_key(kit, method, exclusive):
    kit.max_concurrency = 1

    def down(depth: int) -> int:
        return 0 if depth == 0 else 1 + kit.call("down_async", {"depth": depth - 1})

    async def down_async(depth: int) -> int:
        if depth == 0:
            return 0
        (outcomes,) = (await kit.arun([ToolCall(id="c", name="down", arguments={"depth": depth - 1})])).results
        return 1 + outcomes[1].value

    kit.add(down, exclusive=exclusive).add(down_async, exclusive=exclusive)
    assert RESULTS[method](kit, "down", {"depth": 6}).value == 6


def test_a_sync_method_in_an_async_tool_on_the_background_loop_raises_with_advice(kit):
    async def inner() -> str:
        return "inner"

    async def outer() -> str:
        return kit.call("inner")

    kit.add(inner).add(outer)
    with pytest.raises(SyncCallError, match="await"):
        kit.call("outer")
    assert kit.call("inner") == "inner"


@each_method
def test_a_tool_may_replace_and_remove_itself_while_it_runs(kit, method):
    def second() -> str:
        return "second"

    def first() -> str:
        if "itself" in kit:
            kit.remove("itself").add(second, rename="itself")
        return "first"

    def gone() -> str:
        if "gone" in kit:
            kit.remove("gone")
        return "was here"

    kit.add(first, rename="itself").add(gone)
    if method in ("run", "arun"):
        kit.max_concurrency = 1
    assert RESULTS[method](kit, "itself").value == "first"
    assert RESULTS[method](kit, "itself").value == "second"
    assert RESULTS[method](kit, "gone").value == "was here"
    assert RESULTS[method](kit, "gone").error.code == "not_found"


# loops, processes, numbers


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # asyncio.Queue's own, in a dead loop
@pytest.mark.parametrize("kind", ["call", "stream", "thread"])
@pytest.mark.parametrize("around", AROUND)
def test_closing_a_loop_during_a_call_does_no_harm(around, kind):
    close_loop_during_call(Toolkit("kit", middleware=AROUND[around], mask_errors=False), kind)
    gc.collect()  # what is left ends while the filter applies


def close_loop_during_call(kit: Toolkit, kind: str) -> None:
    go_on = threading.Event()

    async def work(path: str) -> AsyncIterator[int]:
        for number in itertools.count():
            await asyncio.sleep(0)
            yield number

    def work_sync(path: str) -> None:
        go_on.wait(WAIT)

    kit.add(work, exclusive="path").add(work_sync, exclusive="path").add(lambda: "ok", rename="other")

    async def read() -> None:
        async for _ in kit.astream("work", PATH):
            pass

    loop = asyncio.new_event_loop()
    deeds = {
        "call": lambda: kit.aexec("work", PATH),
        "stream": read,
        "thread": lambda: kit.aexec("work_sync", PATH),
    }
    task = loop.create_task(deeds[kind]())
    loop.run_until_complete(asyncio.sleep(0.02 if kind == "thread" else 0.0001))
    assert not task.done()
    for remaining in asyncio.all_tasks(loop):
        remaining._log_destroy_pending = False  # nothing else can end them
    loop.close()
    del task, remaining
    go_on.set()
    gc.collect()
    assert kit.exec("other").value == "ok"
    assert RESULTS["exec"](kit, "work_sync", PATH).error is None
    assert run(kit.aexec, "other").value == "ok"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize(
    "around", [*[pytest.param(name, marks=pytest.mark.exhaustive) for name in ("bare",)], "awaiting"]
)
@pytest.mark.exhaustive
def test_a_forked_child_calls_the_toolkit_by_every_method(around):
    code = f"""if True:
        import asyncio, os, threading
        from ahvn_tools import ToolCall, Toolkit
        from tests.toolkit.test_faults import AROUND, RESULTS

        kit = Toolkit("kit", middleware=AROUND[{around!r}])

        @kit.tool
        def add(a: int) -> int:
            return a + 1

        @kit.tool(exclusive=True, timeout=20)
        async def add_async(a: int) -> int:
            await asyncio.sleep(0)
            return a + 1

        def every() -> bool:
            made = [method(kit, name, {{"a": 1}}) for method in RESULTS.values() for name in ("add", "add_async")]
            return all(result.value == 2 for result in made)

        assert every()
        child = os.fork()
        if child == 0:
            os._exit(0 if every() else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), every())
        """
    status, output, errors = program(code)
    assert (status, output.split()) == (0, ["0", "True"]), errors


@pytest.mark.exhaustive
async def test_a_thousand_calls_at_once_are_all_answered(kit):
    async def echo(number: int) -> int:
        await asyncio.sleep(0)
        return number

    def echo_sync(number: int) -> int:
        return number

    async def items(number: int) -> AsyncIterator[int]:
        yield number

    kit.add(echo).add(echo_sync).add(items).add(
        echo, rename="alone", exclusive=lambda arguments: arguments["number"] % 3
    )
    sessions = [kit.session(user=number) for number in range(10)]
    names = ["echo", "echo_sync", "alone", "items"]

    async def one(number: int) -> Any:
        session, name = sessions[number % 10], names[number % 4]
        if name == "items":
            return (await all_of(session, name, {"number": number}))[-1].value[0]
        return (await session.aexec(name, {"number": number})).value

    assert await asyncio.gather(*map(one, range(1000))) == list(range(1000))
    calls = [ToolCall(id=f"c{n}", name=names[n % 3], arguments={"number": n}) for n in range(1000)]
    answered = await kit.arun(calls)
    assert [(call.id, result.value) for call, result in answered.results] == [(f"c{n}", n) for n in range(1000)]
    assert asyncio.all_tasks() == {asyncio.current_task()}
