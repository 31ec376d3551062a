"""What the rules allow, run in real shells with programs that record their start: no other program starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ahvn_tools.builtins.shell.command_preparation import shell_arguments
from ahvn_tools.builtins.shell.rules import CommandRules
from ahvn_tools.command_line import NotUnderstoodError, split_command_line

ALLOWED = ("ls", "cat", "grep")
OTHERS = ("evil", "x", "a", "b", "lsx", "E", "touch", "then", "1", "2", "-x", "=", "a=b", "A=evil")
SHELLS = [pytest.param(path, id=path.rpartition("/")[2]) for path in ("/bin/bash", "/bin/dash")]

RECORDER = """#!/bin/sh
{ for word in "${0##*/}" "$@"; do printf '%s\\0' "$word"; done; } > "$RECORDS/$$"
"""

WORDS = [
    *ALLOWED,
    "evil",
    "x",
    "a",
    "-x",
    "1",
    "2",
    "a=b",
    "./evil",
    "~",
    "HEAD^",
    "*",
    "./*",
    "[a]",
    "?",
    "é",
    "then",
    "if",
]
SIGNS = [
    " ", " ", " ", "\t", "\n", ";", "&", "&&", "||", "|", "#", "'", '"', "\\", "$", "`", "(", ")", "{", "}", "<", ">",
    "!", "~", "=", "$(", "${", "<<", "<<E\n", ">&", "2>&1", ">/dev/null", " 2>/dev/null", "</dev/null", "\\\n", "''",
    '""', "'; evil'", '"; evil"', "\u00a0", "\u2028", "\r", "\v", "\x85", "%", "^", "@", "+", ",", ":",
]  # fmt: skip
NEARLY_ALLOWED = st.tuples(
    st.sampled_from(ALLOWED), st.lists(st.sampled_from([*WORDS, *SIGNS]), max_size=8).map("".join)
).map("".join)
SIMPLE = st.lists(
    st.tuples(
        st.sampled_from(ALLOWED),
        st.lists(
            st.sampled_from([" ", *WORDS, "'a b'", '"a\\"b"', "'$(evil)'", " # evil", ' "`"', " 2>&1"]), max_size=5
        ),
        st.sampled_from([";", " & ", "&&", " || ", "|", "\n", ";\n", "&&\n"]),
    ).map(lambda parts: f"{parts[0]} {''.join(parts[1])}{parts[2]}"),
    min_size=1,
    max_size=4,
).map("".join)
HOSTILE = [
    "$(evil)", "`evil`", '"$(evil)"', '"`evil`"', '"${x:-$(evil)}"', "$x", "${x}", "$", "$'a'", "$((1))", "\\",
    "\\;evil", "\\\n", "\\'", '\\"', "\\$", ">x", ">>x", ">|x", "<x", "&>x", "1>x", "(evil)", "<(evil)",
    ">(evil)", "()", "{evil;}", "{a,b}", "{a..c}", ";evil", "&evil", "|evil", "||evil", "&&evil", "\nevil\n",
    "\revil", "#", " #", "#\n", "'", '"', "' evil", '" evil', "\n(evil)\n", "; x=1 ", "evil ", "evil;", "!",
    "2>&1", "2>&1x", ">&1x", "2>/dev/null", "\t", "~", ">/dev/null;", " >/dev/null/", "*", "<<E\nevil\nE\n",
    "<<<x", ";;", "|&", "&;", "=", "+=", "[", "]", "\ufeff", "\u0000", "\u00a0evil", ";(ls)", "|{ cat;}",
    "; ls() { evil; }; ls",
]  # fmt: skip


def _insert(line: str, changes: list[tuple[int, str]]) -> str:
    for place, text in changes:
        position = place % (len(line) + 1)
        line = line[:position] + text + line[position:]
    return line


CHANGED = st.builds(
    _insert,
    SIMPLE,
    st.lists(st.tuples(st.integers(3, 24), st.sampled_from(HOSTILE)), min_size=1, max_size=2),
)


LINES = st.one_of(CHANGED, CHANGED, NEARLY_ALLOWED, SIMPLE)


class RecordedShell:
    """A shell in an empty folder, with a PATH of programs that record their words."""

    def __init__(self, shell: str) -> None:
        self.shell = shell
        self.place = Path(tempfile.mkdtemp())
        self.folder, self.records, self.programs = (self.place / name for name in ("folder", "records", "programs"))
        for folder in (self.folder, self.records, self.programs):
            folder.mkdir()
        for name in (*ALLOWED, *OTHERS):
            program = self.programs / name
            program.write_text(RECORDER)
            program.chmod(0o755)

    def started_by(self, line: str) -> list[tuple[str, ...]]:
        """Return the words of every program that a line starts."""
        environment = {"PATH": str(self.programs), "RECORDS": str(self.records), "HOME": "/home/me", "LANG": "C.UTF-8"}
        process = subprocess.run(
            shell_arguments(self.shell, line), cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=30, check=False,
        )  # fmt: skip
        assert process.returncode is not None
        started = [tuple(file.read_bytes().decode().split("\0")[:-1]) for file in self.records.iterdir()]
        for file in self.records.iterdir():
            file.unlink()
        return started

    def close(self) -> None:
        shutil.rmtree(self.place)


def check(shell: RecordedShell, line: str) -> int:
    """Run a line if the rules allow it. Return how many programs started."""
    if CommandRules([f"{name} *" for name in ALLOWED], []).judge(line).decision != "allowed":
        return 0
    expected = [command.words for command in split_command_line(line)]
    started = [tuple(word.replace("/home/me", "~") for word in words) for words in shell.started_by(line)]
    assert set(started) <= set(expected), line
    assert len(started) <= len(expected), line
    assert list(shell.folder.iterdir()) == [], line
    return len(started)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX shells")
@pytest.mark.parametrize("path", SHELLS)
@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_only_allowed_programs_start_with_the_words_that_were_read(path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"{path} is not installed")
    shell = RecordedShell(path)
    runs = started = 0

    @settings(max_examples=4000, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(LINES)
    @example("ls; cat 'a;b' | grep x & ls")
    def property_of(line: str) -> None:
        nonlocal runs, started
        count = check(shell, line)
        runs += count > 0
        started += count

    try:
        property_of()
    finally:
        shell.close()
    assert runs > 300
    assert started > 500


@pytest.mark.exhaustive
@given(st.text(max_size=60))
@settings(max_examples=2000, database=None)
def test_every_text_is_understood_or_refused(text: str) -> None:
    """Nothing but NotUnderstoodError is raised, and no command is empty."""
    try:
        commands = split_command_line(text)
    except NotUnderstoodError:
        return
    assert all(command.words and command.program for command in commands)


@pytest.mark.parametrize("path", SHELLS)
def test_a_shell_reads_the_words_as_the_rules_do(path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"{path} is not installed")
    shell = RecordedShell(path)
    try:
        line = """ls a'b c'"d\\"e\\f|" '' 'l\n2' 2>&1 </dev/null; grep HEAD^ ./* [ab]# \n"""
        assert check(shell, line) == 0  # a wildcard first
        line = """ls a'b c'"d\\"e\\f|" '' 'l\n2' 2>&1 </dev/null; grep HEAD^ ./* ~ a=b # evil\ncat && grep a & ls"""
        assert check(shell, line) == 5
    finally:
        shell.close()
