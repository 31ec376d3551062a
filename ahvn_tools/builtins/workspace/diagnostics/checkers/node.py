"""Node: the syntax of JavaScript files. `--check` parses and does not execute."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ahvn_tools.builtins.processes.result import ProcessResult
from ahvn_tools.builtins.workspace.diagnostics.checker import MAX_SINGLE_FILES, Checker, Command, UnreadableOutputError
from ahvn_tools.builtins.workspace.diagnostics.problem import Problem
from ahvn_tools.builtins.workspace.diagnostics.project_copy import ProjectCopy

_MODULE = re.compile(rb"^[ \t]*(?:import\b[ \t]*[\w{*\"']|export\b[ \t]*[\w{*])", re.MULTILINE)
_ERROR = re.compile(
    r"^\[stdin\]:(?P<line>\d+)\n(?:[^\n]*\n(?P<marks> *)\^)?.*?^(?P<message>\w*Error: [^\n]*)", re.MULTILINE | re.DOTALL
)


def _commands(copy: ProjectCopy, paths: Sequence[str]) -> Iterator[Command]:
    for path in paths[:MAX_SINGLE_FILES]:
        content = copy.read(path)
        is_module = path.endswith(".mjs") or (not path.endswith(".cjs") and _MODULE.search(content) is not None)
        kind = "module" if is_module else "commonjs"
        # By stdin: Node takes a module in a .js file for correct whatever it contains.
        yield Command(arguments=["--check", f"--input-type={kind}", "-"], paths=[path], stdin=content)


def _problems(_copy: ProjectCopy, command: Command, result: ProcessResult) -> Iterator[Problem]:
    if result.exit_code == 0:
        return
    found = _ERROR.search(result.stderr.text)
    if found is None:
        raise UnreadableOutputError("it did not return its results")
    yield Problem(
        path=command.paths[0], line=int(found["line"]), column=len(found["marks"] or "") + 1, severity="Error",
        message=found["message"], source="node", is_syntax_error=True,
    )  # fmt: skip


CHECKER = Checker(
    name="node", extensions=(".js", ".mjs", ".cjs"), programs=("node",), commands=_commands, problems=_problems,
    memory_bytes=None,
)  # fmt: skip
