"""Bodies of tools in the workers of a Dask cluster of this computer."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

dask = pytest.importorskip("dask", reason="needs the extra `dask`")
distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")

from ahvn_tools import ToolContext, ToolSpec, WorkerResolver  # noqa: E402  # it needs the package
from ahvn_tools.errors import DefinitionError  # noqa: E402  # it needs the package
from ahvn_tools.execution.workers.call_executor import CallObserver, CallTask, RunningCall  # noqa: E402  # it needs the package
from ahvn_tools.executors import DaskExecutor  # noqa: E402  # it needs the package
from ahvn_tools.executors.dask import executor as executor_module  # noqa: E402  # it needs the package
from tests.execution.entry_points import process, until  # noqa: E402  # it needs the package
from tests.execution.workers.bodies import read_pids  # noqa: E402  # it needs the package
from tests.executors import worker_bodies as bodies  # noqa: E402  # it needs the package
from tests.executors.contract import ExecutorContract, are_gone, in_executor  # noqa: E402  # it needs the package
from tests.executors.dask_clusters import is_clean, left_in_scheduler, local_cluster, no_process_is_left  # noqa: E402  # it needs the package


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of two worker processes. No process is left of it."""
    with no_process_is_left(), local_cluster(workers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: Any) -> Iterator[Any]:
    with distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def executor(client: Any) -> Iterator[DaskExecutor]:
    """An executor; its calls leave nothing in the scheduler."""
    executor = DaskExecutor(client)
    yield executor
    executor.shutdown(cancel_futures=True)  # a test that failed may have left a body that never ends
    assert is_clean(client), client.run_on_scheduler(left_in_scheduler)


@pytest.fixture
def threads(client: Any) -> Iterator[DaskExecutor]:
    """An executor whose bodies run in the Dask workers themselves."""
    executor = DaskExecutor(client, killable=False)
    yield executor
    executor.shutdown(cancel_futures=True)
    assert is_clean(client), client.run_on_scheduler(left_in_scheduler)


class RecordingExecutor(DaskExecutor):
    """An executor that keeps the tasks of its calls."""

    tasks: list[CallTask]

    def start_call(self, task: CallTask, observer: CallObserver) -> RunningCall:
        self.tasks = [*getattr(self, "tasks", []), task]
        return super().start_call(task, observer)


def worker_address() -> str:
    return str(distributed.get_worker().address)


async def worker_address_later() -> str:
    return str(distributed.get_worker().address)


def address_with_progress(context: ToolContext) -> str:
    context.append_output("here")
    return worker_address()


def find_in_scheduler(text: bytes, dask_scheduler: Any) -> list[bool]:
    """Return for each task whether what the scheduler has of it contains a text."""
    return [text in cloudpickle.dumps(task.run_spec) for task in dask_scheduler.tasks.values()]


def find_in_worker(text: bytes, dask_worker: Any) -> list[bool]:
    """Return for each task whether what a worker has of it contains a text."""
    tasks = dask_worker.state.tasks.values()
    return [text in cloudpickle.dumps((task.run_spec, dict(dask_worker.data))) for task in tasks]


def task_keys(dask_scheduler: Any) -> list[str]:
    return list(dask_scheduler.tasks)


class TestCalls(ExecutorContract):
    """Calls in killable processes."""


class TestWorkers:
    """What happens to calls when their Dask worker ends."""

    def test_a_lost_worker_is_a_connection_error_and_the_body_ran_once(
        self, executor: DaskExecutor, tmp_path: Path
    ) -> None:
        path = tmp_path / "pids"
        future = ToolSpec.from_function(bodies.hang_once).submit(executor, path=str(path))
        body, worker = read_pids(path, 2)
        os.kill(worker, signal.SIGKILL)
        result = future.result(bodies.WAIT)
        assert result.error is not None
        assert result.error.code == "connection"
        assert "its Dask worker was lost" in result.error.message
        assert are_gone([body, worker])
        assert len(path.read_text().splitlines()) == 1

    def test_a_body_that_may_be_repeated_runs_again_in_another_worker(
        self, executor: DaskExecutor, tmp_path: Path
    ) -> None:
        path = tmp_path / "pids"
        spec = ToolSpec.from_function(bodies.hang_once, annotations={"readOnlyHint": True})
        future = spec.submit(executor, path=str(path))
        _, worker = read_pids(path, 2)
        os.kill(worker, signal.SIGKILL)
        assert future.result(bodies.WAIT).value == 2

    def test_a_connected_body_is_not_started_twice_by_dask(self, executor: DaskExecutor, tmp_path: Path) -> None:
        pids, gate = tmp_path / "pids", tmp_path / "gate"

        def body(pids: str, gate: str, context: ToolContext) -> int:
            runs = bodies.append_pids(pids)
            context.report_progress(runs, message=f"run {runs}")
            if runs == 1:
                bodies.wait_for(gate)
            return runs

        kit = in_executor(executor, ToolSpec.from_function(body, annotations={"idempotentHint": True}))
        stream = kit.stream("body", {"pids": str(pids), "gate": str(gate)})
        assert next(stream).value == "run 1"
        os.kill(read_pids(pids, 2)[1], signal.SIGKILL)
        assert [result.value for result in stream] == ["run 2", 2]


class TestQueued:
    """Calls that wait for a worker."""

    def test_a_cancelled_one_never_runs(self, executor: DaskExecutor, client: Any, tmp_path: Path) -> None:
        hang = ToolSpec.from_function(bodies.hang)
        running = [hang.submit(executor, path=str(tmp_path / str(number))) for number in range(2)]
        pids = [pid for number in range(2) for pid in read_pids(tmp_path / str(number), 3)]
        queued = hang.submit(executor, path=str(tmp_path / "queued"))
        assert until(lambda: len(client.run_on_scheduler(task_keys)) == 3)
        assert queued.cancel()
        assert until(lambda: len(client.run_on_scheduler(task_keys)) == 2)
        for future in running:
            future.cancel()
        assert are_gone(pids)
        assert is_clean(client)
        assert not (tmp_path / "queued").exists()

    def test_shutdown_can_cancel_all(self, client: Any, tmp_path: Path) -> None:
        executor = DaskExecutor(client)
        hang = ToolSpec.from_function(bodies.hang)
        futures = [hang.submit(executor, path=str(tmp_path / "pids")) for _ in range(3)]
        pids = read_pids(tmp_path / "pids", 6)  # of two of them
        executor.shutdown(cancel_futures=True)
        assert are_gone(pids)
        for future in futures:
            error = future.result(bodies.WAIT).error
            assert error is not None
            assert (error.code, "the executor was shut down" in error.message) == ("connection", True)
        with pytest.raises(RuntimeError, match="was shut down"):
            executor.submit(pow, 2, 3)
        assert is_clean(client)

    def test_a_cancelled_function_is_forgotten(self, executor: DaskExecutor, client: Any, tmp_path: Path) -> None:
        gate = tmp_path / "gate"
        started = tmp_path / "started"
        running = [executor.submit(bodies.append_pids_and_wait, str(started), str(gate)) for _ in range(2)]
        read_pids(started, 4)
        queued = executor.submit(bodies.append_pids, str(tmp_path / "pids"))
        assert until(lambda: len(client.run_on_scheduler(task_keys)) == 3)
        assert queued.cancel()
        assert until(lambda: len(client.run_on_scheduler(task_keys)) == 2)
        gate.touch()
        assert [future.result(bodies.WAIT) for future in running] == [None, None]
        assert not (tmp_path / "pids").exists()


class TestInWorker:
    """Bodies in the Dask workers themselves."""

    @pytest.mark.parametrize("body", [worker_address, worker_address_later, address_with_progress])
    def test_they_can_use_the_worker(self, threads: DaskExecutor, client: Any, body: Any) -> None:
        kit = in_executor(threads, body)
        assert kit.call(body.__name__) in client.scheduler_info()["workers"]

    def test_killable_bodies_cannot(self, executor: DaskExecutor) -> None:
        with pytest.raises(ValueError, match="No worker found"):
            in_executor(executor, worker_address).call("worker_address")

    @pytest.mark.parametrize("way", ["cancel", "timeout"])
    def test_the_end_of_the_call_cancels_the_context(self, threads: DaskExecutor, tmp_path: Path, way: str) -> None:
        path = tmp_path / "seen"
        spec = ToolSpec.from_function(bodies.watch_context, timeout=2.0 if way == "timeout" else None)
        future = spec.submit(threads, path=str(path))
        read_pids(tmp_path / "seen.started", 2)
        if way == "cancel":
            future.cancel()
        else:
            assert future.result(bodies.WAIT).error.code == "timeout"
        assert until(path.exists)
        assert until(lambda: path.read_text() == "True")

    def test_they_stream_and_ask(self, threads: DaskExecutor, tmp_path: Path) -> None:
        gate = tmp_path / "gate"
        kit = in_executor(threads, bodies.yield_and_wait, bodies.deploy, approver=lambda _: True)
        stream = kit.stream("yield_and_wait", {"gate": str(gate)})
        assert next(stream).value == "before"
        gate.touch()
        assert [result.value for result in stream] == ["after", ["before", "after"]]
        assert kit.call("deploy", {"target": "moon"}) == "deployed to moon"


class TestClients:
    """The client of an executor, and its end."""

    async def test_it_may_be_asynchronous(self, cluster: Any, tmp_path: Path) -> None:
        async with distributed.Client(cluster.scheduler_address, asynchronous=True) as client:
            executor = DaskExecutor(client)
            assert await asyncio.wrap_future(executor.submit(pow, 2, 10)) == 1024
            kit = in_executor(executor, bodies.add, bodies.talk, bodies.hang)
            assert await kit.acall("add", {"a": 1, "b": 2}) == 3
            values = [result.value async for result in kit.astream("talk", {"lines": 2})]
            assert values == ["line 0", "progress 0", "line 1", "progress 1", "line 2"]
            call = asyncio.create_task(kit.aexec("hang", {"path": str(tmp_path / "pids")}))
            pids = await asyncio.to_thread(read_pids, tmp_path / "pids", 3)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert await asyncio.to_thread(are_gone, pids)
            executor.shutdown(wait=False)

    async def test_a_sync_call_that_blocks_its_loop_is_refused(
        self, cluster: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(executor_module, "LOOP_SECONDS", 0.1)
        async with distributed.Client(cluster.scheduler_address, asynchronous=True) as client:
            result = in_executor(DaskExecutor(client), bodies.add).exec("add", {"a": 1, "b": 2})
        assert result.error is not None
        assert result.error.code == "connection"
        assert "blocked by a sync call" in result.error.message

    @pytest.mark.parametrize("body", [bodies.hang, bodies.hang_with_context], ids=["alone", "connected"])
    def test_closing_it_ends_its_calls(self, cluster: Any, client: Any, tmp_path: Path, body: Any) -> None:
        path = tmp_path / "pids"
        with distributed.Client(cluster.scheduler_address) as second:
            executor = DaskExecutor(second)
            future = ToolSpec.from_function(body).submit(executor, path=str(path))
            pids = read_pids(path, 3)
        error = future.result(bodies.WAIT).error
        assert error is not None
        assert error.code == "connection"
        assert "unknown" not in error.message
        assert are_gone(pids)
        error = ToolSpec.from_function(bodies.add).submit(executor, a=1, b=2).result(bodies.WAIT).error
        assert error is not None
        assert "The Dask client is closed" in error.message
        with pytest.raises(RuntimeError, match="The Dask client is closed"):
            executor.submit(pow, 2, 3)
        assert is_clean(client)

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(bodies.hang, id="alone", marks=pytest.mark.exhaustive),
            pytest.param(bodies.hang_with_context, id="connected"),
        ],
    )
    def test_the_end_of_the_scheduler_ends_its_calls(self, tmp_path: Path, body: Any) -> None:
        path = tmp_path / "pids"
        with (
            dask.config.set({"distributed.comm.timeouts.connect": "500ms"}),  # closing the cluster tries that long
            distributed.LocalCluster(
                n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs="CRITICAL"
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            future = ToolSpec.from_function(body).submit(DaskExecutor(client), path=str(path))
            pids = read_pids(path, 3)
            cluster.sync(cluster.scheduler.close)
            error = future.result(bodies.WAIT).error
            assert error is not None
            assert error.code == "connection"
            assert are_gone(pids)

    @pytest.mark.exhaustive
    def test_the_death_of_its_process_ends_its_calls(self, cluster: Any, client: Any, tmp_path: Path) -> None:
        code = """
            import sys, distributed
            from ahvn_tools import ToolSpec
            from ahvn_tools.executors import DaskExecutor
            from tests.executors import worker_bodies as bodies
            executor = DaskExecutor(distributed.Client(sys.argv[1]))
            for body, path in zip([bodies.hang, bodies.hang_with_context], sys.argv[2:], strict=True):
                ToolSpec.from_function(body).submit(executor, path=path)
            import time; time.sleep(60)
        """
        paths = [tmp_path / "alone", tmp_path / "connected"]
        caller = process(textwrap.dedent(code), cluster.scheduler_address, *map(str, paths))
        try:
            pids = [pid for path in paths for pid in read_pids(path, 3)]
        finally:
            caller.kill()
            caller.communicate()
        assert are_gone(pids)
        assert is_clean(client)

    def test_anything_else_is_refused(self) -> None:
        with pytest.raises(DefinitionError, match=r"takes a distributed.Client, not a str"):
            DaskExecutor("tcp://127.0.0.1:8786")

    def test_unknown_options_are_refused(self, client: Any) -> None:
        with pytest.raises(DefinitionError, match=r"Unknown option 'key'\. .* option 'pure'\. Known: 'allow_"):
            DaskExecutor(client, pure=True, key="k")

    def test_options_choose_the_worker(self, client: Any) -> None:
        for address in client.scheduler_info()["workers"]:
            executor = DaskExecutor(client, killable=False, workers=[address], priority=1)
            assert in_executor(executor, worker_address).call("worker_address") == address
            assert executor.submit(worker_address).result(bodies.WAIT) == address


class TestWire:
    """What of a call is in the cluster."""

    def test_it_has_only_the_shipped_keys_of_the_state(self, client: Any, tmp_path: Path) -> None:
        gate = tmp_path / "gate"
        executor = RecordingExecutor(client)
        kit = in_executor(executor, bodies.read_state_and_wait, ship=["user.name"])
        session = kit.session(user={"name": "Ann Smith"}, notes="unshipped-value", token="t0ps3cret")
        stream = session.stream("read_state_and_wait", {"gate": str(gate)})
        next(stream)
        scheduler = [any(client.run_on_scheduler(find_in_scheduler, text)) for text in TEXTS]
        workers = [any(map(any, client.run(find_in_worker, text).values())) for text in TEXTS]
        gate.touch()
        assert [result.value for result in stream] == [{"user": {"name": "Ann Smith"}}]
        [task] = executor.tasks
        assert [text in task.request for text in TEXTS] == scheduler == workers == [True, False, False]

    def test_the_key_of_a_task_has_the_name_of_the_tool_alone(
        self, executor: DaskExecutor, client: Any, tmp_path: Path
    ) -> None:
        gate = tmp_path / "gate"
        stream = in_executor(executor, bodies.output_and_wait).stream("output_and_wait", {"gate": str(gate)})
        next(stream)
        [key] = client.run_on_scheduler(task_keys)
        gate.touch()
        list(stream)
        assert re.fullmatch("output_and_wait-[0-9a-f]{32}", key)


TEXTS = [b"Ann Smith", b"unshipped-value", b"t0ps3cret"]


def fail_with_cause(place: str) -> None:
    try:
        raise KeyError(place)
    except KeyError as error:
        raise ValueError(f"no answer from {place}") from error


def test_an_exception_keeps_its_class_where_dask_can_pickle_its_cause() -> None:
    spec = ToolSpec.from_function(fail_with_cause).bind("place", resolver=WorkerResolver(lambda: "canary-place"))
    with ThreadPoolExecutor() as executor:
        result = spec.submit(executor).result(timeout=60)
    assert isinstance(result.exception, ValueError)
    assert str(result.exception) == "no answer from <place>"
