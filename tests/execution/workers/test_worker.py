"""The messages of worker processes: exceptions, pickled values, chunks, progress and output."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import ToolCall, ToolContext, ToolError, Toolkit
from ahvn_tools.errors import CallCancelledError, PickleError
from tests.execution.entry_points import RESULT_ENTRY_POINTS, VALUE_ENTRY_POINTS, WAIT, EntryPoint, combinations, until
from tests.execution.workers.bodies import get_pid, is_gone, isolated

pytestmark = pytest.mark.timeout(120)


class UnpicklableError(Exception):
    """Cannot be unpickled from its arguments."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def raise_error(what: str) -> None:
    """Raise the exception of this name."""
    if what == "odd":
        raise UnpicklableError("a", "b")
    if what == "odd tool error":
        error = ToolError("for the model")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error
    if what == "lock":
        raise ValueError("text", threading.Lock())
    kinds = {"exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "cancel": asyncio.CancelledError()}
    kinds |= {
        "value": ValueError("wrong"),
        "tool": ToolError("try again"),
        "group": ExceptionGroup("g", [ValueError()]),
    }
    kinds |= {"generator": GeneratorExit(), "base": BaseException("b"), "recursion": RecursionError()}
    raise kinds[what]


async def araise_error(what: str) -> None:
    raise_error(what)


RAISED_IN_CALLER = {
    "exit": RuntimeError,
    "interrupt": KeyboardInterrupt,
    "base": BaseException,
    "generator": GeneratorExit,
    "cancel": CallCancelledError,
    "value": ValueError,
    "tool": ToolError,
    "group": ExceptionGroup,
    "recursion": RecursionError,
}


class TestExceptions:
    @combinations(
        body={"sync": raise_error, "async": araise_error},
        entry_point=VALUE_ENTRY_POINTS,
        what=RAISED_IN_CALLER.keys(),
    )
    def test_an_exception_is_raised_in_the_caller(self, body: Any, entry_point: EntryPoint, what: str) -> None:
        kind = RAISED_IN_CALLER[what]
        pid = isolated(get_pid)()
        with pytest.raises(kind) as caught:
            entry_point(isolated(body), what=what)
        assert type(caught.value) is kind
        assert isolated(get_pid)() == pid

    def test_its_cause_says_where_it_was_raised(self) -> None:
        with pytest.raises(ValueError, match="wrong") as caught:
            isolated(raise_error)(what="value")
        assert "in raise_error" in str(caught.value.__cause__)

    @pytest.mark.parametrize(
        ("what", "message"),
        [
            ("odd", "UnpicklableError: a and b"),
            ("lock", "ValueError: ('text', <unlocked _thread.lock"),
            ("odd tool error", "for the model"),
            ("value", "ValueError: wrong"),
            ("cancel", "The tool cancelled itself."),
        ],
    )
    def test_its_text_is_the_same_as_in_this_process(self, what: str, message: str) -> None:
        pid = isolated(get_pid)()
        error = isolated(raise_error).exec(what=what).error
        assert error.message.startswith(message)
        assert error.code == ("cancelled" if what == "cancel" else "tool_error")
        assert isolated(get_pid)() == pid

    def test_an_exit_is_an_error_result_beside_those_of_the_other_calls(self) -> None:
        kit = Toolkit("k", mask_errors=False).add(raise_error, isolation="process").add(get_pid)
        calls = [ToolCall(id="c1", name="raise_error", arguments={"what": "exit"}), ToolCall(id="c2", name="get_pid")]
        failed, passed = [result for _, result in kit.run(calls).results]
        assert failed.text == "RuntimeError: The function has raised SystemExit: 3"
        assert "in raise_error" in str(failed.exception.__cause__)
        assert passed.value == os.getpid()

    def test_the_cause_of_one_in_the_main_script_has_its_line(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            "from ahvn_tools import ToolSpec\n"
            "def fail() -> None:\n"
            "    (lambda: 1 / 0)()  # here\n"
            "error = ToolSpec.from_function(fail, isolation='process').exec().exception\n"
            "print(error.__cause__)\n"
        )
        run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=WAIT * 4)
        assert f'File "{script}", line 3, in fail\n    (lambda: 1 / 0)()  # here\n' in run.stdout
        assert f'File "{script}", line 3, in <lambda>' in run.stdout

    async def test_a_served_tool_returns_an_error_result(self) -> None:
        from fastmcp import Client, FastMCP

        server = FastMCP("iso")
        server.add_tool(isolated(raise_error).to_fastmcp())
        async with Client(server) as client:
            exited = await client.call_tool("raise_error", {"what": "exit"}, raise_on_error=False)
            masked = await client.call_tool("raise_error", {"what": "value"}, raise_on_error=False)
            readable = await client.call_tool("raise_error", {"what": "tool"}, raise_on_error=False)
        assert exited.is_error
        assert masked.content[0].text == "Error calling tool 'raise_error'"
        assert readable.content[0].text == "try again"


class FailsToUnpickle:
    """Can be pickled and not unpickled."""

    def __reduce__(self) -> Any:
        return _fail, ("hunter2-secret",)


def _fail(text: str) -> None:
    raise RuntimeError(f"cannot be unpickled from {text}")


class UnpicklesOutsideTheCaller:
    """Can be unpickled in a worker process and not in the calling process."""

    def __init__(self) -> None:
        self.caller = os.getppid()

    def __reduce__(self) -> Any:
        return _raise_in_caller, (self.caller,)


def returns_caller_only_failure() -> Any:
    """Return a value that cannot be unpickled in the calling process."""
    return UnpicklesOutsideTheCaller()


def _raise_in_caller(pid: int) -> int:
    if os.getpid() == pid:
        raise RuntimeError("in the calling process")
    return pid


class TestPickling:
    def test_the_error_names_a_function_that_cannot_be_pickled(self) -> None:
        lock = threading.Lock()

        def holds() -> bool:
            return lock.locked()

        pid = isolated(get_pid)()
        with pytest.raises(PickleError, match="The function of 'holds' cannot be sent to a worker process"):
            isolated(holds)()
        assert isolated(holds).exec().error.code == "tool_error"
        assert isolated(get_pid)() == pid

    def test_the_error_names_the_parameter_of_a_bound_value_without_the_value(self) -> None:
        def body(db: Any) -> int:
            return 1

        pid = isolated(get_pid)()
        with pytest.raises(PickleError, match="Parameter 'db' of 'body' got a lock"):
            isolated(body).bind("db", default=threading.Lock())()
        assert isolated(get_pid)() == pid

    def test_a_function_that_cannot_be_imported_in_the_worker_is_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "iso_gone.py").write_text("def body() -> int:\n    return 1")
        monkeypatch.syspath_prepend(tmp_path)
        import iso_gone  # type: ignore[import-not-found]

        (tmp_path / "iso_gone.py").unlink()
        with pytest.raises(PickleError, match="No module named 'iso_gone'"):
            isolated(iso_gone.body)()

    def test_a_value_that_cannot_be_unpickled_in_the_worker_is_an_error(self) -> None:
        def body(db: Any) -> int:
            return 1

        pid = isolated(get_pid)()
        result = isolated(body, name="body").bind("db", default=FailsToUnpickle()).exec()
        assert "cannot be loaded in a worker process" in str(result.exception)
        assert result.text == "Error calling tool 'body'"
        assert isolated(get_pid)() == pid

    def test_the_error_of_such_a_value_shows_no_bound_value(self) -> None:
        def body(db: Any, token: str) -> int:
            return 1

        result = isolated(body).bind("db", default=FailsToUnpickle()).bind("token", default="hunter2-secret").exec()
        assert "RuntimeError" in str(result.exception)
        assert "hunter2" not in f"{result.exception!r} {result}"

    @combinations(entry_point=RESULT_ENTRY_POINTS, is_generator={"result": False, "chunk": True})
    def test_the_error_names_the_type_of_a_result_that_cannot_be_pickled(
        self, entry_point: EntryPoint, is_generator: bool
    ) -> None:
        def returns() -> Any:
            return threading.Lock()

        def yields() -> Any:
            yield threading.Lock()

        pid = isolated(get_pid)()
        result = entry_point(isolated(yields if is_generator else returns, timeout=60))
        assert (result.error.code, result.text) == ("invalid_result", "The tool returned an invalid result.")
        assert "cannot send back a l" in str(result.exception)
        assert isolated(get_pid)() == pid

    def test_output_that_cannot_be_pickled_is_an_invalid_result(self) -> None:
        def body(context: ToolContext) -> None:
            context.append_output(threading.Lock())

        result = [*isolated(body).stream()][-1]
        assert result.error.code == "invalid_result"
        assert "cannot send back a lock" in str(result.exception)

    def test_a_result_that_cannot_be_unpickled_in_the_caller_is_an_error(self) -> None:
        result = isolated(returns_caller_only_failure).exec()
        assert result.error.code == "invalid_result"
        assert "cannot be unpickled in the calling process (RuntimeError)" in str(result.exception)
        assert isolated(get_pid)() != os.getpid()


def count_up(to: int) -> Iterator[int]:
    """Yield the numbers below a limit."""
    yield from range(to)


async def acount_up(to: int) -> Any:
    """Yield the numbers below a limit."""
    for number in range(to):
        yield number


def log_steps(path: str) -> Iterator[int]:
    """Write each step to a file before yielding it."""
    for number in range(1000):
        Path(path).write_text(f"{os.getpid()} {number}")
        yield number


class TestStreams:
    @combinations(body={"sync": count_up, "async": acount_up}, timeout=[None, 60.0])
    async def test_chunks_come_one_by_one_and_then_the_result(self, body: Any, timeout: float | None) -> None:
        spec = isolated(body, timeout=timeout)
        expected = [(0, False), (1, False), (2, False), ([0, 1, 2], True)]
        assert [(result.value, result.is_last) for result in spec.stream(to=3)] == expected
        assert [(result.value, result.is_last) async for result in spec.astream(to=3)] == expected

    def test_the_body_waits_until_the_next_chunk_is_requested(self, tmp_path: Path) -> None:
        path = tmp_path / "step"
        stream = isolated(log_steps).stream(path=str(path))
        assert [next(stream).value, next(stream).value] == [0, 1]
        time.sleep(0.1)
        assert path.read_text().split()[1] == "1"
        stream.close()

    @pytest.mark.parametrize(
        "is_async", [pytest.param(False, id="stream", marks=pytest.mark.exhaustive), pytest.param(True, id="astream")]
    )
    @pytest.mark.exhaustive
    async def test_closing_a_stream_kills_the_worker(self, tmp_path: Path, is_async: bool) -> None:
        path = tmp_path / "step"
        if is_async:
            chunks = isolated(log_steps).astream(path=str(path))
            await anext(chunks)
            await chunks.aclose()
        else:
            stream = isolated(log_steps).stream(path=str(path))
            next(stream)
            stream.close()
        pid = int(path.read_text().split()[0])
        assert await asyncio.to_thread(until, lambda: is_gone(pid))

    @pytest.mark.exhaustive
    def test_the_time_of_a_slow_reader_does_not_count(self) -> None:
        values = []
        for result in isolated(count_up, timeout=1.0).stream(to=2):
            time.sleep(0.7)
            values.append(result.value)
        assert values == [0, 1, [0, 1]]

    def test_the_chunks_before_an_exception_are_yielded(self) -> None:
        def body() -> Iterator[int]:
            yield 1
            raise ValueError("late")

        first, last = isolated(body).stream()
        assert (first.value, last.error.message, last.is_last) == (1, "ValueError: late", True)


class TestContext:
    async def test_progress_output_and_end_session_reach_the_caller(self) -> None:
        def body(n: int, context: ToolContext) -> int:
            context.append_output("before")
            context.report_progress(n, 10, "so far")
            context.end_session()
            return n

        toolkit = Toolkit("kit")
        toolkit.add(body, isolation="process")
        results = [result async for result in toolkit.astream("body", {"n": 1})]
        received = [(result.value, result.is_last) for result in results]
        assert received == [("before", False), ("so far", False), (1, True)]
        assert results[1].meta["progress"] == {"progress": 1, "total": 10}
        assert results[-1].meta["ends_session"] is True

    def test_an_approved_call_is_approved_in_the_worker(self) -> None:
        def body(context: ToolContext) -> str:
            return f"{context.is_approved} in {context.run_id}"

        toolkit = Toolkit("kit").add(body, isolation="process", requires_approval=True)
        run = toolkit.run([ToolCall(id="c1", name="body")], format="openai")
        assert [request.tool for request in run.pending] == ["body"]
        assert "True in run_" in toolkit.resume(run, approved=True)[0]["content"]

    def test_the_body_knows_that_its_host_forbids_files(self) -> None:
        def body(context: ToolContext) -> bool:
            return context.forbids_files

        toolkit = Toolkit("kit").add(body, isolation="process")
        assert [toolkit.call("body", roots=roots) for roots in ([], None)] == [True, False]

    def test_a_spec_outside_a_toolkit_has_a_context(self) -> None:
        def body(context: ToolContext | None = None) -> list[Any]:
            assert context is not None
            context.report_progress(1)
            return [context.cancelled, list(context.roots), dict(context.state)]

        assert isolated(body)() == [False, [], {}]
