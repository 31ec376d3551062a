"""`run_process` runs a program to its end and returns what it wrote."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools.builtins.processes.confinement import Confinement, ProcessLimits
from ahvn_tools.builtins.processes.private_folder import clean_environment
from ahvn_tools.builtins.processes.process import ProcessResult, arun_process
from ahvn_tools.errors import ToolError
from tests.builtins.processes.both_ways import usable_confinement
from tests.builtins.processes.left_over import open_descriptors, survivors


@pytest.fixture(params=["none", pytest.param("bubblewrap", marks=pytest.mark.exhaustive)])
def confinement(request: pytest.FixtureRequest) -> Confinement:
    """Both ways to run a program."""
    return usable_confinement(request.param)


def test_a_result_has_the_output_and_the_exit_code(run, confinement):
    result = run("sh", "-c", "echo out; echo err >&2; exit 3", confinement=confinement)

    assert (result.stdout.text, result.stderr.text) == ("out\n", "err\n")
    assert (result.exit_code, result.ended_by) == (3, "exit")
    assert (result.stdout.size, result.stdout.omitted, result.stdout.spool) == (4, 0, None)
    assert 0 < result.duration < 60


def test_the_signal_that_ended_a_program_is_a_negative_exit_code(run, confinement):
    result = run("sh", "-c", "kill -SEGV $$", confinement=confinement)

    assert (result.exit_code, result.ended_by) == (-11, "exit")


def test_a_program_runs_in_the_folder(run, confinement, tmp_path):
    assert run("pwd", confinement=confinement).stdout.text == f"{tmp_path.resolve()}\n"


def test_a_program_reads_the_input_and_then_its_end(run, confinement):
    text = "äöü" * 500_000

    result = run("wc", "-c", stdin=text.encode(), confinement=confinement)

    assert result.stdout.text.split() == ["3000000"]


def test_a_program_without_input_reads_its_end_at_once(run, confinement):
    assert run("cat", confinement=confinement).exit_code == 0


def test_a_program_gets_the_variables_of_its_environment_and_no_others(run, confinement, monkeypatch):
    monkeypatch.setenv("API_KEY", "secret")

    result = run("env", environment={"PATH": "/usr/bin:/bin", "GREETING": "hi"}, confinement=confinement)

    names = {line.partition("=")[0] for line in result.stdout.text.splitlines()}
    assert names <= {"PATH", "GREETING", "AHVN_TOOLS_PROCESS", "PWD"}
    assert "GREETING=hi" in result.stdout.text


def test_the_default_environment_has_no_secret(run, confinement, monkeypatch):
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("PYTHONSTARTUP", "/tmp/evil.py")
    monkeypatch.setenv("PATH", f".:bin:{os.environ['PATH']}::")

    variables = dict(
        line.split("=", 1) for line in run("env", environment=None, confinement=confinement).stdout.text.splitlines()
    )

    assert set(variables) <= {
        "PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_TIME", "TZ", "TERM", "HOME", "PWD",
        "AHVN_TOOLS_PROCESS",
    }  # fmt: skip
    assert all(folder.startswith("/") for folder in variables["PATH"].split(":"))


def test_the_home_folder_is_writable_and_not_the_users(run, confinement):
    result = run("sh", "-c", 'touch "$HOME/file" && rm "$HOME/file" && echo "$HOME"', confinement=confinement)

    assert result.stdout.text.strip() not in ("", str(Path.home()))


def test_the_home_folder_without_a_sandbox_is_private(run):
    home = Path(run("sh", "-c", 'echo "$HOME"').stdout.text.strip())

    assert home.stat().st_mode & 0o777 == 0o700
    assert home.parent.stat().st_mode & 0o777 == 0o700


def test_a_program_inherits_only_its_streams(run, confinement):
    readable, writable = os.pipe()
    os.set_inheritable(readable, True)
    os.set_inheritable(writable, True)

    result = run("sh", "-c", "ls /proc/$$/fd", confinement=confinement)

    os.close(readable)
    os.close(writable)
    assert set(result.stdout.text.split()) <= {"0", "1", "2"}


def test_a_program_starts_with_no_signal_ignored_or_blocked(run, confinement):
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)  # as in a job of a shell without job control
    try:
        status = run("cat", "/proc/self/status", confinement=confinement).stdout.text
    finally:
        signal.signal(signal.SIGQUIT, before)
    signals = dict(line.split(":") for line in status.splitlines())

    assert int(signals["SigIgn"], 16) == int(signals["SigBlk"], 16) == 0


@pytest.mark.parametrize("command", ["no-such-program", "/no/such/program", "./nothing"])
def test_a_program_that_does_not_exist_is_an_error(run, confinement, command):
    with pytest.raises(ToolError, match=re.escape(f"'{command}' could not be started: No such file or directory")):
        run(command, confinement=confinement)


def test_a_file_that_is_no_program_is_an_error(run, confinement, tmp_path):
    (tmp_path / "text").write_text("text")

    with pytest.raises(ToolError, match=r"'\./text' could not be started: Permission denied"):
        run("./text", confinement=confinement)


def test_a_folder_that_does_not_exist_is_an_error(run, confinement, tmp_path):
    with pytest.raises(ToolError, match="The folder in which the program should run does not exist"):
        run("true", folder=tmp_path / "nothing", confinement=confinement)


def test_a_timeout_ends_a_program_in_time(run, confinement, mark):
    result = run("sh", "-c", "echo begin; sleep 1000", timeout=0.3, confinement=confinement)

    assert (result.ended_by, result.exit_code, result.stdout.text) == ("timeout", None, "begin\n")
    assert survivors(mark) == []


def test_a_cancellation_ends_a_program_and_keeps_its_output(run, confinement, mark):
    seen = []

    result = run(
        "sh", "-c", "while :; do echo line; done", confinement=confinement,
        on_output=lambda *news: seen.append(news), is_cancelled=lambda: bool(seen),
    )  # fmt: skip

    assert (result.ended_by, result.exit_code) == ("cancelled", None)
    assert result.stdout.head.startswith("line\nline\n")
    assert survivors(mark) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("callback", ["is_cancelled", "on_output"])
def test_an_error_while_waiting_ends_the_program(run, confinement, mark, error, callback):
    def fail(*_):
        raise error

    with pytest.raises(error):
        run("sh", "-c", "setsid sleep 1000 & echo ready; sleep 1000", confinement=confinement, **{callback: fail})

    assert survivors(mark) == []


def test_output_is_reported_while_the_program_runs(run, confinement):
    reports = []

    run(
        "sh", "-c", "echo first; echo wrong >&2; sleep 0.6; echo second", confinement=confinement,
        on_output=lambda stream, text: reports.append((stream, text, threading.get_ident())),
    )  # fmt: skip

    mine = threading.get_ident()
    assert reports == [("stdout", "first\n", mine), ("stderr", "wrong\n", mine), ("stdout", "second\n", mine)]


@pytest.mark.exhaustive
def test_reports_of_much_output_are_short_and_few(run):
    reports = []

    result = run("yes", timeout=1.5, on_output=lambda _, text: reports.append(text), spooled_bytes=0)

    assert result.stdout.size > 1_000_000
    assert 2 <= len(reports) <= 8
    assert all(len(text) < 17_000 and "bytes left out" in text for text in reports)


def test_a_character_is_reported_whole(run):
    reports = []
    code = "import os, time; os.write(1, b'\\xc3'); time.sleep(0.4); os.write(1, b'\\xa4')"

    run(sys.executable, "-I", "-S", "-c", code, on_output=lambda _, text: reports.append(text))

    assert "".join(reports) == "ä"


def test_output_that_is_no_text_is_replaced(run, confinement):
    result = run("printf", r"a\377b\303", confinement=confinement)

    assert (result.stdout.text, result.stdout.size) == ("a\ufffdb\ufffd", 4)


def test_much_output_has_its_beginning_and_its_end(run, confinement):
    result = run("seq", "100000", kept_bytes=1000, confinement=confinement)

    output = result.stdout
    assert output.head.startswith("1\n2\n3\n")
    assert output.tail.endswith("99999\n100000\n")
    assert output.size == 588_895 == len(output.head) + output.omitted + len(output.tail)
    assert f"[… {output.omitted:,} bytes left out …]" in output.text
    assert len(output.text) < 1100
    output.spool.unlink()


def test_no_character_is_cut_at_the_gap(run):
    result = run("sh", "-c", "yes äöü | head -c 1000003", kept_bytes=1001, spooled_bytes=0)

    assert "\ufffd" not in result.stdout.head
    assert "\ufffd" not in result.stdout.tail[:10]


def test_the_first_bytes_of_much_output_are_in_a_private_file(run, confinement):
    output = run("seq", "100000", kept_bytes=1000, spooled_bytes=100_000, confinement=confinement).stdout

    assert output.spool.read_text() == "".join(f"{number}\n" for number in range(1, 100_001))[:100_000]
    assert output.spool.stat().st_mode & 0o777 == 0o600
    assert output.spool.parent.stat().st_mode & 0o777 == 0o700
    output.spool.unlink()


def test_little_output_is_in_no_file(run):
    assert run("seq", "100", kept_bytes=1000).stdout.spool is None


def test_both_streams_may_be_full_at_once(run, confinement):
    code = "import os\nfor _ in range(100): os.write(1, b'o' * 65536); os.write(2, b'e' * 65536)"

    result = run(sys.executable, "-I", "-S", "-c", code, spooled_bytes=0, confinement=confinement)

    assert (result.stdout.size, result.stderr.size) == (6_553_600, 6_553_600)


def test_many_threads_run_programs_at_once(run, confinement, mark):
    descriptors = open_descriptors()
    count = 12

    with ThreadPoolExecutor(count) as pool:
        results = list(
            pool.map(lambda i: run("sh", "-c", f"echo {i}; cat", stdin=b"x", confinement=confinement), range(count))
        )

    assert [result.stdout.text for result in results] == [f"{i}\nx" for i in range(count)]
    assert open_descriptors() == descriptors
    assert survivors(mark) == []


@pytest.fixture
def arun(tmp_path, mark):
    """`arun_process` as `run` runs it."""

    async def arun(*command: str, **options: Any) -> ProcessResult:
        limits = ProcessLimits(timeout=60)
        environment = clean_environment(MARK=mark)
        return await arun_process(
            command, folder=tmp_path, confinement=Confinement(), limits=limits, environment=environment, **options
        )

    return arun


async def test_a_program_is_run_from_async_code(arun):
    seen: list[tuple[str, str]] = []
    result = await arun("sh", "-c", "cat; exit 3", stdin=b"tea", on_output=lambda *news: seen.append(news))
    assert (result.stdout.text, result.exit_code, result.ended_by) == ("tea", 3, "exit")
    assert seen == [("stdout", "tea")]


async def test_the_event_loop_is_free_while_a_program_runs(arun, tmp_path):
    """Each of two programs waits for the other."""
    meet = "touch {}; until [ -e {} ]; do sleep 0.01; done"
    names = ("one", "other")
    commands = [meet.format(*pair) for pair in (names, names[::-1])]
    results = await asyncio.gather(*(arun("sh", "-c", command) for command in commands))
    assert [result.exit_code for result in results] == [0, 0]


async def test_a_cancelled_task_ends_its_program(arun, mark):
    started, loop = asyncio.Event(), asyncio.get_running_loop()

    def tell(*_: str) -> None:
        loop.call_soon_threadsafe(started.set)

    task = asyncio.create_task(arun("sh", "-c", "echo started; sleep 60 & sleep 60", on_output=tell))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(have_ended, mark)


def have_ended(mark: str) -> bool:
    """Return whether the processes with this mark end within some seconds."""
    until = time.monotonic() + 10
    while survivors(mark) and time.monotonic() < until:
        time.sleep(0.02)
    return survivors(mark) == []


async def test_a_program_that_cannot_be_started_is_an_error_in_async_code_too(arun):
    with pytest.raises(ToolError, match="could not be started"):
        await arun("no-such-program")
