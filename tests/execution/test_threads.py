"""Sync bodies of async callers: daemon worker threads, the caller's contextvars, the count of abandoned bodies."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from ahvn_tools import Toolkit, ToolResult, ToolSpec, execution, tool
from ahvn_tools.errors import ToolTimeoutError
from ahvn_tools.execution import threads
from tests.execution.entry_points import WAIT, run, until

user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="no one")


def get_thread_id() -> int:
    return threading.get_ident()


async def passing(call: Any, next: Any) -> ToolResult:
    return await next(call)


def count_workers() -> int:
    return sum(thread.name == "ahvn-tools-worker" for thread in threading.enumerate())


def test_a_sync_body_of_a_sync_caller_runs_in_the_callers_thread() -> None:
    spec = ToolSpec.from_function(get_thread_id)
    assert spec() == spec.exec().value == threading.get_ident()
    assert Toolkit("k", middleware=[passing]).add(spec).call("get_thread_id") == threading.get_ident()


@pytest.mark.parametrize("entry_point", ["call", "exec"])
def test_an_async_resolver_does_not_move_a_sync_body(entry_point: str) -> None:
    async def token() -> str:
        return "t"

    def body(token: str) -> int:
        return threading.get_ident()

    result = getattr(ToolSpec.from_function(body).bind("token", resolver=token), entry_point)()
    assert getattr(result, "value", result) == threading.get_ident()


def test_a_timeout_moves_a_sync_body_to_a_worker_thread() -> None:
    spec = ToolSpec.from_function(get_thread_id, timeout=30.0)
    assert threading.get_ident() not in {spec(), spec.exec().value, next(spec.stream()).value}


async def test_a_sync_body_of_an_async_caller_runs_in_a_daemon_worker_thread() -> None:
    @tool
    def body() -> tuple[str, bool]:
        return threading.current_thread().name, threading.current_thread().daemon

    assert await body.acall() == ["ahvn-tools-worker", True]


async def test_run_in_thread_false_runs_a_sync_body_in_the_thread_of_the_loop() -> None:
    spec = ToolSpec.from_function(get_thread_id, run_in_thread=False)
    assert await spec.acall() == (await spec.aexec()).value == threading.get_ident()
    assert [result.value async for result in spec.astream()] == [threading.get_ident()]


@pytest.mark.parametrize("entry_point", ["acall", "astream"])
async def test_a_sync_generator_runs_in_one_thread_from_first_to_last_item(entry_point: str) -> None:
    @tool
    def body() -> Any:
        user.set("body")
        for _ in range(5):
            yield (threading.get_ident(), user.get())

    if entry_point == "acall":
        items = await body.acall()
    else:
        items = [result.value async for result in body.astream()][:-1]
    assert len({thread for thread, _ in items}) == 1
    assert {name for _, name in items} == {"body"}
    assert items[0][0] != threading.get_ident()


async def test_contextvars_of_the_caller_reach_the_thread_and_its_changes_do_not_reach_the_caller() -> None:
    @tool
    def body() -> str:
        before = user.get()
        user.set("body")
        return before

    user.set("ann")
    assert await body.acall() == "ann"
    assert (await body.aexec()).value == "ann"
    assert [result.value async for result in body.astream()] == ["ann"]
    assert user.get() == "ann"


async def test_calls_one_after_the_other_share_one_thread() -> None:
    spec = ToolSpec.from_function(get_thread_id)
    assert len({await spec.acall() for _ in range(50)}) == 1


def test_a_hundred_bodies_may_block_at_once_and_few_threads_stay_idle() -> None:
    barrier = threading.Barrier(100)

    @tool
    def wait_for_the_others() -> int:
        barrier.wait(WAIT)
        return 1

    async def main() -> int:
        return sum(await asyncio.gather(*(wait_for_the_others.acall() for _ in range(100))))

    assert asyncio.run(main()) == 100
    assert until(lambda: count_workers() <= threads.MAX_IDLE_THREADS)


class Hung:
    """A body that hangs until it is released."""

    def __init__(self) -> None:
        self.started, self.release = threading.Event(), threading.Event()

    def body(self) -> int:
        self.started.set()
        self.release.wait(30)
        return 1


@pytest.fixture
def hung() -> Any:
    body = Hung()
    yield body
    body.release.set()


def _acall(spec: ToolSpec) -> Any:
    return asyncio.run(spec.acall())


@pytest.mark.parametrize("entry_point", [ToolSpec.call, _acall], ids=["call", "acall"])
def test_a_body_that_hangs_is_abandoned_and_counted_until_it_ends(
    hung: Hung, entry_point: Callable[[ToolSpec], Any]
) -> None:
    before = threads.count_abandoned_threads()
    with pytest.raises(ToolTimeoutError, match="thread may still be running"):
        entry_point(ToolSpec.from_function(hung.body, timeout=0.05))
    assert hung.started.wait(WAIT)
    assert threads.count_abandoned_threads() == before + 1
    hung.release.set()
    assert until(lambda: threads.count_abandoned_threads() == before)


def test_hung_bodies_do_not_starve_others(hung: Hung) -> None:
    async def main() -> None:
        hanging = [asyncio.create_task(ToolSpec.from_function(hung.body).acall()) for _ in range(40)]
        quick = ToolSpec.from_function(get_thread_id, timeout=WAIT)
        assert await quick.acall() != threading.get_ident()
        hung.release.set()
        assert await asyncio.gather(*hanging) == [1] * 40

    asyncio.run(main())


def test_a_cancelled_call_abandons_its_thread(hung: Hung) -> None:
    async def main() -> None:
        task = asyncio.create_task(ToolSpec.from_function(hung.body).acall())
        await asyncio.to_thread(hung.started.wait, WAIT)
        task.cancel()
        await asyncio.wait({task}, timeout=WAIT)
        assert task.cancelled()
        assert threads.count_abandoned_threads() == 1
        hung.release.set()
        assert await asyncio.to_thread(until, lambda: threads.count_abandoned_threads() == 0)

    asyncio.run(main())


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_abandoned_bodies_are_counted_for_every_kind_of_body(hung: Hung, is_async: bool) -> None:
    async def refuses() -> None:
        while not hung.release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    before = execution.abandoned()
    spec = ToolSpec.from_function(refuses if is_async else hung.body, timeout=0.05)
    assert spec.exec().error.code == "timeout"
    assert execution.abandoned() == before + 1
    hung.release.set()
    assert until(lambda: execution.abandoned() == before)


def test_an_abandoned_thread_works_again_once_its_body_has_ended(hung: Hung) -> None:
    assert ToolSpec.from_function(hung.body, timeout=0.05).exec().error.code == "timeout"
    hung.release.set()
    assert until(lambda: threads.count_abandoned_threads() == 0)
    assert run(ToolSpec.from_function(get_thread_id).acall) != threading.get_ident()


def test_a_body_that_ends_while_its_caller_is_cancelled_is_counted_correctly() -> None:
    async def main() -> None:
        for n in range(200):
            go = threading.Event()
            spec = ToolSpec.from_function(lambda go=go: go.wait(WAIT), name="waits", binds={"go": "go"})
            spec.state["go"] = go
            task = asyncio.create_task(spec.acall())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if n % 2:
                go.set()
                task.cancel()
            else:
                task.cancel()
                go.set()
            await asyncio.wait({task}, timeout=WAIT)
            assert threads.count_abandoned_threads() >= 0

    asyncio.run(main())
    assert until(lambda: threads.count_abandoned_threads() == 0)


async def test_an_idle_thread_does_not_hold_the_last_result() -> None:
    class Result:
        """A result that a weak reference can refer to."""

    results: list[weakref.ref[Result]] = []

    def give(_: Any) -> Result:
        result = Result()
        results.append(weakref.ref(result))
        return result

    assert (await threads.run_in_thread(give)).get() is not None
    for _ in range(1_000):
        gc.collect()
        if results[0]() is None:
            break
        await asyncio.sleep(0.005)
    assert results[0]() is None
