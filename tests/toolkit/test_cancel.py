"""Cancellation of a call: by its id, by closing its stream, by cancelling the awaiting task."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import date
from typing import Any

import pytest

from ahvn_tools import ToolCall, ToolContext, Toolkit, ToolResult
from ahvn_tools.errors import CallCancelledError
from ahvn_tools.execution import threads
from tests.toolkit.subjects import waiting
from tests.toolkit.test_calls import ENTRY_POINTS

Seen = list[ToolResult | None]


class Bodies:
    """Tools that never end by themselves, and whether they were closed."""

    def __init__(self, *middleware: Any) -> None:
        self.began, self.closed = threading.Event(), threading.Event()
        self.kit = Toolkit("k", middleware=middleware)
        for body in (self.wait, self.acount, self.count, self.look):
            self.kit.add(body)

    async def wait(self) -> str:
        self.began.set()
        try:
            await asyncio.sleep(30)
        finally:
            self.closed.set()
        return "never"

    async def acount(self) -> AsyncIterator[int]:
        try:
            for number in range(3):
                yield number
            self.began.set()
            await asyncio.sleep(30)
        finally:
            self.closed.set()

    def count(self) -> Iterator[int]:
        try:
            yield from range(3)
            self.began.set()
            self.closed.wait(30)
        finally:
            self.closed.set()

    def look(self, context: ToolContext) -> str:
        self.began.set()
        until = time.monotonic() + 30
        while time.monotonic() < until:
            context.check_cancelled()
            time.sleep(0.005)
        return "never"

    def cancel_when_begun(self, call_id: str = "c1", kit: Toolkit | None = None) -> threading.Thread:
        def cancel() -> None:
            assert self.began.wait(10)
            time.sleep(0.05)
            assert (kit or self.kit).cancel(call_id)

        thread = threading.Thread(target=cancel)
        thread.start()
        return thread


def noting(outcomes: Seen) -> Any:
    async def note(call: Any, next: Any) -> ToolResult:
        try:
            result: ToolResult = await next(call)
        except asyncio.CancelledError:
            outcomes.append(call.interrupted)
            raise
        outcomes.append(result)
        return result

    return note


each_middleware = pytest.mark.parametrize("middleware", [[], [waiting]], ids=["none", "awaiting"])


@each_middleware
@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
@pytest.mark.parametrize(("name", "items"), [("wait", None), ("acount", [0, 1, 2]), ("look", None)])
async def test_a_call_cancelled_by_its_id_ends_with_its_items_so_far(entry_point, name, items, middleware):
    bodies = Bodies(*middleware)
    thread = bodies.cancel_when_begun()
    began = time.monotonic()
    last = await entry_point(bodies.kit, name, {}, call_id="c1")
    thread.join()
    assert time.monotonic() - began < 25
    assert (last.is_last, last.is_interrupted, last.error.code, last.id) == (True, True, "cancelled", "c1")
    assert last.value == items
    assert "wait" not in name or bodies.closed.wait(1)
    assert not bodies.kit.cancel("c1")  # nothing of it is left


async def test_a_cancelled_sync_stream_in_a_thread_keeps_its_items_and_is_closed():
    bodies = Bodies(waiting)
    thread = bodies.cancel_when_begun()
    results = [result async for result in bodies.kit.astream("count", {}, call_id="c1")]
    thread.join()
    assert [result.value for result in results] == [0, 1, 2, [0, 1, 2]]
    assert results[-1].is_interrupted
    bodies.closed.set()  # the body's own wait; its thread is counted until it ends
    _wait_until(lambda: threads.count_abandoned_threads() == 0)


def test_the_items_so_far_of_a_cancelled_call_are_json():
    kit = Toolkit("k")

    @kit.tool
    def days(context: ToolContext) -> Iterator[Any]:
        yield date(2026, 1, 2)
        kit.cancel(context.call_id)
        context.check_cancelled()

    @kit.tool
    async def adays(context: ToolContext) -> AsyncIterator[Any]:
        yield date(2026, 1, 2)
        kit.cancel(context.call_id)
        await asyncio.Event().wait()

    for name in ("days", "adays"):
        for result in (kit.exec(name), [*kit.stream(name)][-1]):
            assert (result.error.code, result.is_interrupted, result.value) == ("cancelled", True, ["2026-01-02"])


@pytest.mark.parametrize("name", ["wait", "look"])
async def test_call_raises_for_a_cancelled_call(name):
    bodies = Bodies()
    thread = bodies.cancel_when_begun()
    with pytest.raises(CallCancelledError):
        await bodies.kit.acall(name, {}, call_id="c1")
    thread.join()
    bodies.began.clear()
    thread = bodies.cancel_when_begun()
    with pytest.raises(CallCancelledError):
        bodies.kit.call(name, {}, call_id="c1")
    thread.join()


async def test_the_awaiting_task_continues_after_its_call_was_cancelled():
    """The cancellation of a call does not cancel the awaiting task."""
    bodies = Bodies()
    thread = bodies.cancel_when_begun()
    await bodies.kit.aexec("wait", {}, call_id="c1")
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task.cancelling() == 0
    thread.join()


async def test_cancelling_call_and_task_at_once_cancels_the_task():
    bodies = Bodies()
    task = asyncio.create_task(bodies.kit.aexec("wait", {}, call_id="c1"))
    await asyncio.to_thread(bodies.began.wait, 10)
    bodies.kit.cancel("c1")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bodies.closed.is_set()


async def test_middleware_that_waits_before_the_body_is_interrupted():
    bodies = Bodies()

    async def patient(call, next):
        bodies.began.set()
        await asyncio.sleep(30)
        return await next(call)

    bodies.kit.use(patient)
    for entry_point in ENTRY_POINTS:
        bodies.began.clear()
        thread = bodies.cancel_when_begun()
        last = await entry_point(bodies.kit, "look", {}, call_id="c1")
        thread.join()
        assert (last.is_interrupted, last.error.code, last.value) == (True, "cancelled", None)


@pytest.mark.parametrize("how", ["close the stream", "cancel the reader", "cancel the caller", "cancel by id"])
async def test_middleware_receives_the_items_so_far_of_a_call_that_is_interrupted(how):
    """A postprocess that hides something hides it in this result, too."""
    outcomes: Seen = []
    bodies = Bodies(noting(outcomes))
    got: list[ToolResult] = []

    async def read() -> None:
        async with contextlib.aclosing(bodies.kit.astream("acount", {})) as results:
            async for result in results:
                got.append(result)
                if how == "close the stream" and len(got) == 3:
                    return

    is_read = how in {"close the stream", "cancel the reader"}
    task = asyncio.create_task(read() if is_read else bodies.kit.aexec("acount", {}, call_id="c1"))
    if how != "close the stream":
        await asyncio.to_thread(bodies.began.wait, 10)
    began = time.monotonic()
    if how == "cancel by id":
        assert bodies.kit.cancel("c1")
        got = [(await task)]
    elif how == "close the stream":
        await task
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert time.monotonic() - began < 25
    (noted,) = outcomes
    assert (noted.is_interrupted, noted.value) == (True, [0, 1, 2])
    expected = {"cancel the caller": [], "cancel by id": [[0, 1, 2]]}.get(how, [0, 1, 2])
    assert [result.value for result in got] == expected
    assert not is_read or bodies.closed.is_set()


def test_a_session_cancels_its_own_calls_and_the_toolkit_the_calls_of_all_sessions():
    bodies = Bodies()
    ann, bob = bodies.kit.session(), bodies.kit.session()
    results: dict[str, ToolResult] = {}

    def run(name: str, session: Toolkit) -> threading.Thread:
        thread = threading.Thread(target=lambda: results.update({name: session.exec("look", {}, call_id="c1")}))
        thread.start()
        return thread

    in_ann, in_bob = run("ann", ann), run("bob", bob)
    assert bodies.began.wait(10)
    _wait_until(lambda: bob.cancel("c1"))
    in_bob.join(10)
    assert results["bob"].is_interrupted
    assert in_ann.is_alive()
    assert bodies.kit.cancel("c1")
    in_ann.join(10)
    assert results["ann"].is_interrupted


def test_an_unknown_id_cancels_nothing():
    assert Bodies().kit.cancel("nothing") is False


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_call_of_a_run_is_cancelled_by_the_models_id_and_answered(is_async):
    bodies = Bodies()
    calls = [ToolCall(id="c1", name="wait"), ToolCall(id="c2", name="acount")]
    first, second = bodies.cancel_when_begun("c1"), bodies.cancel_when_begun("c2")
    run = await bodies.kit.arun(calls, format="openai") if is_async else bodies.kit.run(calls, format="openai")
    first.join()
    second.join()
    assert [(call.id, result.is_interrupted) for call, result in run.results] == [("c1", True), ("c2", True)]
    assert [message["tool_call_id"] for message in run] == ["c1", "c2"]


async def test_a_call_made_by_call_tool_is_cancelled_with_it():
    bodies = Bodies()
    bodies.kit.add_search()
    thread = bodies.cancel_when_begun()
    last = await bodies.kit.aexec("call_tool", {"name": "wait"}, call_id="c1")
    thread.join()
    assert last.is_interrupted
    assert bodies.closed.is_set()


async def test_a_call_that_waits_for_a_lock_can_be_cancelled():
    bodies = Bodies()
    ran: list[int] = []

    def note(number: int) -> None:
        ran.append(number)

    bodies.kit.max_concurrency = 1
    bodies.kit.add(note)
    calls = [ToolCall(id="c1", name="wait"), ToolCall(id="c2", name="note", arguments={"number": 1})]
    running = asyncio.create_task(bodies.kit.arun(calls))
    await asyncio.to_thread(bodies.began.wait, 10)
    assert bodies.kit.cancel("c2")
    assert bodies.kit.cancel("c1")
    run = await running
    assert [result.is_interrupted for _, result in run.results] == [True, True]
    assert ran == []


def test_a_call_whose_loop_was_closed_is_no_longer_tracked():
    bodies = Bodies(waiting)
    loop = asyncio.new_event_loop()

    async def start() -> asyncio.Task[ToolResult]:
        task = asyncio.create_task(bodies.kit.aexec("wait", {}, call_id="c1"))
        await asyncio.sleep(0.05)
        return task

    task = loop.run_until_complete(start())
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is what is tested
    loop.close()
    del task
    gc.collect()
    assert bodies.closed.is_set()
    assert not bodies.kit.cancel("c1")


def _wait_until(is_true: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not is_true():
        assert time.monotonic() < until
        time.sleep(0.005)


def numbers() -> Iterator[int]:
    """Count for longer than the test runs."""
    for number in range(3000):
        time.sleep(0.005)
        yield number


@pytest.mark.parametrize("middleware", [[], [waiting]], ids=["none", "one"])
@pytest.mark.parametrize("entry_point", ["exec", "stream"])
def test_a_sync_generator_in_its_callers_thread_ends_between_two_items(entry_point, middleware):
    kit = Toolkit("k", middleware=middleware).add(numbers)
    timer = threading.Timer(0.1, kit.cancel, ["c1"])
    timer.start()
    last = (
        list(kit.stream("numbers", {}, call_id="c1"))[-1]
        if entry_point == "stream"
        else kit.exec("numbers", call_id="c1")
    )
    timer.join()
    assert (last.is_last, last.is_interrupted, last.error.code) == (True, True, "cancelled")
    assert last.value == list(range(len(last.value)))
    assert 0 < len(last.value) < 3000


async def test_a_sync_stream_in_a_loop_that_is_cancelled_leaves_its_readers_task_alone():
    kit = Toolkit("k", middleware=[waiting]).add(numbers)
    results = kit.stream("numbers", {}, call_id="c1")
    next(results)
    assert kit.cancel("c1")
    await asyncio.sleep(0.01)
    assert [(result.value, result.is_interrupted) for result in results] == [([0], True)]


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
async def test_a_call_that_a_middleware_has_cancelled_does_not_begin(entry_point):
    ran: list[int] = []

    async def cancel(call: Any, next: Any) -> ToolResult:
        kit.cancel(call.id)
        await asyncio.sleep(0)
        return await next(call)

    def body() -> None:
        ran.append(1)

    kit = Toolkit("k", middleware=[cancel]).add(body)
    last = await entry_point(kit, "body", {})
    assert (last.is_interrupted, last.error.code, ran) == (True, "cancelled", [])


@pytest.mark.parametrize("middleware", [[], [waiting]], ids=["none", "one"])
def test_the_result_of_a_cancelled_stream_contains_the_items_that_were_read(middleware):
    def count(context: ToolContext) -> Iterator[int]:
        yield 1
        kit.cancel(str(context.call_id))
        yield 2
        yield 3

    kit = Toolkit("k", middleware=middleware).add(count)
    *chunks, last = kit.stream("count")
    assert last.value == [chunk.value for chunk in chunks]
    assert last.is_interrupted
