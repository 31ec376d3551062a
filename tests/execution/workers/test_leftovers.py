"""What a body leaves running does not reach the next call, and ends with its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ahvn_tools import ToolContext, Toolkit, ToolSpec
from ahvn_tools.errors import DefinitionError, ToolkitError
from ahvn_tools.execution.workers import worker_process
from tests.execution.entry_points import process, until
from tests.execution.workers.bodies import is_gone, isolated, read_pids
from tests.execution.workers.leaving import (
    get_pid,
    leave_child,
    sleep_long,
)

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(120)]

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux a worker adopts orphans")


def test_what_a_thread_sends_after_its_call_is_dropped() -> None:
    def start_late(word: str, context: ToolContext) -> int:
        thread = threading.Thread(target=send, args=(word, context), daemon=True)
        thread.start()
        return os.getpid()

    def send(word: str, context: ToolContext) -> None:
        for _ in range(100):
            context.append_output(word)
            time.sleep(0.01)

    def count(context: ToolContext) -> int:
        for number in range(10):
            context.append_output(number)
            time.sleep(0.02)
        return os.getpid()

    toolkit = Toolkit("kit").add(start_late, isolation="process").add(count, isolation="process")
    pid = toolkit.call("start_late", {"word": "secret"})
    *chunks, last = toolkit.stream("count")
    assert [chunk.value for chunk in chunks] == list(range(10))
    assert last.value == pid


WAYS = [
    "same session",
    pytest.param("popen", marks=pytest.mark.exhaustive),
    "new session",
    pytest.param("fork", marks=pytest.mark.exhaustive),
    "returning fork",
]


@ON_LINUX
class TestChildren:
    @pytest.mark.parametrize("way", WAYS)
    def test_they_end_with_the_call(self, way: str, tmp_path: Path) -> None:
        spec = isolated(leave_child, timeout=60)
        pid = spec(path=str(tmp_path / "pids"), way=way)
        [child] = read_pids(tmp_path / "pids")
        assert until(lambda: is_gone(child))
        assert isolated(get_pid)() == pid

    async def test_they_end_with_an_async_call(self, tmp_path: Path) -> None:
        async def body(path: str) -> None:
            child = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
            Path(path).write_text(f"{child.pid}\n")  # noqa: ASYNC240  # nothing else runs in this loop

        await isolated(body, timeout=60).acall(path=str(tmp_path / "pids"))
        [child] = read_pids(tmp_path / "pids")
        assert await asyncio.to_thread(until, lambda: is_gone(child))

    def test_a_worker_whose_children_have_ended_is_reused(self) -> None:
        def body() -> int:
            import psutil

            shell = subprocess.run(["sh", "-c", "sleep 0 & echo $!"], capture_output=True, check=True)
            orphan = psutil.Process(int(shell.stdout))  # nobody waits for it
            while orphan.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.005)
            return os.getpid()

        def count_children() -> int:
            import psutil

            return len(psutil.Process().children())

        assert len({isolated(body, timeout=60)() for _ in range(3)}) == 1
        assert isolated(count_children)() == 0

    def test_idle_workers_of_an_isolated_tool_that_calls_another_do_not_count(self) -> None:
        inner = isolated(get_pid, timeout=60)

        def body() -> list[int]:
            return [os.getpid(), inner()]

        spec = isolated(body, timeout=60)
        assert spec() == spec()

    def test_children_of_a_nested_call_end_with_it(self, tmp_path: Path) -> None:
        inner = isolated(leave_child, timeout=60)

        def body(path: str) -> bool:
            inner(path=path, way="new session")
            [child] = read_pids(Path(path))
            return until(lambda: is_gone(child))

        assert isolated(body, timeout=60)(path=str(tmp_path / "pids"))


@ON_LINUX
class TestKeepChildren:
    @pytest.mark.parametrize("way", [pytest.param("popen", marks=pytest.mark.exhaustive), "new session"])
    def test_they_run_on_until_the_worker_ends(self, way: str, tmp_path: Path) -> None:
        spec = isolated(leave_child, keep_children=True)
        pid = spec(path=str(tmp_path / "pids"), way=way)
        [child] = read_pids(tmp_path / "pids")
        assert isolated(get_pid)() != pid
        assert isolated(get_pid, keep_children=True)() == pid
        assert not is_gone(child)
        worker_process.keeping_pool.end_idle()
        assert until(lambda: is_gone(child))
        assert is_gone(pid)

    @pytest.mark.parametrize("signal_name", ["exit", pytest.param("kill", marks=pytest.mark.exhaustive)])
    def test_they_end_with_the_interpreter(self, signal_name: str, tmp_path: Path) -> None:
        code = """if True:
            import os, signal, sys
            from ahvn_tools import ToolSpec
            from tests.execution.workers.leaving import leave_child
            spec = ToolSpec.from_function(leave_child, isolation="process", keep_children=True)
            spec(path=sys.argv[1], way="new session")
            sys.stdin.read()
            if sys.argv[2] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
        """
        caller = process(code, str(tmp_path / "pids"), signal_name)
        try:
            [child] = read_pids(tmp_path / "pids")
            caller.communicate(timeout=60)
        finally:
            caller.kill()
        assert until(lambda: is_gone(child))

    def test_they_end_with_a_timeout(self, tmp_path: Path) -> None:
        isolated(leave_child, keep_children=True)(path=str(tmp_path / "pids"), way="new session")
        [child] = read_pids(tmp_path / "pids")
        sleeping = isolated(sleep_long, keep_children=True, timeout=0.1)
        assert sleeping.exec().error.code == "timeout"
        assert until(lambda: is_gone(child))

    def test_a_toolkit_has_the_option(self, tmp_path: Path) -> None:
        toolkit = Toolkit("kit").add(leave_child, isolation="process", keep_children=True)
        toolkit.add(isolated(leave_child, keep_children=True), rename="ends", keep_children=False)
        toolkit.call("leave_child", {"path": str(tmp_path / "kept"), "way": "new session"})
        toolkit.call("ends", {"path": str(tmp_path / "ended"), "way": "new session"})
        [kept], [ended] = read_pids(tmp_path / "kept"), read_pids(tmp_path / "ended")
        assert until(lambda: is_gone(ended))
        assert not is_gone(kept)
        worker_process.keeping_pool.end_idle()


def test_keep_children_is_refused_without_isolation() -> None:
    with pytest.raises(DefinitionError, match="keep_children is an option of isolated tools"):
        ToolSpec.from_function(get_pid, keep_children=True)
    with pytest.raises(ToolkitError, match="'get_pid': keep_children is an option of isolated tools"):
        Toolkit("kit").add(get_pid, keep_children=True)
    with pytest.raises(DefinitionError, match="keep_children must be True or False"):
        isolated(get_pid, keep_children="yes")
    with pytest.raises(ToolkitError, match="keep_children must be True or False"):
        Toolkit("kit").add(get_pid, isolation="process", keep_children="yes")  # type: ignore[arg-type]
