"""javac: the syntax of Java files. It stops after parsing, and runs no annotation processors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ahvn_tools.builtins.processes.result import ProcessResult
from ahvn_tools.builtins.workspace.diagnostics.checker import Checker, Command, UnreadableOutputError
from ahvn_tools.builtins.workspace.diagnostics.problem import Problem
from ahvn_tools.builtins.workspace.diagnostics.project_copy import ProjectCopy

# Types are not checked: the packages that the project needs are not known here.
_OPTIONS = (
    "-J-Xmx512m", "-J-XX:+UseSerialGC", "-proc:none", "-implicit:none", "-Xlint:none", "-encoding", "UTF-8",
    "-XDshould-stop.ifError=PARSE", "-XDshould-stop.ifNoError=PARSE", "-Xmaxerrs", "200",
)  # fmt: skip
_ERROR = re.compile(
    r"^(?P<path>/[^\n]*\.java):(?P<line>\d+): (?P<kind>error|warning): (?P<message>[^\n]*)"
    r"(?:\n[^\n]*\n(?P<marks> *)\^)?",
    re.MULTILINE,
)


def _commands(copy: ProjectCopy, paths: Sequence[str]) -> list[Command]:
    places = ["-d", str(copy.settings_folder), "-classpath", str(copy.settings_folder)]
    return [Command(arguments=[*_OPTIONS, *places, *map(copy.absolute, paths)], paths=paths)]


def _problems(copy: ProjectCopy, _command: Command, result: ProcessResult) -> Iterator[Problem]:
    found = list(_ERROR.finditer(result.stderr.text))
    if not found and result.exit_code != 0:
        raise UnreadableOutputError("it did not return its results")
    for item in found:
        if path := copy.relative(item["path"]):
            yield Problem(
                path=path, line=int(item["line"]), column=len(item["marks"] or "") + 1, message=item["message"],
                severity="Error" if item["kind"] == "error" else "Warning", source="javac", is_syntax_error=True,
            )  # fmt: skip


CHECKER = Checker(
    name="javac", extensions=(".java",), programs=("javac",), commands=_commands, problems=_problems, seconds=60.0,
    memory_bytes=None,
)  # fmt: skip
