"""The pool of worker processes: reuse, exit, forks, and how workers start."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.execution.workers import pool, process_call, worker_process
from tests.execution.entry_points import RESULT_ENTRY_POINTS, process, program, until
from tests.execution.workers.bodies import get_pid, is_gone, isolated, read_pids

pytestmark = pytest.mark.timeout(120)


class TestPool:
    @pytest.mark.exhaustive
    def test_fifty_concurrent_calls_all_return_and_few_workers_stay_idle(self) -> None:
        def body(n: int) -> int:
            time.sleep(0.05)
            return n

        spec = isolated(body)

        async def main() -> list[int]:
            return await asyncio.gather(*(spec.acall(n=n) for n in range(50)))

        assert asyncio.run(main()) == list(range(50))
        assert until(lambda: worker_process.process_pool.count()[0] <= pool.MAX_IDLE_PROCESSES)
        assert len(psutil.Process().children()) <= pool.MAX_IDLE_PROCESSES

    def test_few_idle_workers_are_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def body() -> Iterator[int]:
            yield 1

        worker_process.process_pool.end_idle()
        monkeypatch.setattr(worker_process.process_pool, "_max_idle", 1)
        streams = [isolated(body).stream() for _ in range(2)]
        for stream in streams:
            next(stream)
        assert worker_process.process_pool.count() == (2, 0)
        assert [[result.value for result in stream] for stream in streams] == [[[1]], [[1]]]
        assert until(lambda: worker_process.process_pool.count() == (1, 1))

    def test_a_worker_ends_after_many_calls(self, monkeypatch: pytest.MonkeyPatch) -> None:
        worker_process.process_pool.end_idle()
        monkeypatch.setattr(worker_process, "MAX_CALLS", 2)
        pids = [isolated(get_pid)() for _ in range(4)]
        assert pids[0] == pids[1] != pids[2] == pids[3]

    @pytest.mark.exhaustive
    def test_a_worker_that_holds_the_gil_ends_with_the_interpreter(self, tmp_path: Path) -> None:
        code = """if True:
            import sys, threading
            from ahvn_tools import ToolSpec
            from tests.execution.workers.bodies import read_pids
            from pathlib import Path
            def body(path):
                import os, re
                Path(path).write_text(str(os.getpid()))
                re.match("(a+)+$", "a" * 60 + "b")
            spec = ToolSpec.from_function(body, isolation="process")
            threading.Thread(target=spec.exec, kwargs={"path": sys.argv[1]}, daemon=True).start()
            read_pids(Path(sys.argv[1]))
        """
        assert program(code, str(tmp_path / "pid"))[0] == 0
        [pid] = read_pids(tmp_path / "pid")
        assert until(lambda: is_gone(pid))

    def test_end_idle_ends_idle_workers(self) -> None:
        pid = isolated(get_pid)()
        worker_process.process_pool.end_idle()
        assert is_gone(pid)
        assert worker_process.process_pool.count() == (0, 0)
        assert isolated(get_pid)() != pid

    @pytest.mark.exhaustive
    def test_an_idle_worker_ends_when_the_parent_is_killed(self) -> None:
        code = """if True:
            import time
            from ahvn_tools import ToolSpec
            from tests.execution.workers.bodies import get_pid
            print(ToolSpec.from_function(get_pid, isolation="process")(), flush=True)
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

    def test_a_script_needs_no_main_guard(self, tmp_path: Path) -> None:
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
        script_run = subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, "PYTHONPATH": str(Path(pool.__file__).parents[3])},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (script_run.stdout, script_run.stderr) == ("main\n4\n", "")

    @pytest.mark.parametrize("option", ["-I", "-E"])
    @pytest.mark.exhaustive
    def test_a_host_without_its_environment_has_workers_without_it(self, tmp_path: Path, option: str) -> None:
        for name in ("json.py", "sitecustomize.py"):
            (tmp_path / name).write_text("raise SystemExit('imported')")
        code = f"""if True:
            import sys
            sys.path[:] = {sys.path}
            from ahvn_tools import ToolSpec
            print(ToolSpec.from_function(abs, name="size", isolation="process", timeout=30).call(-2))
        """
        found = subprocess.run(
            [sys.executable, option, "-c", code],
            env={"PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (found.stdout, found.stderr) == ("2\n", "")

    @pytest.mark.parametrize("way", ["thread", pytest.param("asyncio.run", marks=pytest.mark.exhaustive)])
    @pytest.mark.exhaustive
    def test_a_hung_worker_does_not_delay_the_exit_of_the_interpreter(self, tmp_path: Path, way: str) -> None:
        code = """if True:
            import asyncio, os, sys, threading, time
            from ahvn_tools import ToolSpec
            from tests.execution.workers.bodies import hang
            spec = ToolSpec.from_function(hang, isolation="process")
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
        [pid] = read_pids(tmp_path / "pid")
        assert until(lambda: is_gone(pid))

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
    @pytest.mark.exhaustive
    def test_a_forked_child_starts_its_own_workers(self) -> None:
        code = """if True:
            import os
            from ahvn_tools import ToolSpec
            from tests.execution.workers.bodies import get_pid
            spec = ToolSpec.from_function(get_pid, isolation="process", timeout=30)
            mine = spec()
            child = os.fork()
            if child == 0:
                print(spec() != mine, flush=True)
                raise SystemExit(0)
            os.waitpid(child, 0)
            print(spec() == mine)
        """
        assert program(code) == (0, "True\nTrue\n", "")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
    @pytest.mark.exhaustive
    def test_a_worker_ends_with_its_parent_although_a_forked_child_still_runs(self) -> None:
        code = """if True:
            import os, time
            from ahvn_tools import ToolSpec
            from tests.execution.workers.bodies import get_pid
            mine = ToolSpec.from_function(get_pid, isolation="process")()
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


class TestStart:
    @pytest.fixture
    def startup(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
        """Return a function that sets code to run first in each new interpreter."""
        worker_process.process_pool.end_idle()

        def set_startup_code(code: str) -> None:
            (tmp_path / "sitecustomize.py").write_text(code)
            monkeypatch.setenv("PYTHONPATH", str(tmp_path))

        yield set_startup_code
        worker_process.process_pool.end_idle()

    @pytest.mark.parametrize(
        "entry_point",
        [
            "exec",
            pytest.param("stream", marks=pytest.mark.exhaustive),
            pytest.param("aexec", marks=pytest.mark.exhaustive),
        ],
    )
    def test_its_time_does_not_count(self, startup: Callable[[str], None], entry_point: str) -> None:
        startup("import time; time.sleep(1.5)")
        assert RESULT_ENTRY_POINTS[entry_point](isolated(get_pid, timeout=1.0)).error is None

    def test_it_has_its_own_time_limit(self, startup: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
        startup("import time; time.sleep(600)")
        monkeypatch.setattr(process_call, "MAX_START_SECONDS", 0.3)
        with pytest.raises(ToolConnectionError, match=r"did not start, or .* within 0\.3 seconds"):
            isolated(get_pid)()

    @pytest.mark.exhaustive
    def test_importing_the_modules_of_a_tool_counts_as_starting(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "iso_slow.py").write_text("import time; time.sleep(1.5)\ndef body() -> int:\n    return 1")
        monkeypatch.syspath_prepend(tmp_path)
        import iso_slow  # type: ignore[import-not-found]

        worker_process.process_pool.end_idle()
        assert isolated(iso_slow.body, timeout=1.0)() == 1
        worker_process.process_pool.end_idle()
        monkeypatch.setattr(process_call, "MAX_START_SECONDS", 0.6)
        with pytest.raises(ToolConnectionError, match="did not import what the tool needs, within"):
            isolated(iso_slow.body)()

    def test_a_cancellation_kills_the_worker(self, startup: Callable[[str], None]) -> None:
        startup("import time; time.sleep(600)")

        async def main() -> None:
            task = asyncio.create_task(isolated(get_pid).acall())
            assert await asyncio.to_thread(until, lambda: worker_process.process_pool.count()[0] == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert until(lambda: worker_process.process_pool.count() == (0, 0))

    def test_an_interpreter_that_exits_at_once_is_an_error(self, startup: Callable[[str], None]) -> None:
        startup("import os; os._exit(4)")
        error = isolated(get_pid).exec().error
        assert error.code == "connection"
        assert "exit code 4" in error.message

    def test_a_missing_interpreter_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        worker_process.process_pool.end_idle()
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        error = isolated(get_pid).exec().error
        assert error.code == "connection"
        assert "could not be started" in error.message
