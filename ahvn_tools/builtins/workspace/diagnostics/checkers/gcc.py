"""GCC: errors and warnings of C and C++ files, which are not compiled.

A source file can make the compiler read any file: `#include "/etc/passwd"` shows its words in messages. It runs in a
sandbox only, and its messages are used only if every file that it has read is the project's or a header of the system.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from ahvn_tools.builtins.processes.result import ProcessResult
from ahvn_tools.builtins.workspace.diagnostics.checker import MAX_SINGLE_FILES, Checker, Command, UnreadableOutputError
from ahvn_tools.builtins.workspace.diagnostics.problem import Problem
from ahvn_tools.builtins.workspace.diagnostics.project_copy import ProjectCopy

_MESSAGE = re.compile(
    r"^(?P<path>/[^\n:]*):(?P<line>\d+):(?P<column>\d+): (?P<kind>fatal error|error|warning): (?P<message>[^\n]*)$",
    re.MULTILINE,
)
_INCLUDED = re.compile(r"^(?:\.+|!|x) (?P<path>/[^\n]*)$", re.MULTILINE)
_SYSTEM_FOLDERS = ("/usr/include/", "/usr/lib/", "/usr/lib64/", "/usr/local/include/")
_SPLICE = re.compile(rb"(?:\\|\?\?/)[ \t\f\v]*\r?\n")


def _commands(copy: ProjectCopy, paths: Sequence[str]) -> Iterator[Command]:
    folders = [f"-I{copy.folder}", f"-I{copy.folder / 'include'}", f"-I{copy.folder / 'src'}"]
    options = ["-fsyntax-only", "-Wall", "-H", "-fdiagnostics-color=never", "-fmax-errors=50", *folders]
    for path in paths[:MAX_SINGLE_FILES]:
        yield Command(arguments=[*options, copy.absolute(path)], paths=[path])


def _problems(copy: ProjectCopy, command: Command, result: ProcessResult) -> Iterator[Problem]:
    output = result.stderr.text
    _check_included(copy, command, output)
    for found in _MESSAGE.finditer(output):
        if path := copy.relative(found["path"]):
            is_missing_header = found["message"].endswith(": No such file or directory")
            yield Problem(
                path=path, line=int(found["line"]), column=int(found["column"]), message=found["message"], source="gcc",
                # Where the headers of other packages are is not known here.
                severity="Warning" if found["kind"] == "warning" or is_missing_header else "Error",
            )  # fmt: skip
    if result.exit_code and not _MESSAGE.search(output):
        raise UnreadableOutputError("it did not return its results")


def _check_included(copy: ProjectCopy, command: Command, output: str) -> None:
    """Raise UnreadableOutputError if the compiler may have read a file that is neither the project's nor a header."""
    included = [found["path"] for found in _INCLUDED.finditer(output)]
    own = [path for place in included if (path := copy.relative(place)) is not None]
    others = [place for place in included if copy.relative(place) is None]
    if any(not os.path.realpath(place).startswith(_SYSTEM_FOLDERS) for place in others):
        raise UnreadableOutputError(f"{command.paths[0]} includes a file of another folder")
    # #embed is not among the files that -H names.
    if any(re.search(rb"\bembed\b", _SPLICE.sub(b"", copy.read(path))) for path in [*command.paths, *own]):
        raise UnreadableOutputError(f"{command.paths[0]} uses #embed")


CHECKER = Checker(
    name="gcc", extensions=(".c", ".cc", ".cpp", ".cxx"), programs=("gcc",), commands=_commands, problems=_problems,
    needs_sandbox=True,
)  # fmt: skip
