"""Functions and bodies of tools in the killable processes of a ProcessExecutor."""

from __future__ import annotations

import concurrent.futures
import os
import queue
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ahvn_tools import ToolSpec
from ahvn_tools.errors import DefinitionError, PickleError, ToolConnectionError
from ahvn_tools.execution.workers import worker_process
from ahvn_tools.execution.workers.call_executor import CallObserver, CallTask, encode_function
from ahvn_tools.executors import ProcessExecutor
from tests.execution.entry_points import until
from tests.execution.workers.bodies import is_gone, read_pids
from tests.executors import worker_bodies as bodies
from tests.executors.contract import ExecutorContract, are_gone, in_executor


@pytest.fixture(scope="module", autouse=True)
def no_worker_is_left() -> Iterator[None]:
    yield
    assert until(lambda: worker_process.process_pool.count()[0] == worker_process.process_pool.count()[1])
    for pool in worker_process.all_pools():
        pool.end_idle()
        assert pool.count() == (0, 0)
    assert [child.cmdline() for child in psutil.Process().children(recursive=True)] == []


class BecomesText(Exception):
    """Unpickles to a text."""

    def __reduce__(self) -> Any:
        return str, ("no exception",)


@pytest.fixture
def executor() -> Iterator[ProcessExecutor]:
    with ProcessExecutor(max_workers=2) as executor:
        yield executor


class TestCalls(ExecutorContract):
    """Calls of tools."""


@pytest.mark.exhaustive
class TestFunctions:
    """Functions that are submitted."""

    def test_a_coroutine_function_runs_to_its_end(self, executor: ProcessExecutor) -> None:
        assert executor.submit(bodies.add_later, 1, 2).result(bodies.WAIT) == 3

    def test_a_function_without_an_import_path_runs(self, executor: ProcessExecutor) -> None:
        offset = 5
        assert executor.submit(lambda a: a + offset, 1).result(bodies.WAIT) == 6

    def test_an_argument_that_cannot_be_pickled_is_refused(self, executor: ProcessExecutor) -> None:
        with pytest.raises(PickleError, match="cannot be pickled: TypeError"):
            executor.submit(bodies.add, threading.Lock(), 2)

    def test_a_result_that_cannot_be_pickled_is_an_error(self, executor: ProcessExecutor) -> None:
        with pytest.raises(PickleError, match="cannot be sent back"):
            executor.submit(threading.Lock).result(bodies.WAIT)

    @pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt])
    def test_what_a_function_raises_does_not_end_the_worker(self, executor: ProcessExecutor, end: Any) -> None:
        def body() -> None:
            raise end("over")

        assert isinstance(executor.submit(body).exception(bodies.WAIT), end)

    def test_the_cause_of_an_exception_says_where_it_was_raised(self, executor: ProcessExecutor) -> None:
        with pytest.raises(bodies.OddError) as raised:
            executor.submit(bodies.fail, "no").result(bodies.WAIT)
        assert "in fail" in str(raised.value.__cause__)

    def test_a_process_that_ends_is_a_connection_error(self, executor: ProcessExecutor) -> None:
        with pytest.raises(ToolConnectionError, match=r"ended \(exit code 3\) before it returned a result"):
            executor.submit(os._exit, 3).result(bodies.WAIT)
        assert executor.submit(bodies.add, 1, 2).result(bodies.WAIT) == 3

    def test_a_killed_process_is_a_connection_error(self, executor: ProcessExecutor, tmp_path: Path) -> None:
        path = tmp_path / "pids"
        future = executor.submit(bodies.hang_once, str(path))
        os.kill(read_pids(path, 2)[0], signal.SIGKILL)
        with pytest.raises(ToolConnectionError, match="SIGKILL"):
            future.result(bodies.WAIT)
        assert len(path.read_text().splitlines()) == 1

    def test_cancelling_one_that_runs_ends_it_and_all_it_started(
        self, executor: ProcessExecutor, tmp_path: Path
    ) -> None:
        path = tmp_path / "pids"
        future = executor.submit(bodies.hang, str(path))
        pids = read_pids(path, 3)
        assert future.cancel()
        assert are_gone(pids)
        assert future.cancelled()
        assert concurrent.futures.wait([future], timeout=bodies.WAIT).done == {future}

    def test_one_that_has_ended_is_not_cancelled(self, executor: ProcessExecutor) -> None:
        future = executor.submit(bodies.add, 1, 2)
        assert future.result(bodies.WAIT) == 3
        assert not future.cancel()

    def test_a_thousand_calls_leave_two_processes(self, executor: ProcessExecutor) -> None:
        futures = [executor.submit(bodies.add, number, 1) for number in range(1_000)]
        assert [future.result(bodies.WAIT) for future in futures] == list(range(1, 1_001))
        assert worker_process.process_pool.count()[0] <= 2


@pytest.mark.exhaustive
class TestLimits:
    """How many calls run at once, and until when."""

    @pytest.mark.parametrize("workers", [0, -1, 1.5, True, "2"], ids=repr)
    def test_a_wrong_number_of_workers_is_refused(self, workers: Any) -> None:
        with pytest.raises(DefinitionError, match="max_workers is a whole number"):
            ProcessExecutor(workers)

    def test_no_more_than_max_workers_run_at_once(self, tmp_path: Path) -> None:
        with ProcessExecutor(max_workers=1) as executor:
            first = executor.submit(bodies.hang, str(tmp_path / "first"))
            second = executor.submit(bodies.append_pids, str(tmp_path / "second"))
            pids = read_pids(tmp_path / "first", 3)
            time.sleep(0.1)
            assert not (tmp_path / "second").exists()
            assert not second.done()
            first.cancel()
            assert second.result(bodies.WAIT) == 1
            assert are_gone(pids)

    def test_a_reader_can_make_calls_while_its_stream_waits(self) -> None:
        with ProcessExecutor(max_workers=1) as executor:
            kit = in_executor(executor, bodies.count, bodies.add)
            sums = [
                kit.call("add", {"a": n, "b": 1})
                for n in (r.value for r in kit.stream("count", {"to": 2}))
                if n != [0, 1]
            ]
        assert sums == [1, 2]

    def test_a_queued_call_begins_when_a_stream_waits_for_its_reader(self, tmp_path: Path) -> None:
        gate = tmp_path / "gate"
        with ProcessExecutor(max_workers=1) as executor:
            stream = in_executor(executor, bodies.yield_and_wait).stream("yield_and_wait", {"gate": str(gate)})
            assert next(stream).value == "before"
            reading = threading.Thread(target=next, args=(stream,))
            reading.start()
            assert until(lambda: executor._slots._lent == 0)
            future = executor.submit(bodies.add, 1, 2)
            assert len(executor._slots._waiting) == 1
            gate.touch()
            reading.join(bodies.WAIT)
            assert future.result(bodies.WAIT) == 3
            assert [result.value for result in stream] == [["before", "after"]]

    def test_the_worker_keeps_the_time_limit_too(self, tmp_path: Path) -> None:
        path, failed = tmp_path / "pids", queue.SimpleQueue[str]()
        request = encode_function("hang", bodies.hang, (str(path),), {})
        task = CallTask(tool="hang", request=request, is_connected=False, is_repeatable=False, seconds=2.0)
        with ProcessExecutor(max_workers=1) as executor:
            executor.start_call(task, CallObserver(lambda _: None, failed.put))
            pids = read_pids(path, 3)
            assert failed.get(timeout=bodies.WAIT) == "was ended: the timeout of its call was over"
            assert are_gone(pids)

    def test_after_a_cancellation_nothing_is_delivered(self, tmp_path: Path) -> None:
        delivered: list[Any] = []
        request = encode_function("hang", bodies.hang, (str(tmp_path / "pids"),), {})
        task = CallTask(tool="hang", request=request, is_connected=False, is_repeatable=False, seconds=None)
        with ProcessExecutor(max_workers=1) as executor:
            call = executor.start_call(task, CallObserver(lambda _: None, delivered.append))
            read_pids(tmp_path / "pids", 3)
            call.cancel()
        assert delivered == []

    def test_a_cancelled_call_in_the_queue_never_runs(self, tmp_path: Path) -> None:
        with ProcessExecutor(max_workers=1) as executor:
            first = executor.submit(bodies.hang, str(tmp_path / "first"))
            pids = read_pids(tmp_path / "first", 3)
            second = executor.submit(bodies.append_pids, str(tmp_path / "second"))
            call = ToolSpec.from_function(bodies.append_pids).submit(executor, path=str(tmp_path / "second"))
            assert second.cancel()
            assert call.cancel()
            assert until(lambda: not executor._slots._waiting)
            first.cancel()
            assert executor.submit(bodies.add, 1, 2).result(bodies.WAIT) == 3
            assert are_gone(pids)
        assert not (tmp_path / "second").exists()

    def test_shutdown_waits_for_the_calls_that_run(self, tmp_path: Path) -> None:
        gate = tmp_path / "gate"
        executor = ProcessExecutor(max_workers=1)
        futures = [executor.submit(bodies.wait_for, str(gate)) for _ in range(2)]
        ending = threading.Thread(target=executor.shutdown)
        ending.start()
        ending.join(0.1)
        assert ending.is_alive()
        gate.touch()
        ending.join(bodies.WAIT)
        assert [future.result(0) for future in futures] == [None, None]

    def test_shutdown_ends_the_idle_processes(self) -> None:
        with ProcessExecutor(max_workers=1) as executor:
            pid = executor.submit(bodies.get_pid).result(bodies.WAIT)
        assert is_gone(pid)

    def test_shutdown_leaves_processes_that_keep_their_children(self) -> None:
        kept = ToolSpec.from_function(bodies.get_pid, isolation="process", keep_children=True)
        pid = kept()
        with ProcessExecutor(max_workers=1) as executor:
            executor.submit(bodies.add, 1, 2).result(bodies.WAIT)
        assert kept() == pid

    def test_shutdown_can_leave_the_calls_running(self, tmp_path: Path) -> None:
        gate = tmp_path / "gate"
        executor = ProcessExecutor(max_workers=1)
        future = executor.submit(bodies.wait_for, str(gate))
        executor.shutdown(wait=False)
        gate.touch()
        assert future.result(bodies.WAIT) is None

    def test_shutdown_can_kill_all(self, tmp_path: Path) -> None:
        executor = ProcessExecutor(max_workers=1)
        running = executor.submit(bodies.hang, str(tmp_path / "pids"))
        pids = read_pids(tmp_path / "pids", 3)
        queued = executor.submit(bodies.add, 1, 2)
        call = ToolSpec.from_function(bodies.add).submit(executor, a=1, b=2)
        assert until(lambda: len(executor._slots._waiting) == 2)
        executor.shutdown(cancel_futures=True)
        assert are_gone(pids)
        assert running.cancelled()
        assert queued.cancelled()
        assert call.result(bodies.WAIT).error.code == "connection"

    def test_it_takes_no_call_after_shutdown(self) -> None:
        executor = ProcessExecutor()
        executor.shutdown()
        executor.shutdown()
        with pytest.raises(RuntimeError, match="was shut down"):
            executor.submit(bodies.add, 1, 2)
        result = in_executor(executor, bodies.add).exec("add", {"a": 1, "b": 2})
        assert result.error is not None
        assert result.error.code == "connection"
        assert "was shut down" in result.error.message
