"""Functions and bodies of tools in the killable processes of a ProcessExecutor."""

from __future__ import annotations

import concurrent.futures
import os
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
from ahvn_tools.execution.isolation import pool
from ahvn_tools.executors import ProcessExecutor
from tests.execution.entry_points import until
from tests.execution.isolation.bodies import read_pids
from tests.executors import worker_bodies as bodies
from tests.executors.contract import ExecutorContract, are_gone, in_executor


@pytest.fixture(scope="module", autouse=True)
def no_worker_is_left() -> Iterator[None]:
    yield
    assert until(lambda: pool.process_pool.count()[0] == pool.process_pool.count()[1])
    pool.process_pool.end_idle()
    assert pool.process_pool.count() == (0, 0)
    assert psutil.Process().children(recursive=True) == []


@pytest.fixture
def executor() -> Iterator[ProcessExecutor]:
    with ProcessExecutor(max_workers=2) as executor:
        yield executor


class TestCalls(ExecutorContract):
    """Calls of tools."""


class TestFunctions:
    """Functions that are submitted."""

    def test_a_generator_is_consumed_in_the_process(self, executor: ProcessExecutor) -> None:
        assert executor.submit(bodies.count, 3).result(bodies.WAIT) == [0, 1, 2]

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
        assert pool.process_pool.count()[0] <= 2


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

    def test_a_cancelled_call_in_the_queue_never_runs(self, tmp_path: Path) -> None:
        with ProcessExecutor(max_workers=1) as executor:
            first = executor.submit(bodies.hang, str(tmp_path / "first"))
            pids = read_pids(tmp_path / "first", 3)
            second = executor.submit(bodies.append_pids, str(tmp_path / "second"))
            call = ToolSpec.from_function(bodies.append_pids).submit(executor, path=str(tmp_path / "second"))
            assert second.cancel()
            assert call.cancel()
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
        assert until(lambda: len(executor._queue) == 2)
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
