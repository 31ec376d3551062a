"""With bubblewrap, code reaches nothing of the host; without, every result says so and a person must approve it."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins import Workspace
from ahvn_tools.builtins.python_runner import PythonRunner
from tests.builtins.python_runner.running import SANDBOXES, left_folders, left_processes, run_once

confined = pytest.mark.parametrize("sandbox", SANDBOXES[:1])


@confined
def test_code_reads_no_file_outside(sandbox, secret_file):
    result = run_once(f"open({str(secret_file)!r}).read()", sandbox=sandbox)
    assert "FileNotFoundError" in result.value
    assert "host-secret" not in result.value


@confined
def test_code_reads_no_file_that_only_root_may_read(sandbox):
    result = run_once("open('/etc/shadow').read()", sandbox=sandbox)
    assert "root:" not in result.value


@confined
def test_code_writes_no_file_outside(sandbox, tmp_path):
    target = tmp_path / "new.txt"
    run_once(f"open({str(target)!r}, 'w').write('x')", sandbox=sandbox)
    assert not target.exists()


@confined
def test_code_changes_neither_packages_nor_its_program(sandbox):
    code = "import json, sys, glob\n" + "".join(
        f"try: open({place}, 'a'); print('OPEN', {place})\nexcept OSError as e: print(type(e).__name__)\n"
        for place in ("json.__file__", "sys.executable", "sys._getframe(1).f_code.co_filename")
    )
    result = run_once(code, sandbox=sandbox)
    assert "OPEN" not in result.value
    assert result.structured_content["stdout"].count("Error") == 3


@confined
def test_code_sees_no_environment_of_the_host(sandbox, monkeypatch):
    monkeypatch.setenv("AHVN_TEST_SECRET", "environment-secret-42")
    code = """
import glob, os
print(dict(os.environ))
for path in [f"/proc/{os.getppid()}/environ", *glob.glob("/proc/[0-9]*/environ")]:
    try: print(open(path, "rb").read())
    except OSError: pass
"""
    assert "environment-secret-42" not in run_once(code, sandbox=sandbox).value


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_the_environment_of_the_code_is_clean(sandbox, monkeypatch):
    monkeypatch.setenv("AHVN_TEST_SECRET", "environment-secret-42")
    monkeypatch.setenv("PYTHONSTARTUP", "/nowhere.py")
    result = run_once("import os; dict(os.environ)", sandbox=sandbox)
    assert "environment-secret-42" not in result.value
    assert "PYTHONSTARTUP" not in result.value


@confined
@pytest.mark.parametrize("kind", ["tcp", "abstract", "path"])
def test_code_connects_to_no_server_of_the_host(sandbox, kind, tmp_path):
    name = f"\0ahvn-{os.getpid()}" if kind == "abstract" else str(tmp_path / "socket")
    family = socket.AF_INET if kind == "tcp" else socket.AF_UNIX
    with socket.socket(family) as listener:
        listener.bind(("127.0.0.1", 0) if kind == "tcp" else name)
        listener.listen()
        listener.setblocking(False)
        code = (
            f"import socket\ns = socket.socket({int(family)})\ns.settimeout(5)\ns.connect({listener.getsockname()!r})"
        )
        result = run_once(code, sandbox=sandbox)
        assert result.structured_content["exit_code"] == 1, result.value
        with pytest.raises(BlockingIOError):
            listener.accept()


@confined
def test_code_cannot_signal_or_trace_the_host(sandbox, nothing_left):
    code = f"""
import ctypes, os, signal
for number in ({os.getpid()}, os.getppid(), 1):
    for call in (lambda: os.kill(number, 0 if number == 1 else signal.SIGKILL),):
        try: call(); print("sent", number)
        except OSError as error: print(type(error).__name__)
libc = ctypes.CDLL(None, use_errno=True)
print("traced", libc.ptrace(16, {os.getpid()}, 0, 0))
os.kill(-1, signal.SIGKILL)
"""
    result = run_once(code, sandbox=sandbox, timeout=20)
    assert f"sent {os.getpid()}" not in result.value
    assert "traced 0" not in result.value


@confined
def test_code_cannot_raise_its_limits(sandbox):
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (-1, -1))"
    result = run_once(code, sandbox=sandbox)
    assert result.structured_content["exit_code"] == 1, result.value


@pytest.mark.exhaustive
def test_code_that_needs_much_processor_time_ends(nothing_left):
    result = run_once("while True: pass", cpu_seconds=1)
    assert result.structured_content["ended_by"] == "exit"
    assert result.structured_content["exit_code"] not in (0, None)


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_code_works_in_the_first_folder_of_the_workspace(sandbox, tmp_path):
    (tmp_path / "in.txt").write_text("3 4")
    code = "numbers = open('in.txt').read().split()\nopen('out.txt', 'w').write(' '.join(reversed(numbers)))"
    run_once(code, workspace=Workspace(tmp_path), sandbox=sandbox)
    assert (tmp_path / "out.txt").read_text() == "4 3"


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_code_uses_a_root_that_is_a_link_by_the_name_that_the_host_used(sandbox, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "helper.py").write_text("X = 1")
    (tmp_path / "link").symlink_to("disk")
    code = f"import helper; print(helper.__file__); open({str(tmp_path / 'link' / 'helper.py')!r}).read()"
    result = run_once(code, workspace=tmp_path / "link", sandbox=sandbox)
    assert result.structured_content["stdout"] == f"{tmp_path}/link/helper.py\n"
    assert result.structured_content["result"] == "'X = 1'"


def test_folders_can_be_named_without_a_workspace(tmp_path):
    for number, roots in enumerate([tmp_path, str(tmp_path), [tmp_path]]):
        run_once(f"open('file{number}', 'w').close()", workspace=roots, sandbox="auto")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["file0", "file1", "file2"]


@confined
def test_a_read_only_workspace_can_be_read_but_not_written(sandbox, tmp_path):
    (tmp_path / "in.txt").write_text("3 4")
    code = "print(open('in.txt').read())\nopen('in.txt', 'w')"
    result = run_once(code, workspace=Workspace(tmp_path, read_only=True), sandbox=sandbox)
    assert "3 4" in result.structured_content["stdout"]
    assert "OSError" in result.structured_content["stderr"]
    assert (tmp_path / "in.txt").read_text() == "3 4"


@confined
def test_a_call_may_use_the_roots_of_its_session_only(sandbox, tmp_path):
    inner, other = tmp_path / "inner", tmp_path / "other"
    inner.mkdir()
    other.mkdir()
    (other / "secret").write_text("host-secret")
    kit = Toolkit("code").add(PythonRunner(Workspace(tmp_path), sandbox=sandbox, approve="never"))
    code = f"import os; print(os.getcwd()); open({str(other / 'secret')!r}).read()"
    result = kit.session(roots=[inner]).exec("execute_python_code", {"code": code})
    assert str(inner) in result.value
    assert "FileNotFoundError" in result.value


@confined
def test_code_without_a_workspace_has_a_folder_that_is_gone_after_the_call(sandbox, nothing_left):
    first = run_once("import os; open('x', 'w').write('1'); print(os.listdir())", sandbox=sandbox)
    second = run_once("import os; print(os.listdir())", sandbox=sandbox)
    assert first.structured_content["stdout"] == "['x']\n"
    assert second.structured_content["stdout"] == "[]\n"


def test_without_a_sandbox_every_result_says_so():
    result = run_once("1", sandbox="none")
    assert "<note>No sandbox:" in result.value
    assert result.structured_content["sandbox"] == "none"


@confined
def test_with_a_sandbox_the_result_has_no_note(sandbox):
    result = run_once("1", sandbox=sandbox)
    assert "<note>" not in result.value
    assert result.structured_content["sandbox"] == "bubblewrap"


@confined
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to other users")
@pytest.mark.parametrize("keep_session", [False, True])
def test_the_result_says_that_the_sandbox_of_root_cannot_use_a_folder_of_another_user(sandbox, keep_session, tmp_path):
    os.chown(tmp_path, 4711, 4711)
    tmp_path.chmod(0o755)
    result = run_once("open('new', 'w')", workspace=tmp_path, sandbox=sandbox, keep_session=keep_session)
    assert "PermissionError" in result.structured_content["stderr"]
    assert f"cannot write to '{tmp_path}': it belongs to another user" in result.structured_content["notes"][0]


def _asking(sandbox, approve="risky"):
    asked = []
    kit = Toolkit("code", approver=lambda request: asked.append(request) or False)
    return kit.add(PythonRunner(sandbox=sandbox, approve=approve)), asked


def test_code_without_a_sandbox_needs_an_approval(tmp_path):
    kit, asked = _asking("none")
    result = kit.exec("execute_python_code", {"code": f"open({str(tmp_path / 'x')!r}, 'w')"})
    assert result.error.code == "rejected"
    assert len(asked) == 1
    assert not (tmp_path / "x").exists()


@confined
def test_code_in_a_sandbox_needs_no_approval(sandbox):
    kit, asked = _asking(sandbox)
    assert kit.exec("execute_python_code", {"code": "1"}).error is None
    assert asked == []


@confined
def test_the_host_may_approve_all_code(sandbox):
    kit, asked = _asking(sandbox, approve="always")
    code = "x = 1\n" * 200
    assert kit.exec("execute_python_code", {"code": code}).error.code == "rejected"
    assert asked[0].details["code"] == code


def test_an_approved_call_runs():
    kit = Toolkit("code", approver=lambda request: True).add(PythonRunner(sandbox="none"))
    assert kit.exec("execute_python_code", {"code": "6 * 7"}).structured_content["result"] == "42"


@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_cancelling_a_call_ends_its_code(sandbox, tmp_path, nothing_left):
    kit = Toolkit("code").add(PythonRunner(Workspace(tmp_path), sandbox=sandbox, approve="never"))
    code = "import subprocess, time\nsubprocess.Popen(['sleep', '600'])\nopen('started', 'w').close()\ntime.sleep(600)"
    call = asyncio.create_task(kit.aexec("execute_python_code", {"code": code}))
    await _until((tmp_path / "started").exists)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await _until(lambda: not left_processes() and not left_folders())


async def _until(is_true):
    """Wait until it is true. The timeout of the suite ends a wait without an end."""
    while not is_true():  # noqa: ASYNC110  # another process makes it true
        await asyncio.sleep(0.01)
