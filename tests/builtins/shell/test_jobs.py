"""Background jobs: their life, their limits, and who may see them."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from fastmcp import Client

from ahvn_tools import Toolkit
from ahvn_tools.builtins.processes.confinement import ProcessLimits, choose_sandbox
from ahvn_tools.builtins.processes.private_folder import private_folder
from ahvn_tools.builtins.shell import Shell, shell_tools
from ahvn_tools.builtins.shell.jobs import MAX_ENDED_JOBS, MAX_ENDED_JOBS_IN_ALL, MAX_OUTPUTS
from ahvn_tools.errors import CallRejectedError, ToolError

needs_bubblewrap = pytest.mark.skipif(choose_sandbox("auto") == "none", reason="bubblewrap does not work here")
BOTH = ["none", pytest.param("bubblewrap", marks=needs_bubblewrap)]


@pytest.fixture(params=BOTH)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    limits = ProcessLimits(kept_bytes=2000)
    with Shell(tmp_path, sandbox=request.param, approve="never", limits=limits, max_jobs=2, max_jobs_in_all=3) as shell:
        yield shell


@pytest.fixture
def kit(shell: Shell) -> Any:
    return Toolkit("shell").add(shell)


def start(kit: Any, cmd: str, **arguments: Any) -> str:
    return kit.call("start_job", {"cmd": cmd, **arguments})["job_id"]


def status(kit: Any, job_id: str) -> dict[str, Any]:
    [found] = kit.call("job_status", {"job_id": job_id})
    return found


def output(kit: Any, job_id: str, wait: float = 0) -> Any:
    return kit.call("job_output", {"job_id": job_id, "wait": wait})


def all_output(kit: Any, job_id: str) -> str:
    """Return what a job writes until it ends."""
    text = ""
    while True:
        result = output(kit, job_id, 20)
        text += result.stdout
        if result.ended_by is not None:
            return text


def processes_with(mark: str) -> list[psutil.Process]:
    return [p for p in psutil.process_iter(["cmdline"]) if mark in " ".join(p.info["cmdline"] or [])]


def test_a_job_runs_while_its_output_is_read(kit: Any, tmp_path: Path) -> None:
    job = start(kit, "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo done; echo bad >&2; exit 4")
    first = output(kit, job, 20)
    assert (first.stdout, first.exit_code, first.ended_by) == ("begun\n", None, None)
    assert f"The job {job} is still running." in str(first)
    assert status(kit, job)["is_running"]
    assert str(output(kit, job)).startswith("No new output.")
    (tmp_path / "go").touch()
    assert all_output(kit, job) == "done\n"
    assert "ERROR:\nThe command ended with exit code 4." in str(output(kit, job))
    assert str(output(kit, job)).startswith("ERROR:")
    found = status(kit, job)
    assert (found["is_running"], found["exit_code"], found["ended_by"]) == (False, 4, "exit")
    assert found["command"].startswith("echo begun;")


def test_a_job_is_sent_input_until_it_ends(kit: Any, shell: Shell) -> None:
    """The call waits for what the job writes after its input, and not for what it has written before."""
    job = start(kit, 'echo ready; while read -r line; do echo "<$line>"; done; echo end')
    assert shell._jobs.find(job, None).process.wait_for_output(20)
    first = kit.call("job_input", {"job_id": job, "text": "grün\n", "wait": 20})
    assert (first.stdout, first.ended_by) == ("ready\n<grün>\n", None)
    last = kit.call("job_input", {"job_id": job, "text": "two\n", "end": True})
    assert last.stdout + all_output(kit, job) == "<two>\nend\n"
    assert "has ended" in kit.exec("job_input", {"job_id": job, "text": "x"}).text


def test_a_job_that_does_not_read_does_not_block_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_tools, "MAX_INPUT_SECONDS", 0.1)
    with Shell(tmp_path, sandbox="none", approve="never") as shell:
        kit = Toolkit("shell").add(shell)
        job = start(kit, "sleep 99")
        text = kit.exec("job_input", {"job_id": job, "text": "x" * 100_000}).text
        assert re.fullmatch(r"The job does not read its input: [\d,]+ of 100,000 bytes were sent, .*", text)
        assert "100,000 are possible" in kit.exec("job_input", {"job_id": job, "text": "x" * 100_001}).text
        kit.call("job_input", {"job_id": job, "text": "", "end": True})
        assert "was ended before" in kit.exec("job_input", {"job_id": job, "text": "x"}).text
        closed = start(kit, "exec <&-; echo closed; sleep 99")
        output(kit, closed, 20)
        end = time.monotonic() + 60
        while "does not read its input any more" not in kit.exec("job_input", {"job_id": closed, "text": "x"}).text:
            assert time.monotonic() < end  # its supervisor closes its own copy soon
            time.sleep(0.01)


def test_input_needs_an_approval_as_the_start_of_its_job_did(tmp_path: Path) -> None:
    """A program such as a shell runs what it reads, and a rule that denies a command denies it as input, too."""
    asked = []
    with Shell(tmp_path, sandbox="none", allow=["cat *"], deny=["rm *"]) as shell:
        kit = Toolkit("shell", approver=lambda request: asked.append(request.action) or len(asked) < 3).add(shell)
        reader, runner = start(kit, "cat"), start(kit, "sh")
        assert kit.call("job_input", {"job_id": reader, "text": "x\n", "wait": 20}).stdout == "x\n"
        assert asked == ["Run `sh` in ."]
        assert kit.call("job_input", {"job_id": runner, "text": "echo y\n", "wait": 20}).stdout == "y\n"
        assert asked[1:] == ["Send `echo y\n` to the command `sh`, which runs"]
        assert kit.exec("job_input", {"job_id": runner, "text": "touch z\n"}).error.code == "rejected"
        assert "The rule 'rm *' denies it." in kit.exec("job_input", {"job_id": runner, "text": "rm z\n"}).text


def test_nobody_is_asked_about_input_for_a_job_that_has_ended(tmp_path: Path) -> None:
    asked: list[Any] = []
    with Shell(tmp_path, approve="always") as shell:
        kit = Toolkit("shell", approver=lambda request: bool(asked.append(request) or True)).add(shell)
        job = start(kit, "cat")
        assert kit.call("job_input", {"job_id": job, "end": True, "wait": 20}).stdout == ""  # the text may be left out
        assert shell._jobs.find(job, None).process.wait(20) is not None
        before = len(asked)
        text = kit.exec("job_input", {"job_id": job, "text": "x"}).text
    assert text == f"The job '{job}' has ended and reads no input. Read its output with job_output, or start it again."
    assert len(asked) == before


def test_input_reaches_no_job_of_another_session_or_of_more_folders(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    with Shell(tmp_path, sandbox="none", approve="never") as shell:
        kit = Toolkit("shell").add(shell)
        ann = kit.session(session_id="ann")
        job = start(ann, "cat")
        assert "There is no job" in kit.session(session_id="bob").exec("job_input", {"job_id": job, "text": "x"}).text
        result = ann.exec("job_input", {"job_id": job, "text": "x"}, roots=tmp_path / "inner")
        assert "The job may use folders that this call may not." in result.text


def test_a_job_has_the_notes_and_both_streams_of_a_command(tmp_path: Path) -> None:
    with Shell(tmp_path, sandbox="none", approve="never") as shell:
        kit = Toolkit("shell").add(shell)
        job = start(kit, r"sleep 99 & printf '10 %%\r20 %%\n'; echo bad >&2; echo end", interleaved=True)
        assert shell._jobs.find(job, None).process.wait(20) is not None
        result = output(kit, job)
    assert (result.stdout, result.is_interleaved) == ("20 %\nbad\nend\n", True)
    assert "left out: 1 of stdout." in str(result)
    assert "Processes that the command left in the background were ended with it." in str(result)


def test_the_text_of_a_job_that_has_ended_says_so(kit: Any) -> None:
    job = start(kit, "echo hi")
    all_output(kit, job)
    assert str(output(kit, job)).startswith(f"No new output.\nNOTE:\nThe job {job} has ended.")


def test_nothing_of_a_stopped_job_is_left(kit: Any) -> None:
    mark = f"41{os.getpid()}.25"
    job = start(kit, f"trap '' TERM; (setsid sleep {mark} &); nohup sleep {mark} & echo begun; sleep {mark}")
    assert output(kit, job, 20).stdout == "begun\n"
    stopped = kit.call("stop_job", {"job_id": job})
    assert (stopped.ended_by, stopped.exit_code) == ("stopped", None)
    assert processes_with(mark) == []
    again = kit.call("stop_job", {"job_id": job})
    assert again.ended_by == "stopped"
    assert status(kit, job)["ended_by"] == "stopped"


def test_nothing_of_a_job_is_left_after_its_timeout(tmp_path: Path) -> None:
    mark = f"42{os.getpid()}.25"
    with Shell(tmp_path, sandbox="none", approve="never", job_timeout=0.4) as shell:
        kit = Toolkit("shell").add(shell)
        job = start(kit, f"setsid sleep {mark} & sleep {mark}")
        all_output(kit, job)
        assert status(kit, job)["ended_by"] == "timeout"
        assert processes_with(mark) == []


@pytest.mark.exhaustive
def test_the_timeout_of_commands_is_not_that_of_jobs(tmp_path: Path) -> None:
    with Shell(tmp_path, sandbox="none", approve="never", timeout=0.2) as shell:
        kit = Toolkit("shell").add(shell)
        assert all_output(kit, start(kit, "sleep 0.6; echo done")) == "done\n"


def test_too_many_jobs_are_refused_until_one_ends(kit: Any) -> None:
    one, two = kit.session(session_id="one"), kit.session(session_id="two")
    jobs = [start(one, "sleep 60") for _ in range(2)]
    with pytest.raises(ToolError, match=f"Stop one of {jobs[0]}, {jobs[1]}"):
        start(one, "sleep 60")
    start(two, "sleep 60")
    with pytest.raises(ToolError, match="other sessions"):
        start(two, "sleep 60")
    one.call("stop_job", {"job_id": jobs[0]})
    start(one, "sleep 60")


def test_another_session_sees_no_job(kit: Any) -> None:
    one, two = kit.session(session_id="one"), kit.session(session_id="two")
    job = start(one, "sleep 60")
    for other in (two, kit):
        assert other.call("job_status", {}) == []
        for tool in ("job_status", "job_output", "stop_job"):
            with pytest.raises(ToolError, match="There is no job"):
                other.call(tool, {"job_id": job})
    assert [found["job_id"] for found in one.call("job_status", {})] == [job]
    assert status(one, job)["is_running"]


def test_the_ids_of_jobs_cannot_be_guessed(kit: Any) -> None:
    ids = [start(kit, "true") for _ in range(2)]
    assert len(set(ids)) == 2
    assert all(len(bytes.fromhex(job)) == 8 for job in ids)


def test_a_job_needs_the_approval_of_its_command(tmp_path: Path) -> None:
    with Shell(tmp_path, sandbox="none", allow=["pwd"], deny=["rm *"]) as shell:
        kit = Toolkit("shell", approver=lambda _: False).add(shell)
        assert all_output(kit, start(kit, "pwd")) == f"{tmp_path}\n"
        with pytest.raises(CallRejectedError):
            start(kit, "touch x")
        with pytest.raises(ToolError, match="denies it"):
            start(kit, "rm x")
        with pytest.raises(ToolError):
            start(kit, "pwd", uri="..")
    assert list(tmp_path.iterdir()) == []


def test_a_long_output_of_a_job_is_read_back(kit: Any) -> None:
    job = start(kit, "seq 9999")
    all_output(kit, job)
    result = output(kit, job)
    assert result.is_truncated
    assert result.output_id in str(result)
    assert kit.call("shell_output", {"output_id": result.output_id}).startswith("1\n2\n3\n")


@pytest.mark.exhaustive
def test_old_jobs_are_forgotten(kit: Any) -> None:
    ids = []
    for _ in range(MAX_ENDED_JOBS + 2):
        ids.append(start(kit, "seq 9999"))
        while status(kit, ids[-1])["is_running"]:
            output(kit, ids[-1], 20)
    assert len(kit.call("job_status", {})) in (MAX_ENDED_JOBS, MAX_ENDED_JOBS + 1)
    with pytest.raises(ToolError, match="There is no job"):
        status(kit, ids[0])


def test_a_wait_has_limits_and_ends_with_its_call(kit: Any) -> None:
    job = start(kit, "sleep 60")
    for wait in (-1, 61, float("inf")):
        assert kit.exec("job_output", {"job_id": job, "wait": wait}).is_error
    limited = Toolkit("limited").add(kit, timeout=0.3)
    begun = time.monotonic()
    assert limited.exec("job_output", {"job_id": job, "wait": 60}).error.code == "timeout"
    assert time.monotonic() - begun < 30


def test_close_ends_all_jobs_and_no_new_one_starts(kit: Any, shell: Shell) -> None:
    mark = f"43{os.getpid()}.25"
    job = start(kit, f"setsid sleep {mark} & sleep {mark}")
    shell.close()
    assert processes_with(mark) == []
    with pytest.raises(ToolError, match="There is no job"):
        status(kit, job)
    with pytest.raises(ToolError, match="closed"):
        start(kit, "true")
    shell.close()


def test_jobs_end_with_the_object(tmp_path: Path) -> None:
    mark = f"44{os.getpid()}.25"

    def use_a_shell() -> None:
        shell = Shell(tmp_path, sandbox="none", approve="never")
        start(Toolkit("shell").add(shell), f"setsid sleep {mark} & sleep {mark}")
        assert processes_with(mark)

    use_a_shell()
    gc.collect()
    assert processes_with(mark) == []


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("", id="normally", marks=pytest.mark.exhaustive),
        pytest.param("raise SystemExit(3)", id="SystemExit", marks=pytest.mark.exhaustive),
        pytest.param("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", id="SIGKILL"),
    ],
)
def test_jobs_end_with_python(tmp_path: Path, end: str) -> None:
    mark = f"45{os.getpid()}.25"
    code = f"""
        import sys
        from ahvn_tools import Toolkit
        from ahvn_tools.builtins.shell import Shell
        kit = Toolkit("shell").add(Shell({str(tmp_path)!r}, sandbox="none", approve="never"))
        job = kit.call("start_job", {{"cmd": "echo begun; setsid sleep {mark} & sleep {mark}"}})["job_id"]
        assert kit.call("job_output", {{"job_id": job, "wait": 20}}).stdout
        {end}
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False, timeout=60)
    deadline = time.monotonic() + 30
    while processes_with(mark):  # after SIGKILL the supervisor notices the end a moment later
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_jobs_and_readers_work_from_many_threads(kit: Any) -> None:
    job = start(kit, "for i in $(seq 200); do echo line $i; done")
    texts: list[str] = []
    threads = [threading.Thread(target=lambda: texts.append(all_output(kit, job))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted("".join(texts).splitlines()) == sorted(f"line {number}" for number in range(1, 201))


@pytest.mark.exhaustive
def test_commands_and_jobs_leave_no_thread_and_no_file_descriptor(tmp_path: Path) -> None:
    def use_a_shell() -> None:
        with Shell(tmp_path, sandbox="none", approve="never", limits=ProcessLimits(kept_bytes=100)) as shell:
            kit = Toolkit("shell").add(shell)
            for _ in range(3):
                kit.call("shell_exec", {"cmd": "seq 999; sleep 60 &"})
                all_output(kit, start(kit, "seq 999"))
                start(kit, "sleep 60")

    use_a_shell()  # what is made once stays
    gc.collect()
    before = resources()
    use_a_shell()
    gc.collect()
    assert all(now <= then for now, then in zip(resources(), before, strict=True))


def resources() -> tuple[int, int, int]:
    """Return how many file descriptors, threads and child processes this process has."""
    this = psutil.Process()
    return this.num_fds(), threading.active_count(), len(this.children())


@pytest.mark.exhaustive
def test_ended_jobs_of_all_sessions_have_limits(tmp_path: Path) -> None:
    gc.collect()
    before = set(private_folder.path.glob("stdout-*"))  # of other tests of this process
    with Shell(tmp_path, sandbox="none", approve="never", limits=ProcessLimits(kept_bytes=1000)) as shell:
        kit = Toolkit("shell").add(shell)
        sessions = [kit.session(session_id=f"session {number}") for number in range(MAX_ENDED_JOBS_IN_ALL + 20)]
        jobs = []
        for session in sessions:
            jobs.append(start(session, "seq 9999"))
            all_output(session, jobs[-1])
        start(kit, "true")
        with pytest.raises(ToolError, match="There is no job"):
            status(sessions[0], jobs[0])
        assert status(sessions[-1], jobs[-1])["ended_by"] == "exit"
        assert len(set(private_folder.path.glob("stdout-*")) - before) <= MAX_OUTPUTS


async def test_a_client_of_a_server_has_jobs(kit: Any) -> None:
    async with Client(kit.to_fastmcp_server(session=lambda _: "one")) as client:
        started = await client.call_tool("start_job", {"cmd": "echo hi; sleep 60"})
        job = started.structured_content["job_id"]
        result = await client.call_tool("job_output", {"job_id": job, "wait": 20})
        assert result.content[0].text.startswith("STDOUT:\nhi\nNOTE:\n")
        listed = await client.call_tool("job_status", {})
        assert [found["job_id"] for found in listed.structured_content["result"]] == [job]
        await client.call_tool("stop_job", {"job_id": job})
