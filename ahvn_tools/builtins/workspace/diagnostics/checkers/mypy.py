"""Mypy: types of Python files, where Pyright is not installed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from ahvn_tools.builtins.processes.result import ProcessResult
from ahvn_tools.builtins.workspace.diagnostics.checker import Checker, Command, UnreadableOutputError
from ahvn_tools.builtins.workspace.diagnostics.problem import Problem
from ahvn_tools.builtins.workspace.diagnostics.project_copy import ProjectCopy

_OPTIONS = (
    "--config-file=", "--cache-dir=/dev/null", "--output=json", "--no-error-summary", "--ignore-missing-imports",
    "--follow-imports=silent", "--namespace-packages", "--explicit-package-bases", "--no-site-packages",
)  # fmt: skip


def _commands(copy: ProjectCopy, paths: Sequence[str]) -> Iterator[Command]:
    modules = [path for path in paths if all(part.isidentifier() for part in PurePosixPath(path).with_suffix("").parts)]
    if modules:  # mypy checks nothing at all if one path is not the name of a module
        python = f"--python-executable={os.path.realpath(sys.executable)}"
        yield Command(arguments=[*_OPTIONS, python, "--", *map(copy.absolute, modules)], paths=modules)


def _problems(copy: ProjectCopy, _command: Command, result: ProcessResult) -> Iterator[Problem]:
    for line in result.stdout.head.splitlines():
        try:
            item = json.loads(line)
        except ValueError:
            raise UnreadableOutputError("it did not return its results") from None
        path = copy.relative(item["file"])
        if path is not None and item["severity"] in ("error", "warning"):
            rule = item.get("code") or ""
            yield Problem(
                path=path, line=max(item["line"], 1), column=max(item["column"] + 1, 1), message=item["message"],
                severity="Error" if item["severity"] == "error" else "Warning",
                source=f"mypy {rule}".strip(), is_syntax_error=rule == "syntax",
            )  # fmt: skip
    if result.exit_code not in (0, 1) and not result.stdout.head:
        raise UnreadableOutputError("it failed")


CHECKER = Checker(
    name="mypy", extensions=(".py", ".pyi"), programs=("mypy",), commands=_commands, problems=_problems,
    is_type_checker=True, unless="pyright", seconds=90.0,
)  # fmt: skip
