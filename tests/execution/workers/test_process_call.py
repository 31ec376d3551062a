"""Calls in worker processes: bodies, the option, timeouts, cancellations and lost workers."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import Toolkit, ToolRegistry, ToolResult, ToolSpec, reg_toolspec, tool
from ahvn_tools.errors import DefinitionError, PickleError, ToolConnectionError, ToolkitError, ToolTimeoutError
from ahvn_tools.execution import threads
from ahvn_tools.execution.workers import worker_process
from tests.execution.entry_points import (
    BODIES,
    ENTRY_POINTS,
    RESULT_ENTRY_POINTS,
    VALUE_ENTRY_POINTS,
    WAIT,
    EntryPoint,
    combinations,
    process,
    program,
    until,
)
from tests.execution.workers.bodies import LIMIT, get_pid, hang, is_gone, isolated, read_pids

pytestmark = pytest.mark.timeout(120)
each_value_entry_point = pytest.mark.parametrize("entry_point", VALUE_ENTRY_POINTS.values(), ids=VALUE_ENTRY_POINTS)
TWO_ENTRY_POINTS = [
    pytest.param(function, id=name, marks=() if name in ("call", "astream") else pytest.mark.exhaustive)
    for name, function in ENTRY_POINTS.items()
]


class TestBodies:
    @combinations(body=BODIES.keys(), entry_point=ENTRY_POINTS)
    def test_it_returns_the_same_value_as_in_this_process(self, body: str, entry_point: EntryPoint) -> None:
        function, expected = BODIES[body]
        result = entry_point(isolated(function, name="body", timeout=60), 3)
        assert getattr(result, "value", result) == expected

    @each_value_entry_point
    def test_it_runs_in_another_process_which_is_reused(self, entry_point: EntryPoint) -> None:
        pids = {entry_point(isolated(get_pid)) for _ in range(3)}
        assert len(pids) == 1
        assert os.getpid() not in pids

    async def test_an_async_body_runs_in_another_process(self) -> None:
        async def body() -> int:
            await asyncio.sleep(0)
            return os.getpid()

        assert await isolated(body).acall() != os.getpid()

    @each_value_entry_point
    def test_it_gets_parameters_of_every_kind(self, entry_point: EntryPoint) -> None:
        def body(a: int, /, b: int, *rest: int, c: int = 3, **more: int) -> list[Any]:
            return [a, b, list(rest), c, more]

        spec = isolated(body, include_var_positional=True, include_var_keyword=True)
        assert entry_point(spec, a=1, b=2, rest=[5], more={"d": 4}) == [1, 2, [5], 3, {"d": 4}]

    def test_arguments_are_validated_and_bound_before_a_worker_starts(self) -> None:
        def body(count: int, who: str) -> str:
            return f"{who} {count} {type(count).__name__}"

        spec = isolated(body).bind("who", "user.name")
        before = worker_process.process_pool.count()
        assert spec.exec(count="many").error.code == "invalid_parameters"
        assert spec.exec(count=1).error.code == "unbound_state"
        assert worker_process.process_pool.count() == before
        spec.state = {"user": {"name": "ann"}}
        assert spec(count=1.0) == "ann 1 int"

    def test_the_calling_process_validates_the_result(self) -> None:
        def body() -> int:
            return "not a number"  # type: ignore[return-value]

        assert isolated(body, output_schema={"type": "object", "properties": {"result": {"type": "integer"}}}).exec()
        assert isolated(lambda: float("nan"), name="nan").exec().error.code == "invalid_result"

    def test_contextvars_of_the_caller_do_not_reach_the_worker(self) -> None:
        user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="no one")

        def body() -> str:
            return user.get()

        try:
            assert isolated(body)() == "no one"
        except PickleError as error:  # a contextvar in a closure cannot be pickled
            assert "cannot be sent to a worker process" in str(error)  # noqa: PT017

    def test_it_runs_with_the_directory_environment_and_import_path_of_the_caller(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def body() -> list[Any]:
            import iso_neighbour  # type: ignore[import-not-found]

            result = [str(Path.cwd()), os.environ.get("ISO_WORD"), iso_neighbour.WORD]
            os.chdir("/")
            os.environ["ISO_WORD"] = "changed"
            return result

        (tmp_path / "iso_neighbour.py").write_text("WORD = 7")
        spec = isolated(body)
        isolated(get_pid)()
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("ISO_WORD", "here")
        assert spec() == spec() == [str(tmp_path), "here", 7]

    @pytest.mark.parametrize("size", [1, pytest.param(50_000_000, marks=pytest.mark.exhaustive)])
    def test_arguments_and_results_may_be_large(self, size: int) -> None:
        def body(text: str) -> str:
            return text + text

        assert len(isolated(body, timeout=60)(text="x" * size)) == 2 * size

    @pytest.mark.filterwarnings("default")
    def test_its_standard_output_goes_to_standard_error(self, capfd: pytest.CaptureFixture[str]) -> None:
        worker_process.process_pool.end_idle()  # a worker has the standard error of the time when it was started

        def body() -> str:
            print("printed")
            os.write(1, b"written\n")
            subprocess.run([sys.executable, "-c", "print('by a child')"], check=True)
            return input() if sys.stdin.isatty() else sys.stdin.read()

        assert isolated(body)() == ""
        output, errors = capfd.readouterr()
        assert output == ""
        assert "printed" in errors
        assert "written" in errors
        assert "by a child" in errors
        worker_process.process_pool.end_idle()

    def test_an_isolated_tool_may_call_another(self) -> None:
        inner = isolated(get_pid, timeout=60)

        def body() -> list[int]:
            return [os.getpid(), inner()]

        outer, inner_pid = isolated(body, timeout=60)()
        assert len({outer, inner_pid, os.getpid()}) == 3


class Office(ToolRegistry):
    """A registry with state."""

    def __init__(self, name: str) -> None:
        self.name = name

    @reg_toolspec(isolation="process")
    def greet(self, who: str) -> list[Any]:
        """Greet."""
        return [self.name, who, os.getpid()]


@tool(isolation="process", timeout=60)
def decorated(n: int) -> list[int]:
    """A module attribute that is the spec and not the function."""
    return [n, os.getpid()]


class TestOption:
    def test_it_works_for_a_decorated_function(self) -> None:
        number, pid = decorated(n=1)
        assert (number, pid == os.getpid()) == (1, False)

    def test_it_works_for_a_method(self) -> None:
        name, who, pid = Office("east").toolspec("greet")(who="ann")
        assert (name, who, pid == os.getpid()) == ("east", "ann", False)

    def test_it_works_for_code(self) -> None:
        spec = ToolSpec.from_code("import os\ndef f(n: int) -> int:\n    return os.getpid() + n", isolation="process")
        assert spec(n=0) != os.getpid()

    def test_it_works_for_an_unpickled_spec(self) -> None:
        import pickle

        assert pickle.loads(pickle.dumps(decorated))(n=1)[1] != os.getpid()

    def test_a_toolkit_has_the_option(self) -> None:
        toolkit = Toolkit("kit")
        spec = ToolSpec.from_function(get_pid)
        toolkit.add(spec, isolation="process")
        assert toolkit.call("get_pid") != os.getpid()
        assert toolkit["get_pid"]() != os.getpid()
        assert toolkit.call("get_pid", timeout=60) != os.getpid()
        assert spec() == os.getpid()

    @pytest.mark.parametrize("isolation", ["thread", True, ""])
    def test_unknown_values_are_refused(self, isolation: Any) -> None:
        with pytest.raises(DefinitionError, match="isolation must be 'process', 'executor' or None"):
            ToolSpec.from_function(get_pid, isolation=isolation)
        with pytest.raises(ToolkitError, match="isolation must be 'process', 'executor' or None"):
            Toolkit("kit").add(get_pid, isolation=isolation)

    def test_none_runs_in_this_process(self) -> None:
        assert ToolSpec.from_function(get_pid, isolation=None)() == os.getpid()

    def test_run_in_thread_false_is_refused(self) -> None:
        with pytest.raises(DefinitionError, match="run_in_thread=False"):
            isolated(get_pid, run_in_thread=False)
        with pytest.raises(ToolkitError, match="run_in_thread=False"):
            Toolkit("kit").add(ToolSpec.from_function(get_pid, run_in_thread=False), isolation="process")

    def test_tools_that_mcp_or_fastmcp_runs_are_refused(self) -> None:
        from fastmcp.dependencies import Depends
        from fastmcp.tools import Tool

        def get_token() -> str:
            return "t"

        def signs(text: str, token: str = Depends(get_token)) -> str:
            return text

        with pytest.raises(DefinitionError, match="FastMCP injects"):
            isolated(signs)
        with pytest.raises(DefinitionError, match="'isolation' is an option for Python functions"):
            ToolSpec.from_mcp(Tool.from_function(get_pid), isolation="process")
        for spec in (ToolSpec.from_function(signs), ToolSpec.from_mcp(Tool.from_function(get_pid))):
            with pytest.raises(ToolkitError, match="not in a worker process"):
                Toolkit("kit").add(spec, isolation="process")

    def test_the_error_without_psutil_names_the_extra_to_install(self) -> None:
        code = """
            import sys
            sys.modules["psutil"] = None
            from ahvn_tools import tool
            try:
                tool(isolation="process", name="x")(lambda: 1)
            except Exception as error:
                print(type(error).__name__, error)
        """
        import textwrap

        returned, output, errors = program(textwrap.dedent(code))
        assert (returned, errors) == (0, "")
        assert output == 'DefinitionError isolation="process" needs psutil: pip install "ahvn-tools[process]"\n'

    def test_tools_without_the_option_do_not_import_psutil(self) -> None:
        code = """if True:
            import sys
            from ahvn_tools import tool
            @tool(timeout=5)
            def f() -> int:
                return 1
            assert f() == 1
            print("psutil" in sys.modules, "ahvn_tools.execution.workers.pool" in sys.modules)
        """
        assert program(code)[1] == "False False\n"


class TestKill:
    @pytest.mark.parametrize("entry_point", TWO_ENTRY_POINTS)
    @pytest.mark.default_cases(1)
    def test_a_timeout_kills_the_worker_and_the_next_call_gets_a_new_one(
        self, entry_point: EntryPoint, tmp_path: Path
    ) -> None:
        spec = isolated(hang, timeout=LIMIT)
        if entry_point in RESULT_ENTRY_POINTS.values():
            error = entry_point(spec, path=str(tmp_path / "pid")).error
            assert (error.code, "its process was ended" in error.message) == ("timeout", True)
        else:
            with pytest.raises(ToolTimeoutError, match="its process was ended"):
                entry_point(spec, path=str(tmp_path / "pid"))
        [pid] = read_pids(tmp_path / "pid")
        assert until(lambda: is_gone(pid))
        assert entry_point(isolated(get_pid)) != pid
        assert until(lambda: threads.count_abandoned_threads() == 0)

    @pytest.mark.exhaustive
    def test_a_timeout_kills_a_body_that_cannot_be_interrupted(self) -> None:
        def body() -> bool:
            import re

            return re.match("(a+)+$", "a" * 60 + "b") is not None

        assert isolated(body, timeout=LIMIT).exec().error.code == "timeout"

    @pytest.mark.parametrize("timeout", [None, pytest.param(60.0, marks=pytest.mark.exhaustive)])
    async def test_a_cancellation_kills_the_worker(self, timeout: float | None, tmp_path: Path) -> None:
        task = asyncio.create_task(isolated(hang, timeout=timeout).aexec(path=str(tmp_path / "pid")))
        [pid] = await asyncio.to_thread(read_pids, tmp_path / "pid")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(until, lambda: is_gone(pid))

    @pytest.mark.exhaustive
    async def test_a_timeout_of_a_toolkit_kills_the_worker(self, tmp_path: Path) -> None:
        toolkit = Toolkit("kit", timeout=LIMIT)
        toolkit.add(hang, isolation="process")
        result = await toolkit.aexec("hang", {"path": str(tmp_path / "pid")})
        assert result.error.code == "timeout"
        [pid] = read_pids(tmp_path / "pid")
        assert await asyncio.to_thread(until, lambda: is_gone(pid))

    @pytest.mark.exhaustive
    def test_ctrl_c_in_a_waiting_sync_caller_kills_the_worker(self, tmp_path: Path) -> None:
        code = """if True:
            import sys
            from ahvn_tools import ToolSpec
            from tests.execution.workers.bodies import hang
            try:
                ToolSpec.from_function(hang, isolation="process")(path=sys.argv[1])
            except KeyboardInterrupt:
                print("interrupted", flush=True)
                sys.stdin.read()
        """
        caller = process(code, str(tmp_path / "pid"))
        try:
            [pid] = read_pids(tmp_path / "pid")
            caller.send_signal(signal.SIGINT)
            assert until(lambda: is_gone(pid))
            output, errors = caller.communicate(timeout=WAIT)
        finally:
            caller.kill()
        assert (output, errors) == ("interrupted\n", "")

    @combinations(
        case={
            "os._exit": (lambda: os._exit(3), "exit code 3"),
            "killed": (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
            "segmentation fault": (lambda: ctypes.string_at(0), "SIGSEGV"),
        },
        entry_point=RESULT_ENTRY_POINTS,
    )
    @pytest.mark.default_cases(1)
    def test_a_worker_that_dies_is_an_error_and_the_next_call_gets_a_new_one(
        self, case: tuple[Any, str], entry_point: EntryPoint
    ) -> None:
        body, exit_description = case
        result = entry_point(isolated(body, name="dies", timeout=60))
        assert result.error.code == "connection"
        message = f"The worker process of tool 'dies' ended ({exit_description}) before it returned a result"
        assert result.error.message == f"{message}."
        assert str(result.exception) == f"{message}; its standard error may say why."
        assert isolated(get_pid)() != os.getpid()

    @pytest.mark.exhaustive
    def test_a_child_that_outlives_a_dying_body_does_not_delay_the_caller(self) -> None:
        def body() -> None:
            if os.fork() == 0:
                time.sleep(600)
            os._exit(0)

        with pytest.raises(ToolConnectionError, match="exit code 0"):
            isolated(body, timeout=30)()

    @pytest.mark.exhaustive
    def test_an_idle_worker_that_died_is_replaced(self) -> None:
        pid = isolated(get_pid)()
        os.kill(pid, signal.SIGKILL)
        tasks = Path(f"/proc/{pid}/task")
        assert until(lambda: is_gone(pid) and not (tasks.exists() and len(list(tasks.iterdir())) > 1))
        assert isolated(get_pid)() not in {pid, os.getpid()}


@pytest.mark.exhaustive
def test_a_tool_result_of_the_body_is_returned_unchanged() -> None:
    def body() -> ToolResult:
        return ToolResult("text", meta={"n": 1})

    result = isolated(body).exec()
    assert (result.value, result.meta["n"]) == ("text", 1)
