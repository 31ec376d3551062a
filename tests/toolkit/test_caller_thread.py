"""Sync bodies in the thread that has called `run`, one after the other: `run_in_thread=False`."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ahvn_tools import ToolCall, Toolkit, ToolSpec
from ahvn_tools.errors import ToolkitError
from tests.toolkit.subjects import passing, waiting

LIMIT = 60
"""Seconds: the longest that any of these tests waits."""


def calls_of(name: str, count: int = 4) -> list[ToolCall]:
    return [ToolCall(id=f"c{number}", name=name, arguments={"number": number}) for number in range(count)]


class Recorder:
    """Records in which thread bodies run, and how many at once."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.numbers: list[int] = []
        self.running = 0

    def work(self, number: int) -> int:
        self.running += 1
        assert self.running == 1
        self.threads.add(threading.get_ident())
        self.numbers.append(number)
        self.running -= 1
        return number

    def count(self, number: int) -> Iterator[int]:
        self.work(number)
        yield number


@pytest.mark.parametrize("middleware", [(), (waiting,), (passing,)], ids=["none", "awaiting", "passing"])
@pytest.mark.parametrize("name", ["work", "count"])
def test_sync_bodies_run_in_the_callers_thread_one_after_the_other(name, middleware):
    recorder = Recorder()
    kit = Toolkit("k", middleware=middleware).add(recorder.work).add(recorder.count)
    run = kit.run(calls_of(name), run_in_thread=False)
    assert [result.error for _, result in run.results] == [None] * 4
    assert (recorder.threads, recorder.numbers) == ({threading.get_ident()}, [0, 1, 2, 3])


async def test_from_async_code_they_run_in_the_event_loop():
    recorder = Recorder()
    kit = Toolkit("k").add(recorder.work)
    run = await kit.arun(calls_of("work"), run_in_thread=False)
    assert [result.value for _, result in run.results] == [0, 1, 2, 3]
    assert recorder.threads == {threading.get_ident()}


def test_a_tool_that_stays_out_of_threads_stays_in_its_callers():
    recorder = Recorder()
    kit = Toolkit("k")
    kit.add(ToolSpec.from_function(recorder.work, run_in_thread=False))
    assert len(kit.run(calls_of("work")).results) == 4
    assert recorder.threads == {threading.get_ident()}


def test_async_bodies_run_meanwhile():
    kit, met = Toolkit("k"), threading.Event()

    @kit.tool
    async def meet(number: int) -> str:
        met.set()
        return "met"

    @kit.tool
    def wait(number: int) -> str:
        return "met" if met.wait(LIMIT) else "late"

    run = kit.run([*calls_of("wait", 1), *calls_of("meet", 1)], run_in_thread=False)
    assert [result.value for _, result in run.results] == ["met", "met"]


def test_a_connection_of_the_caller_can_be_bound():
    kit = Toolkit("notes")

    @kit.tool
    def find(number: int, db: Any) -> list[Any]:
        return db.execute("SELECT ?", (number,)).fetchall()

    with sqlite3.connect(":memory:") as connection:
        session = kit.bind("db").session(db=connection)
        run = session.run(calls_of("find"), run_in_thread=False)
        assert [result.value for _, result in run.results] == [[[0]], [[1]], [[2]], [[3]]]
    connection.close()


@pytest.mark.parametrize("options", [{"timeout": 5}, {}])
@pytest.mark.parametrize("how", ["run", "arun"])
async def test_a_timeout_that_could_not_interrupt_them_is_refused(options, how):
    recorder = Recorder()
    kit = Toolkit("k", **options).add(recorder.work, **({} if options else {"timeout": 5}))
    with pytest.raises(ToolkitError, match="'work' has a timeout, which cannot interrupt it in the caller's thread"):
        if how == "run":
            kit.run(calls_of("work"), run_in_thread=False)
        await kit.arun(calls_of("work"), run_in_thread=False)
    assert recorder.numbers == []


def test_the_order_of_exclusive_calls_holds():
    recorder = Recorder()
    kit = Toolkit("k").add(recorder.work, exclusive=True)
    kit.run(calls_of("work", 20), run_in_thread=False)
    assert recorder.numbers == list(range(20))


def test_a_call_that_was_cancelled_while_it_waited_does_not_run():
    kit, ran = Toolkit("k"), []

    @kit.tool
    def work(number: int) -> int:
        ran.append(number)
        if number == 0:
            assert kit.cancel("c1")
        return number

    run = kit.run(calls_of("work", 3), run_in_thread=False)
    assert [result.error and result.error.code for _, result in run.results] == [None, "cancelled", None]
    assert ran == [0, 2]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_reaches_the_caller(error):
    kit, ran = Toolkit("k"), []

    @kit.tool
    def work(number: int) -> None:
        ran.append(number)
        raise error

    with pytest.raises(error):
        kit.run(calls_of("work", 3), run_in_thread=False)
    assert ran == [0] if error is KeyboardInterrupt else ran == [0, 1, 2]


async def test_a_run_inside_of_a_loop_runs_in_its_thread():
    recorder = Recorder()
    kit = Toolkit("k").add(recorder.work)
    kit.run(calls_of("work"), run_in_thread=False)
    assert recorder.threads == {threading.get_ident()}
