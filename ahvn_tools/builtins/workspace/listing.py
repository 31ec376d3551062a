"""Tools that list folders and find files by their names."""

from __future__ import annotations

from typing import Final

from ahvn_tools.builtins.files.file_status import FileKind
from ahvn_tools.builtins.files.walk import walk
from ahvn_tools.builtins.workspace.folder_tools import READS, FolderTools, explained_misses, in_one_form, shown
from ahvn_tools.builtins.workspace.lines import Page, fitting
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import reg_toolspec

MAX_ENTRIES: Final = 1_000
"""The most members of a folder in one result."""
_LABELS: Final[dict[FileKind, str]] = {"folder": "[DIR ]", "file": "[FILE]", "link": "[LINK]", "other": "[UNKN]"}


class ListingTools(FolderTools):
    """Tools that list folders and find files by their names."""

    @reg_toolspec(annotations=READS, tags={"files", "read"}, output_schema=None)
    def ls(self, uri: str, context: ToolContext, skip: int = 0) -> str:
        """List a folder, without the content of its folders: folders first, then files, by name.

        Args:
            uri: The path or file: URI of the folder; . is where relative paths begin.
            skip: How many members to leave out, to go on after a long result.
        """
        folders = self.folders.for_call(context)
        with explained_misses(folders, uri):
            if folders.status(uri).kind != "folder":
                raise ToolError(f"{shown(uri)!r} is no folder. Read it with read_file, or pass a folder.")
            kinds = folders.scan(uri)
        page = Page(skip, MAX_ENTRIES)
        names = sorted(sorted(kinds), key=str.casefold)  # two sorts without a function of Python are fastest
        names.sort(key=lambda name: kinds[name] != "folder")
        lines = [f"{_LABELS[kinds[name]]} {shown(name)}" for name in names[page.start : page.stop]]
        kept, _ = fitting(lines, self.max_output_chars)
        return page.text(kept, total=len(kinds), nothing="(Empty Directory)")

    @reg_toolspec(annotations=READS, tags={"files", "read", "search"}, output_schema=None)
    def search_file_name_includes(
        self,
        uri: str,
        name_includes: str,
        context: ToolContext,
        *,
        max_results: int = 200,
        skip: int = 0,
        include_hidden: bool = False,
        include_ignored: bool = False,
    ) -> str:
        """Find files in a folder and its folders whose names contain a text. Upper and lower case are the same.

        Args:
            uri: The path or file: URI of the folder.
            name_includes: A part of the file's name; with a / in it, a part of the path from the folder.
            max_results: The most files in one result, up to 1000.
            skip: How many files to leave out, to go on after a long result.
            include_hidden: Whether files and folders are searched whose names begin with a dot.
            include_ignored: Whether files and folders are searched that .gitignore names.
        """
        if not name_includes:
            raise ToolError("Pass a part of the name that is not empty.")
        folders = self.folders.for_call(context)
        page = Page(skip, max_results)
        wanted, has_folders = in_one_form(name_includes).casefold(), "/" in name_includes
        with explained_misses(folders, uri):
            base = folders.prefix(uri)
            found: list[str] = []
            walked = walk(
                folders, uri, respect_gitignore=not include_ignored, hidden=include_hidden,
                is_cancelled=lambda: context.cancelled,
            )  # fmt: skip
            for file in walked:
                name = file.path if has_folders else file.path.rpartition("/")[2]
                if wanted in in_one_form(name).casefold():
                    found.append(shown(base + file.path))
                    if len(found) > page.stop:
                        break
        context.check_cancelled()
        kept, _ = fitting(found[page.start : page.stop], self.max_output_chars)
        return page.text(kept, total=len(found), nothing="No files found.", is_counted=len(found) <= page.stop)
