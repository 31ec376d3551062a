"""How many isolated calls run at once, and how the others wait."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import ToolSpec, execution
from ahvn_tools.errors import DefinitionError
from ahvn_tools.execution.workers import slots, worker_process
from tests.execution.entry_points import WAIT, program, until
from tests.execution.workers.bodies import hang, isolated, read_pids
from tests.execution.workers.leaving import count_up, get_pid, wait_for

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True)
def restore_limit() -> Iterator[None]:
    """Restore the limit."""
    yield
    execution.set_max_processes()


def waiting_calls() -> int:
    """Return how many calls wait for a slot."""
    return len(slots.process_slots._waiting)


def start(spec: ToolSpec, results: list[Any], **arguments: Any) -> threading.Thread:
    """Call a tool in a thread, which adds the result to a list."""
    thread = threading.Thread(target=lambda: results.append(spec.exec(**arguments)), daemon=True)
    thread.start()
    return thread


class TestLimit:
    def test_the_default_is_the_number_of_cores(self) -> None:
        execution.set_max_processes(1)
        execution.set_max_processes(None)
        assert slots.process_slots.count == slots.count_cores() >= 1

    @pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
    def test_other_values_are_refused(self, wrong: Any) -> None:
        with pytest.raises(DefinitionError, match="max_processes must be a whole number of at least 1, or None"):
            execution.set_max_processes(wrong)

    async def test_no_more_calls_run_at_once(self, tmp_path: Path) -> None:
        worker_process.process_pool.end_idle()
        execution.set_max_processes(2)
        spec = isolated(wait_for, timeout=60)
        paths = [tmp_path / str(number) for number in range(6)]
        tasks = [asyncio.create_task(spec.acall(path=str(path))) for path in paths]
        assert await asyncio.to_thread(until, lambda: waiting_calls() == 4)
        for done in range(6):
            running = min(2, 6 - done)
            assert await asyncio.to_thread(until, lambda n=running: sum(path.exists() for path in paths) == n)
            assert worker_process.process_pool.count()[0] <= 2
            next(path for path in paths if path.exists()).unlink()
        assert len(set(await asyncio.gather(*tasks))) <= 2

    def test_calls_start_in_order(self, tmp_path: Path) -> None:
        execution.set_max_processes(1)
        results: list[Any] = []
        blocked = start(isolated(wait_for), results, path=str(tmp_path / "first"))
        read_pids(tmp_path / "first")
        threads = []
        for number in range(3):
            echo = isolated(lambda number: [time.monotonic_ns(), number], name="echo")
            threads.append(start(echo, results, number=number))
            assert until(lambda n=number: waiting_calls() == n + 1)
        (tmp_path / "first").unlink()
        for thread in (blocked, *threads):
            thread.join(WAIT)
        started = sorted(result.value for result in results if isinstance(result.value, list))
        assert [number for _, number in started] == [0, 1, 2]

    def test_a_higher_limit_starts_calls_that_wait(self, tmp_path: Path) -> None:
        execution.set_max_processes(1)
        results: list[Any] = []
        first = start(isolated(wait_for), results, path=str(tmp_path / "first"))
        read_pids(tmp_path / "first")
        second = start(isolated(wait_for), results, path=str(tmp_path / "second"))
        assert until(lambda: waiting_calls() == 1)
        execution.set_max_processes(2)
        read_pids(tmp_path / "second")
        (tmp_path / "first").unlink()
        (tmp_path / "second").unlink()
        first.join(WAIT)
        second.join(WAIT)
        assert [result.error for result in results] == [None, None]

    @pytest.mark.exhaustive
    def test_isolated_calls_of_an_isolated_tool_have_the_limit_in_its_process(self) -> None:
        def body(depth: int) -> list[int]:
            own = isolated(body, timeout=60)
            limit = [slots.process_slots.count]
            return limit if depth == 0 else limit + own(depth=depth - 1)

        execution.set_max_processes(1)
        assert isolated(body, timeout=60)(depth=2) == [1, 1, 1]


class TestWaiting:
    @pytest.fixture
    def busy(self, tmp_path: Path) -> Iterator[Callable[[], None]]:
        """Occupy the only slot; return a function that frees it."""
        execution.set_max_processes(1)
        path, results = tmp_path / "busy", []  # type: ignore[var-annotated]
        thread = start(isolated(wait_for), results, path=str(path))
        read_pids(path)
        yield lambda: path.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        thread.join(WAIT)
        assert [result.error for result in results] == [None]

    @pytest.mark.parametrize("is_async", [False, True], ids=["exec", "aexec"])
    def test_it_counts_as_time_of_the_call(self, busy: Callable[[], None], is_async: bool) -> None:
        spec = isolated(get_pid, timeout=0.2)
        error = asyncio.run(spec.aexec()).error if is_async else spec.exec().error
        assert error.code == "timeout"
        assert until(lambda: waiting_calls() == 0)
        assert error.message == (
            "Tool 'get_pid' did not finish within 0.2 seconds; "
            "it did not start, because other calls used all worker processes."
        )
        busy()
        assert isolated(get_pid)() != os.getpid()

    async def test_a_cancelled_call_leaves_the_queue(self, busy: Callable[[], None], tmp_path: Path) -> None:
        task = asyncio.create_task(isolated(hang).acall(path=str(tmp_path / "never")))
        assert await asyncio.to_thread(until, lambda: waiting_calls() == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(until, lambda: waiting_calls() == 0)
        busy()
        assert await isolated(get_pid).acall() != os.getpid()
        assert not (tmp_path / "never").exists()

    async def test_a_closed_stream_leaves_the_queue(self, busy: Callable[[], None]) -> None:
        stream = isolated(count_up).astream(to=3)
        reading = asyncio.create_task(anext(stream))
        assert await asyncio.to_thread(until, lambda: waiting_calls() == 1)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await stream.aclose()
        assert await asyncio.to_thread(until, lambda: waiting_calls() == 0)

    def test_a_killed_worker_frees_its_slot(self, tmp_path: Path) -> None:
        execution.set_max_processes(1)
        assert isolated(hang, timeout=1.0).exec(path=str(tmp_path / "pid")).error.code == "timeout"
        assert isolated(lambda: os._exit(3), name="dies").exec().error.code == "connection"
        assert isolated(get_pid, timeout=60)() != os.getpid()

    def test_a_call_whose_arguments_cannot_be_pickled_takes_no_slot(self) -> None:
        execution.set_max_processes(1)

        def body(lock: Any) -> None:
            """Take a lock."""

        for _ in range(2):
            assert isolated(body).bind("lock", default=threading.Lock()).exec().error is not None
        assert isolated(get_pid, timeout=60)() != os.getpid()

    @pytest.mark.exhaustive
    def test_it_does_not_delay_the_exit_of_the_interpreter(self, tmp_path: Path) -> None:
        code = """if True:
            import os, sys, threading, time
            from ahvn_tools import ToolSpec, execution
            from tests.execution.workers.bodies import hang
            execution.set_max_processes(1)
            spec = ToolSpec.from_function(hang, isolation="process")
            for _ in range(3):
                threading.Thread(target=spec, kwargs={"path": sys.argv[1]}, daemon=True).start()
            while not (os.path.exists(sys.argv[1]) and os.path.getsize(sys.argv[1])):
                time.sleep(0.01)
            print("end", flush=True)
        """
        assert program(code, str(tmp_path / "pid"))[:2] == (0, "end\n")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
    @pytest.mark.exhaustive
    def test_a_forked_child_has_free_slots_of_its_own(self, tmp_path: Path) -> None:
        code = """if True:
            import os, sys, threading, time
            from ahvn_tools import ToolSpec, execution
            from ahvn_tools.execution.workers import slots
            from tests.execution.workers.bodies import get_pid, hang
            execution.set_max_processes(1)
            hanging = ToolSpec.from_function(hang, isolation="process")
            threading.Thread(target=hanging, kwargs={"path": sys.argv[1]}, daemon=True).start()
            while not (os.path.exists(sys.argv[1]) and os.path.getsize(sys.argv[1])):
                time.sleep(0.01)
            child = os.fork()
            if child == 0:
                ToolSpec.from_function(get_pid, isolation="process", timeout=30)()
                print(slots.process_slots.count, flush=True)
                raise SystemExit(0)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
        assert program(code, str(tmp_path / "pid"))[:2] == (0, "1\n0\n")


class TestStreams:
    @pytest.mark.parametrize("is_async", [False, True], ids=["stream", "astream"])
    async def test_a_reader_may_make_isolated_calls(self, is_async: bool) -> None:
        execution.set_max_processes(1)
        stream, inner = isolated(count_up), isolated(get_pid, timeout=60)
        if is_async:
            pids = {await inner.acall() async for result in stream.astream(to=3) if not result.is_last}
        else:
            pids = {inner() for result in stream.stream(to=3) if not result.is_last}
        assert os.getpid() not in pids

    @pytest.mark.exhaustive
    def test_streams_that_wait_for_their_readers_are_limited_too(self) -> None:
        execution.set_max_processes(1)
        streams = [isolated(count_up).stream(to=3) for _ in range(slots.MAX_UNCOUNTED_STREAMS + 1)]
        assert [next(stream).value for stream in streams] == [0] * len(streams)
        assert isolated(get_pid, timeout=0.2).exec().error.code == "timeout"
        for stream in streams:
            stream.close()
        assert isolated(get_pid, timeout=60)() != os.getpid()
