"""Tools that read files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Final

from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.workspace.folder_tools import READS, FolderTools, explained_misses, shown, with_note
from ahvn_tools.builtins.workspace.large_files import iterate_lines, read_form
from ahvn_tools.builtins.workspace.lines import bare, with_newline
from ahvn_tools.builtins.workspace.near_lines import describe_near_keyword
from ahvn_tools.builtins.workspace.numbered_lines import MAX_LINE_CHARS, numbered
from ahvn_tools.builtins.workspace.text_file import TextFile
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import reg_toolspec

_LINES_PER_CHECK: Final = 10_000
"""How many lines of a large file are read before the cancellation is checked again."""


@dataclass(frozen=True)
class OpenedText:
    """A file that is read from its beginning: whole, or line by line if it is large."""

    file: TextFile | None
    """None for a large file."""
    large: Iterator[str]
    """The lines of a large file."""
    note: str
    """What the reader must know of the encoding."""

    @property
    def lines(self) -> Iterator[str]:
        """The lines with their endings, to be read once."""
        return self.large if self.file is None else iter(self.file.lines)

    @property
    def count(self) -> int | None:
        """How many lines there are; None for a large file, which would have to be read to its end."""
        return None if self.file is None else len(self.file.lines)


class ReadingTools(FolderTools):
    """Tools that read files."""

    keeps_line_endings: ClassVar[bool] = False
    """Whether `read_file` returns the line endings of the file, instead of line feeds."""

    @reg_toolspec(annotations=READS, tags={"files", "read"}, output_schema=None)
    def read_file(self, uri: str, context: ToolContext, encoding: str | None = None) -> str:
        """Read a whole text file.

        If the file is long, the result ends with how to read the rest.

        Args:
            uri: The path or file: URI of the file.
            encoding: The encoding of the file, such as gbk, if the text is wrong without it.
        """
        with self._opened(self.folders.for_call(context), uri, context, encoding) as text:
            if text.file is not None and len(text.file.text) <= self.max_output_chars:
                whole = text.file.text
            else:
                whole = _with_rest_hint(text, self.max_output_chars)
        return with_note(whole if self.keeps_line_endings else with_newline(whole, "\n"), text.note)

    @reg_toolspec(annotations=READS, tags={"files", "read"}, output_schema=None)
    def partially_read_by_range(
        self, uri: str, start_line: int, end_line: int, context: ToolContext, encoding: str | None = None
    ) -> str:
        """Read some lines of a text file. Each line of the result begins with its number.

        Args:
            uri: The path or file: URI of the file.
            start_line: The number of the first line, from 1.
            end_line: The number of the last line, which is read, too.
            encoding: The encoding of the file, such as gbk, if the text is wrong without it.
        """
        if start_line < 1 or end_line < start_line:
            raise ToolError("Pass a start_line of at least 1, and an end_line that is not smaller.")
        with self._opened(self.folders.for_call(context), uri, context, encoding) as text:
            kept: list[str] = []
            size = 0
            for number, line in enumerate(_between(text.lines, start_line, end_line), start_line):
                shown_line = numbered(number, line)
                size += len(shown_line) + 1
                if kept and size > self.max_output_chars:
                    kept.append(f"(The result would be too long. Go on with start_line={number}.)")
                    return with_note("\n".join(kept), text.note)
                kept.append(shown_line)
        if not kept:
            length = "is shorter" if text.count is None else f"has only {text.count:,} lines"
            raise ToolError(f"There is no line {start_line} in {shown(uri)!r}: the file {length}.")
        if len(kept) <= end_line - start_line:
            kept.append(f"(The file ends with line {start_line + len(kept) - 1}.)")
        return with_note("\n".join(kept), text.note)

    @reg_toolspec(annotations=READS, tags={"files", "read"}, output_schema=None)
    def partially_read_around_keyword(
        self,
        uri: str,
        keyword: str,
        context: ToolContext,
        *,
        lines_before: int = 5,
        lines_after: int = 5,
        start_line: int = 1,
        encoding: str | None = None,
    ) -> str:
        """Read the lines of a text file around each line that contains a keyword. Lines have their numbers.

        Args:
            uri: The path or file: URI of the file.
            keyword: A text within one line. Upper and lower case differ.
            lines_before: How many lines before each match are read.
            lines_after: How many lines after each match are read.
            start_line: The first line that is read, to go on after a long result.
            encoding: The encoding of the file, such as gbk, if the text is wrong without it.
        """
        if not keyword or "\n" in keyword or "\r" in keyword:
            raise ToolError("Pass a keyword of one line that is not empty.")
        if lines_before < 0 or lines_after < 0 or start_line < 1:
            raise ToolError("Pass a lines_before and lines_after of at least 0, and a start_line of at least 1.")
        with self._opened(self.folders.for_call(context), uri, context, encoding) as text:
            windows = Windows(keyword, lines_before, lines_after, self.max_output_chars)
            kept = windows.read(text.lines, start_line)
            if not kept:
                near = "" if text.file is None else describe_near_keyword(keyword, text.file.lines)
                kept = [f'No matches found for "{shown(keyword)}". {near}'.rstrip()]
        return with_note("\n".join(kept), text.note)

    @reg_toolspec(annotations=READS, tags={"files", "read"}, output_schema=None)
    def get_file_size(self, uri: str, context: ToolContext) -> str:
        """Return the size of a file.

        Args:
            uri: The path or file: URI of the file.
        """
        folders = self.folders.for_call(context)
        with explained_misses(folders, uri):
            status = folders.status(uri)
        if status.kind == "folder":
            raise ToolError(f"{shown(uri)!r} is a folder. List it with ls, or pass a file.")
        return f"Size: {status.size / 1024:.2f} KB ({status.size} bytes)"

    @contextmanager
    def _opened(
        self, folders: ConfinedFolders, uri: str, context: ToolContext, encoding: str | None
    ) -> Iterator[OpenedText]:
        """Open a text of any size. A file that is read whole is remembered as read."""
        with explained_misses(folders, uri):
            status = folders.status(uri)
        if status.kind == "folder":
            raise ToolError(f"{shown(uri)!r} is a folder. List it with ls, or pass a file.")
        if status.size <= self.max_bytes:
            text = self.read_text(folders, uri, context, encoding)
            yield OpenedText(text, iter(()), text.form.note)
            return
        longest = max(MAX_LINE_CHARS, self.max_output_chars) + 1  # what is longer is cut, and said to be, when shown
        with folders.open(uri) as (file, _):
            form = read_form(file, encoding)
            with closing(iterate_lines(file, form.encoding, longest)) as read:
                yield OpenedText(None, _checked(read, context), form.note)


class Windows:
    """The lines around each line that contains a keyword, read from first to last."""

    def __init__(self, keyword: str, before: int, after: int, max_chars: int) -> None:
        self._keyword, self._before, self._after, self._max_chars = keyword, before, after, max_chars

    def read(self, lines: Iterator[str], start_line: int) -> list[str]:
        """Return the numbered lines of all windows, with `...` in each gap, up to the maximum length."""
        kept: list[str] = []
        waiting: list[tuple[int, str]] = []
        last_shown, wanted_until, size = 0, 0, 0
        for number, line in enumerate(_between(lines, start_line, sys.maxsize), start_line):
            waiting.append((number, line))
            if self._keyword in bare(line):
                wanted_until = number + self._after
            if number > wanted_until:
                if len(waiting) > self._before:
                    del waiting[0]
                continue
            if size > self._max_chars:
                return [*kept, f"(The result would be too long. Go on with start_line={waiting[0][0]}.)"]
            if kept and waiting[0][0] > last_shown + 1:
                kept.append("...")
            added = [numbered(*each) for each in waiting]
            kept += added
            size += sum(map(len, added))
            last_shown = number
            waiting.clear()
        return kept


def _between(lines: Iterator[str], first: int, last: int) -> Iterator[str]:
    """Yield the lines of these numbers, which may be larger than Python's islice accepts."""
    return islice(lines, min(first - 1, sys.maxsize), min(last, sys.maxsize))


def _with_rest_hint(text: OpenedText, max_chars: int) -> str:
    """Return a long text up to the end of a line, with how to go on."""
    kept: list[str] = []
    size = 0
    for number, line in enumerate(text.lines, 1):
        size += len(line)
        if size > max_chars:
            if not kept:
                return f"{bare(line)[:max_chars]}\n(The rest of this line is too long to be read.)"
            count = "" if text.count is None else f" of {text.count:,}"
            return (
                f"{''.join(kept)}(These are the lines 1 to {number - 1}{count}. Go on with partially_read_by_range, "
                f"start_line={number}.)"
            )
        kept.append(line)
    return "".join(kept)


def _checked(lines: Iterator[str], context: ToolContext) -> Iterator[str]:
    """Yield the lines, and end when the call is cancelled."""
    for number, line in enumerate(lines):
        if number % _LINES_PER_CHECK == 0:
            context.check_cancelled()
        yield line
