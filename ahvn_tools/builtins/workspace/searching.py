"""The tool that finds the lines of files that contain a keyword."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.files.walk import WalkedFile, walk
from ahvn_tools.builtins.workspace.folder_tools import READS, FolderTools, explained_misses, shown
from ahvn_tools.builtins.workspace.keyword import UNSEARCHED_ENCODINGS, Keyword
from ahvn_tools.builtins.workspace.lines import bare
from ahvn_tools.builtins.workspace.numbered_lines import fitting
from ahvn_tools.builtins.workspace.pages import Page
from ahvn_tools.builtins.workspace.ripgrep import files_with_matches, find_ripgrep
from ahvn_tools.builtins.workspace.text_file import TextFile
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import reg_toolspec

MAX_TEXT_CHARS: Final = 300
"""A longer line is cut in a result."""
_MAX_GLOB_CHARS: Final = 200
_BATCH_FILES: Final = 5_000
"""How many files ripgrep searches in one call."""
_BATCH_CHARS: Final = 500_000
"""How long their names may be together: the system limits the arguments of a program."""
RIPGREP_MIN_FILES = 1_500
"""Fewer files are read sooner than ripgrep has started."""


class SearchingTools(FolderTools):
    """The tool that finds the lines of files that contain a keyword."""

    @reg_toolspec(annotations=READS, tags={"files", "read", "search"}, output_schema=None)
    def search_file_contains_keyword(
        self,
        uri: str,
        keyword: str,
        context: ToolContext,
        *,
        ignore_case: bool = False,
        glob: str | None = None,
        max_results: int = 200,
        skip: int = 0,
        include_hidden: bool = False,
        include_ignored: bool = False,
        encoding: str | None = None,
    ) -> str:
        """Find the lines that contain a text, in the text files of a folder and its folders, or in one file.

        Each result is `path:line:text`. Binary files and UTF-32 texts are left out.

        Args:
            uri: The path or file: URI of the folder or file.
            keyword: The text. It is no regular expression.
            ignore_case: Whether upper and lower case are the same.
            glob: Search only the files with such names, as in *.py; with a / in it, with such paths from the folder.
            max_results: The most lines in one result, up to 1000.
            skip: How many lines to leave out, to go on after a long result.
            include_hidden: Whether files and folders are searched whose names begin with a dot.
            include_ignored: Whether files and folders are searched that .gitignore names.
            encoding: The encoding of the files that are no UTF-8, such as gbk. Without it, it is guessed.
        """
        page, wanted = Page(skip, max_results), Keyword(keyword, ignore_case=ignore_case, encoding=encoding)
        is_chosen = _name_filter(glob)
        folders = self.folders.for_call(context)
        with explained_misses(folders, uri):
            if folders.status(uri).kind == "file":
                with folders.open(uri):  # raises ToolError for a file that must not be read
                    place = folders.locate(uri)
                search = self._search(folders, place.parent, wanted, context)
                files: Iterable[WalkedFile] = [WalkedFile(place.name, folders.status(uri).size)]
            else:
                search = self._search(folders, folders.locate(uri), wanted, context)
                walked = walk(
                    folders, uri, respect_gitignore=not include_ignored, hidden=include_hidden,
                    is_cancelled=lambda: context.cancelled,
                )  # fmt: skip
                files = (file for file in walked if is_chosen(file.path))
            found = search.run(files, page.stop + 1)
        context.check_cancelled()
        kept, _ = fitting(found[page.start : page.stop], self.max_output_chars)
        is_counted = len(found) <= page.stop
        text = page.text(kept, total=len(found), nothing=_nothing(search), is_counted=is_counted)
        return f"{text}\n{search.omissions}" if is_counted and search.too_large else text

    def _search(self, folders: ConfinedFolders, top: Path, keyword: Keyword, context: ToolContext) -> Search:
        return Search(
            folders, top, folders.display(top), keyword, self.max_bytes, context,
            untrusted=(*self.folders.roots, *folders.roots),
        )  # fmt: skip


@dataclass
class Search:
    """One search for a keyword, with or without ripgrep."""

    folders: ConfinedFolders
    top: Path
    display: str
    """The folder as models read it."""
    keyword: Keyword
    max_bytes: int
    context: ToolContext
    untrusted: tuple[Path, ...]
    """The folders that models may write, here or in other sessions."""
    files: int = field(default=0, init=False)
    """How many files were to be searched."""
    too_large: int = field(default=0, init=False)

    @property
    def omissions(self) -> str:
        """A sentence about the files that were not searched."""
        return f"(Not searched: {self.too_large} files of more than {self.max_bytes:,} bytes.)"

    def run(self, files: Iterable[WalkedFile], max_lines: int) -> list[str]:
        """Return the first lines with the keyword, in the order of the files, as `path:line:text`."""
        found: list[str] = []
        for path in self._candidates(self._searchable(files)):
            if self.context.cancelled or len(found) >= max_lines:
                break
            found += self._lines(path, max_lines - len(found))
        return found

    def _searchable(self, files: Iterable[WalkedFile]) -> Iterator[str]:
        for file in files:
            self.files += 1
            if file.size > self.max_bytes:
                self.too_large += 1
            elif file.size:
                yield file.path

    def _candidates(self, paths: Iterator[str]) -> Iterator[str]:
        """Yield the files that may contain the keyword. All that ripgrep does is to leave out files without it."""
        program = find_ripgrep(self.untrusted)
        pattern = self.keyword.byte_pattern
        if program is None or pattern is None:
            yield from paths
            return
        for batch in _batches(paths):
            if len(batch) < RIPGREP_MIN_FILES:
                yield from batch
                continue
            matching = files_with_matches(
                program, pattern, self.top, batch, is_cancelled=lambda: self.context.cancelled
            )
            yield from (path for path in batch if path in matching)

    def _lines(self, path: str, max_lines: int) -> list[str]:
        try:
            content, _ = self.folders.read(str(self.top / path), max_bytes=self.max_bytes)
            if not self.keyword.may_be_in(content):
                return []
            text = TextFile.from_content(content, fallback=self.keyword.encoding)
        except ToolError:  # binary, or not readable: no file of this search
            return []
        shown_path = shown(path if self.display == "." else f"{self.display.rstrip('/')}/{path}")
        lines = [] if text.form.encoding in UNSEARCHED_ENCODINGS else text.lines
        found: list[str] = []
        for number, line in enumerate(lines, 1):
            if (index := self.keyword.find(bare(line))) is not None:
                found.append(f"{shown_path}:{number}:{_cut(bare(line), index + len(self.keyword.text))}")
                if len(found) >= max_lines:
                    break
        return found


def _nothing(search: Search) -> str:
    return "No matches found." if search.files else "No files found in directory."


def _cut(text: str, end_of_match: int) -> str:
    """Return a line without the spaces around it, and the part with the match of a long one."""
    start = 0 if end_of_match <= MAX_TEXT_CHARS else max(end_of_match - MAX_TEXT_CHARS // 2, 0)
    cut = text[start : start + MAX_TEXT_CHARS].strip()
    return f"{'...' if start else ''}{cut}{'...' if len(text) > start + MAX_TEXT_CHARS else ''}"


def _batches(paths: Iterator[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for path in paths:
        batch.append(path)
        size += len(path)
        if len(batch) == _BATCH_FILES or size > _BATCH_CHARS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _name_filter(glob: str | None) -> Callable[[str], bool]:
    """Return what tells whether a path has the name, or is the path, that a glob describes."""
    if not glob:
        return bool
    if len(glob) > _MAX_GLOB_CHARS:
        raise ToolError(f"Pass a glob of at most {_MAX_GLOB_CHARS} characters.")
    pattern = re.compile(fnmatch.translate(glob.removeprefix("./").removeprefix("**/")))
    if "/" in glob.removeprefix("**/"):
        return lambda path: pattern.match(path) is not None
    return lambda path: pattern.match(PurePosixPath(path).name) is not None
