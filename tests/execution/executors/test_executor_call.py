"""Calls in executors: what holds for a local call holds for them, whatever the executor is."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import CancelledError, Executor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies

from ahvn_tools import Toolkit, ToolResult, ToolSpec, WorkerResolver
from ahvn_tools.errors import (
    DefinitionError,
    InvalidResultError,
    PickleError,
    ToolConnectionError,
    ToolTimeoutError,
    UnboundStateError,
)
from ahvn_tools.execution.workers.call_executor import CallExecutor, CallObserver, CallTask, RunningCall
from tests.execution.entry_points import auntil, until
from tests.execution.executors import bodies
from tests.execution.executors.conftest import open_executor
from tests.property_checks import EXAMPLES, run_examples


def to_kit(executor: Executor, *functions: Any, **options: Any) -> Toolkit:
    return Toolkit("k", executor=executor, mask_errors=False).add(*functions, isolation="executor", **options)


def was_cancelled(executor: Executor, path: Path) -> bool:
    """Return whether a body has seen that it is cancelled; a process that was killed sees nothing."""
    return isinstance(executor, CallExecutor) or not path.exists() or path.read_text() == "cancelled"


def comparable(result: ToolResult) -> tuple[Any, ...]:
    return result.value, result.structured_content, result.error, result.is_last, result.is_interrupted


def test_a_submitted_call_returns_the_result_that_exec_returns(executor):
    for body in (bodies.add, bodies.add_async, bodies.count, bodies.count_async):
        spec = ToolSpec.from_function(body)
        arguments = dict.fromkeys(spec.params, 3)
        assert comparable(spec.submit(executor, **arguments).result()) == comparable(spec.exec(**arguments))


def test_wrong_arguments_are_refused_before_the_executor_gets_the_call(executor):
    spec = ToolSpec.from_function(bodies.add)
    assert spec.submit(executor, a="x").result().error == spec.exec(a="x").error
    assert spec.submit(executor, 1, 2).result().value == 3


def test_the_state_is_read_when_a_call_is_submitted(executor):
    spec = ToolSpec.from_function(bodies.greet).bind("user")
    futures = []
    for user in ("ann", "bob"):
        spec.state["user"] = user
        futures.append(spec.submit(executor, name="x"))
    spec.state.clear()
    assert [future.result().value for future in futures] == ["ann greets x", "bob greets x"]
    assert spec.submit(executor, name="x").result().error.code == "unbound_state"


def test_what_is_no_executor_is_refused():
    spec = ToolSpec.from_function(bodies.add)
    with pytest.raises(DefinitionError, match=r"An executor is a concurrent.futures.Executor.*not a str"):
        spec.submit("dask", a=1)
    with pytest.raises(DefinitionError, match="not a int"):
        Toolkit("k", executor=3)


@pytest.mark.parametrize("kind", ["own", "tool", "timeout", "recursion", "unpicklable", "unloadable"])
def test_an_error_of_the_body_is_that_of_a_local_call(executor, kind):
    spec = ToolSpec.from_function(bodies.raise_error)
    kit = to_kit(executor, spec)
    assert spec.submit(executor, kind=kind).result().error == spec.exec(kind=kind).error
    with pytest.raises(Exception) as local:
        spec.call(kind=kind)
    with pytest.raises(Exception) as raised:
        kit.call("raise_error", {"kind": kind})
    assert raised.type.__name__ == local.type.__name__
    assert str(raised.value) == str(local.value)


def test_an_exit_of_a_body_is_an_error_and_ends_no_worker_and_no_caller(executor):
    spec = ToolSpec.from_function(bodies.raise_error)
    assert spec.submit(executor, kind="exit").result().error.code == "tool_error"
    result = to_kit(executor, spec).exec("raise_error", {"kind": "exit"})
    assert (result.error.code, result.text) == ("tool_error", "RuntimeError: The function has raised SystemExit: 3")
    assert ToolSpec.from_function(bodies.add).submit(executor, a=1).result().value == 2


def test_an_interrupt_of_a_body_is_raised_in_the_caller_and_ends_no_worker(executor):
    spec = ToolSpec.from_function(bodies.raise_error)
    assert spec.submit(executor, kind="interrupt").result().error.code == "tool_error"
    with pytest.raises(KeyboardInterrupt):
        to_kit(executor, spec).exec("raise_error", {"kind": "interrupt"})
    assert ToolSpec.from_function(bodies.add).submit(executor, a=1).result().value == 2


@pytest.mark.parametrize("body", [bodies.return_kind, bodies.yield_kind], ids=["returned", "yielded"])
@pytest.mark.parametrize("kind", ["lock", "unloadable"])
def test_a_result_that_cannot_be_pickled_or_unpickled_is_an_error_that_says_so(executor, kind, body):
    kit = to_kit(executor, body, output="raw")
    *_, result = kit.stream(body.__name__, {"kind": kind})
    assert result.error.code == "invalid_result"
    with pytest.raises(InvalidResultError, match="return plain values"):
        kit.call(body.__name__, {"kind": kind})


def test_a_result_over_the_limit_is_refused(executor):
    spec = ToolSpec.from_function(bodies.return_kind, output="raw", max_bytes=1_000_000)
    assert spec.submit(executor, kind="bytes").result().error.code == "limit_exceeded"
    assert len(spec.exec(kind="bytes").value) == 2_000_000


@pytest.mark.parametrize("body", [bodies.count, bodies.count_async], ids=["sync", "async"])
def test_a_stream_has_the_chunks_of_a_local_one(executor, body):
    kit = to_kit(executor, body)
    chunks = [comparable(chunk) for chunk in kit.stream(body.__name__, {"n": 4})]
    assert chunks == [comparable(chunk) for chunk in ToolSpec.from_function(body).stream(n=4)]


def test_a_body_makes_no_item_before_the_reader_asks_for_it(killable, tmp_path):
    def write(path: str) -> Any:
        for number in range(5):
            Path(path).write_text(str(number))
            yield number

    stream = to_kit(killable, write).stream("write", {"path": str(tmp_path / "n")})
    assert [next(stream).value, next(stream).value] == [0, 1]
    assert (tmp_path / "n").read_text() in {"1", "2"}
    stream.close()


def test_progress_output_and_the_shipped_state_come_in_their_order(executor):
    kit = to_kit(executor, bodies.report, ship=["user.locale"])
    kit.state.update(user={"locale": "de", "name": "ann"}, other="x")
    results = list(kit.session(user={"locale": "fr", "name": "bob"}).stream("report", {"n": 2}))
    assert results[-1].value == {"user": {"locale": "fr"}}
    assert "done" in [result.value for result in results[:-1]]
    assert any("progress" in result.meta for result in results)


def test_the_context_names_the_call_there(executor):
    kit = to_kit(executor, bodies.read_context)
    session = kit.session(session_id="s1")
    assert session.call("read_context", call_id="c1") == ["c1", "read_context", None, "s1"]


def test_a_timeout_returns_on_time_and_cancels_the_context(executor, tmp_path):
    path = tmp_path / "state"
    kit = to_kit(executor, bodies.wait_until_cancelled)
    with pytest.raises(ToolTimeoutError, match="its executor was asked to end it"):
        kit.call("wait_until_cancelled", {"path": str(path)}, timeout=0.4)
    assert until(lambda: was_cancelled(executor, path))


@pytest.mark.parametrize("where", ["tool", "toolkit", "call"])
def test_every_timeout_holds_for_a_body_that_ignores_it(pool, tmp_path, where):
    tool_options = {"timeout": 0.2} if where == "tool" else {}
    kit = Toolkit("k", executor=pool, timeout=0.2 if where == "toolkit" else None)
    kit.add(bodies.ignore, isolation="executor", **tool_options)
    path = tmp_path / "p"
    result = kit.exec("ignore", {"path": str(path)}, timeout=0.2 if where == "call" else None)
    assert (result.error.code, path.exists()) == ("timeout", False)
    Path(f"{path}.end").touch()
    assert until(path.exists)


def test_the_time_that_a_reader_takes_is_not_that_of_the_body(killable):
    kit, values = to_kit(killable, bodies.run_plan), []
    kit.call("run_plan", {"items": [], "error": None})  # the worker has started then
    for chunk in kit.stream("run_plan", {"items": [1, 2, 3], "error": None}, timeout=2):
        time.sleep(0.8)
        values.append(chunk.value)
    assert values == [1, 2, 3, [1, 2, 3]]


def test_cancel_ends_the_call_and_its_body(cancelling, tmp_path):
    path = tmp_path / "state"
    kit = to_kit(cancelling, bodies.wait_until_cancelled)
    results: list[ToolResult] = []
    thread = threading.Thread(
        target=lambda: results.append(kit.exec("wait_until_cancelled", {"path": str(path)}, call_id="c"))
    )
    thread.start()
    assert until(path.exists)
    assert kit.cancel("c")
    thread.join(10)
    assert (results[0].is_interrupted, results[0].error.code) == (True, "cancelled")
    assert until(lambda: was_cancelled(cancelling, path))


def test_leaving_a_stream_cancels_its_body(executor):
    stream = to_kit(executor, bodies.count).stream("count", {"n": 1000})
    assert next(stream).value == 0
    stream.close()
    assert ToolSpec.from_function(bodies.add).submit(executor, a=1).result(10).value == 2


def test_cancelling_the_future_removes_a_call_that_waits(tmp_path):
    with open_executor("threads", 1) as executor:
        first, second = tmp_path / "first", tmp_path / "second"
        spec = ToolSpec.from_function(bodies.wait_until_cancelled)
        running = spec.submit(executor, path=str(first))
        assert until(first.exists)
        waiting = ToolSpec.from_function(bodies.append).submit(executor, path=str(second))
        assert waiting.cancel()
        running.cancel()
        with pytest.raises(CancelledError):
            running.result()
        assert until(lambda: first.read_text() == "cancelled")
    assert not second.exists()


async def test_cancelling_the_task_of_a_call_cancels_its_body(cancelling, tmp_path):
    path = tmp_path / "state"
    task = asyncio.create_task(
        to_kit(cancelling, bodies.wait_until_cancelled).aexec("wait_until_cancelled", {"path": str(path)})
    )
    assert await auntil(path.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert until(lambda: was_cancelled(cancelling, path))


@pytest.mark.parametrize(("is_repeatable", "times", "runs"), [(False, 1, 1), (True, 1, 2)], ids=["once", "again"])
def test_a_lost_worker_is_a_connection_error_or_another_run(tmp_path, is_repeatable, times, runs):
    path = tmp_path / "runs"
    spec = ToolSpec.from_function(bodies.die, annotations={"idempotentHint": is_repeatable})
    with open_executor("forkserver", 1) as executor:
        result = spec.submit(executor, path=str(path), times=times).result()
    assert result.error.code == "connection"
    assert path.read_text() == "x"  # the pool is broken: it takes no second run
    assert ("was not started by the executor" in result.error.message) == (runs == 2)
    assert "BrokenProcessPool" in result.error.message


def test_no_run_is_repeated_after_a_chunk(tmp_path):
    path = tmp_path / "runs"
    spec = ToolSpec.from_function(bodies.yield_and_die, annotations={"readOnlyHint": True})
    with open_executor("processes", 1) as executor:
        *chunks, result = to_kit(executor, spec).stream("yield_and_die", {"path": str(path)})
    assert [chunk.value for chunk in chunks] == [1]
    assert result.error.code == "connection"
    assert path.read_text() == "x"


def test_no_run_is_repeated_after_output(tmp_path):
    path = tmp_path / "runs"
    spec = ToolSpec.from_function(bodies.output_and_die, annotations={"readOnlyHint": True})
    with open_executor("processes", 1) as executor:
        *chunks, result = to_kit(executor, spec).stream("output_and_die", {"path": str(path)})
    assert [chunk.value for chunk in chunks] == ["half"]
    assert result.error.code == "connection"
    assert path.read_text() == "x"


class LosingExecutor(CallExecutor):
    """Loses the worker of each call after a while, and keeps the tasks."""

    def __init__(self) -> None:
        self.tasks: list[CallTask] = []

    def start_call(self, task: CallTask, observer: CallObserver) -> RunningCall:
        self.tasks.append(task)
        time.sleep(0.05)
        observer.fail("ended (lost) before it returned a result")
        return LostCall()


class LostCall:
    def cancel(self) -> None:
        """It has ended."""


def test_each_run_has_the_seconds_that_are_left():
    executor = LosingExecutor()
    spec = ToolSpec.from_function(bodies.add, annotations={"readOnlyHint": True}, timeout=5)
    assert spec.submit(executor, a=1).result(20).error.code == "connection"
    first, second, third = (task.seconds for task in executor.tasks)
    assert 5 >= first >= second + 0.05 >= third + 0.1
    assert [(task.tool, task.is_repeatable, task.is_connected) for task in executor.tasks] == [("add", True, False)] * 3


def test_a_tool_without_an_executor_says_what_is_missing():
    spec = ToolSpec.from_function(bodies.add, isolation="executor")
    with pytest.raises(ToolConnectionError) as raised:
        spec.call(a=1)
    assert "Toolkit(…, executor=…)" in str(raised.value.explanation)
    assert spec.exec(a=1).error.code == "connection"


def test_what_cannot_be_pickled_is_named(executor):
    kit = to_kit(executor, lock_user, preset={"lock": threading.Lock()})
    with pytest.raises(PickleError, match=r"Parameter 'lock' of 'lock_user' got a lock.*WorkerResolver"):
        kit.call("lock_user")
    assert isinstance(kit["lock_user"].submit(executor).result(10).error.exception, PickleError)


def lock_user(lock: Any) -> str:
    return str(lock)


def get_database() -> dict[str, int]:
    return {"ann": 3}


def refuse_database() -> dict[str, int]:
    raise RuntimeError("password=hunter2hunter2")


def query(name: str, database: Any) -> int:
    return database[name]


def test_a_worker_resolver_is_called_where_the_body_runs(executor):
    spec = ToolSpec.from_function(query).bind("database", resolver=WorkerResolver(get_database))
    assert spec.submit(executor, name="ann").result().value == 3
    spec.bind("database", resolver=WorkerResolver(refuse_database))
    result = spec.submit(executor, name="ann").result()
    assert (result.error.code, "hunter2" in repr(result)) == ("unbound_state", False)
    with pytest.raises(UnboundStateError, match="RuntimeError"):
        to_kit(executor, spec).call("query", {"name": "ann"})


def get_worker_token() -> str:
    return "worker-token-123"


def test_a_value_of_the_worker_is_masked_in_error_texts(executor):
    spec = ToolSpec.from_function(bodies.fail_with_token).bind("token", resolver=WorkerResolver(get_worker_token))
    result = spec.submit(executor).result()
    assert result.error.message == "ValueError: refused <token>"
    assert "worker-token-123" not in repr(result)


@EXAMPLES
def test_a_call_in_an_executor_gives_the_results_of_a_local_call(open_executors, max_examples):
    local = Toolkit("k", mask_errors=False).add(bodies.run_plan)
    moved = to_kit(open_executors["threads"], bodies.run_plan)
    errors = strategies.sampled_from([None, *sorted(set(bodies.ERRORS) - {"exit", "interrupt"})])

    def check(items: list[int], error: str | None) -> None:
        arguments = {"items": items, "error": error}
        assert [comparable(result) for result in moved.stream("run_plan", arguments)] == [
            comparable(result) for result in local.stream("run_plan", arguments)
        ]

    run_examples(max_examples // 2, check, strategies.lists(strategies.integers(), max_size=4), errors)
