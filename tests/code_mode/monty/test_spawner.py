"""The process that starts worker processes: it may be killed, and its host may ignore signals."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from ahvn_tools import Toolkit
from ahvn_tools.code_mode import CodeLimits, MontySandbox
from tests.code_mode.monty.conftest import living, processes, spawners, workers
from tests.execution.entry_points import program, until

pytestmark = pytest.mark.exhaustive

TOO_LONG = """
import signal
signal.signal(signal.SIGALRM, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
from ahvn_tools import Toolkit
from ahvn_tools.code_mode import MontySandbox

with MontySandbox() as sandbox:
    kit = Toolkit("k").add_code_mode(sandbox=sandbox)
    result = kit.exec("run_code", {"code": "a = ('x',)\\nfor _ in range(60):\\n    a = (a, a)\\n{a: 1}"})
    assert "did not respond in time" in result.text, result.text
    assert kit.call("run_code", {"code": "1 + 1"}) == 2
"""

ORPHANS = """
import ctypes
import psutil
from ahvn_tools import Toolkit
from ahvn_tools.code_mode import MontySandbox
from tests.code_mode.monty.conftest import send_signal
from tests.execution.entry_points import until

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # orphans become its children, as they do in process 1 of a container
with MontySandbox() as sandbox:
    kit = Toolkit("k").add_code_mode(sandbox=sandbox)

    @kit.tool
    def kill() -> None:
        "Kill the workers."
        send_signal()

    for _ in range(3):
        assert "its worker process ended" in kit.exec("run_code", {"code": "kill()"}).text
    assert len(psutil.Process().children()) == 1
"""

ONE_PROGRAM = """
from ahvn_tools import Toolkit
print(Toolkit("k").add_code_mode().call("run_code", {"code": "1 + 1"}))
"""


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def test_a_spawner_that_is_killed_is_replaced(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(double).add_code_mode(sandbox=sandbox)
    for number in range(3):
        assert kit.call("run_code", {"code": f"double({number})"}) == 2 * number
        [spawner] = spawners()
        orphans = living(spawner.children())
        spawner.kill()
        assert until(lambda spawner=spawner: spawners() == [])  # type: ignore[misc]  # mypy infers no type of a default
        for orphan in orphans:
            orphan.kill()
    assert kit.call("run_code", {"code": "double(21)"}) == 42


def test_a_program_goes_on_when_its_spawner_is_killed(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add_code_mode(sandbox=sandbox)
    orphans = []

    @kit.tool
    def kill() -> str:
        """Kill the spawner."""
        [spawner] = spawners()
        orphans.extend(living(spawner.children()))
        spawner.kill()
        spawner.wait()
        return "killed"

    assert kit.call("run_code", {"code": "await kill()"}) == "killed"
    assert kit.call("run_code", {"code": "1"}) == 1
    sandbox.close()
    assert until(lambda: living(orphans) == [])


def test_a_result_that_is_too_slow_to_read_leaves_no_process(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add_code_mode(sandbox=sandbox, limits=CodeLimits(seconds=0.5))
    assert kit.call("run_code", {"code": "1"}) == 1
    before = len(workers())
    assert "TimeoutError" in kit.exec("run_code", {"code": "while True:\n    pass"}).text
    assert len(workers()) <= before


def test_time_limits_hold_in_a_host_that_ignores_and_blocks_signals() -> None:
    assert program(TOO_LONG)[:1] == (0,)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans")
def test_a_host_that_reaps_no_orphans_has_no_zombies() -> None:
    assert program(ORPHANS)[::2] == (0, "")


@pytest.mark.parametrize("option", ["-I", "-E"])
def test_a_host_without_its_environment_has_processes_without_it(tmp_path: Path, option: str) -> None:
    for name in ("json.py", "sitecustomize.py"):
        (tmp_path / name).write_text("raise SystemExit('imported')")
    code = f"import sys\nsys.path[:] = {sys.path}\n{ONE_PROGRAM}"
    command = [sys.executable, option, "-c", code]
    found = subprocess.run(
        command,
        env={"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "2\n", "")


@pytest.mark.parametrize("executable", ["/none", "/bin/false"])
def test_a_program_is_not_started_without_a_spawner(
    sandbox: MontySandbox, monkeypatch: pytest.MonkeyPatch, executable: str
) -> None:
    kit = Toolkit("k").add_code_mode(sandbox=sandbox)
    monkeypatch.setattr(sys, "executable", executable)
    text = kit.exec("run_code", {"code": "1"}).text
    assert "The program was not started" in text
    assert "None" not in text
    monkeypatch.undo()
    assert kit.call("run_code", {"code": "1"}) == 1


def test_an_idle_process_keeps_no_program() -> None:
    with MontySandbox(max_processes=1) as sandbox:
        kit = Toolkit("k").add_code_mode(sandbox=sandbox)

        def memory() -> int:
            children = psutil.Process().children(recursive=True)
            return sum(child.memory_info().rss for child in children if child.name() == "monty")

        kit.call("run_code", {"code": "1"})
        before = memory()
        kit.call("run_code", {"code": "kept = ['x' * 100 + str(i) for i in range(300_000)]\n1"})
        assert until(lambda: memory() < before + 30_000_000)


def test_deleted_sandboxes_end_their_processes() -> None:
    before = processes()
    made: list[Any] = [Toolkit("k").add_code_mode() for _ in range(2)]
    threads = [threading.Thread(target=kit.call, args=("run_code", {"code": "1"})) for kit in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert processes() > before
    made.clear()
    del threads, thread
    gc.collect()
    assert until(lambda: processes() <= before)
