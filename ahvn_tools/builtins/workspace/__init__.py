"""Workspace: the tools that read, search and edit the files of a few folders."""

from __future__ import annotations

from ahvn_tools.builtins.workspace.diagnostics import DiagnosticsTools
from ahvn_tools.builtins.workspace.documents import DocumentTools
from ahvn_tools.builtins.workspace.editing import EditingTools
from ahvn_tools.builtins.workspace.outline import OutlineTools
from ahvn_tools.builtins.workspace.reading import ReadingTools
from ahvn_tools.builtins.workspace.searching import SearchingTools
from ahvn_tools.builtins.workspace.text_files import TextFileTools

__all__ = ["Workspace"]


class Workspace(
    DocumentTools, TextFileTools, EditingTools, DiagnosticsTools, OutlineTools, SearchingTools, ReadingTools
):  # fmt: skip
    """Tools that read, search and edit the files of a few folders, and of no others."""
