"""Diagnostics: errors and warnings of the checkers that are installed, and of the languages' own parsers."""

from __future__ import annotations

from typing import Literal

from ahvn_tools.builtins.workspace.diagnostics.project_copy import project_copy
from ahvn_tools.builtins.workspace.diagnostics.report import report
from ahvn_tools.builtins.workspace.diagnostics.run import CheckRun
from ahvn_tools.builtins.workspace.diagnostics.targets import find_targets
from ahvn_tools.builtins.workspace.folder_tools import FolderTools, explained_misses
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import reg_toolspec

__all__ = ["DiagnosticsTools"]

CheckerName = Literal["ruff", "pyright", "mypy", "gcc", "javac", "node", "bash"]


class DiagnosticsTools(FolderTools):
    """The tool that finds errors and warnings in source files."""

    @reg_toolspec(annotations={"readOnlyHint": True}, tags={"files", "read", "check"}, output_schema=None)
    def get_warning_error(
        self,
        context: ToolContext,
        uri: str | None = None,
        checkers: list[CheckerName] | None = None,
        skip: int = 0,
    ) -> str:
        """Find errors and warnings in a file, or in the source files of a folder, without executing anything of them.

        Uses the checkers that are installed, with their standard settings and not those of the project. Imports that
        cannot be found are not reported. Other languages, JSON, TOML and YAML: syntax errors only.

        Args:
            uri: The path or file: URI of a file or folder. Without it: where relative paths begin.
            checkers: Use these only. Without it: all that are installed, and mypy only if pyright is not.
            skip: How many problems to leave out, to go on after a limit.
        """
        if skip < 0:
            raise ToolError("Pass a skip of at least 0.")
        place = "." if uri is None else uri
        folders = self.folders.for_call(context)
        with project_copy() as copy:
            with explained_misses(folders, place):
                targets = find_targets(folders, place, copy, is_cancelled=lambda: context.cancelled)
            context.check_cancelled()
            # All folders of the constructor: other sessions may write those that this one may not use.
            roots = [*self.folders.roots, *folders.roots]
            run = CheckRun(copy, roots=roots, chosen=checkers, is_cancelled=lambda: context.cancelled)
            run.check(targets.paths)
            context.check_cancelled()
        return report(targets, run, skip=skip, max_chars=self.max_output_chars)
