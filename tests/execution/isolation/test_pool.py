"""Bodies in worker processes: what ends them ends all that they started, and the next call finds a fresh one."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ahvn_tools import ToolCall, ToolContext, ToolError, Toolkit, ToolRegistry, ToolResult, ToolSpec, reg_toolspec, tool
from ahvn_tools.errors import (
    CallCancelledError,
    DefinitionError,
    InvalidResultError,
    PickleError,
    ToolConnectionError,
    ToolkitError,
    ToolTimeoutError,
)
from ahvn_tools.execution import plan, threads
from ahvn_tools.execution.isolation import pool, process_call
from tests.execution.entry_points import (
    BODIES,
    DOORS,
    RESULT_DOORS,
    VALUE_DOORS,
    WAIT,
    Door,
    process,
    program,
    run,
    until,
)

pytestmark = pytest.mark.timeout(120)
each_value_door = pytest.mark.parametrize("door", VALUE_DOORS.values(), ids=VALUE_DOORS)

LIMIT = 0.4
"""The timeout of bodies that hang, in seconds."""


@pytest.fixture(scope="module", autouse=True)
def no_worker_is_left() -> Iterator[None]:
    yield
    assert until(lambda: pool.process_pool.count()[0] == pool.process_pool.count()[1])
    pool.end_idle()
    assert pool.process_pool.count() == (0, 0)
    assert psutil.Process().children(recursive=True) == []


def isolated(body: Callable[..., Any], **options: Any) -> ToolSpec:
    return ToolSpec.from_function(body, isolation="process", **options)


def where() -> int:
    return os.getpid()


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def told(path: Path, lines: int = 1) -> list[int]:
    """Wait for process ids in a file."""

    def are_there() -> bool:
        return path.exists() and len(path.read_text().split()) >= lines

    assert until(are_there)
    return [int(word) for word in path.read_text().split()]


def hangs(path: str) -> None:
    """Tell the process id and hang."""
    Path(path).write_text(f"{os.getpid()}\n")
    time.sleep(600)


class TestAnyBody:
    @pytest.mark.parametrize("body", BODIES)
    @pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
    def test_it_gives_what_it_gives_at_home(self, body: str, door: Door) -> None:
        function, expected = BODIES[body]
        made = door(isolated(function, name="body", timeout=60), 3)
        assert getattr(made, "value", made) == expected

    @each_value_door
    def test_it_runs_in_another_process_which_is_used_again(self, door: Door) -> None:
        pids = {door(isolated(where)) for _ in range(3)}
        assert len(pids) == 1
        assert os.getpid() not in pids

    async def test_async_bodies_run_there_too(self) -> None:
        async def body() -> int:
            await asyncio.sleep(0)
            return os.getpid()

        assert await isolated(body).acall() != os.getpid()

    @each_value_door
    def test_parameters_of_every_kind_arrive(self, door: Door) -> None:
        def body(a: int, /, b: int, *rest: int, c: int = 3, **more: int) -> list[Any]:
            return [a, b, list(rest), c, more]

        spec = isolated(body, include_var_positional=True, include_var_keyword=True)
        assert door(spec, a=1, b=2, rest=[5], more={"d": 4}) == [1, 2, [5], 3, {"d": 4}]

    def test_arguments_are_checked_and_bound_before_a_worker_is_asked(self) -> None:
        def body(count: int, who: str) -> str:
            return f"{who} {count} {type(count).__name__}"

        spec = isolated(body).bind("who", "user.name")
        before = pool.process_pool.count()
        assert spec.exec(count="many").error.code == "invalid_parameters"
        assert spec.exec(count=1).error.code == "unbound_state"
        assert pool.process_pool.count() == before
        spec.state = {"user": {"name": "ann"}}
        assert spec(count=1.0) == "ann 1 int"

    def test_the_result_is_checked_here(self) -> None:
        def body() -> int:
            return "no number"  # type: ignore[return-value]

        assert isolated(body, output_schema={"type": "object", "properties": {"result": {"type": "integer"}}}).exec()
        assert isolated(lambda: float("nan"), name="nan").exec().error.code == "invalid_result"

    def test_contextvars_of_the_caller_stay_at_home(self) -> None:
        user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")

        def body() -> str:
            return user.get()

        try:
            assert isolated(body)() == "nobody"
        except PickleError as error:  # a contextvar of a closure cannot go over at all
            assert "cannot go to a worker process" in str(error)  # noqa: PT017

    def test_directory_environment_and_import_path_are_those_of_the_call(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def body() -> list[Any]:
            import iso_neighbour  # type: ignore[import-not-found]

            found = [str(Path.cwd()), os.environ.get("ISO_WORD"), iso_neighbour.WORD]
            os.chdir("/")
            os.environ["ISO_WORD"] = "changed"
            return found

        (tmp_path / "iso_neighbour.py").write_text("WORD = 7")
        spec = isolated(body)
        isolated(where)()
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("ISO_WORD", "here")
        assert spec() == spec() == [str(tmp_path), "here", 7]

    def test_it_runs_where_the_directory_was_deleted(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        deleted = tmp_path / "deleted"
        deleted.mkdir()
        monkeypatch.chdir(deleted)
        deleted.rmdir()
        assert isolated(where)() != os.getpid()

    @pytest.mark.parametrize("size", [1, 50_000_000])
    def test_arguments_and_results_may_be_huge(self, size: int) -> None:
        def body(text: str) -> str:
            return text + text

        assert len(isolated(body, timeout=60)(text="x" * size)) == 2 * size

    @pytest.mark.filterwarnings("default")
    def test_what_it_prints_does_not_come_between_the_frames(self, capfd: pytest.CaptureFixture[str]) -> None:
        pool.end_idle()  # a worker keeps the standard error that it was started with

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
        pool.end_idle()

    def test_one_may_call_another(self) -> None:
        inner = isolated(where, timeout=60)

        def body() -> list[int]:
            return [os.getpid(), inner()]

        outer, inner_pid = isolated(body, timeout=60)()
        assert len({outer, inner_pid, os.getpid()}) == 3


class Office(ToolRegistry):
    """A registry with state of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    @reg_toolspec(isolation="process")
    def greet(self, who: str) -> list[Any]:
        """Greet."""
        return [self.name, who, os.getpid()]


@tool(isolation="process", timeout=60)
def decorated(n: int) -> list[int]:
    """Stand under its own name where the function was."""
    return [n, os.getpid()]


class TestDoorsIn:
    def test_a_decorated_function(self) -> None:
        number, pid = decorated(n=1)
        assert (number, pid == os.getpid()) == (1, False)

    def test_a_method(self) -> None:
        name, who, pid = Office("east").toolspec("greet")(who="ann")
        assert (name, who, pid == os.getpid()) == ("east", "ann", False)

    def test_code(self) -> None:
        spec = ToolSpec.from_code("import os\ndef f(n: int) -> int:\n    return os.getpid() + n", isolation="process")
        assert spec(n=0) != os.getpid()

    def test_a_pickled_one(self) -> None:
        import pickle

        assert pickle.loads(pickle.dumps(decorated))(n=1)[1] != os.getpid()

    def test_a_toolkits_option(self) -> None:
        toolkit = Toolkit("kit")
        spec = ToolSpec.from_function(where)
        toolkit.add(spec, isolation="process")
        assert toolkit.call("where") != os.getpid()
        assert toolkit["where"]() != os.getpid()
        assert toolkit.call("where", timeout=60) != os.getpid()
        assert spec() == os.getpid()

    @pytest.mark.parametrize("isolation", ["thread", True, ""])
    def test_what_is_none_is_refused(self, isolation: Any) -> None:
        with pytest.raises(DefinitionError, match="isolation is 'process' or None"):
            ToolSpec.from_function(where, isolation=isolation)
        with pytest.raises(ToolkitError, match="isolation is 'process' or None"):
            Toolkit("kit").add(where, isolation=isolation)

    def test_none_is_none(self) -> None:
        assert ToolSpec.from_function(where, isolation=None)() == os.getpid()

    def test_a_body_that_stays_in_its_loop_is_refused(self) -> None:
        with pytest.raises(DefinitionError, match="run_in_thread=False"):
            isolated(where, run_in_thread=False)
        with pytest.raises(ToolkitError, match="run_in_thread=False"):
            Toolkit("kit").add(ToolSpec.from_function(where, run_in_thread=False), isolation="process")

    def test_what_mcp_or_fastmcp_runs_is_refused(self) -> None:
        from fastmcp.dependencies import Depends
        from fastmcp.tools import Tool

        def signs(text: str, token: str = Depends(str)) -> str:
            return text

        with pytest.raises(DefinitionError, match="FastMCP injects"):
            isolated(signs)
        with pytest.raises(DefinitionError, match="'isolation' is about a Python function"):
            ToolSpec.from_mcp(Tool.from_function(where), isolation="process")
        for spec in (ToolSpec.from_function(signs), ToolSpec.from_mcp(Tool.from_function(where))):
            with pytest.raises(ToolkitError, match="cannot go to a process of its own"):
                Toolkit("kit").add(spec, isolation="process")

    def test_without_psutil_the_option_says_what_to_install(self) -> None:
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

    def test_tools_without_it_do_not_load_it(self) -> None:
        code = """if True:
            import sys
            from ahvn_tools import tool
            @tool(timeout=5)
            def f() -> int:
                return 1
            assert f() == 1
            print("psutil" in sys.modules, "ahvn_tools.execution.isolation.pool" in sys.modules)
        """
        assert program(code)[1] == "False False\n"


def starts_children(path: str, is_deaf: bool = False) -> None:
    """Start children of every kind, tell their ids and hang."""
    if is_deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(path).write_text(f"{os.getpid()}\n")
    child = f"import os, time; print(os.getpid(), file=open({path!r}, 'a'), flush=True); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", child])
    subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
    twice = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)"
    subprocess.run([sys.executable, "-c", twice], start_new_session=True, check=True)
    time.sleep(600)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a worker adopt what its children leave behind")
class TestTheWholeTree:
    @pytest.mark.parametrize("is_deaf", [False, True], ids=["plain", "deaf to SIGTERM"])
    def test_a_timeout_ends_it(self, tmp_path: Path, is_deaf: bool) -> None:
        path = tmp_path / "pids"
        spec = isolated(starts_children, timeout=5)
        result = spec.exec(path=str(path), is_deaf=is_deaf)
        assert result.error.code == "timeout"
        pids = told(path, 4)
        assert until(lambda: all(map(is_gone, pids)))

    async def test_a_cancellation_ends_it(self, tmp_path: Path) -> None:
        path = tmp_path / "pids"
        task = asyncio.create_task(isolated(starts_children).acall(path=str(path)))
        pids = await asyncio.to_thread(told, path, 4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(until, lambda: all(map(is_gone, pids)))

    def test_the_death_of_a_busy_parent_ends_it(self, tmp_path: Path) -> None:
        path = tmp_path / "pids"
        code = """if True:
            import sys
            from ahvn_tools import ToolSpec
            from tests.execution.isolation.test_pool import starts_children
            ToolSpec.from_function(starts_children, isolation="process")(path=sys.argv[1])
        """
        parent = process(code, str(path))
        try:
            pids = told(path, 4)
        finally:
            parent.kill()
            parent.communicate()
        assert until(lambda: all(map(is_gone, pids)))


class TestAnEnd:
    @pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
    def test_a_timeout_ends_the_worker_and_the_next_call_finds_a_fresh_one(self, door: Door, tmp_path: Path) -> None:
        spec = isolated(hangs, timeout=LIMIT)
        if door in RESULT_DOORS.values():
            error = door(spec, path=str(tmp_path / "pid")).error
            assert (error.code, "its process was ended" in error.message) == ("timeout", True)
        else:
            with pytest.raises(ToolTimeoutError, match="its process was ended"):
                door(spec, path=str(tmp_path / "pid"))
        [pid] = told(tmp_path / "pid")
        assert until(lambda: is_gone(pid))
        assert door(isolated(where)) != pid
        assert until(lambda: threads.count_abandoned_threads() == 0)

    def test_a_body_that_nothing_else_could_interrupt_is_ended(self) -> None:
        def body() -> bool:
            import re

            return re.match("(a+)+$", "a" * 60 + "b") is not None

        assert isolated(body, timeout=LIMIT).exec().error.code == "timeout"

    @pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="there is no SIGSTOP here")
    def test_a_worker_that_was_stopped_keeps_no_caller_longer_than_a_start_may_take(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(plan, "MAX_START_SECONDS", 0.5)
        os.kill(isolated(where)(), signal.SIGSTOP)
        error = run(isolated(where, timeout=LIMIT).aexec).error
        assert error.code == "timeout"
        assert isolated(where)() != os.getpid()

    @pytest.mark.parametrize("timeout", [None, 60.0])
    async def test_a_cancellation_ends_the_worker(self, timeout: float | None, tmp_path: Path) -> None:
        task = asyncio.create_task(isolated(hangs, timeout=timeout).aexec(path=str(tmp_path / "pid")))
        [pid] = await asyncio.to_thread(told, tmp_path / "pid")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(until, lambda: is_gone(pid))

    async def test_a_toolkits_timeout_ends_it_too(self, tmp_path: Path) -> None:
        toolkit = Toolkit("kit", timeout=LIMIT)
        toolkit.add(hangs, isolation="process")
        result = await toolkit.aexec("hangs", {"path": str(tmp_path / "pid")})
        assert result.error.code == "timeout"
        [pid] = told(tmp_path / "pid")
        assert await asyncio.to_thread(until, lambda: is_gone(pid))

    def test_ctrl_c_in_a_waiting_sync_caller_ends_it(self, tmp_path: Path) -> None:
        code = """if True:
            import sys
            from ahvn_tools import ToolSpec
            from tests.execution.isolation.test_pool import hangs
            try:
                ToolSpec.from_function(hangs, isolation="process")(path=sys.argv[1])
            except KeyboardInterrupt:
                print("interrupted", flush=True)
                sys.stdin.read()
        """
        caller = process(code, str(tmp_path / "pid"))
        try:
            [pid] = told(tmp_path / "pid")
            caller.send_signal(signal.SIGINT)
            assert until(lambda: is_gone(pid))
            output, errors = caller.communicate(timeout=WAIT)
        finally:
            caller.kill()
        assert (output, errors) == ("interrupted\n", "")

    @pytest.mark.parametrize(
        ("body", "how"),
        [
            (lambda: os._exit(3), "exit code 3"),
            (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
            (lambda: ctypes.string_at(0), "SIGSEGV"),
        ],
        ids=["os._exit", "killed", "segmentation fault"],
    )
    @pytest.mark.parametrize("door", RESULT_DOORS.values(), ids=RESULT_DOORS)
    def test_a_worker_that_dies_is_an_error_and_the_next_call_finds_a_fresh_one(
        self, body: Any, how: str, door: Door
    ) -> None:
        error = door(isolated(body, name="dies", timeout=60)).error
        assert error.code == "connection"
        assert error.message == f"The worker process of tool 'dies' ended ({how}) before it answered."
        assert isolated(where)() != os.getpid()

    def test_a_child_that_a_dying_body_leaves_behind_keeps_nobody_waiting(self) -> None:
        def body() -> None:
            if os.fork() == 0:
                time.sleep(600)
            os._exit(0)

        with pytest.raises(ToolConnectionError, match="exit code 0"):
            isolated(body, timeout=30)()

    def test_a_memory_error_is_an_error_like_any_other(self) -> None:
        def body() -> int:
            return len(bytearray(1 << 62))

        pid = isolated(where)()
        with pytest.raises(MemoryError):
            isolated(body)()
        assert isolated(where)() == pid

    def test_an_idle_worker_that_has_died_is_not_missed(self) -> None:
        pid = isolated(where)()
        os.kill(pid, signal.SIGKILL)
        tasks = Path(f"/proc/{pid}/task")
        assert until(lambda: is_gone(pid) and not (tasks.exists() and len(list(tasks.iterdir())) > 1))
        assert isolated(where)() not in {pid, os.getpid()}


class Odd(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raises(what: str) -> None:
    """Raise one of many."""
    if what == "odd":
        raise Odd("a", "b")
    if what == "odd tool error":
        error = ToolError("for the model")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error
    if what == "lock":
        raise ValueError("text", threading.Lock())
    if what == "silent":
        raise Silent
    kinds = {"exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "cancel": asyncio.CancelledError()}
    kinds |= {
        "value": ValueError("wrong"),
        "tool": ToolError("try again"),
        "group": ExceptionGroup("g", [ValueError()]),
    }
    kinds |= {"generator": GeneratorExit(), "base": BaseException("b"), "recursion": RecursionError()}
    raise kinds[what]


async def raises_later(what: str) -> None:
    raises(what)


each_raising = pytest.mark.parametrize("body", [raises, raises_later], ids=["sync", "async"])


class TestWhatIsRaised:
    @each_raising
    @each_value_door
    @pytest.mark.parametrize(
        ("what", "kind"),
        [
            ("exit", SystemExit),
            ("interrupt", KeyboardInterrupt),
            ("base", BaseException),
            ("generator", GeneratorExit),
            ("cancel", CallCancelledError),
            ("value", ValueError),
            ("tool", ToolError),
            ("group", ExceptionGroup),
            ("recursion", RecursionError),
        ],
    )
    def test_it_is_raised_here(self, body: Any, door: Door, what: str, kind: type[BaseException]) -> None:
        pid = isolated(where)()
        with pytest.raises(kind) as caught:
            door(isolated(body), what=what)
        assert type(caught.value) is kind
        assert isolated(where)() == pid

    def test_it_says_where_it_was_raised(self) -> None:
        with pytest.raises(ValueError, match="wrong") as caught:
            isolated(raises)(what="value")
        assert "in raises" in str(caught.value.__cause__)

    @pytest.mark.parametrize(
        ("what", "message"),
        [
            ("odd", "Odd: a and b"),
            ("lock", "ValueError: ('text', <unlocked _thread.lock"),
            ("silent", "Silent: its text cannot be read"),
            ("odd tool error", "for the model"),
            ("value", "ValueError: wrong"),
            ("cancel", "The tool cancelled itself."),
        ],
    )
    def test_its_text_is_that_of_one_raised_at_home(self, what: str, message: str) -> None:
        pid = isolated(where)()
        error = isolated(raises).exec(what=what).error
        assert error.message.startswith(message)
        assert error.code == ("cancelled" if what == "cancel" else "tool_error")
        assert isolated(where)() == pid

    def test_one_that_cannot_be_pickled_has_its_name(self) -> None:
        with pytest.raises(Exception, match="a and b") as caught:
            isolated(raises)(what="odd")
        assert type(caught.value).__name__ == "Odd"
        with pytest.raises(ToolError, match="for the model"):
            isolated(raises)(what="odd tool error")

    async def test_a_served_tool_gives_an_error_result(self) -> None:
        from fastmcp import Client, FastMCP

        server = FastMCP("iso")
        server.add_tool(isolated(raises).to_fastmcp())
        async with Client(server) as client:
            left = await client.call_tool("raises", {"what": "exit"}, raise_on_error=False)
            masked = await client.call_tool("raises", {"what": "value"}, raise_on_error=False)
            shown = await client.call_tool("raises", {"what": "tool"}, raise_on_error=False)
        assert left.is_error
        assert masked.content[0].text == "Error calling tool 'raises'"
        assert shown.content[0].text == "try again"


class Unreadable:
    """Goes over and cannot be made again there."""

    def __reduce__(self) -> Any:
        return _fail, ("hunter2-secret",)


def _fail(text: str) -> None:
    raise RuntimeError(f"cannot be made of {text}")


class Homesick:
    """Comes back and cannot be made again at home."""

    def __init__(self) -> None:
        self.home = os.getppid()

    def __reduce__(self) -> Any:
        return _only_away_from, (self.home,)


def goes_home() -> Any:
    """Give what can be made again anywhere but at home."""
    return Homesick()


def locks() -> Any:
    """Give what cannot be pickled."""
    return threading.Lock()


def _only_away_from(pid: int) -> int:
    if os.getpid() == pid:
        raise RuntimeError("at home")
    return pid


class TestWhatCannotGoOver:
    def test_a_function_is_named(self) -> None:
        lock = threading.Lock()

        def holds() -> bool:
            return lock.locked()

        pid = isolated(where)()
        with pytest.raises(PickleError, match="The function of 'holds' cannot go to a worker process"):
            isolated(holds)()
        assert isolated(holds).exec().error.code == "tool_error"
        assert isolated(where)() == pid

    def test_a_bound_value_is_named_and_not_shown(self) -> None:
        def body(db: Any) -> int:
            return 1

        pid = isolated(where)()
        with pytest.raises(PickleError, match="Parameter 'db' of 'body' got a lock"):
            isolated(body).bind("db", default=threading.Lock())()
        assert isolated(where)() == pid

    def test_a_function_that_cannot_be_imported_there_is_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "iso_gone.py").write_text("def body() -> int:\n    return 1")
        monkeypatch.syspath_prepend(tmp_path)
        import iso_gone  # type: ignore[import-not-found]

        (tmp_path / "iso_gone.py").unlink()
        with pytest.raises(PickleError, match="No module named 'iso_gone'"):
            isolated(iso_gone.body)()

    def test_a_value_that_cannot_be_made_again_there_is_an_error_without_its_text(self) -> None:
        def body(db: Any) -> int:
            return 1

        pid = isolated(where)()
        error = isolated(body).bind("db", default=Unreadable()).exec().error
        assert "cannot be made again in a worker process" in error.message
        assert isolated(where)() == pid

    @pytest.mark.parametrize("door", RESULT_DOORS.values(), ids=RESULT_DOORS)
    @pytest.mark.parametrize("is_generator", [False, True], ids=["result", "chunk"])
    def test_a_result_is_named(self, door: Door, is_generator: bool) -> None:
        def returns() -> Any:
            return threading.Lock()

        def yields() -> Any:
            yield threading.Lock()

        pid = isolated(where)()
        error = door(isolated(yields if is_generator else returns, timeout=60)).error
        assert error.code == "invalid_result"
        assert "cannot send back a l" in error.message
        assert isolated(where)() == pid

    def test_a_result_that_cannot_be_made_again_here_is_an_error(self) -> None:
        error = isolated(goes_home).exec().error
        assert (error.code, "cannot be made again here (RuntimeError)" in error.message) == ("invalid_result", True)
        assert isolated(where)() != os.getpid()


def counts(to: int) -> Iterator[int]:
    """Count."""
    yield from range(to)


async def acounts(to: int) -> Any:
    """Count."""
    for number in range(to):
        yield number


def steps(path: str) -> Iterator[int]:
    """Tell each step before it is given."""
    for number in range(1000):
        Path(path).write_text(f"{os.getpid()} {number}")
        yield number


class TestStreams:
    @pytest.mark.parametrize("body", [counts, acounts])
    @pytest.mark.parametrize("timeout", [None, 60.0])
    async def test_chunks_come_one_by_one_and_then_the_whole(self, body: Any, timeout: float | None) -> None:
        spec = isolated(body, timeout=timeout)
        expected = [(0, False), (1, False), (2, False), ([0, 1, 2], True)]
        assert [(result.value, result.is_last) for result in spec.stream(to=3)] == expected
        assert [(result.value, result.is_last) async for result in spec.astream(to=3)] == expected

    def test_none_is_made_before_it_is_asked_for(self, tmp_path: Path) -> None:
        path = tmp_path / "step"
        stream = isolated(steps).stream(path=str(path))
        assert [next(stream).value, next(stream).value] == [0, 1]
        time.sleep(0.1)
        assert path.read_text().split()[1] == "1"
        stream.close()

    @pytest.mark.parametrize("is_async", [False, True], ids=["stream", "astream"])
    async def test_a_reader_who_leaves_ends_the_worker(self, tmp_path: Path, is_async: bool) -> None:
        path = tmp_path / "step"
        if is_async:
            chunks = isolated(steps).astream(path=str(path))
            await anext(chunks)
            await chunks.aclose()
        else:
            here = isolated(steps).stream(path=str(path))
            next(here)
            here.close()
        pid = int(path.read_text().split()[0])
        assert await asyncio.to_thread(until, lambda: is_gone(pid))

    def test_the_time_of_a_slow_reader_does_not_count(self) -> None:
        values = []
        for result in isolated(counts, timeout=1.0).stream(to=2):
            time.sleep(0.7)
            values.append(result.value)
        assert values == [0, 1, [0, 1]]

    def test_a_body_that_fails_after_some_chunks_gives_these_first(self) -> None:
        def body() -> Iterator[int]:
            yield 1
            raise ValueError("late")

        first, last = isolated(body).stream()
        assert (first.value, last.error.message, last.is_last) == (1, "ValueError: late", True)


class TestContext:
    async def test_progress_output_and_the_end_of_a_session_reach_the_caller(self) -> None:
        def body(n: int, context: ToolContext) -> int:
            context.append_output("before")
            context.report_progress(n, 10, "so far")
            context.end_session()
            return n

        toolkit = Toolkit("kit")
        toolkit.add(body, isolation="process")
        results = [result async for result in toolkit.astream("body", {"n": 1})]
        told = [(result.value, result.is_last) for result in results]
        assert told == [("before", False), ("so far", False), (1, True)]
        assert results[1].meta["progress"] == {"progress": 1, "total": 10}
        assert results[-1].meta["ends_session"] is True

    def test_what_was_approved_is_approved_over_there(self) -> None:
        def body(context: ToolContext) -> str:
            context.require_approval()
            return f"allowed in {context.run_id}"

        toolkit = Toolkit("kit")
        toolkit.add(body, isolation="process")
        run = toolkit.run([ToolCall(id="c1", name="body")], format="openai")
        assert [request.tool for request in run.pending] == ["body"]
        assert "allowed in run_" in toolkit.resume(run, approved=True)[0]["content"]

    def test_a_bare_tool_has_one_too(self) -> None:
        def body(context: ToolContext | None = None) -> list[Any]:
            assert context is not None
            context.report_progress(1)
            return [context.cancelled, list(context.roots), dict(context.state)]

        assert isolated(body)() == [False, [], {}]


class TestWorkers:
    def test_many_at_once_all_come_back_and_few_stay(self) -> None:
        def body(n: int) -> int:
            time.sleep(0.05)
            return n

        spec = isolated(body)

        async def main() -> list[int]:
            return await asyncio.gather(*(spec.acall(n=n) for n in range(50)))

        assert asyncio.run(main()) == list(range(50))
        assert until(lambda: pool.process_pool.count()[0] <= pool.MAX_IDLE_PROCESSES)
        assert len(psutil.Process().children()) <= pool.MAX_IDLE_PROCESSES

    def test_the_idle_ones_can_be_ended(self) -> None:
        pid = isolated(where)()
        pool.end_idle()
        assert is_gone(pid)
        assert pool.process_pool.count() == (0, 0)
        assert isolated(where)() != pid

    def test_what_a_body_left_running_ends_with_its_worker(self) -> None:
        def body() -> int:
            threading.Thread(target=time.sleep, args=(600,)).start()
            return os.getpid()

        pid = isolated(body)()
        pool.end_idle()
        assert is_gone(pid)

    def test_an_idle_one_ends_when_the_parent_is_killed(self) -> None:
        code = """if True:
            import time
            from ahvn_tools import ToolSpec
            from tests.execution.isolation.test_pool import where
            print(ToolSpec.from_function(where, isolation="process")(), flush=True)
            time.sleep(600)
        """
        parent = process(code)
        try:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            assert not is_gone(pid)
        finally:
            parent.kill()
            parent.communicate()
        assert until(lambda: is_gone(pid))

    def test_it_works_from_a_script_without_a_main_guard(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text("""
import os
from dataclasses import dataclass
from ahvn_tools import tool
print("main", flush=True)
@dataclass
class Point:
    x: int
@tool(isolation="process", timeout=30)
def double(point: Point) -> Point:
    return Point(point.x * 2)
print(double(point={"x": 2}))
""")
        done = subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, "PYTHONPATH": str(Path(pool.__file__).parents[3])},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.stdout, done.stderr) == ("main\n4\n", "")

    @pytest.mark.parametrize("way", ["thread", "asyncio.run"])
    def test_a_hung_worker_does_not_keep_the_interpreter_from_ending(self, tmp_path: Path, way: str) -> None:
        code = """if True:
            import asyncio, os, sys, threading, time
            from ahvn_tools import ToolSpec
            from tests.execution.isolation.test_pool import hangs
            spec = ToolSpec.from_function(hangs, isolation="process")
            def is_hanging():
                return os.path.exists(sys.argv[1]) and os.path.getsize(sys.argv[1])
            async def main():
                task = asyncio.create_task(spec.acall(path=sys.argv[1]))
                while not is_hanging():
                    await asyncio.sleep(0.01)
            if sys.argv[2] == "thread":
                threading.Thread(target=spec, kwargs={"path": sys.argv[1]}, daemon=True).start()
                while not is_hanging():
                    time.sleep(0.01)
            else:
                asyncio.run(main())
            print("end", flush=True)
        """
        code_, output, _ = program(code, str(tmp_path / "pid"), way)
        assert (code_, output) == (0, "end\n")
        [pid] = told(tmp_path / "pid")
        assert until(lambda: is_gone(pid))

    @pytest.mark.skipif(sys.version_info >= (3, 12), reason="an ending interpreter starts no thread any more")
    def test_an_ending_interpreter_starts_none(self) -> None:
        code = """if True:
            import atexit
            atexit.register(lambda: print(spec.exec().error.message))  # runs last, as it was registered first
            from ahvn_tools import ToolSpec
            from tests.execution.isolation.test_pool import where
            spec = ToolSpec.from_function(where, isolation="process", timeout=30)
            spec()
        """
        returned, output, errors = program(code)
        assert (returned, errors) == (0, "")
        assert output == "A worker process for tool 'where' could not be started: the interpreter is ending.\n"

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
    def test_a_forked_child_starts_its_own(self) -> None:
        code = """if True:
            import os
            from ahvn_tools import ToolSpec
            from tests.execution.isolation.test_pool import where
            spec = ToolSpec.from_function(where, isolation="process", timeout=30)
            mine = spec()
            child = os.fork()
            if child == 0:
                print(spec() != mine, flush=True)
                raise SystemExit(0)
            os.waitpid(child, 0)
            print(spec() == mine)
        """
        assert program(code) == (0, "True\nTrue\n", "")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
    def test_a_worker_hears_of_its_parents_end_though_a_forked_child_lives_on(self) -> None:
        code = """if True:
            import os, time
            from ahvn_tools import ToolSpec
            from tests.execution.isolation.test_pool import where
            mine = ToolSpec.from_function(where, isolation="process")()
            child = os.fork()
            if child == 0:
                time.sleep(600)
            print(mine, child, flush=True)
            os._exit(0)
        """
        parent = process(code)
        assert parent.stdout is not None
        pid, child = map(int, parent.stdout.readline().split())
        try:
            assert until(lambda: is_gone(pid))
        finally:
            os.kill(child, signal.SIGKILL)
            parent.communicate()


class TestStarting:
    @pytest.fixture
    def slow(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
        """Have every new interpreter do something first."""
        pool.end_idle()

        def first(code: str) -> None:
            (tmp_path / "sitecustomize.py").write_text(code)
            monkeypatch.setenv("PYTHONPATH", str(tmp_path))

        yield first
        pool.end_idle()

    def test_it_does_not_count_as_the_tools_time(self, slow: Callable[[str], None]) -> None:
        slow("import time; time.sleep(1)")
        spec = isolated(where, timeout=0.6)
        assert spec() != os.getpid()
        pool.end_idle()
        assert [result.error for result in spec.stream()] == [None]
        pool.end_idle()
        assert run(spec.aexec).error is None

    def test_it_has_a_limit_of_its_own(self, slow: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
        slow("import time; time.sleep(600)")
        monkeypatch.setattr(process_call, "MAX_START_SECONDS", 0.3)
        with pytest.raises(ToolConnectionError, match=r"did not start within 0\.3 seconds"):
            isolated(where)()

    def test_importing_what_a_tool_needs_counts_as_starting(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "iso_slow.py").write_text("import time; time.sleep(1)\ndef body() -> int:\n    return 1")
        monkeypatch.syspath_prepend(tmp_path)
        import iso_slow  # type: ignore[import-not-found]

        pool.end_idle()
        assert isolated(iso_slow.body, timeout=0.6)() == 1
        pool.end_idle()
        monkeypatch.setattr(process_call, "MAX_START_SECONDS", 0.6)
        with pytest.raises(ToolConnectionError, match="did not import in that time"):
            isolated(iso_slow.body)()

    def test_a_cancellation_ends_it(self, slow: Callable[[str], None]) -> None:
        slow("import time; time.sleep(600)")

        async def main() -> None:
            task = asyncio.create_task(isolated(where).acall())
            assert await asyncio.to_thread(until, lambda: pool.process_pool.count()[0] == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert until(lambda: pool.process_pool.count() == (0, 0))

    def test_an_interpreter_that_ends_at_once_is_an_error(self, slow: Callable[[str], None]) -> None:
        slow("import os; os._exit(4)")
        error = isolated(where).exec().error
        assert error.code == "connection"
        assert "exit code 4" in error.message

    def test_without_an_interpreter_there_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pool.end_idle()
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        error = isolated(where).exec().error
        assert error.code == "connection"
        assert "could not be started" in error.message


def test_a_result_passes_as_it_is() -> None:
    def body() -> ToolResult:
        return ToolResult("shown", meta={"n": 1})

    result = isolated(body).exec()
    assert (result.value, result.meta["n"]) == ("shown", 1)


def test_an_invalid_result_is_raised_by_call() -> None:
    with pytest.raises(InvalidResultError, match="cannot send back"):
        isolated(locks)()
