"""Ruff: errors in Python files, and names that are undefined or unused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ahvn_tools.builtins.processes.result import ProcessResult
from ahvn_tools.builtins.workspace.diagnostics.checker import Checker, Command, UnreadableOutputError
from ahvn_tools.builtins.workspace.diagnostics.problem import Problem
from ahvn_tools.builtins.workspace.diagnostics.project_copy import ProjectCopy

_SYNTAX_RULES = (None, "invalid-syntax", "E902", "E999")
"""E902: the file is no UTF-8."""
_ERROR_RULES = ("E9", "F50", "F63", "F7", "F82", "PLE")


def _commands(copy: ProjectCopy, paths: Sequence[str]) -> list[Command]:
    options = ["check", "--isolated", "--no-cache", "--no-fix", "--force-exclude", "--output-format=json", "--quiet"]
    rules = ["--select=F,E9,PLE", "--exit-zero"]
    return [Command(arguments=[*options, *rules, "--", *map(copy.absolute, paths)], paths=paths)]


def _problems(copy: ProjectCopy, _command: Command, result: ProcessResult) -> Iterator[Problem]:
    try:
        found = json.loads(result.stdout.head)
    except ValueError:
        raise UnreadableOutputError("it did not return its results") from None
    for item in found:
        path, rule = copy.relative(item["filename"]), item["code"]
        is_syntax_error = rule in _SYNTAX_RULES
        place = item["location"] or {"row": 1, "column": 1}
        if path is not None:
            yield Problem(
                path=path, line=place["row"], column=place["column"], message=item["message"],
                severity="Error" if is_syntax_error or rule.startswith(_ERROR_RULES) else "Warning",
                source="ruff" if is_syntax_error else f"ruff {rule}", is_syntax_error=is_syntax_error,
            )  # fmt: skip


CHECKER = Checker(
    name="ruff", extensions=(".py", ".pyi", ".pyw"), programs=("ruff",), commands=_commands, problems=_problems
)
