"""Programs end with the Python process that started them, and a forked copy of that process does not end them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ahvn_tools.builtins.processes.confinement import Confinement
from ahvn_tools.builtins.processes.private_folder import remove_abandoned_folders
from tests.builtins.processes.both_ways import usable_confinement
from tests.builtins.processes.left_over import survivors, wait_until_none_survives

pytestmark = pytest.mark.exhaustive


@pytest.fixture(params=["none", pytest.param("bubblewrap", marks=pytest.mark.exhaustive)])
def confinement(request: pytest.FixtureRequest) -> Confinement:
    """Both ways to run a program."""
    return usable_confinement(request.param)


_BEGIN = """
    import os, signal, sys, threading
    from pathlib import Path
    from ahvn_tools.builtins.processes.confinement import Confinement
    from ahvn_tools.builtins.processes.private_folder import clean_environment
    from ahvn_tools.builtins.processes.confinement import ProcessLimits
    from ahvn_tools.builtins.processes.process import RunningProcess, run_process

    mark, sandbox = sys.stdin.readline().split()
    options = dict(
        folder=Path("/usr"), confinement=Confinement(sandbox=sandbox), limits=ProcessLimits(),
        environment=clean_environment(MARK=mark),
    )
    command = ["sh", "-c", "setsid sleep 1000 & nohup sleep 1000 >/dev/null 2>&1 & echo ready; sleep 1000"]

    def start():
        process = RunningProcess(command, **options)
        assert process.wait_for_output(60)
        return process
"""


@pytest.fixture
def python(mark, confinement):
    """Start a Python process that runs code, and read what it prints."""
    started = []

    def start(code: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(_BEGIN) + textwrap.dedent(code)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        process.stdin.write(f"{mark} {confinement.sandbox}\n")
        process.stdin.flush()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_programs_end_when_python_is_killed(python, mark):
    process = python("""
        def run():
            run_process(command, on_output=lambda *_: print("running", flush=True), **options)
        job = start()
        threading.Thread(target=run).start()
        signal.pause()
    """)
    assert process.stdout.readline() == "running\n"
    assert len(survivors(mark)) >= 6

    process.kill()

    assert wait_until_none_survives(mark) == []


def test_programs_end_when_python_ends(python, mark):
    process = python("jobs = [start(), start()]; print('running', flush=True)")

    assert process.wait(60) == 0
    assert wait_until_none_survives(mark) == []


def test_programs_end_when_python_is_killed_and_their_supervisor_is_stopped(python, mark):
    process = python("""
        def run():
            script = "setsid sleep 1000 & kill -STOP $PPID; echo stopped; sleep 1000"
            run_process(["sh", "-c", script], on_output=lambda *_: print("running", flush=True), **options)
        threading.Thread(target=run).start()
        signal.pause()
    """)
    assert process.stdout.readline() == "running\n"

    process.kill()

    assert wait_until_none_survives(mark) == []


@pytest.mark.parametrize("how", ["os._exit(0)", "os.abort()", "os.kill(os.getpid(), signal.SIGTERM)"])
def test_programs_end_when_python_ends_badly(python, mark, how):
    process = python(f"job = start(); {how}")

    process.wait(60)

    assert wait_until_none_survives(mark) == []


def test_a_forked_copy_of_python_does_not_end_the_programs(python, mark):
    process = python("""
        job = start()
        if os.fork() == 0:
            assert not job.is_running and job.wait(0) is None
            try:
                job.stop()
            except Exception as error:
                print(type(error).__name__, flush=True)
            sys.exit(0)  # with everything that Python does at its end
        os.wait()
        print(job.is_running, job.stop().ended_by, flush=True)
    """)

    assert process.communicate()[0].splitlines() == ["ToolError", "True stopped"]
    assert survivors(mark) == []


def test_a_forked_copy_of_python_does_not_keep_programs_alive(python, mark):
    process = python("""
        job = start()
        if os.fork() == 0:
            print("ready", flush=True)
            sys.stdin.read()  # until the test is over
            os._exit(0)
        signal.pause()
    """)
    assert process.stdout.readline() == "ready\n"

    process.kill()

    assert wait_until_none_survives(mark) == []


def test_an_interrupt_ends_the_program(python, mark):
    process = python("""
        def interrupt(*_):
            os.kill(os.getpid(), signal.SIGINT)
        try:
            run_process(command, on_output=interrupt, **options)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            sys.stdin.read()
    """)

    assert process.stdout.readline() == "interrupted\n"
    assert survivors(mark) == []


def test_the_private_folder_goes_with_python(python, tmp_path):
    process = python("""
        result = run_process(["seq", "100000"], **options)
        print(result.stdout.spool, flush=True)
        if os.fork() == 0:
            sys.exit(0)
        os.wait()
        print(result.stdout.spool.exists(), flush=True)
    """)

    spool, exists = process.communicate()[0].splitlines()
    assert exists == "True"
    assert subprocess.run(["ls", spool], capture_output=True, check=False).returncode != 0


def test_the_private_folder_of_a_killed_python_is_removed_when_it_is_old(python, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    make = """
        print(run_process(["seq", "100000"], **options).stdout.spool.parent, flush=True)
        sys.stdin.read()
    """
    killed, running, recent = python(make), python(make), python(make)
    folders = [Path(process.stdout.readline().strip()) for process in (killed, running, recent)]
    for process in (killed, recent):
        process.kill()
        process.wait()
    for folder in folders[:2]:
        os.utime(folder, (0, 0))

    remove_abandoned_folders(tmp_path)

    assert [folder.exists() for folder in folders] == [False, True, True]
