"""`shell_exec`: its text, its limits, its approvals and its folders, with and without a sandbox."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from fastmcp import Client

from ahvn_tools import ApprovalRules, Toolkit
from ahvn_tools.builtins.processes.confinement import ProcessLimits, choose_sandbox
from ahvn_tools.builtins.python_runner import PythonRunner
from ahvn_tools.builtins.shell import CommandResult, Shell
from ahvn_tools.builtins.workspace import Workspace
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import CallRejectedError, DefinitionError, ToolError, ToolTimeoutError

NO_SANDBOX = "NOTE:\nNo sandbox: the command could use every file of this user and the network."
needs_bubblewrap = pytest.mark.skipif(choose_sandbox("auto") == "none", reason="bubblewrap does not work here")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to other users")
BOTH = ["none", pytest.param("bubblewrap", marks=needs_bubblewrap)]


def kit_of(shell: Shell, **options: Any) -> Toolkit:
    return Toolkit("shell", **options).add(shell)


def run(shell: Shell, cmd: str, **arguments: Any) -> CommandResult:
    return shell.shell_exec(cmd, ToolContext(), **arguments)


def processes_with(mark: str) -> list[psutil.Process]:
    """Return the processes that have a text in their arguments."""
    return [p for p in psutil.process_iter(["cmdline"]) if mark in " ".join(p.info["cmdline"] or [])]


@pytest.mark.parametrize("sandbox", BOTH)
def test_the_text_has_the_parts_that_are_not_empty(tmp_path: Path, sandbox: Any) -> None:
    shell = Shell(tmp_path, sandbox=sandbox, approve="never")
    note = "\n" + NO_SANDBOX if sandbox == "none" else ""
    both = run(shell, "echo one; echo two; echo three >&2; exit 3")
    assert str(both) == f"STDOUT:\none\ntwo\nSTDERR:\nthree\nERROR:\nThe command ended with exit code 3.{note}"
    assert (both.exit_code, both.ended_by, both.sandbox, both.is_truncated) == (3, "exit", sandbox, False)
    assert str(run(shell, "echo one")) == f"STDOUT:\none{note}"
    assert str(run(shell, "true")) == f"Command executed with no output.{note}"
    assert str(run(shell, "echo")) == f"STDOUT:\n{note}"
    assert str(run(shell, "false")) == f"ERROR:\nThe command ended with exit code 1.{note}"
    assert "ended by the signal SIGKILL" in str(run(shell, "kill -9 $$"))


@pytest.mark.parametrize("sandbox", BOTH)
def test_the_folder_is_the_first_root_or_one_inside(tmp_path: Path, sandbox: Any) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "out").symlink_to("/")
    shell = Shell(tmp_path, sandbox=sandbox, approve="never")
    assert run(shell, "pwd").stdout == f"{tmp_path}\n"
    for uri in ("inner", str(inner), inner.as_uri()):
        assert run(shell, "pwd", uri=uri).stdout == f"{inner}\n"
    for uri in ("..", "/", "out", "file", "missing", "/etc", "file:///etc", "inner/../.."):
        with pytest.raises(ToolError):
            run(shell, "pwd", uri=uri)


@pytest.mark.parametrize("sandbox", BOTH)
def test_a_command_may_change_the_workspace(tmp_path: Path, sandbox: Any) -> None:
    assert run(Shell(tmp_path, sandbox=sandbox, approve="never"), "echo hi > new").exit_code == 0
    assert (tmp_path / "new").read_text() == "hi\n"


@needs_bubblewrap
def test_a_sandbox_shows_no_other_file_and_no_network(tmp_path: Path) -> None:
    root, secret = tmp_path / "root", tmp_path / "secret"
    root.mkdir()
    secret.write_text("secret")
    shell = Shell(root, sandbox="bubblewrap", approve="never")
    assert run(shell, f"cat {secret}").exit_code == 1
    assert run(shell, f"touch {tmp_path}/new /etc/new ~/../new").exit_code == 1
    assert run(shell, "cat /proc/net/dev | grep -v lo: | grep -c :").stdout.strip() == "0"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["root", "secret"]


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """Return a root that is a link to a link, with a folder `sub`; next to what it leads to is a secret."""
    (tmp_path / "disk" / "project" / "sub").mkdir(parents=True)
    (tmp_path / "disk" / "secret").write_text("secret")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "first").symlink_to(tmp_path / "disk" / "project")
    (tmp_path / "home" / "root").symlink_to("first")
    return tmp_path / "home" / "root"


@pytest.mark.parametrize("sandbox", BOTH)
def test_a_root_that_is_a_link_has_the_name_that_the_host_used(
    linked: Path, monkeypatch: pytest.MonkeyPatch, sandbox: Any
) -> None:
    monkeypatch.chdir(linked.parent)
    for root in (linked, "root", "../home/root"):
        shell = Shell(root, sandbox=sandbox, approve="never")
        assert run(shell, f"pwd; cd sub && pwd && touch {linked}/new").stdout == f"{linked}\n{linked}/sub\n"
        assert run(shell, "pwd", uri=f"{linked}/sub").stdout == f"{linked}/sub\n"
        (linked / "new").unlink()


@needs_bubblewrap
def test_a_root_that_is_a_link_shows_nothing_but_the_root(linked: Path) -> None:
    (linked / ".git" / "hooks").mkdir(parents=True)
    (linked / ".git" / "config").touch()
    shell = Shell(linked, sandbox="bubblewrap", approve="never")
    listed = run(shell, f"cat {linked.resolve()}/../secret; ls {linked.resolve()}/.. {linked.parent}")
    assert listed.stdout.split() == [f"{linked.resolve()}/..:", "project", f"{linked.parent}:", "root"]
    assert run(shell, f"echo x > {linked}/.git/config; touch {linked}/.git/hooks/x").exit_code == 1
    assert (linked / ".git" / "config").read_text() == ""


@needs_bubblewrap
def test_a_link_that_a_command_has_changed_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    link = tmp_path / "root" / "link"
    link.symlink_to(tmp_path / "other")
    shell = Shell([tmp_path / "root", link], sandbox="bubblewrap", approve="never")
    assert run(shell, "pwd; touch new", uri=str(tmp_path / "other")).stdout == f"{link}\n"
    assert run(shell, f"ln -sfn {tmp_path}/outside {link}; cat {link}/secret").exit_code == 1
    assert run(shell, "pwd; ls", uri=str(tmp_path / "other")).stdout == f"{tmp_path}/other\nnew\n"


@needs_bubblewrap
@pytest.mark.parametrize("call_roots", ["narrow", "replace"])
def test_the_roots_of_a_call_have_the_names_that_the_host_used(linked: Path, call_roots: Any) -> None:
    workspace = Workspace(linked.resolve().parent, call_roots=call_roots)
    kit = kit_of(Shell(workspace, sandbox="bubblewrap", approve="never"))
    arguments = {"cmd": f"pwd; ls {linked}", "uri": str(linked.resolve())}
    assert kit.session(roots=[linked]).call("shell_exec", arguments).stdout == f"{linked}\nsub\n"
    part = {"cmd": "pwd", "uri": str(linked.resolve() / "sub")}
    narrow = kit_of(Shell(linked, sandbox="bubblewrap", approve="never")).session(roots=[linked.resolve() / "sub"])
    assert narrow.call("shell_exec", part).stdout == f"{linked}/sub\n"


@needs_bubblewrap
@as_root
@pytest.mark.parametrize(("mode", "verb"), [(0o755, "write to"), (0o700, "write to"), (0o777, None)])
def test_the_sandbox_of_root_says_which_folder_of_another_user_it_cannot_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, verb: str | None
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    os.chown(root, 4711, 4711)
    root.chmod(mode)
    problem = (
        f"Programs in this sandbox cannot {verb} '{root}': it belongs to another user, and they have no privileges"
    )
    shell, _ = Shell(root, approve="never"), PythonRunner(root)
    fix = "Run this Python as its owner, user 4711, or pass sandbox='none'."
    assert caplog.messages == ([] if verb is None else [f"{problem} of root. {fix}"])
    result = kit_of(shell).exec("shell_exec", {"cmd": "touch new"})
    assert (f"{problem} of root. Tell the user." in result.text) == (verb is not None)
    assert (root / "new").exists() == (verb is None)
    assert run(Shell(root, approve="never", sandbox="none"), "touch other").exit_code == 0


@needs_bubblewrap
@as_root
def test_a_folder_of_another_user_that_everybody_may_read_needs_no_note_where_it_is_read_only(tmp_path: Path) -> None:
    os.chown(tmp_path, 4711, 4711)
    tmp_path.chmod(0o755)
    assert str(run(Shell(Workspace(tmp_path, read_only=True), approve="never"), "pwd")) == f"STDOUT:\n{tmp_path}"


@needs_bubblewrap
def test_narrower_roots_of_a_call_hide_the_others(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    shell = Shell(tmp_path, sandbox="bubblewrap", approve="never")
    context = ToolContext(roots=(tmp_path / "a",))
    assert shell.shell_exec("cat file", context).stdout == "a"
    assert shell.shell_exec("cat ../b/file", context).exit_code == 1
    with pytest.raises(ToolError):
        shell.shell_exec("cat file", context, uri="../b")


def test_narrower_roots_without_a_sandbox_need_an_approval(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    kit = kit_of(Shell(tmp_path, sandbox="none", allow=["ls *"]), approver=lambda _: False, roots=[tmp_path / "a"])
    assert kit.exec("shell_exec", {"cmd": "ls"}).error.code == "rejected"


@needs_bubblewrap
def test_a_read_only_workspace_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    shell = Shell(Workspace(tmp_path, read_only=True), sandbox="bubblewrap", approve="never")
    assert run(shell, "echo new > file; rm file; touch other").exit_code != 0
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
    assert run(shell, "cat file").stdout == "old"


def test_a_read_only_workspace_without_a_sandbox_needs_an_approval_for_every_command(tmp_path: Path) -> None:
    asked = []
    workspace = Workspace(tmp_path, read_only=True)
    shell = Shell(workspace, sandbox="none", allow=["echo *"])
    kit = kit_of(shell, approver=lambda request: bool(asked.append(request)))
    assert kit.exec("shell_exec", {"cmd": "echo hi"}).error.code == "rejected"
    assert len(asked) == 1
    with pytest.raises(DefinitionError, match="read-only"):
        Shell(workspace, sandbox="none", approve="never")


def test_what_no_rule_allows_is_asked_and_does_not_run_before(tmp_path: Path) -> None:
    asked: list[Any] = []

    def approve(request: Any) -> bool:
        asked.append(request)
        return len(asked) == 1

    kit = kit_of(Shell(tmp_path, sandbox="none", allow=["pwd"], deny=["rm *"]), approver=approve)
    assert kit.exec("shell_exec", {"cmd": "pwd"}).value.exit_code == 0
    assert asked == []
    assert kit.exec("shell_exec", {"cmd": "touch one"}).value.exit_code == 0
    with pytest.raises(CallRejectedError):
        kit.call("shell_exec", {"cmd": "touch two; pwd"})
    with pytest.raises(ToolError, match=r"not permitted here. The rule 'rm \*' denies it"):
        kit.call("shell_exec", {"cmd": "pwd; rm one"})
    assert len(asked) == 2
    assert asked[1].action == "Run `touch two; pwd` in ."
    assert asked[1].details["reason"] == "No rule allows 'touch two'."
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_without_an_approver_a_command_waits_and_runs_after_the_approval(tmp_path: Path) -> None:
    kit = kit_of(Shell(tmp_path, sandbox="none"))
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "shell_exec", "arguments": '{"cmd": "echo hi >> one"}'},
    }
    waiting = kit.run({"tool_calls": [call]}, format="openai")
    assert waiting.pending[0].action == "Run `echo hi >> one` in ."
    assert list(tmp_path.iterdir()) == []
    [message] = kit.resume(waiting, approved=True)
    assert message["content"] == f"Command executed with no output.\n{NO_SANDBOX}"
    assert (tmp_path / "one").read_text() == "hi\n"


def test_an_approver_sees_invisible_characters(tmp_path: Path) -> None:
    seen: list[str] = []
    kit = kit_of(Shell(tmp_path, sandbox="none"), approver=lambda request: bool(seen.append(request.action)))
    kit.exec("shell_exec", {"cmd": "echo \u202e\x1b[8mhidden"})
    assert seen == [r"Run `echo \u202e\x1b[8mhidden` in ."]


def test_the_default_rules_read_files_only_in_a_sandbox(tmp_path: Path) -> None:
    kit = kit_of(Shell(tmp_path, sandbox="none"), approver=lambda _: False)
    assert kit.exec("shell_exec", {"cmd": "pwd"}).value.exit_code == 0
    assert kit.exec("shell_exec", {"cmd": "cat /etc/passwd"}).error.code == "rejected"
    if choose_sandbox("auto") == "bubblewrap":
        kit = kit_of(Shell(tmp_path), approver=lambda _: False)
        assert kit.exec("shell_exec", {"cmd": "ls | wc -l"}).value.stdout == "0\n"
        assert kit.exec("shell_exec", {"cmd": "touch x"}).error.code == "rejected"


@pytest.mark.parametrize(
    "cmd", ["", " \n", "a\0b", "\ud800", "x" * 100_001], ids=["empty", "blank", "NUL", "surrogate", "long"]
)
def test_what_is_no_command_is_an_error_for_the_model(tmp_path: Path, cmd: str) -> None:
    with pytest.raises(ToolError, match="`cmd`"):
        run(Shell(tmp_path, sandbox="none", approve="never"), cmd)


def test_a_long_command_runs(tmp_path: Path) -> None:
    shell = Shell(tmp_path, sandbox="none", approve="never")
    assert run(shell, "echo " + "x" * 99_000 + " | wc -c").stdout.strip() == "99001"
    assert "not found" in run(shell, "-x").stderr


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_a_timeout_is_a_positive_number(tmp_path: Path, timeout: float) -> None:
    with pytest.raises(ToolError, match="`timeout`"):
        run(Shell(tmp_path, sandbox="none", approve="never"), "pwd", timeout=timeout)


def test_a_shell_is_chosen_from_a_list(tmp_path: Path) -> None:
    shell = Shell(tmp_path, sandbox="none", approve="never", shells=["/bin/sh", "/bin/missing"])
    assert run(shell, "echo $0", shell_path="/bin/sh").stdout == "/bin/sh\n"
    for path in ("/bin/missing", "/bin/echo", "sh", "/bin/../bin/sh"):
        with pytest.raises(ToolError, match=r"must be one of /bin/sh\."):
            run(shell, "pwd", shell_path=path)
    for paths in (["/bin/missing"], ["sh"]):
        with pytest.raises(DefinitionError):
            Shell(tmp_path, sandbox="none", shells=paths)


def test_rules_do_not_apply_to_a_shell_with_another_language(tmp_path: Path) -> None:
    other = tmp_path / "zsh"
    shutil.copy("/bin/sh", other)
    kit = kit_of(
        Shell(tmp_path, sandbox="none", allow=["pwd"], shells=["/bin/sh", str(other)]), approver=lambda _: False
    )
    assert kit.exec("shell_exec", {"cmd": "pwd"}).value.exit_code == 0
    assert kit.exec("shell_exec", {"cmd": "pwd", "shell_path": str(other)}).error.code == "rejected"


def test_a_command_has_no_secret_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret-of-the-host")
    shell = Shell(tmp_path, sandbox="none", approve="never", environment={"MODE": "test"})
    variables = run(shell, "env").stdout
    assert "secret-of-the-host" not in variables
    assert "MODE=test" in variables


@needs_bubblewrap
def test_a_sandbox_shows_no_environment_of_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret-of-the-host")
    shell = Shell(tmp_path, sandbox="bubblewrap", approve="never")
    result = run(shell, "cat /proc/*/environ /proc/*/cmdline; ls -d /proc/[0-9]*")
    assert "secret-of-the-host" not in result.stdout
    assert f"/proc/{os.getpid()}\n" not in result.stdout


def test_control_and_invisible_characters_of_an_output_are_visible(tmp_path: Path) -> None:
    shell = Shell(tmp_path, sandbox="none", approve="never")
    cmd = r"printf '\033[31mred\033[0m\000 a\rb \033]0;title\007 \342\200\256x \033P \377'"
    assert run(shell, cmd).stdout == "b  \\u202ex \\x1bP \ufffd"
    assert run(shell, cmd.replace(r"\r", "")).stdout == "red\\x00 ab  \\u202ex \\x1bP \ufffd"


BAR = r"for n in 1 2 3; do printf '\rdownload %s0 %%' $n; printf '\r\033[K%s left' $n >&2; done; printf '\n'; echo done"


def test_a_progress_bar_has_its_last_state_and_a_note(tmp_path: Path) -> None:
    result = run(Shell(tmp_path, sandbox="none", approve="never"), BAR)
    assert (result.stdout, result.stderr) == ("download 30 %\ndone\n", "3 left")
    states = "Earlier states of lines that were overwritten, as by a progress bar"
    assert result.notes[0] == f"{states}, are left out: 2 of stdout, 2 of stderr."


def test_a_page_of_a_stored_output_has_the_last_states_and_says_so(tmp_path: Path) -> None:
    kit = kit_of(Shell(tmp_path, sandbox="none", approve="never", limits=ProcessLimits(kept_bytes=1000)))
    cmd = r"n=0; while [ $n -lt 300 ]; do n=$((n+1)); printf '\r%s of 300' $n; done; printf '\n'"
    output_id = kit.call("shell_exec", {"cmd": cmd}).output_id
    page = kit.call("shell_output", {"output_id": output_id, "start_byte": 2500})
    assert page.startswith("300 of 300\n\n[stdout: bytes 2,500 to ")
    assert "as by a progress bar, are left out: " in page


def test_a_stream_has_a_line_for_each_state_that_it_sends(tmp_path: Path) -> None:
    kit = kit_of(Shell(tmp_path, sandbox="none", approve="never"))
    cmd = r"printf 'one\r'; while [ ! -e go ]; do sleep 0.05; done; printf 'two\rthree\r'; printf '\nend\n'"
    text = ""
    for chunk in kit.stream("shell_exec", {"cmd": cmd}):
        text += chunk.value if not chunk.is_last else ""
        if text == "one":
            (tmp_path / "go").touch()
    assert text == "one\nthree\nend\n"


@pytest.mark.parametrize("sandbox", BOTH)
def test_a_result_says_when_background_processes_were_ended_with_the_command(tmp_path: Path, sandbox: Any) -> None:
    shell = Shell(tmp_path, sandbox=sandbox, approve="never")
    result = run(shell, "(setsid sleep 99 >/dev/null 2>&1 &); nohup sleep 99 & echo done")
    assert result.stdout == "done\n"
    assert result.notes[0].startswith("Processes that the command left in the background were ended with it.")
    for cmd in ("echo one | cat", "sleep 0.01 & wait"):
        assert "background" not in str(run(shell, cmd)), cmd


@pytest.mark.parametrize("sandbox", BOTH)
def test_both_streams_can_be_read_in_their_order(tmp_path: Path, sandbox: Any) -> None:
    kit = kit_of(Shell(tmp_path, sandbox=sandbox, approve="never"))
    result = kit.call("shell_exec", {"cmd": "echo a; echo b >&2; echo c; exit 3", "interleaved": True})
    assert (result.stdout, result.stderr, result.is_interleaved, result.exit_code) == ("a\nb\nc\n", "", True, 3)
    assert str(result).startswith("STDOUT AND STDERR:\na\nb\nc\nERROR:\n")


def test_a_stream_has_the_output_while_the_command_runs(tmp_path: Path) -> None:
    kit = kit_of(Shell(tmp_path, sandbox="none", approve="never"))
    cmd = "echo first; while [ ! -e go ]; do sleep 0.05; done; echo second"
    chunks = []
    for chunk in kit.stream("shell_exec", {"cmd": cmd}):
        chunks.append(chunk)
        if chunk.value == "first\n":
            (tmp_path / "go").touch()
    assert [chunk.value for chunk in chunks[:-1]] == ["first\n", "second\n"]
    assert chunks[-1].value.stdout == "first\nsecond\n"


@pytest.mark.parametrize("sandbox", BOTH)
def test_nothing_is_left_after_a_timeout(tmp_path: Path, sandbox: Any) -> None:
    mark = f"31{os.getpid()}.25"
    shell = Shell(tmp_path, sandbox=sandbox, approve="never", timeout=0.5)
    result = run(shell, f"(setsid sleep {mark} &) ; nohup sleep {mark} & trap '' TERM; sleep {mark}", timeout=99)
    assert (result.ended_by, result.exit_code) == ("timeout", None)
    assert "(timeout)" in str(result)
    assert processes_with(mark) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("sandbox", BOTH)
def test_what_was_written_before_a_timeout_is_in_the_result(tmp_path: Path, sandbox: Any) -> None:
    result = run(Shell(tmp_path, sandbox=sandbox, approve="never"), "echo begun; sleep 99", timeout=5)
    assert (result.ended_by, result.stdout) == ("timeout", "begun\n")


@pytest.mark.parametrize("sandbox", BOTH)
async def test_nothing_is_left_after_a_cancellation(tmp_path: Path, sandbox: Any) -> None:
    mark = f"32{os.getpid()}.25"
    kit = kit_of(Shell(tmp_path, sandbox=sandbox, approve="never"))
    call = asyncio.create_task(kit.acall("shell_exec", {"cmd": f"(setsid sleep {mark} &); touch begun; sleep {mark}"}))
    await until((tmp_path / "begun").exists)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await no_process_with(mark)


async def test_nothing_is_left_after_the_timeout_of_the_toolkit(tmp_path: Path) -> None:
    mark = f"33{os.getpid()}.25"
    kit = Toolkit("shell").add(Shell(tmp_path, sandbox="none", approve="never"), timeout=0.5)
    with pytest.raises(ToolTimeoutError):
        await kit.acall("shell_exec", {"cmd": f"setsid sleep {mark} & sleep {mark}"})
    await no_process_with(mark)


async def no_process_with(mark: str) -> None:
    """Wait until the thread of a call that has ended early has ended its processes."""
    await until(lambda: processes_with(mark) == [])


async def until(is_true: Callable[[], bool]) -> None:
    """Wait for something that other processes and threads do."""
    deadline = time.monotonic() + 30
    while not is_true():  # no event tells of it
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def test_a_long_output_is_read_back_in_pages(tmp_path: Path) -> None:
    shell = Shell(tmp_path, sandbox="none", approve="never", limits=ProcessLimits(kept_bytes=2000))
    kit = kit_of(shell).session(session_id="one")
    result = kit.call("shell_exec", {"cmd": "seq 1 5000 | sed 's/$/ é/'; seq 9 >&2"})
    expected = "".join(f"{number} é\n" for number in range(1, 5001))
    assert result.is_truncated
    assert result.stdout.startswith("1 é\n2 é\n")
    assert result.stdout.endswith("5000 é\n")
    assert "bytes left out" in result.stdout
    assert f'shell_output(output_id="{result.output_id}", stream="stdout", start_byte=1000)' in str(result)
    text, start = "", 0
    while start is not None:
        page = kit.call("shell_output", {"output_id": result.output_id, "start_byte": start})
        content, _, state = page.rpartition("\n[")
        text += content
        start = int(state.rpartition("start_byte=")[2].removesuffix(".]")) if "start_byte=" in state else None
    assert text == expected
    assert kit.call("shell_output", {"output_id": result.output_id, "stream": "stderr"}).startswith("1\n2\n")


def test_an_output_belongs_to_its_session_and_ends_with_the_shell(tmp_path: Path) -> None:
    with Shell(tmp_path, sandbox="none", approve="never", limits=ProcessLimits(kept_bytes=2000)) as shell:
        kit = kit_of(shell)
        result = kit.session(session_id="one").call("shell_exec", {"cmd": "seq 9999"})
        arguments = {"output_id": result.output_id}
        for session in (kit, kit.session(session_id="two")):
            with pytest.raises(ToolError, match="There is no output"):
                session.call("shell_output", arguments)
        with pytest.raises(ToolError, match="`start_byte` must be"):
            kit.session(session_id="one").call("shell_output", {**arguments, "start_byte": 10**9})
        [stored] = shell._outputs._outputs.values()
        spool = stored.streams["stdout"].spool
        assert spool.exists()
    assert not spool.exists()
    with pytest.raises(ToolError, match="There is no output"):
        kit.session(session_id="one").call("shell_output", arguments)


def test_an_output_that_is_not_stored_says_so(tmp_path: Path) -> None:
    limits = ProcessLimits(kept_bytes=100, spooled_bytes=0)
    result = run(Shell(tmp_path, sandbox="none", approve="never", limits=limits), "seq 999")
    assert "bytes of stdout are left out. They were not stored." in str(result)
    assert result.output_id is None


def test_an_unknown_signal_is_a_number(tmp_path: Path) -> None:
    assert "ended by the signal 40" in str(run(Shell(tmp_path, sandbox="none", approve="never"), "kill -40 $$"))


@pytest.mark.exhaustive
def test_a_stream_ends_at_a_limit_and_the_result_has_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ahvn_tools.builtins.shell.shell_tools.MAX_STREAMED_CHARS", 10)
    kit = kit_of(Shell(tmp_path, sandbox="none", approve="never"))
    cmd = "echo one; echo two; while [ ! -e go ]; do sleep 0.05; done; echo three; sleep 0.6; echo four"
    chunks = []
    for chunk in kit.stream("shell_exec", {"cmd": cmd}):
        chunks.append(chunk.value)
        (tmp_path / "go").touch()
    assert "".join(chunks[:-1]) == "one\ntwo\nth\n[… the command writes on; the result has the end of its output …]\n"
    assert chunks[-1].stdout == "one\ntwo\nthree\nfour\n"


@pytest.mark.exhaustive
@pytest.mark.parametrize("sandbox", BOTH)
def test_a_flood_is_read_in_bounded_memory_and_time(tmp_path: Path, sandbox: Any) -> None:
    limits = ProcessLimits(spooled_bytes=1_000_000)
    with Shell(tmp_path, sandbox=sandbox, approve="never", limits=limits, timeout=60) as shell:
        kit = kit_of(shell)
        before = psutil.Process().memory_info().rss
        chunks = list(kit.stream("shell_exec", {"cmd": "yes | head -c 3000000000; yes err | head -c 100000000 >&2"}))
        result = chunks[-1].value
        assert result.exit_code == 0
        assert "3,000,000,000 bytes of stdout" in str(result)
        assert sum(len(chunk.value) for chunk in chunks[:-1]) < 1_300_000
        assert psutil.Process().memory_info().rss - before < 200_000_000
        end = shell.shell_output(result.output_id, ToolContext(), start_byte=999_000)
        assert "Only the first 1,000,000 bytes were stored" in end


def test_commands_run_at_the_same_time(tmp_path: Path) -> None:
    kit = kit_of(Shell(tmp_path, sandbox="none", approve="never"))
    results: list[Any] = []
    waits = "while [ ! -e {} ]; do sleep 0.02; done"
    cmds = [f"touch a; {waits.format('b')}", f"touch b; {waits.format('a')}"]
    threads = [
        threading.Thread(target=lambda cmd=cmd: results.append(kit.call("shell_exec", {"cmd": cmd}))) for cmd in cmds
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.exit_code for result in results] == [0, 0]


async def test_a_client_of_a_server_reads_the_text(tmp_path: Path) -> None:
    with Shell(tmp_path, sandbox="none", approve="never", limits=ProcessLimits(kept_bytes=2000)) as shell:
        async with Client(kit_of(shell).to_fastmcp_server(session=lambda _: "one")) as client:
            hints = {tool.name: tool.annotations for tool in await client.list_tools()}
            assert hints["shell_exec"].destructive_hint
            assert hints["shell_output"].read_only_hint
            result = await client.call_tool("shell_exec", {"cmd": "echo hi; exit 2"})
            assert result.content[0].text == f"STDOUT:\nhi\nERROR:\nThe command ended with exit code 2.\n{NO_SANDBOX}"
            long = await client.call_tool("shell_exec", {"cmd": "seq 9999"})
            output_id = long.content[0].text.partition('output_id="')[2][:16]
            page = await client.call_tool("shell_output", {"output_id": output_id})
            assert page.content[0].text.startswith("1\n2\n")


def test_the_model_sees_the_parameters_of_the_seed(tmp_path: Path) -> None:
    kit = kit_of(Shell(tmp_path, sandbox="none"))
    assert list(kit["shell_exec"].params) == ["cmd", "uri", "shell_path", "timeout", "interleaved"]
    for tool in kit:
        assert all(schema.get("description") for schema in tool.definition.input_schema["properties"].values())


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"job_timeout": -1},
        {"approve": "sometimes"},
        {"sandbox": "x"},
        {"allow": "ls"},
        {"max_jobs": 0},
    ],
)
def test_a_mistake_of_the_host_is_a_definition_error(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        Shell(tmp_path, **{"sandbox": "none", **options})


def test_rules_of_a_toolkit_decide_about_commands_and_folders(tmp_path: Path):
    rules = ApprovalRules(
        allow=['shell_exec(cmd: "echo *", uri: ".")'], deny=['*(cmd: "rm *")', '*(uri: "secrets/**")']
    )
    (tmp_path / "secrets").mkdir()
    with Shell(tmp_path, sandbox="none", approve="never") as shell:
        kit = Toolkit("commands", rules=rules).add(shell)
        assert kit.call("shell_exec", {"cmd": "echo one"}).stdout == "one\n"
        for arguments, code in (
            ({"cmd": "echo one; ls"}, "approval_required"),
            ({"cmd": "echo one", "uri": "./secrets"}, "rejected"),
            ({"cmd": "echo one; rm x"}, "rejected"),
        ):
            assert kit.exec("shell_exec", arguments).error.code == code  # type: ignore[union-attr]
        assert kit.exec("start_job", {"cmd": "/bin/rm x"}).error.code == "rejected"  # type: ignore[union-attr]
