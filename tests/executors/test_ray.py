"""Bodies of tools in the workers of a local Ray."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import psutil
import pytest

from ahvn_tools import Secret, ToolContext, ToolSpec
from ahvn_tools.errors import DefinitionError, PickleError, ToolConnectionError
from ahvn_tools.execution.workers.call_executor import CallObserver, CallTask, RunningCall
from ahvn_tools.executors import RayExecutor
from tests.execution.entry_points import until
from tests.execution.workers.bodies import is_gone, read_pids
from tests.executors import worker_bodies as bodies
from tests.executors.contract import ExecutorContract, are_gone, in_executor

ray = pytest.importorskip("ray", reason="needs the extra `ray`")

SECRET = "hunter2-" + "and-more"


def children() -> set[psutil.Process]:
    """Return all processes of this one but the tracker that multiprocessing keeps."""
    processes = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "resource_tracker" not in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                processes.add(process)
    return processes


@pytest.fixture(scope="module")
def temporary_folder() -> Iterator[str]:
    """A folder with a short path: Ray has sockets in it."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        yield folder


@pytest.fixture(scope="module", autouse=True)
def own_print() -> Iterator[None]:
    """Ray replaces `print`."""
    original = builtins.print
    yield
    builtins.print = original


@pytest.fixture(scope="module")
def session_folder(temporary_folder: str) -> Iterator[Path]:
    """A local Ray with two CPUs, and where it writes its logs. No process is left of it."""
    before = children()
    context = ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=200_000_000,
        _temp_dir=temporary_folder,
    )
    try:
        yield Path(context.address_info["session_dir"])
    finally:
        ray.shutdown()
    assert until(lambda: children() <= before), children() - before


@pytest.fixture
def executor(session_folder: Path) -> Iterator[RayExecutor]:
    executor = RayExecutor()
    yield executor
    executor.shutdown(cancel_futures=True)  # a test that failed may have left a body that never ends


def test_it_needs_an_initialised_ray() -> None:
    """It starts no cluster by itself."""
    if ray.is_initialized():
        pytest.skip("another test has started Ray")
    with pytest.raises(DefinitionError, match=r"call ray\.init\(\) first"):
        RayExecutor()
    assert not ray.is_initialized()


def test_ray_is_imported_when_an_executor_is_made() -> None:
    program = "import sys; from ahvn_tools.executors import RayExecutor; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=bodies.WAIT).returncode == 0


def test_it_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DefinitionError, match=r'pip install "ahvn-tools\[ray\]"'):
        RayExecutor()


def test_ray_client_is_refused(session_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no tasks that stream."""
    import ray.util.client

    executor = RayExecutor()
    monkeypatch.setattr(ray.util.client.ray, "is_connected", lambda: True)
    with pytest.raises(DefinitionError, match="RayExecutor does not work with Ray Client"):
        RayExecutor()
    with pytest.raises(RuntimeError, match="RayExecutor does not work with Ray Client"):
        executor.submit(bodies.add, 1, 2)


class TestCalls(ExecutorContract):
    """Calls in Ray tasks."""

    lost_text = "its process died"


class RecordingExecutor(RayExecutor):
    """Keeps the tasks that it gets, and what was delivered of them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.tasks: list[CallTask] = []
        self.replies: list[bytes] = []

    def start_call(self, task: CallTask, observer: CallObserver) -> RunningCall:
        self.tasks.append(task)

        def deliver(reply: bytes) -> None:
            self.replies.append(reply)
            observer.deliver(reply)

        return super().start_call(task, CallObserver(deliver, observer.fail))


def hold_interpreter(path: str) -> None:
    """Append the process id to a file; then stay in C code that keeps all threads from running."""
    bodies.append_pids(path)
    re.match(r"(a*)*b", "a" * 60)


def hold_interpreter_with_context(path: str, context: ToolContext) -> None:
    hold_interpreter(path)


def kill_own_worker(path: str, context: ToolContext) -> None:
    context.report_progress(1)
    bodies.append_pids(path)
    os.kill(os.getpid(), 9)


def terminate_worker() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(bodies.WAIT)


def terminate_worker_with_context(context: ToolContext) -> None:
    terminate_worker()


def die_when_read() -> Iterator[str]:
    """Yield, and end the process when the next chunk is requested."""
    yield "before"
    os._exit(3)


def count_into(path: str) -> Iterator[int]:
    """Write each number to a file, then yield it."""
    for number in range(3):
        with Path(path).open("a") as file:
            file.write(f"{number}\n")
        yield number


def yield_and_close(path: str, context: ToolContext) -> Iterator[int]:
    """Yield the process id; when closed, say in a file whether the call was cancelled."""
    try:
        yield os.getpid()
        Path(path).write_text("went on")
    except GeneratorExit:
        bodies.watch_context(path, context)
        raise


def ask_twice(context: ToolContext) -> str:
    context.ask("first")
    context.ask("second")
    return "done"


def ask_while_talking(context: ToolContext) -> str:
    """Ask, while another thread sends output until there is an answer."""
    is_answered = threading.Event()

    def talk() -> None:
        while not is_answered.wait(0.01):
            context.append_output("still here")

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        context.ask("go on")
    finally:
        is_answered.set()
        thread.join()
    return "done"


def use_key(text: str, api_key: Annotated[str, Secret] = "") -> str:
    return f"{text} {len(api_key)}"


class TestOptions:
    @pytest.mark.parametrize("name", ["max_retries", "name", "num_returns", "retry_exceptions"])
    def test_options_that_it_sets_itself_are_refused(self, session_folder: Path, name: str) -> None:
        with pytest.raises(DefinitionError, match=f"RayExecutor sets '{name}' itself: leave it out"):
            RayExecutor(**{name: 1})

    @pytest.mark.parametrize("options", [{"num_cpus": -1}, {"num_cpu": 1}], ids=str)
    def test_options_that_ray_does_not_know_are_refused(self, session_folder: Path, options: dict[str, Any]) -> None:
        with pytest.raises(DefinitionError, match="Ray refuses the options"):
            RayExecutor(**options)

    def test_a_call_for_which_no_node_has_the_resources_waits_until_its_timeout(self, session_folder: Path) -> None:
        with RayExecutor(resources={"moon": 1}) as executor:
            result = in_executor(executor, bodies.add, timeout=0.3).exec("add", {"a": 1, "b": 2})
        assert result.error is not None
        assert result.error.code == "timeout"

    def test_options_reach_the_task(self, session_folder: Path) -> None:
        with RayExecutor(num_cpus=0, runtime_env={"env_vars": {"TOWN": "Rome"}}) as executor:
            assert executor.submit(os.getenv, "TOWN").result(bodies.WAIT) == "Rome"


class TestCancelling:
    def test_a_queued_call_is_removed(self, executor: RayExecutor, tmp_path: Path) -> None:
        """It does not run, also when there is room again."""
        hanging = [executor.submit(bodies.hang, str(tmp_path / f"pids{number}")) for number in range(2)]
        for number in range(2):
            read_pids(tmp_path / f"pids{number}", 3)
        never = tmp_path / "never"
        queued = [
            ToolSpec.from_function(body).submit(executor, path=str(never))
            for body in (bodies.append_pids, bodies.watch_context)
        ]
        assert not any(future.done() for future in queued)
        assert all(future.cancel() for future in queued)
        assert all(future.cancel() for future in hanging)
        assert executor.submit(bodies.add, 1, 2).result(bodies.WAIT) == 3
        assert not list(tmp_path.glob("never*"))

    def test_a_submitted_function_ends(self, executor: RayExecutor, tmp_path: Path) -> None:
        future = executor.submit(bodies.hang, str(tmp_path / "pids"))
        pids = read_pids(tmp_path / "pids", 3)
        assert future.cancel()
        assert are_gone(pids)
        assert future.cancelled()

    @pytest.mark.parametrize("body", [hold_interpreter, hold_interpreter_with_context], ids=["alone", "connected"])
    def test_code_that_holds_the_interpreter_ends(self, executor: RayExecutor, tmp_path: Path, body: Any) -> None:
        path = tmp_path / "pids"
        future = ToolSpec.from_function(body).submit(executor, path=str(path))
        pids = read_pids(path, 2)[:1]
        assert future.cancel()
        assert are_gone(pids)

    def test_a_body_sees_its_cancellation_also_as_it_starts(self, executor: RayExecutor, tmp_path: Path) -> None:
        spec = ToolSpec.from_function(bodies.watch_context)
        for number in range(10):
            path = tmp_path / str(number)
            future = spec.submit(executor, path=str(path))
            read_pids(Path(f"{path}.started"))
            assert future.cancel()
            assert until(lambda path=path: path.exists() and path.read_text() == "True")

    def test_leaving_a_stream_closes_the_generator_of_the_body(self, executor: RayExecutor, tmp_path: Path) -> None:
        """Its ToolContext is cancelled, and its worker is used again."""
        path = tmp_path / "closed"
        stream = in_executor(executor, yield_and_close).stream("yield_and_close", {"path": str(path)})
        pid = next(stream).value
        stream.close()
        assert until(lambda: path.exists() and path.read_text() == "True")
        assert until(lambda: not executor._running)
        assert not is_gone(pid)

    def test_a_shutdown_ends_what_runs_and_accepts_no_more(self, session_folder: Path, tmp_path: Path) -> None:
        executor = RayExecutor()
        paths = [tmp_path / name for name in ("hang", "hang_with_context")]
        futures = [
            ToolSpec.from_function(getattr(bodies, path.name)).submit(executor, path=str(path)) for path in paths
        ]
        pids = [pid for path in paths for pid in read_pids(path, 3)]
        executor.shutdown(cancel_futures=True)
        assert are_gone(pids)
        with pytest.raises(RuntimeError, match="was shut down: create a new one"):
            executor.submit(bodies.add, 1, 2)
        result = ToolSpec.from_function(bodies.add).submit(executor, a=1, b=2).result(bodies.WAIT)
        assert result.error is not None
        assert result.error.code == "connection"
        assert ray.is_initialized()
        for future in futures:
            future.cancel()


class TestDeadlines:
    @pytest.mark.parametrize("body", [bodies.hang, bodies.hang_with_context], ids=["alone", "connected"])
    def test_a_worker_ends_its_body_when_the_caller_does_not(
        self, session_folder: Path, tmp_path: Path, body: Any
    ) -> None:
        """The caller, who cancels the call at that time, may be gone."""
        path, failures = tmp_path / "pids", []

        class Forgetful(RayExecutor):
            def start_call(self, task: CallTask, observer: CallObserver) -> RunningCall:
                call = super().start_call(task, CallObserver(observer.deliver, failures.append))
                call.cancel = lambda: None  # type: ignore[method-assign]  # the caller is gone
                return call

        with Forgetful() as executor:
            result = in_executor(executor, body, timeout=1.5).exec(body.__name__, {"path": str(path)})
            assert result.error is not None
            assert result.error.code == "timeout"
            assert are_gone(read_pids(path, 3))
        assert len(failures) == 1

    def test_a_worker_does_not_count_the_time_of_a_slow_reader(self, session_folder: Path) -> None:
        class Hasty(RayExecutor):
            def start_call(self, task: CallTask, observer: CallObserver) -> RunningCall:
                return super().start_call(replace(task, seconds=0.5), observer)

        with Hasty() as executor:
            stream = in_executor(executor, bodies.count).stream("count", {"to": 2})
            assert next(stream).value == 0
            time.sleep(0.8)
            assert [result.value for result in stream] == [1, [0, 1]]


class Unreadable:
    """A value that can be pickled, and not unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)


class TestFunctions:
    def test_a_result_that_cannot_be_unpickled_is_refused(
        self, executor: RayExecutor, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(PickleError, match="The result cannot be unpickled here: ValueError"):
            executor.submit(Unreadable).result(bodies.WAIT)
        assert "no number" not in "".join(capfd.readouterr())


class TestLostWorkers:
    @pytest.mark.parametrize("may_repeat", [False, True], ids=["once", "repeatable"])
    def test_a_killed_worker_is_a_connection_error(
        self, executor: RayExecutor, tmp_path: Path, may_repeat: bool
    ) -> None:
        path = tmp_path / "pids"
        spec = ToolSpec.from_function(kill_own_worker, annotations={"readOnlyHint": may_repeat})
        result = in_executor(executor, spec).exec("kill_own_worker", {"path": str(path)})
        assert result.error is not None
        assert result.error.code == "connection"
        assert "ended (WorkerCrashedError: its process died) before it returned a result" in result.error.message
        assert len(path.read_text().splitlines()) == (3 if may_repeat else 1)

    @pytest.mark.parametrize("body", [terminate_worker, terminate_worker_with_context], ids=["alone", "connected"])
    def test_a_terminated_worker_is_a_connection_error(self, executor: RayExecutor, body: Any) -> None:
        """As when its node is stopped."""
        result = in_executor(executor, body).exec(body.__name__)
        assert result.error is not None
        assert result.error.code == "connection"

    def test_the_output_of_a_killed_worker_has_arrived(self, executor: RayExecutor) -> None:
        output, last = in_executor(executor, die_when_read).stream("die_when_read")
        assert output.value == "before"
        assert last.error is not None
        assert last.error.code == "connection"

    def test_a_submitted_function_raises(self, executor: RayExecutor) -> None:
        with pytest.raises(ToolConnectionError, match="The worker of the function ended"):
            executor.submit(os._exit, 3).result(bodies.WAIT)

    def test_a_task_that_another_program_cancels_is_lost(self, session_folder: Path, tmp_path: Path) -> None:
        path = tmp_path / "pids"
        executor = RayExecutor()
        future = ToolSpec.from_function(bodies.hang).submit(executor, path=str(path))
        read_pids(path, 3)
        [call] = executor._running
        ray.cancel(call._generator, force=True)
        result = future.result(bodies.WAIT)
        assert result.error is not None
        assert "its Ray task was cancelled" in result.error.message


class TestStreams:
    def test_a_body_makes_no_chunk_before_it_is_requested(self, executor: RayExecutor, tmp_path: Path) -> None:
        path = tmp_path / "numbers"
        stream = in_executor(executor, count_into).stream("count_into", {"path": str(path)})
        for number in range(3):
            assert next(stream).value == number
            time.sleep(0.1)
            assert path.read_text().split() == [str(made) for made in range(number + 1)]
        assert next(stream).value == [0, 1, 2]

    def test_a_body_asks_twice_and_leaves_no_actor(self, executor: RayExecutor) -> None:
        asked: list[str] = []

        async def approver(request: Any) -> bool:
            asked.append(request.action)
            return True

        assert in_executor(executor, ask_twice, approver=approver).call("ask_twice") == "done"
        assert len(asked) == 2
        assert until(lambda: not [process for process in children() if "Mailbox" in " ".join(process.cmdline())])

    def test_a_body_sends_output_while_it_asks(self, executor: RayExecutor) -> None:
        async def approver(request: Any) -> bool:
            await asyncio.sleep(0.2)
            return True

        *output, last = in_executor(executor, ask_while_talking, approver=approver).stream("ask_while_talking")
        assert {result.value for result in output} == {"still here"}
        assert last.value == "done"


class TestWhatTravels:
    def test_a_result_beyond_the_limit_does_not_leave_the_worker(self, session_folder: Path) -> None:
        with RecordingExecutor() as executor:
            result = in_executor(executor, bodies.return_bytes, max_bytes=1000).exec("return_bytes", {"size": 2**30})
        assert result.error is not None
        assert result.error.code == "limit_exceeded"
        assert sum(map(len, executor.replies)) < 1000

    def test_bound_values_are_in_no_log_of_ray(self, session_folder: Path) -> None:
        """Also not when a body fails, or its worker dies."""
        spec = ToolSpec.from_function(use_key).bind("api_key", default=SECRET, secret=True)
        dying = ToolSpec.from_function(die_with_key).bind("api_key", default=SECRET, secret=True)
        with RayExecutor() as executor:
            kit = in_executor(executor, spec, dying, ship_secrets=True)
            assert kit.call("use_key", {"text": "length"}) == f"length {len(SECRET)}"
            result = kit.exec("die_with_key", {})
            assert executor.submit(len, SECRET).result(bodies.WAIT) == len(SECRET)
            with pytest.raises(ZeroDivisionError):
                executor.submit(divide_by_zero, SECRET).result(bodies.WAIT)
        assert result.error is not None
        assert SECRET not in result.error.message
        logs = [path for path in (session_folder / "logs").rglob("*") if path.is_file()]
        assert len(logs) > 5
        assert not [path.name for path in logs if SECRET.encode() in path.read_bytes()]


def die_with_key(api_key: Annotated[str, Secret] = "") -> None:
    os._exit(len(api_key))


def divide_by_zero(text: str) -> float:
    return len(text) / 0


PROGRAM = """
import logging, sys, threading
import ray
from ahvn_tools import ToolSpec
from ahvn_tools.executors import RayExecutor
from tests.executors import worker_bodies as bodies

def init():
    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
        object_store_memory=100_000_000,
    )
"""


def run_program(code: str, temporary_folder: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM + code],
        capture_output=True,
        check=False,
        env={**os.environ, "RAY_TMPDIR": temporary_folder},
        text=True,
        timeout=110,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.exhaustive
@pytest.mark.timeout(120)
class TestEndOfRay:
    """In processes of their own, which start and end Ray."""

    def test_calls_are_lost_when_ray_is_shut_down(self, tmp_path: Path, temporary_folder: str) -> None:
        """They fail; so do later calls, which do not start Ray again."""
        printed = run_program(
            f"""
init()
executor = RayExecutor()
future = ToolSpec.from_function(bodies.hang).submit(executor, path={str(tmp_path / "pids")!r})
function = executor.submit(bodies.wait_for, {str(tmp_path / "never")!r})
bodies.wait_for({str(tmp_path / "pids")!r})
ray.shutdown()
print(future.result(bodies.WAIT).error)
print(function.exception(bodies.WAIT))
print(ToolSpec.from_function(bodies.add).submit(executor, a=1, b=2).result(bodies.WAIT).error)
executor.shutdown()
print(ray.is_initialized())
init()
with RayExecutor() as executor:
    print(executor.submit(bodies.add, 1, 2).result(bodies.WAIT))
ray.shutdown()
""",
            temporary_folder,
        )
        call, function, later, is_initialized, again = printed.splitlines()
        assert "The worker of tool 'hang' was lost when Ray was shut down." in call
        assert function == "The worker of the function was lost when Ray was shut down."
        assert "Ray is not initialised in this process: call ray.init() first" in later
        assert (is_initialized, again) == ("False", "3")

    def test_calls_are_lost_when_ray_is_initialised_again(self, tmp_path: Path, temporary_folder: str) -> None:
        """Also when that was faster than the executor looks for it."""
        printed = run_program(
            f"""
from ahvn_tools.executors.ray import executor as module
module.WATCH_SECONDS = 10.0
init()
executor = RayExecutor()
futures = []
for body in (bodies.wait_for, bodies.hang_with_context):
    futures.append(ToolSpec.from_function(body).submit(executor, path={str(tmp_path)!r} + "/" + body.__name__))
bodies.wait_for({str(tmp_path / "hang_with_context")!r})
ray.shutdown()
init()
for future in futures:
    print(future.result(bodies.WAIT).error.message)
print(executor.submit(bodies.add, 1, 2).result(bodies.WAIT))
executor.shutdown()
ray.shutdown()
""",
            temporary_folder,
        )
        assert printed.splitlines() == [
            "The worker of tool 'wait_for' was lost when Ray was shut down.",
            "The worker of tool 'hang_with_context' was lost when Ray was shut down.",
            "3",
        ]

    def test_waiting_for_the_end_of_ray_makes_no_call_to_its_core(self, tmp_path: Path, temporary_folder: str) -> None:
        """Such a call would end the process if Ray is shut down at that moment."""
        printed = run_program(
            f"""
import time, traceback
from ahvn_tools.executors.ray import executor as module
module.WATCH_SECONDS = 0.01
init()

class RecordedCore:
    def __init__(self, core):
        self.core = core
        self.calls = []

    def __getattr__(self, name):
        if any(frame.name == "_watch_ray" for frame in traceback.extract_stack()):
            self.calls.append(name)
        return getattr(self.core, name)

    def shutdown_driver(self):
        self.core.shutdown_driver()
        time.sleep(20 * module.WATCH_SECONDS)

worker = ray._private.worker.global_worker
core = worker.core_worker = RecordedCore(worker.core_worker)
executor = RayExecutor()
futures = []
for body in (bodies.hang, bodies.hang_with_context):
    futures.append(ToolSpec.from_function(body).submit(executor, path={str(tmp_path)!r} + "/" + body.__name__))
    bodies.wait_for({str(tmp_path)!r} + "/" + body.__name__)
time.sleep(20 * module.WATCH_SECONDS)
ray.shutdown()
for future in futures:
    print(future.result(bodies.WAIT).error.message)
print(core.calls)
""",
            temporary_folder,
        )
        assert printed.splitlines() == [
            "The worker of tool 'hang' was lost when Ray was shut down.",
            "The worker of tool 'hang_with_context' was lost when Ray was shut down.",
            "[]",
        ]

    def test_a_process_can_end_while_calls_run(self, tmp_path: Path, temporary_folder: str) -> None:
        printed = run_program(
            f"""
init()
executor = RayExecutor()
for body in (bodies.hang, bodies.hang_with_context):
    ToolSpec.from_function(body).submit(executor, path={str(tmp_path)!r} + "/" + body.__name__)
    bodies.wait_for({str(tmp_path)!r} + "/" + body.__name__)
print("end")
""",
            temporary_folder,
        )
        assert printed == "end\n"
        pids = [pid for path in tmp_path.iterdir() for pid in read_pids(path)]
        assert are_gone(pids)
