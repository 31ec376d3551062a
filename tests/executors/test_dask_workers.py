"""Calls of a DaskExecutor when Dask moves, ends and restarts workers, and what Dask keeps of them."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")

from ahvn_tools import ToolContext, ToolResult, ToolSpec  # noqa: E402  # it needs the package
from ahvn_tools.executors import DaskExecutor  # noqa: E402  # it needs the package
from ahvn_tools.executors.dask.dask_call import find_client_calls  # noqa: E402  # it needs the package
from ahvn_tools.executors.dask.scheduler_calls import REPLY_TOPIC, START_OPERATION  # noqa: E402  # it needs the package
from tests.execution.entry_points import until  # noqa: E402  # it needs the package
from tests.execution.workers.bodies import read_pids  # noqa: E402  # it needs the package
from tests.executors import worker_bodies as bodies  # noqa: E402  # it needs the package
from tests.executors.contract import are_gone, in_executor  # noqa: E402  # it needs the package
from tests.executors.dask_clusters import (  # noqa: E402  # it needs the package
    find_in_scheduler_messages,
    find_in_worker_messages,
    find_texts,
    is_clean,
    local_cluster,
    no_process_is_left,
)


def run_for(path: str, seconds: float, size: int = 0) -> bytes:
    """Append the process ids to a file, wait, and return so many bytes."""
    bodies.append_pids(path)
    time.sleep(seconds)
    return bytes(size)


def run_connected(path: str, seconds: float, context: ToolContext) -> None:
    context.append_output("started")
    run_for(path, seconds)


def echo(text: str, context: ToolContext) -> str:
    context.append_output(text.upper())
    return text[::-1]


def count_runs(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def is_lost(result: ToolResult) -> bool:
    """Return whether a call failed because its worker was lost."""
    return (
        result.error is not None
        and result.error.code == "connection"
        and "its Dask worker was lost" in result.error.message
    )


def find_address(client: Any, pid: int) -> str:
    """Return the address of the worker in a process."""
    [address] = [address for address, found in client.run(os.getpid).items() if found == pid]
    return str(address)


def task_states(dask_scheduler: Any) -> list[str]:
    return [task.state for task in dask_scheduler.tasks.values()]


def task_keys(dask_scheduler: Any) -> list[str]:
    return list(dask_scheduler.tasks)


async def start_again(key: str, worker: str, dask_scheduler: Any) -> bool:
    """Do what a worker does before it runs a body."""
    return bool(dask_scheduler.handlers[START_OPERATION](key=key, worker=worker))


async def hang(**_: Any) -> None:
    await asyncio.sleep(bodies.WAIT)


def stop_sending_results(dask_worker: Any) -> None:
    """Let a worker send no data that is requested."""
    dask_worker.handlers["get_data"] = hang


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with no_process_is_left(), local_cluster(workers=2) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    """A client of a cluster with two workers or more. Its calls leave nothing in the scheduler."""
    with distributed.Client(cluster) as client:
        if len(client.scheduler_info()["workers"]) < 2:
            cluster.scale(len(cluster.workers) + 1)
        client.wait_for_workers(2, timeout=bodies.WAIT)
        yield client
        assert is_clean(client)


class TestLostWorkers:
    """A body whose worker was lost does not start again, unless it may be repeated."""

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(run_for, id="alone"),
            pytest.param(run_connected, id="connected", marks=pytest.mark.exhaustive),
        ],
    )
    def test_it_is_reported_at_once_in_a_cluster_without_other_workers(self, tmp_path: Path, body: Any) -> None:
        path = tmp_path / "pids"
        with local_cluster(workers=1) as cluster, distributed.Client(cluster) as client:
            for nanny in cluster.workers.values():
                nanny.auto_restart = False
            future = ToolSpec.from_function(body).submit(DaskExecutor(client), path=str(path), seconds=600.0)
            [child, worker] = read_pids(path, 2)
            os.kill(worker, signal.SIGKILL)
            assert is_lost(future.result(bodies.WAIT))
            assert client.scheduler_info()["workers"] == {}
            assert are_gone([child, worker])
            assert is_clean(client)

    @pytest.mark.parametrize("body", [run_for, run_connected], ids=["alone", "connected"])
    def test_a_started_body_may_not_start_again(self, client: Any, tmp_path: Path, body: Any) -> None:
        path = tmp_path / "pids"
        future = ToolSpec.from_function(body).submit(DaskExecutor(client), path=str(path), seconds=600.0)
        mine = find_address(client, read_pids(path, 2)[1])
        [key] = client.run_on_scheduler(task_keys)
        for address in client.scheduler_info()["workers"]:
            assert client.run_on_scheduler(start_again, key, address) is False
        assert client.run_on_scheduler(start_again, "unknown", mine) is False
        future.cancel()

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("is_repeatable", [False, True], ids=["once", "repeatable"])
    def test_a_retired_worker_is_a_lost_worker(self, client: Any, tmp_path: Path, is_repeatable: bool) -> None:
        path = tmp_path / "pids"
        spec = ToolSpec.from_function(run_for, annotations={"readOnlyHint": is_repeatable})
        future = spec.submit(DaskExecutor(client), path=str(path), seconds=0.7)
        pids = read_pids(path, 2)
        client.retire_workers([find_address(client, pids[1])])
        result = future.result(bodies.WAIT)
        assert is_lost(result) is not is_repeatable
        assert count_runs(path) == (2 if is_repeatable else 1)
        assert are_gone(pids)

    @pytest.mark.parametrize(
        "is_repeatable",
        [pytest.param(False, id="once"), pytest.param(True, id="repeatable", marks=pytest.mark.exhaustive)],
    )
    def test_a_result_that_was_lost_in_its_worker(self, tmp_path: Path, is_repeatable: bool) -> None:
        path = tmp_path / "pids"
        spec = ToolSpec.from_function(run_for, annotations={"readOnlyHint": is_repeatable})
        with local_cluster(workers=1) as cluster, distributed.Client(cluster) as client:
            for nanny in cluster.workers.values():
                nanny.auto_restart = is_repeatable
            client.run(stop_sending_results)
            future = spec.submit(DaskExecutor(client), path=str(path), seconds=0.0, size=2_000_000)
            worker = read_pids(path, 2)[1]
            assert until(lambda: client.run_on_scheduler(task_states) == ["memory"])
            os.kill(worker, signal.SIGKILL)
            result = future.result(bodies.WAIT)
            assert (result.error is None, count_runs(path)) == (is_repeatable, 2 if is_repeatable else 1)
            assert result.error is None or result.error.code == "connection"
            assert is_clean(client)

    def test_a_repeatable_body_does_not_run_again_when_its_output_was_read(self, client: Any, tmp_path: Path) -> None:
        path = tmp_path / "pids"
        spec = ToolSpec.from_function(run_connected, annotations={"readOnlyHint": True})
        stream = in_executor(DaskExecutor(client), spec).stream("run_connected", {"path": str(path), "seconds": 600.0})
        assert next(stream).value == "started"
        os.kill(read_pids(path, 2)[1], signal.SIGKILL)
        assert [is_lost(result) for result in stream] == [True]
        assert count_runs(path) == 1

    @pytest.mark.exhaustive
    def test_no_body_runs_twice_while_workers_are_killed(self, tmp_path: Path) -> None:
        paths = [tmp_path / str(number) for number in range(100)]
        specs = [ToolSpec.from_function(body) for body in (run_for, run_connected)]
        with local_cluster(workers=3) as cluster, distributed.Client(cluster) as client:
            executor = DaskExecutor(client)
            futures = [
                specs[number % 2].submit(executor, path=str(path), seconds=0.1) for number, path in enumerate(paths)
            ]
            for _ in range(5):
                time.sleep(0.5)
                client.wait_for_workers(1, timeout=bodies.WAIT)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(next(iter(client.run(os.getpid, on_error="ignore").values())), signal.SIGKILL)
            for path, future in zip(paths, futures, strict=True):
                result = future.result(2 * bodies.WAIT)
                assert count_runs(path) == 1 if result.error is None else is_lost(result) and count_runs(path) <= 1
            assert is_clean(client)


class TestMovedCalls:
    """Dask balances its workers, and adds and removes them."""

    def test_calls_that_move_to_other_workers_run_once(self, client: Any, tmp_path: Path) -> None:
        executor = DaskExecutor(client)
        [first, *_] = client.scheduler_info()["workers"]
        paths = [tmp_path / str(number) for number in range(12)]
        preferring = DaskExecutor(client, workers=[first], allow_other_workers=True)
        spec = ToolSpec.from_function(run_for)
        futures = [spec.submit(preferring, path=str(path), seconds=0.1) for path in paths]
        assert [future.result(bodies.WAIT).error for future in futures] == [None] * 12
        assert [count_runs(path) for path in paths] == [1] * 12
        executor.shutdown()


class TestClients:
    """Several executors and clients, and schedulers that come back."""

    def test_executors_share_a_client(self, client: Any) -> None:
        executors = [DaskExecutor(client), DaskExecutor(client, killable=False)]
        kits = [in_executor(executor, bodies.talk) for executor in executors]
        streams = [kit.stream("talk", {"lines": 3}) for kit in kits for _ in range(4)]
        for values in zip(*streams, strict=True):
            assert len({result.value for result in values}) == 1
        executors[0].shutdown()
        assert [result.value for result in kits[1].stream("talk", {"lines": 0})] == ["line 0"]

    def test_two_clients_get_the_replies_of_their_own_calls(self, cluster: Any, client: Any) -> None:
        with distributed.Client(cluster) as second:
            kits = [in_executor(DaskExecutor(one), echo) for one in (client, second)]
            streams = [kit.stream("echo", {"text": f"call {number}"}) for number, kit in enumerate(kits)]
            found = [[result.value for result in stream] for stream in streams]
            seen: list[Any] = []
            second.subscribe_topic(REPLY_TOPIC, seen.append)
            assert kits[0].call("echo", {"text": "call 2"}) == "2 llac"
            assert until(lambda: second.run_on_scheduler(task_states) == [])
            assert seen == []
        assert found == [["CALL 0", "0 llac"], ["CALL 1", "1 llac"]]

    @pytest.mark.exhaustive
    def test_calls_run_after_the_scheduler_has_come_back(self, tmp_path: Path, free_port: int) -> None:
        address, path = f"tcp://127.0.0.1:{free_port}", tmp_path / "pids"
        with contextlib.ExitStack() as stack:
            scheduler = stack.enter_context(dask_command("scheduler", "--port", str(free_port)))
            stack.enter_context(dask_command("worker", address, "--nthreads", "1"))
            client = stack.enter_context(distributed.Client(address, timeout=bodies.WAIT))
            client.wait_for_workers(1, timeout=bodies.WAIT)
            kit = in_executor(DaskExecutor(client), run_connected, bodies.talk)
            stream = kit.stream("run_connected", {"path": str(path), "seconds": 600.0})
            assert next(stream).value == "started"
            os.killpg(scheduler.pid, signal.SIGKILL)
            with pytest.raises(StopIteration):
                assert next(stream).error.code == "connection"
                next(stream)
            stack.enter_context(dask_command("scheduler", "--port", str(free_port)))
            assert until(lambda: client.status == "running")
            stack.enter_context(dask_command("worker", address, "--nthreads", "1"))
            assert [result.value for result in kit.stream("talk", {"lines": 0})] == ["line 0"]


@pytest.fixture
def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def dask_command(name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of Dask in processes of its own until the block ends."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *arguments, "--no-dashboard"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class TestRecords:
    """Dask keeps the last 1,000 messages that it has sent, and a log of events."""

    def test_they_have_no_arguments_results_and_replies(self, client: Any) -> None:
        kit = in_executor(DaskExecutor(client), echo)
        texts = [b"canary-one", b"CANARY-ONE", b"eno-yranac"]
        for _ in range(3):
            values = [result.value for result in kit.stream("echo", {"text": "canary-one"})]
            assert values == ["CANARY-ONE", "eno-yranac"]
        nothing = [False] * 3
        assert client.run_on_scheduler(find_in_scheduler_messages, texts) == nothing
        assert set(map(tuple, client.run(find_in_worker_messages, texts).values())) == {tuple(nothing)}
        assert find_texts(texts, list(client.scheduler_comm.recent_message_log)) == nothing

    @pytest.mark.exhaustive
    def test_they_have_none_of_a_worker_that_joined_later(self, cluster: Any, client: Any) -> None:
        executor = DaskExecutor(client)
        assert in_executor(executor, bodies.add).call("add", {"a": 1, "b": 2}) == 3
        known = set(client.scheduler_info()["workers"])
        cluster.scale(len(cluster.workers) + 1)
        client.wait_for_workers(len(known) + 1, timeout=bodies.WAIT)
        [new] = set(client.scheduler_info()["workers"]) - known
        kit = in_executor(DaskExecutor(client, workers=[new]), echo)
        assert kit.call("echo", {"text": "canary-two"}) == "owt-yranac"
        assert client.run_on_scheduler(find_in_scheduler_messages, [b"canary-two"]) == [False]

    def test_nothing_of_many_calls_is_left(self, client: Any) -> None:
        executor = DaskExecutor(client)
        kit = in_executor(executor, bodies.add)
        results = kit.map(executor, (("add", {"a": number, "b": 1}) for number in range(200)))
        assert collections.Counter(result.error for result in results) == {None: 200}
        assert is_clean(client)
        assert client.futures == {}
        assert find_client_calls(client)._receivers == {}
        assert executor._running == {}
