"""What a body leaves running does not reach the next call, and ends with its own."""

from __future__ import annotations

import _thread
import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import ToolContext, Toolkit, ToolSpec
from ahvn_tools.errors import DefinitionError, ToolkitError
from ahvn_tools.execution.isolation import pool
from tests.execution.entry_points import process, until
from tests.execution.isolation.bodies import is_gone, isolated, read_pids
from tests.execution.isolation.leaving import (
    count_slowly,
    get_pid,
    greet,
    greet_without_context,
    leave_child,
    send_late,
    sleep_long,
)

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(120)]

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux a worker adopts orphans")


class TestThreads:
    @pytest.mark.parametrize(
        ("body", "arguments", "values"),
        [
            (greet, {"name": "bob"}, ["hello", "bob"]),
            pytest.param(greet_without_context, {"name": "bob"}, ["bob"], marks=pytest.mark.exhaustive),
            pytest.param(count_slowly, {"to": 2}, [0, 1, [0, 1]], marks=pytest.mark.exhaustive),
        ],
    )
    def test_what_one_sends_after_its_call_does_not_reach_the_next(
        self, body: Any, arguments: dict[str, Any], values: list[Any]
    ) -> None:
        toolkit = Toolkit("kit").add(send_late, isolation="process").add(body, isolation="process")
        ann, bob = toolkit.session(session_id="ann"), toolkit.session(session_id="bob")
        pid = ann.call("send_late", {"word": "secret"})
        assert [result.value for result in bob.stream(body.__name__, arguments)] == values
        assert until(lambda: is_gone(pid))

    def test_what_one_sends_after_its_call_is_dropped_in_a_worker_that_is_reused(self) -> None:
        def start_late(word: str, context: ToolContext) -> int:
            """Leave a thread that looks like an idle one of the package."""
            thread = threading.Thread(target=send, args=(word, context), name="ahvn-tools-worker", daemon=True)
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

    @pytest.mark.parametrize("kind", [pytest.param("thread", marks=pytest.mark.exhaustive), "daemon", "raw"])
    def test_a_worker_in_which_one_is_left_is_not_reused(self, kind: str) -> None:
        def body(kind: str) -> int:
            if kind == "raw":
                started = threading.Event()

                def hang() -> None:
                    started.set()
                    time.sleep(600)

                _thread.start_new_thread(hang, ())
                started.wait()
            else:
                threading.Thread(target=time.sleep, args=(600,), daemon=kind == "daemon").start()
            return os.getpid()

        pid = isolated(body)(kind=kind)
        assert until(lambda: is_gone(pid))
        assert isolated(get_pid)() != pid

    def test_a_worker_in_which_an_abandoned_call_is_left_is_not_reused(self) -> None:
        def body() -> int:
            ToolSpec.from_function(lambda: time.sleep(600), name="sleeps", timeout=0.05).exec()
            return os.getpid()

        pid = isolated(body)()
        assert until(lambda: is_gone(pid))

    @pytest.mark.parametrize("kind", ["joined", "pool", "asyncio", "tool"])
    def test_a_worker_in_which_all_have_ended_is_reused(self, kind: str) -> None:
        def body(kind: str) -> int:
            from concurrent.futures import ThreadPoolExecutor

            if kind == "joined":
                thread = threading.Thread(target=time.sleep, args=(0,))
                thread.start()
                thread.join()
            elif kind == "pool":
                with ThreadPoolExecutor(3) as executor:
                    list(executor.map(time.sleep, [0] * 9))
            elif kind == "asyncio":
                asyncio.run(asyncio.to_thread(time.sleep, 0))
            else:
                ToolSpec.from_function(os.getpid, name="inner", timeout=30)()
            return os.getpid()

        assert len({isolated(body)(kind=kind) for _ in range(3)}) == 1

    def test_one_that_an_import_has_started_does_not_count(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "iso_monitored.py").write_text(
            "import os, threading\n"
            "end = threading.Event()\n"
            "threading.Thread(target=end.wait, daemon=True).start()\n"
            "def body() -> int:\n    return os.getpid()\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        import iso_monitored  # type: ignore[import-not-found]

        iso_monitored.end.set()  # in this process
        pool.process_pool.end_idle()
        assert len({isolated(iso_monitored.body)() for _ in range(3)}) == 1


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
        assert isolated(get_pid)() != os.getpid()
        if way != "returning fork":  # that child may have ended by itself
            assert until(lambda: is_gone(pid))

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
        pool.process_pool.end_idle()
        assert until(lambda: is_gone(child))
        assert is_gone(pid)

    @pytest.mark.parametrize("signal_name", ["exit", pytest.param("kill", marks=pytest.mark.exhaustive)])
    def test_they_end_with_the_interpreter(self, signal_name: str, tmp_path: Path) -> None:
        code = """if True:
            import os, signal, sys
            from ahvn_tools import ToolSpec
            from tests.execution.isolation.leaving import leave_child
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
        pool.process_pool.end_idle()


def test_keep_children_is_refused_without_isolation() -> None:
    with pytest.raises(DefinitionError, match="keep_children is an option of isolated tools"):
        ToolSpec.from_function(get_pid, keep_children=True)
    with pytest.raises(ToolkitError, match="'get_pid': keep_children is an option of isolated tools"):
        Toolkit("kit").add(get_pid, keep_children=True)
    with pytest.raises(DefinitionError, match="keep_children must be True or False"):
        isolated(get_pid, keep_children="yes")
    with pytest.raises(ToolkitError, match="`keep_children` of 'get_pid' is True or False"):
        Toolkit("kit").add(get_pid, isolation="process", keep_children="yes")  # type: ignore[arg-type]


@ON_LINUX
class TestDescriptors:
    def test_a_worker_with_an_open_file_or_connection_is_not_reused(self) -> None:
        def body(kind: str) -> int:
            if kind == "file":
                os.open(os.devnull, os.O_RDONLY)
            elif kind == "connection":
                socket.create_server(("127.0.0.1", 0)).detach()
            return os.getpid()

        spec = isolated(body)
        for kind in ("file", "connection"):
            assert spec(kind="nothing") == spec(kind=kind) != spec(kind="nothing")

    def test_those_of_an_event_loop_do_not_count(self) -> None:
        def body() -> int:
            loop = asyncio.new_event_loop()
            loops.append(loop)
            return os.getpid()

        loops: list[Any] = []
        spec = isolated(body)
        assert spec() == spec()

    def test_those_that_an_import_has_opened_do_not_count(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "opens_a_file.py").write_text(
            "import os\nopened = open(os.devnull)\ndef body() -> int:\n    return os.getpid() if opened else 0\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        from opens_a_file import body, opened  # type: ignore[import-not-found]

        spec = isolated(body)
        assert spec() == spec()
        opened.close()


@ON_LINUX
def test_each_setting_that_a_body_can_change_is_noticed() -> None:
    def body() -> dict[str, bool]:
        import resource

        from ahvn_tools.execution.isolation.leftovers import process_settings

        changes = {
            "umask": lambda: os.umask(0o13),
            "handler": lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
            "recursion": lambda: sys.setrecursionlimit(900),
            "blocked": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2}),
            "timer": lambda: signal.setitimer(signal.ITIMER_REAL, 600),
            "limit": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
            "priority": lambda: os.nice(1),
            "cores": lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]),
            "groups": lambda: os.setgroups([1]),
            "group": lambda: os.setegid(1),
            "user": lambda: os.seteuid(1),
        }
        if os.geteuid() != 0:
            for name in ("groups", "group", "user"):
                del changes[name]
        if len(os.sched_getaffinity(0)) == 1:
            del changes["cores"]
        if resource.getrlimit(resource.RLIMIT_CORE) == (0, 0):
            del changes["limit"]
        noticed = {}
        for name, change in changes.items():
            before = process_settings()
            assert process_settings() == before, name
            change()
            noticed[name] = process_settings() != before
        return noticed

    noticed = isolated(body)()
    assert len(noticed) >= 6
    assert [name for name, is_noticed in noticed.items() if not is_noticed] == []
