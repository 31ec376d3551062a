"""`ahvn-tools call` in a terminal: questions, approvals, progress, colors, Ctrl-C."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import pytest

from tests.cli.desk import DESK
from tests.cli.served import COMMAND, ENVIRONMENT, LONGEST

pexpect = pytest.importorskip("pexpect", reason="pexpect is not installed")
psutil = pytest.importorskip("psutil", reason="psutil is not installed")

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no terminals for pexpect's spawn"),
    pytest.mark.exhaustive,
]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "desk.py").write_text(DESK)
    return tmp_path


@pytest.fixture
def call(desk):
    """Return a function that starts the command in a terminal; what is left of it is killed after the test."""
    children = []

    def start(*words: str, **environment: str):
        kept = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}}
        child = pexpect.spawn(
            COMMAND[0],
            [*COMMAND[1:], "call", "desk.py", *words],
            cwd=str(desk),
            env={**kept, **ENVIRONMENT, "TERM": "xterm-256color", **environment},
            dimensions=(40, 120),
            encoding="utf-8",
            timeout=LONGEST,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.close(force=True)


def end(child) -> int:
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


def test_missing_arguments_are_asked_for_until_they_fit(call):
    child = call("login", "name=ann")
    child.expect_exact("password (a text)")
    child.expect_exact("(hidden)")
    child.waitnoecho(timeout=LONGEST)
    child.sendline("canary")
    child.expect_exact('color (one of "red", "green")')
    shown = child.before
    child.expect_exact("color=")
    child.sendline("blue")
    child.expect_exact('\'color\' should be one of "red", "green".')
    child.expect_exact("color=")
    child.sendline("red")
    child.expect_exact("level (an integer)")
    for wrong, message in (
        ("0", "'level' should be at least 1."),
        ("x", "'level' should be an integer."),
        ("", "requ"),
    ):
        child.expect_exact("level=")
        child.sendline(wrong)
        child.expect_exact(message)
    child.expect_exact("level=")
    child.sendline("2")
    child.expect_exact("6 red 2")
    assert end(child) == 0
    assert "canary" not in shown


@pytest.mark.parametrize(("words", "prompt"), [(["wipe"], "path="), (["login", "name=a"], "(hidden)")])
def test_the_end_of_the_input_is_an_error_and_ctrl_c_ends_the_command(call, words, prompt):
    child = call(*words)
    child.expect_exact(prompt)
    child.sendeof()
    child.expect_exact("error: The input ended before all required parameters had a value.")
    assert end(child) == 2
    child = call(*words)
    child.expect_exact(prompt)
    child.sendintr()
    assert end(child) == 130


@pytest.mark.parametrize(
    ("words", "question", "result"),
    [
        (["wipe", "path=a", "token=canary"], 'wipe wants to run with {"path": "a", "token": "***"}', "wiped a"),
        (["ask", "path=a\x1b[2J"], 'ask asks: delete a\\x1b[2J {"path": "a\\u001b[2J"}', "deleted"),
        (["ask_later", "path=a"], 'ask_later asks: delete a {"path": "a"}', "deleted"),
    ],
)
def test_a_person_approves_or_rejects_what_a_tool_asks_for(call, words, question, result):
    child = call(*words)
    child.expect_exact(question)
    child.expect_exact("Approve? [y/N]")
    child.sendline("perhaps")
    child.expect_exact("Answer y or n.")
    child.expect_exact("Approve? [y/N]")
    child.sendline("y")
    child.expect_exact(result)
    assert end(child) == 0
    child = call(*words)
    child.expect_exact("Approve? [y/N]")
    child.sendline("")
    child.expect_exact("was rejected")
    assert end(child) == 1
    child = call(*words)
    child.expect_exact("Approve? [y/N]")
    child.sendintr()
    assert end(child) == 130


def test_progress_is_a_bar_that_is_gone_in_the_end(call):
    child = call("count", "to=3", "seconds=0.3")
    child.expect_exact("step 1 \\x1b[2J")
    assert end(child) == 0
    assert "output 2 \\x1b[2J" in child.before
    assert "\x1b[2J" not in child.before
    assert "\x1b[?25h" in child.before  # the cursor is shown again
    assert not re.search("[━╸]", child.before.rpartition("\x1b[2K")[2])


def test_texts_cannot_control_the_terminal_and_objects_are_printed_in_color(call):
    child = call("hostile")
    child.expect_exact("a\\x1b[2J\\u202eb")
    assert end(child) == 0
    child = call("hostile", "--json")
    assert end(child) == 0
    assert "\u202e" not in child.before
    child = call("echo", "text=a")
    assert end(child) == 0
    assert re.search(r'\x1b\[[0-9;]+m"text"\x1b\[0m', child.before)
    child = call("echo", "text=a", NO_COLOR="1")
    assert end(child) == 0
    assert '"text": "a"' in re.sub(r"\x1b\[[012]m", "", child.before)
    assert "\x1b[3" not in child.before


@pytest.mark.parametrize(
    ("words", "cleanup"),
    [(["sleep"], True), (["asleep"], True), (["isolated"], False), (["count", "to=3", "seconds=600"], False)],
)
def test_ctrl_c_ends_the_call_and_all_of_its_processes(call, desk, words, cleanup):
    started = desk / "started"
    child = call(*words, DESK_STARTED=str(started))
    wait_until(lambda: started.exists() and started.read_text())
    processes = [psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)]
    child.sendintr()
    assert end(child) == 130
    assert ("cleaned up" in child.before) is cleanup
    assert "Traceback" not in child.before
    assert psutil.wait_procs(processes[1:], LONGEST)[1] == []


def wait_until(condition) -> None:
    deadline = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
