"""Executors that behave in other ways than those of the standard library."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import ApprovalRequiredError, ToolConnectionError
from ahvn_tools.execution.workers import link, replies
from tests.execution.entry_points import until
from tests.execution.executors import bodies


class OtherExecutor(Executor):
    """Passes what is submitted to a function."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self.run = run
        self.submitted: list[Any] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.submitted.append(args)
        return self.run(fn, *args, **kwargs)


class FarExecutor(ThreadPoolExecutor):
    """Runs as workers on another computer: all is pickled on its way."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        def run() -> Any:
            return pickle.loads(pickle.dumps(fn(*pickle.loads(pickle.dumps(args)))))

        return super().submit(run)


def finished(result: Any = None, error: BaseException | None = None) -> Future[Any]:
    future: Future[Any] = Future()
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
    return future


def refuse(*_: Any) -> Any:
    raise RuntimeError("no more work, user=ann-the-user")


ODD: dict[str, tuple[Callable[..., Any], str]] = {
    "raises at submit": (refuse, "was not started by the executor: RuntimeError"),
    "no future": (lambda *_: None, "`submit` returned a NoneType, and no Future"),
    "another result": (lambda *_: finished(3), "returned a int in place of its result"),
    "no replies": (lambda *_: finished([]), "The worker of tool"),
    "no last reply": (lambda *_: finished([replies.encode("started")]), "in place of its result"),
    "raises": (lambda *_: finished(error=KeyError("x")), "ended (KeyError: 'x') before it returned a result"),
    "exits": (lambda *_: finished(error=SystemExit(3)), "ended (SystemExit: 3)"),
    "cancelled": (lambda *_: cancelled(), "ended (CancelledError) before it returned a result"),
}


def cancelled() -> Future[Any]:
    future: Future[Any] = Future()
    future.cancel()
    future.set_running_or_notify_cancel()
    return future


@pytest.mark.parametrize("body", [bodies.greet, bodies.report], ids=["plain", "connected"])
@pytest.mark.parametrize("kind", ODD)
def test_an_executor_that_does_not_run_the_body_is_a_connection_error(kind, body):
    run, message = ODD[kind]
    executor = OtherExecutor(run)
    spec = ToolSpec.from_function(body)
    if body is bodies.greet:
        spec.bind("user", default="ann-the-user")
    result = spec.submit(executor, *([2] if body is bodies.report else ["x"])).result(10)
    assert (result.error.code, message in result.error.message) == ("connection", True)
    assert "ann-the-user" not in repr(result.error) or body is bodies.report
    assert len(executor.submitted) == 1


def test_the_error_of_an_executor_shows_no_bound_value():
    kit = Toolkit("k", executor=OtherExecutor(refuse)).add(bodies.greet, isolation="executor")
    with pytest.raises(ToolConnectionError, match="RuntimeError: no more work, user=<user>"):
        kit.bind("user", default="ann-the-user").call("greet", {"name": "x"})


def test_a_body_that_may_be_repeated_is_submitted_three_times():
    executor = OtherExecutor(lambda *_: finished(error=OSError("gone")))
    spec = ToolSpec.from_function(bodies.add, annotations={"readOnlyHint": True})
    assert "OSError: gone" in spec.submit(executor, a=1).result(10).error.message
    assert len(executor.submitted) == 3


def test_the_arguments_of_a_submitted_function_show_no_value_in_their_repr():
    executor = OtherExecutor(lambda *_: finished(3))
    ToolSpec.from_function(bodies.greet).bind("user", default="ann-the-user").submit(executor, name="x").result(10)
    assert "ann-the-user" not in repr(executor.submitted)


def test_an_executor_that_is_shut_down_takes_no_call():
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(ToolConnectionError, match="cannot schedule new futures after shutdown"):
        Toolkit("k", executor=executor).add(bodies.add, isolation="executor").call("add", {"a": 1})


def test_calls_that_wait_when_an_executor_is_shut_down_end():
    started, end = threading.Event(), threading.Event()
    executor = ThreadPoolExecutor(1)
    executor.submit(lambda: (started.set(), end.wait(10)))
    assert started.wait(5)
    waiting = ToolSpec.from_function(bodies.add).submit(executor, a=1)
    while not executor._work_queue.qsize():
        threading.Event().wait(0.005)
    executor.shutdown(wait=False, cancel_futures=True)
    assert "CancelledError" in waiting.result(10).error.message
    end.set()


def test_a_call_that_never_runs_ends_by_its_timeout_or_its_cancellation():
    executor = OtherExecutor(lambda *_: Future())
    kit = Toolkit("k", executor=executor).add(bodies.report, bodies.add, isolation="executor")
    for name, arguments in (("report", {"n": 1}), ("add", {"a": 1})):
        assert kit.exec(name, arguments, timeout=0.05).error.code == "timeout"
        future = ToolSpec.from_function(getattr(bodies, name)).submit(executor, **arguments)
        assert future.cancel()


def test_a_submit_that_blocks_does_not_hold_up_the_timeout_and_is_cancelled_later():
    end, later = threading.Event(), Future()

    def block(*_: Any) -> Any:
        end.wait(20)
        return later

    kit = Toolkit("k", executor=OtherExecutor(block)).add(bodies.add, isolation="executor")
    assert kit.exec("add", {"a": 1}, timeout=0.05).error.code == "timeout"
    assert not later.cancelled()
    end.set()
    assert until(later.cancelled)


def test_what_a_body_on_another_computer_sends_comes_with_its_result():
    with FarExecutor(1) as executor:
        kit = Toolkit("k", executor=executor).add(bodies.count, bodies.report, isolation="executor")
        assert [chunk.value for chunk in kit.stream("count", {"n": 3})] == [0, 1, 2, [0, 1, 2]]
        results = list(kit.stream("report", {"n": 2}))
        assert [result.value for result in results if result.meta.get("output")] == ["done"]
        assert results[-1].value == {}


def test_a_body_on_another_computer_cannot_ask_and_says_so():
    with FarExecutor(1) as executor:
        kit = Toolkit("k", executor=executor, approver=lambda _: True).add(bodies.ask, isolation="executor")
        with pytest.raises(ToolConnectionError) as raised:
            kit.call("ask", {"what": "it"})
    assert "require the approval of the whole call" in raised.value.explanation


def test_a_body_on_another_computer_is_cancelled_after_its_seconds(tmp_path):
    path = tmp_path / "state"
    with FarExecutor(1) as executor:
        kit = Toolkit("k", executor=executor).add(bodies.wait_until_cancelled, isolation="executor")
        assert kit.exec("wait_until_cancelled", {"path": str(path)}, timeout=0.1).error.code == "timeout"
    assert path.read_text() == "cancelled"


def test_what_is_kept_for_the_end_has_a_limit(monkeypatch):
    monkeypatch.setattr(link, "MAX_KEPT_BYTES", 100)
    kept = link.KeepingLink()
    for _ in range(10):
        kept.send(b"x" * 30)
    assert len(kept.replies) == 3


def test_a_question_reaches_the_approver_of_the_caller(killable):
    asked = []
    executor = killable
    kit = Toolkit("k", executor=executor, approver=lambda request: not asked.append(request.action))
    kit.add(bodies.ask, isolation="executor")
    assert kit.call("ask", {"what": "delete"}) == "did delete"
    assert asked == ["delete"]
    refusing = Toolkit("k", executor=executor).add(bodies.ask, isolation="executor")
    with pytest.raises(ApprovalRequiredError):
        refusing.call("ask", {"what": "delete"})


def test_an_executor_has_each_submitted_call_before_its_block_ends() -> None:
    spec = ToolSpec.from_function(bodies.add)
    with ThreadPoolExecutor(max_workers=2) as executor:
        futures = [spec.submit(executor, a=number, b=1) for number in range(50)]
    assert [future.result(timeout=60).value for future in futures] == list(range(1, 51))


def test_many_calls_at_once_all_end(executor):
    kit = Toolkit("k", executor=executor).add(bodies.add, bodies.report, isolation="executor")
    calls = [("report", {"n": 1}) if number % 10 == 0 else ("add", {"a": number}) for number in range(200)]
    results = list(kit.map(executor, calls))
    assert [result.value for result in results[1:10]] == list(range(2, 11))
    assert all(result.error is None for result in results)
