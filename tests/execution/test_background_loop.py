"""The background loop: sync callers share it, it works from any thread and loop, and it never waits for itself."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import ToolSpec, tool
from ahvn_tools.errors import SyncCallError
from tests.execution.entry_points import WAIT, combinations, process, program, run, until

user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="no one")


@tool
async def double(n: int) -> int:
    await asyncio.sleep(0)
    return 2 * n


@tool
async def loop_identity() -> int:
    return id(asyncio.get_running_loop())


def test_all_sync_callers_share_one_loop() -> None:
    with ThreadPoolExecutor(8) as pool:
        seen = set(pool.map(lambda _: loop_identity(), range(64)))
    assert len(seen) == 1


def test_async_bodies_run_concurrently() -> None:
    all_of_them = asyncio.Barrier(8)

    @tool
    async def meets() -> bool:
        async with asyncio.timeout(WAIT):
            return await all_of_them.wait() < 8

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda _: meets(), range(8)))


async def test_sync_calls_work_inside_a_running_loop() -> None:
    assert double(4) == 8
    assert double.exec(n=4).value == 8
    assert [result.value for result in double.stream(n=4)] == [8]


def test_asyncio_run_may_follow_asyncio_run() -> None:
    async def main() -> tuple[int, int]:
        return await double.acall(1), double.call(2)

    assert [asyncio.run(main()) for _ in range(3)] == [(2, 4)] * 3
    assert double(5) == 10


async def test_a_sync_call_of_an_async_body_on_the_background_loop_raises() -> None:
    @tool
    async def waits_for_itself(entry_point: str) -> int:
        returned = getattr(double, entry_point)(n=1)
        return next(returned).value if entry_point == "stream" else returned

    for entry_point in ("call", "exec", "stream"):
        with pytest.raises(SyncCallError, match="acall"):
            waits_for_itself.call(entry_point)
    assert double(1) == 2


def test_a_coroutine_that_cannot_be_awaited_is_closed() -> None:
    @tool
    def returns_coroutine() -> Any:
        return double.acall(1)

    @tool
    async def waits_for_itself() -> int:
        return returns_coroutine.call()

    with pytest.raises(SyncCallError):  # a coroutine that was never awaited would be a warning, and so a failure
        waits_for_itself.call()


def test_a_sync_body_may_be_called_on_the_background_loop() -> None:
    @tool
    def add(a: int, b: int) -> int:
        return a + b

    @tool
    async def outer() -> int:
        return add.call(1, 2) + await double.acall(1)

    assert outer() == 5


def nested(depth: int, *, is_async: bool) -> ToolSpec:
    """Make a spec whose body calls another spec, and so on, alternately sync and async."""
    if depth == 0:
        return double
    inner = nested(depth - 1, is_async=not is_async)

    async def awaits(n: int) -> int:
        return 1 + await inner.acall(n)

    def calls(n: int) -> int:
        return 1 + inner.call(n)

    return ToolSpec.from_function(awaits if is_async else calls)


@pytest.mark.parametrize("is_async", [True, False])
def test_calls_may_nest_eight_deep(is_async: bool) -> None:
    spec = nested(8, is_async=is_async)
    assert spec.call(1) == 10
    assert asyncio.run(spec.acall(1)) == 10


def test_system_exit_in_a_task_of_a_body_does_not_end_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    async def exits() -> None:
        raise SystemExit(3)

    @tool
    async def awaits_it() -> None:
        await asyncio.create_task(exits())

    @tool
    async def forgets_it() -> str:
        task = asyncio.create_task(exits())
        await asyncio.wait({task})
        return type(task.exception()).__name__

    before = loop_identity()
    with pytest.raises(SystemExit):
        awaits_it()
    assert forgets_it() == "SystemExit"
    assert loop_identity() == before
    assert "SystemExit" in caplog.text


# contextvars


async def test_contextvars_of_the_caller_reach_the_background_loop() -> None:
    @tool
    async def who() -> str:
        return user.get()

    user.set("ann")
    assert who() == "ann"
    assert who.exec().value == "ann"
    assert [result.value for result in who.stream()] == ["ann"]


def test_contextvars_of_an_async_body_do_not_reach_a_sync_caller() -> None:
    @tool
    async def sets() -> str:
        user.set("body")
        return user.get()

    assert (sets(), user.get()) == ("body", "no one")


# interrupts, forks and exits


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to one process there")
@combinations(entry_point=["tool.call()", "tool.exec()", "list(tool.stream())"], timeout=["None", "60.0"])
@pytest.mark.default_cases(1)
def test_ctrl_c_in_a_waiting_sync_caller_cancels_the_body(entry_point: str, timeout: str, tmp_path: Path) -> None:
    code = f"""
import asyncio, signal, sys
from pathlib import Path
from ahvn_tools import ToolSpec

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the suite runs in the background

async def body() -> int:
    print("started", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        Path(sys.argv[1]).write_text("closed")

tool = ToolSpec.from_function(body, timeout={timeout})
try:
    {entry_point}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    marker = tmp_path / "marker"
    running = process(code, str(marker))
    try:
        assert running.stdout.readline() == "started\n"
        time.sleep(0.2)  # from the start of the body to the wait of the caller
        running.send_signal(signal.SIGINT)
        output, errors = running.communicate(timeout=20)
    finally:
        running.kill()
        running.stdout.close()
        running.stderr.close()
    assert (output, errors, running.returncode) == ("interrupted\n", "", 0)
    assert marker.read_text() == "closed"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_has_its_own_loop_and_threads() -> None:
    code = """
import asyncio, os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of fork in a process with threads, from Python 3.12 on
from ahvn_tools import tool
from ahvn_tools.execution import threads

@tool
async def coroutine(n: int) -> int:
    return n

@tool
def function(n: int) -> int:
    return n

def works() -> bool:
    stream = [result.value for result in coroutine.stream(n=1)]
    return (coroutine(1), asyncio.run(function.acall(1)), stream, threads.count_abandoned_threads()) == (1, 1, [1], 0)

assert works()
child = os.fork()
if child == 0:
    os._exit(0 if works() else 1)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), works())
"""
    assert program(code) == (0, "0 True\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_body_that_forks_leaves_a_child_that_can_call() -> None:
    code = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from ahvn_tools import tool

@tool
async def coroutine(n: int) -> int:
    return n

@tool
async def forks() -> int:
    child = os.fork()
    if child == 0:
        os._exit(0 if coroutine.call(1) == 1 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

print(forks(), coroutine(1))
"""
    assert program(code) == (0, "0 1\n", "")


STUBBORN = """
async def body():
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass
"""


HUNG_BODIES = [
    pytest.param("async def body():\n    await asyncio.sleep(600)", id="waits", marks=pytest.mark.exhaustive),
    pytest.param(STUBBORN, id="ignores cancellation"),
    pytest.param("def body():\n    time.sleep(600)", id="blocks a thread"),
    pytest.param("def body():\n    yield 1\n    time.sleep(600)", id="generator", marks=pytest.mark.exhaustive),
    pytest.param(
        "async def body():\n    yield 1\n    await asyncio.sleep(600)",
        id="async generator",
        marks=pytest.mark.exhaustive,
    ),
]


@pytest.mark.parametrize("body", HUNG_BODIES)
@pytest.mark.default_cases(1)
def test_a_hung_body_does_not_delay_the_exit_of_the_interpreter(body: str) -> None:
    code = f"""
import asyncio, time
from ahvn_tools import ToolSpec

{body}

print(ToolSpec.from_function(body, timeout=0.1).exec().error.code)
"""
    assert program(code) == (0, "timeout\n", "")


def test_an_abandoned_thread_does_not_delay_asyncio_run() -> None:
    code = """
import asyncio, time
from ahvn_tools import tool

@tool(timeout=0.1)
def hangs():
    time.sleep(600)

print(asyncio.run(hangs.aexec()).error.code)
"""
    assert program(code) == (0, "timeout\n", "")


def test_calls_in_threads_do_not_disturb_the_exit() -> None:
    code = """
import asyncio, threading
from ahvn_tools import tool

@tool
async def waits():
    await asyncio.sleep(600)

for _ in range(4):
    threading.Thread(target=waits.exec, daemon=True).start()
"""
    assert program(code) == (0, "", "")


def test_closing_a_loop_while_a_body_runs_breaks_no_later_call() -> None:
    release, ended = threading.Event(), threading.Event()

    @tool
    def body() -> int:
        release.wait(30)
        ended.set()
        return 1

    loop = asyncio.new_event_loop()
    task = loop.create_task(body.acall())
    loop.run_until_complete(asyncio.sleep(0.01))
    task._log_destroy_pending = False  # asyncio would log that this test destroys a pending task
    loop.close()
    release.set()
    assert ended.wait(WAIT)
    assert run(double.acall, 1) == 2


@pytest.mark.exhaustive
def test_a_thousand_concurrent_calls_all_return() -> None:
    async def main() -> list[int]:
        return await asyncio.gather(*(double.acall(n) for n in range(1000)))

    assert asyncio.run(main()) == [2 * n for n in range(1000)]


@pytest.mark.exhaustive
def test_two_hundred_calls_from_eight_threads_and_loops_all_return() -> None:
    @tool
    def halve(n: int) -> int:
        return n // 2

    async def one(n: int) -> int:
        return await halve.acall(await double.acall(n))

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: (asyncio.run(one(n)), double(n)), range(200)))
    assert results == [(n, 2 * n) for n in range(200)]


def test_closing_a_stream_ends_its_body_on_the_loop() -> None:
    started = threading.Event()
    ended = threading.Event()

    @tool
    async def body() -> Any:
        try:
            yield 1
            started.set()
            await asyncio.sleep(600)
        finally:
            ended.set()

    stream = body.stream()
    assert next(stream).value == 1
    stream.close()
    assert until(ended.is_set)
