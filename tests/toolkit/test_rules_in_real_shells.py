"""What a real shell runs: no line that runs a denied program is allowed, and an allowed line runs no other program."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ahvn_tools import ApprovalRules, Toolkit

SHELLS = [name for name in ("dash", "bash", "sh") if shutil.which(name)]

PARTS = [
    "rm", "rm x", "r", "m", "git", "git status", "git push", "''", '""', "'", '"', "\\", "$", "$X", "X=rm",
    "X=git", ";", "&&", "||", "|", "&", "env", "sh -c", "eval", "command", "exec", "xargs", "echo", "`", "$(", "(",
    ")", "{", "}", "\n", " ", " ", " ", "!", "if", "then", "fi", "true", ".", "-c", "#", "$'rm'", "r?", "${X}",
    "$@", "<<", "E", "\t", "=", "~", "*", "set --", "printf rm", "read X", "[ a ]",
]  # fmt: skip
"""No part that writes a file, and no absolute path: the shell finds only the programs of the test."""

lines = st.lists(st.sampled_from(PARTS), min_size=1, max_size=9).map("".join) | st.lists(
    st.sampled_from(PARTS), min_size=1, max_size=7
).map(" ".join)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with programs that note how they were called, and a few real ones."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("rm", "git"):
        program = folder / name
        program.write_text(f'#!/bin/sh\nprintf "%s\\0" "{name} $*" >> "$RAN"\n')
        program.chmod(0o755)
    for name in ("sh", "env", "xargs"):
        (folder / name).symlink_to(shutil.which(name) or name)
    return folder


def programs_run_by(line: str, programs: Path, shell: str) -> list[str]:
    """Return how the programs of the test are called by a line."""
    ran, empty = programs.parent / "ran.txt", programs.parent / "empty"
    empty.mkdir(exist_ok=True)
    ran.unlink(missing_ok=True)
    environment = {"PATH": str(programs), "RAN": str(ran), "HOME": str(empty)}
    command = [shutil.which(shell) or shell, "-c", line]
    with subprocess.Popen(
        command, cwd=empty, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            process.wait(timeout=20)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
    return ran.read_text().split("\0")[:-1] if ran.exists() else []


def decide(line: str, rules: ApprovalRules) -> str:
    kit = Toolkit("shell", rules=rules)

    @kit.tool
    def run(cmd: str) -> str:
        """Run a command."""
        return cmd

    return kit.explain("run", {"cmd": line}).decision


@pytest.mark.parametrize("shell", SHELLS)
@given(line=lines)
@settings(max_examples=100, deadline=None)
def test_no_line_that_runs_a_denied_program_is_allowed(programs: Path, shell: str, line: str):
    decision = decide(line, ApprovalRules(mode="allow", deny=['run(cmd: "rm *")']))
    if decision == "allow":
        assert not any(ran.startswith("rm") for ran in programs_run_by(line, programs, shell))


@pytest.mark.parametrize("shell", SHELLS)
@given(line=lines)
@settings(max_examples=100, deadline=None)
def test_an_allowed_line_runs_what_its_rule_says(programs: Path, shell: str, line: str):
    line = f"git status {line}"
    if decide(line, ApprovalRules(mode="ask", allow=['run(cmd: "git status*")'])) == "allow":
        ran = programs_run_by(line, programs, shell)
        assert all(one.startswith("git status") for one in ran), ran
