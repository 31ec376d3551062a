"""Outline: what the files of a project define, and in which lines."""

from __future__ import annotations

from ahvn_tools.builtins.processes.confinement import choose_sandbox
from ahvn_tools.builtins.workspace.folder_tools import FolderTools, explained_misses
from ahvn_tools.builtins.workspace.outline.candidates import find_candidates
from ahvn_tools.builtins.workspace.outline.report import report
from ahvn_tools.builtins.workspace.source_parser.parsing import Reply, parse
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import reg_toolspec

__all__ = ["OutlineTools"]


class OutlineTools(FolderTools):
    """The tool that shows what the files of a project define."""

    @reg_toolspec(annotations={"readOnlyHint": True}, tags={"files", "read", "search"}, output_schema=None)
    def project_outline(self, context: ToolContext, uri: str = ".", signatures: bool = False, skip: int = 0) -> str:
        """List the classes, functions and methods of a file, or of all source files in a folder, with their lines.

        After each name stand its first and last line, for partially_read_by_range. Left out are functions in functions,
        and in a folder: hidden files, those that .gitignore names, and *.d.ts. A result has 100 files at most.

        Args:
            uri: The path or file: URI of a file or folder; . is where relative paths begin.
            signatures: Whether to show parameters, return types and base classes instead of names only.
            skip: How many files to leave out, to go on after a limit.
        """
        if skip < 0:
            raise ToolError("Pass a skip of at least 0.")
        folders = self.folders.for_call(context)
        with explained_misses(folders, uri):
            page = find_candidates(folders, uri, skip, is_cancelled=lambda: context.cancelled)
        context.check_cancelled()
        replies: dict[str, Reply] = {}
        sandbox = choose_sandbox("auto", untrusted=[*self.folders.roots, *folders.roots])
        for reply in parse("outline", page.sources, sandbox=sandbox, is_cancelled=lambda: context.cancelled):
            replies[reply.source.path] = reply
        context.check_cancelled()
        return report(page, replies, with_signatures=signatures, max_chars=self.max_output_chars)
