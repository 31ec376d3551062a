"""Sync bodies of async callers: worker threads of our own, the caller's contextvars, a count of what is abandoned."""

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

from ahvn_tools import ToolSpec, execution, tool
from ahvn_tools.errors import ToolTimeoutError
from ahvn_tools.execution import threads
from tests.execution.entry_points import WAIT, run, until

user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")


def where() -> int:
    return threading.get_ident()


def workers() -> int:
    return sum(thread.name == "ahvn-tools-worker" for thread in threading.enumerate())


def test_a_sync_body_of_a_sync_caller_runs_in_the_callers_thread() -> None:
    spec = ToolSpec.from_function(where)
    assert spec() == spec.exec().value == next(spec.stream()).value == threading.get_ident()


@pytest.mark.parametrize("door", ["call", "exec"])
def test_an_async_resolver_does_not_move_a_sync_body(door: str) -> None:
    async def token() -> str:
        return "t"

    def body(token: str) -> int:
        return threading.get_ident()

    made = getattr(ToolSpec.from_function(body).bind("token", resolver=token), door)()
    assert getattr(made, "value", made) == threading.get_ident()


def test_a_timeout_moves_a_sync_body_to_a_worker_thread() -> None:
    spec = ToolSpec.from_function(where, timeout=30.0)
    assert threading.get_ident() not in {spec(), spec.exec().value, next(spec.stream()).value}


async def test_a_sync_body_of_an_async_caller_runs_in_a_daemon_thread_of_ours() -> None:
    @tool
    def body() -> tuple[str, bool]:
        return threading.current_thread().name, threading.current_thread().daemon

    assert await body.acall() == ["ahvn-tools-worker", True]


async def test_a_sync_body_runs_in_the_loops_own_thread_when_told_so() -> None:
    spec = ToolSpec.from_function(where, run_in_thread=False)
    assert await spec.acall() == (await spec.aexec()).value == threading.get_ident()
    assert [result.value async for result in spec.astream()] == [threading.get_ident()]


@pytest.mark.parametrize("door", ["acall", "astream"])
async def test_a_sync_generator_runs_in_one_thread_from_first_to_last_item(door: str) -> None:
    @tool
    def body() -> Any:
        user.set("body")
        for _ in range(5):
            yield (threading.get_ident(), user.get())

    if door == "acall":
        items = await body.acall()
    else:
        items = [result.value async for result in body.astream()][:-1]
    assert len({thread for thread, _ in items}) == 1
    assert {name for _, name in items} == {"body"}
    assert items[0][0] != threading.get_ident()


async def test_contextvars_of_the_caller_reach_the_thread_and_none_come_back() -> None:
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
    spec = ToolSpec.from_function(where)
    assert len({await spec.acall() for _ in range(50)}) == 1


def test_a_hundred_bodies_may_block_at_once_and_idle_threads_are_few_afterwards() -> None:
    barrier = threading.Barrier(100)

    @tool
    def meets() -> int:
        barrier.wait(WAIT)
        return 1

    async def main() -> int:
        return sum(await asyncio.gather(*(meets.acall() for _ in range(100))))

    assert asyncio.run(main()) == 100
    assert until(lambda: workers() <= threads.MAX_IDLE_THREADS)


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


@pytest.mark.parametrize("door", [ToolSpec.call, _acall], ids=["call", "acall"])
def test_a_body_that_hangs_is_abandoned_and_counted_until_it_ends(hung: Hung, door: Callable[[ToolSpec], Any]) -> None:
    before = threads.count_abandoned_threads()
    with pytest.raises(ToolTimeoutError, match="thread may still be running"):
        door(ToolSpec.from_function(hung.body, timeout=0.05))
    assert hung.started.is_set()
    assert threads.count_abandoned_threads() == before + 1
    hung.release.set()
    assert until(lambda: threads.count_abandoned_threads() == before)


def test_hung_bodies_do_not_starve_others(hung: Hung) -> None:
    async def main() -> None:
        hanging = [asyncio.create_task(ToolSpec.from_function(hung.body).acall()) for _ in range(40)]
        quick = ToolSpec.from_function(where, timeout=WAIT)
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
def test_what_is_abandoned_can_be_seen_whatever_kind_of_body_it_is(hung: Hung, is_async: bool) -> None:
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
    assert run(ToolSpec.from_function(where).acall) != threading.get_ident()


class Thing:
    """Something to be let go."""


def used() -> weakref.ref[Thing]:
    """Call a tool in a worker thread with a thing, and let the thing go."""
    thing = Thing()

    def body(thing: Any) -> int:
        return 1

    assert run(ToolSpec.from_function(body).bind("thing", default=thing).acall) == 1
    return weakref.ref(thing)


def test_an_idle_thread_holds_on_to_nothing() -> None:
    thing = used()
    gc.collect()
    assert until(lambda: thing() is None)


def test_a_body_that_ends_as_its_caller_gives_up_is_counted_right() -> None:
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
