"""Pyright: types of Python files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence

from ahvn_tools.builtins.processes.result import ProcessResult
from ahvn_tools.builtins.workspace.diagnostics.checker import Checker, Command, UnreadableOutputError
from ahvn_tools.builtins.workspace.diagnostics.problem import Problem, Severity
from ahvn_tools.builtins.workspace.diagnostics.project_copy import ProjectCopy

# Imports are not reported: which packages the project has installed is not known here.
_SETTINGS = {
    "include": ["project"],
    "typeCheckingMode": "basic",
    "reportMissingImports": "none",
    "reportMissingModuleSource": "none",
    "executionEnvironments": [{"root": "project", "extraPaths": ["project/src"]}],
}
_SEVERITIES: dict[str, Severity] = {"error": "Error", "warning": "Warning"}


def _commands(copy: ProjectCopy, paths: Sequence[str]) -> list[Command]:
    settings = copy.settings_folder / "pyrightconfig.json"
    settings.write_text(json.dumps(_SETTINGS), encoding="utf-8")
    options = ["--outputjson", "--project", str(settings), "--pythonpath", os.path.realpath(sys.executable)]
    return [Command(arguments=[*options, *map(copy.absolute, paths)], paths=paths)]


def _problems(copy: ProjectCopy, _command: Command, result: ProcessResult) -> Iterator[Problem]:
    output = result.stdout.head
    try:
        found = json.loads(output[output.index("{") :])["generalDiagnostics"]
    except (ValueError, KeyError):
        raise UnreadableOutputError("it did not return its results") from None
    for item in found:
        path, severity = copy.relative(item.get("file", "/")), _SEVERITIES.get(item["severity"])
        place = item.get("range", {}).get("start", {"line": 0, "character": 0})
        if path is not None and severity is not None:
            yield Problem(
                path=path, line=place["line"] + 1, column=place["character"] + 1, severity=severity,
                message=item["message"], source=f"pyright {item.get('rule', '')}".strip(),
            )  # fmt: skip


CHECKER = Checker(
    name="pyright", extensions=(".py", ".pyi"), programs=("pyright", "basedpyright"), commands=_commands,
    problems=_problems, is_type_checker=True, seconds=90.0, memory_bytes=None,
)  # fmt: skip
