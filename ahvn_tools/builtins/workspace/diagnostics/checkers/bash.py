"""Bash: the syntax of shell scripts. `-n` parses and does not execute."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ahvn_tools.builtins.processes.result import ProcessResult
from ahvn_tools.builtins.workspace.diagnostics.checker import MAX_SINGLE_FILES, Checker, Command
from ahvn_tools.builtins.workspace.diagnostics.problem import Problem
from ahvn_tools.builtins.workspace.diagnostics.project_copy import ProjectCopy

_ERROR = re.compile(r"line (?P<line>\d+): (?P<message>.*)$", re.MULTILINE)


def _commands(copy: ProjectCopy, paths: Sequence[str]) -> Iterator[Command]:
    for path in paths[:MAX_SINGLE_FILES]:
        yield Command(arguments=["--norc", "--noprofile", "-n", copy.absolute(path)], paths=[path])


def _problems(copy: ProjectCopy, command: Command, result: ProcessResult) -> Iterator[Problem]:
    path = command.paths[0]
    for line in result.stderr.text.splitlines():
        prefix = f"{copy.absolute(path)}: "
        found = _ERROR.match(line.removeprefix(prefix)) if line.startswith(prefix) else None
        if found is not None and not found["message"].startswith("`"):  # a second line that repeats the source
            yield Problem(
                path=path, line=int(found["line"]), column=1, message=found["message"], source="bash",
                severity="Warning" if result.exit_code == 0 else "Error", is_syntax_error=True,
            )  # fmt: skip


CHECKER = Checker(name="bash", extensions=(".sh", ".bash"), programs=("bash",), commands=_commands, problems=_problems)
