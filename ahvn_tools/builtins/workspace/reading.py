"""Tools that read files."""

from __future__ import annotations

import io
import itertools
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, ClassVar, Final

from ahvn_tools.builtins.files.folders import ConfinedFolders, FileStatus
from ahvn_tools.builtins.files.text import TextForm, find_encoding
from ahvn_tools.builtins.workspace.folder_tools import (
    READS,
    FolderTools,
    explained_documents,
    explained_misses,
    shown,
    with_note,
)
from ahvn_tools.builtins.workspace.lines import (
    MAX_LINE_CHARS,
    REST_HINT,
    TextFile,
    bare,
    ending,
    numbered,
    rest_of_line,
    with_newline,
)
from ahvn_tools.builtins.workspace.near_lines import describe_near_keyword
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import reg_toolspec

_HEAD_BYTES: Final = 65_536
"""How much of the file shows its encoding."""
_PIECE_CHARS: Final = 65_536
"""How much of a long line is read at once."""


def read_form(file: BinaryIO, encoding: str | None) -> TextForm:
    """Return the form that the beginning of a file shows. Raises ToolError for binary content."""
    form = find_encoding(file.read(_HEAD_BYTES), encoding)
    file.seek(0)
    return form


def iterate_lines(
    file: BinaryIO, encoding: str, max_chars: int, *, first: int, dropped: int
) -> Generator[str, None, None]:
    """Yield the lines with their endings; of a long line at most so many characters. What does not fit is replaced.

    The line number `first` comes without its first `dropped` characters.
    """
    text = io.TextIOWrapper(file, encoding, "replace", newline="")
    try:
        yield from _joined_pieces(text, max_chars, first, dropped)
    finally:
        text.detach()


def _joined_pieces(text: io.TextIOWrapper, max_chars: int, first: int, dropped: int) -> Iterator[str]:
    piece = text.readline(_PIECE_CHARS).removeprefix("\ufeff")
    for number in itertools.count(1):
        if not piece:
            return
        left = dropped if number == first else 0
        line = bare(piece)[left : left + max_chars]
        left = max(left - len(bare(piece)), 0)
        while not ending(piece) and (following := text.readline(_PIECE_CHARS)):
            piece = following
            line += bare(piece)[left : left + max_chars - len(line)]
            left = max(left - len(bare(piece)), 0)
        next_piece = text.readline(_PIECE_CHARS)
        if next_piece == "\n" and ending(piece) == "\r":  # one line ending, at the end of a piece
            next_piece = text.readline(_PIECE_CHARS)
        yield line + ending(piece)
        piece = next_piece


_LINES_PER_CHECK: Final = 10_000
"""How many lines of a large file are read before the cancellation is checked again."""
_SEARCHED_CHARS: Final = 10_000_000
"""How much of a line of a large file is searched for a keyword at once."""
_CHARS_AROUND: Final = 500
"""How much of a long line is shown before and after a match."""


@dataclass(frozen=True)
class OpenedText:
    """A file that is read from its beginning: whole, or line by line if it is large."""

    file: TextFile | None
    """None for a large file."""
    lines: Iterator[str]
    """The lines with their endings, to be read once; the first wanted one without what is dropped of it."""
    note: str
    """What the reader must know of the encoding."""

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
        self,
        uri: str,
        start_line: int,
        end_line: int,
        context: ToolContext,
        *,
        start_character: int = 1,
        encoding: str | None = None,
    ) -> str:
        """Read some lines of a text file. Each line of the result begins with its number.

        Of several lines, long ones are cut. One line alone is read as far as the result may be long.

        Args:
            uri: The path or file: URI of the file.
            start_line: The number of the first line, from 1.
            end_line: The number of the last line, which is read, too.
            start_character: The first character that is read of the first line, from 1, to go on in a long line.
            encoding: The encoding of the file, such as gbk, if the text is wrong without it.
        """
        if start_line < 1 or end_line < start_line or start_character < 1:
            raise ToolError("Pass a start_line and start_character of at least 1, and an end_line that is not smaller.")
        longest = self.max_output_chars if end_line == start_line else MAX_LINE_CHARS
        dropped, folders = start_character - 1, self.folders.for_call(context)
        with self._opened(folders, uri, context, encoding, first=start_line, dropped=dropped) as text:
            kept: list[str] = []
            size = 0
            for number, line in enumerate(_between(text.lines, start_line, end_line), start_line):
                if dropped and number == start_line and not bare(line):
                    raise _no_character(uri, start_line, start_character)
                shown_line = numbered(number, line, dropped=dropped if number == start_line else 0, max_chars=longest)
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

        Of a long line, the parts around each match are read.

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
        with self._opened(self.folders.for_call(context), uri, context, encoding, _SEARCHED_CHARS) as text:
            kept = _windows(text.lines, keyword, (lines_before, lines_after), start_line, self.max_output_chars)
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
        status = _file_status(folders, uri)
        return f"Size: {status.size / 1024:.2f} KB ({status.size} bytes)"

    @contextmanager
    def _opened(
        self, folders: ConfinedFolders, uri: str, context: ToolContext, encoding: str | None,
        max_line_chars: int = 0, *, first: int = 1, dropped: int = 0,
    ) -> Iterator[OpenedText]:  # fmt: skip
        """Open a text of any size. A file that is read whole is remembered as read.

        The first wanted line comes without its first `dropped` characters. Lines of a large file are cut after
        `max_line_chars`, or more if more can be shown.
        """
        status = _file_status(folders, uri)
        if status.size <= self.max_bytes:
            file = self.read_text(folders, uri, context, encoding)
            yield OpenedText(file, _with_dropped(file.lines, first, dropped), file.form.note)
            return
        longest = max(MAX_LINE_CHARS, self.max_output_chars, max_line_chars) + 1  # one more tells that a line was cut
        with explained_documents(folders, uri), folders.open(uri) as (opened, _):
            form = read_form(opened, encoding)
            with closing(iterate_lines(opened, form.encoding, longest, first=first, dropped=dropped)) as read:
                yield OpenedText(None, _checked(read, context), form.note)


def _file_status(folders: ConfinedFolders, uri: str) -> FileStatus:
    """Return the status of a file. Raises ToolError for a folder."""
    with explained_misses(folders, uri):
        status = folders.status(uri)
    if status.kind == "folder":
        raise ToolError(f"{shown(uri)!r} is a folder. List it with ls, or pass a file.")
    return status


def _windows(
    lines: Iterator[str], keyword: str, around: tuple[int, int], start_line: int, max_chars: int
) -> list[str]:  # fmt: skip
    """Return the lines around each line with a keyword, numbered, with `...` in each gap, up to the maximum length."""
    kept: list[str] = []
    waiting: list[tuple[int, str]] = []
    last_shown, wanted_until, size = 0, 0, 0
    for number, line in enumerate(_between(lines, start_line, sys.maxsize), start_line):
        waiting.append((number, line))
        if keyword in bare(line) or len(line) > _SEARCHED_CHARS:
            wanted_until = number + around[1]
        if number > wanted_until:
            del waiting[: max(len(waiting) - around[0], 0)]
            continue
        if kept and waiting[0][0] > last_shown + 1:
            kept.append("...")
        for rest, text in (part for shown_number, each in waiting for part in _parts(shown_number, each, keyword)):
            if size > max_chars:
                return [*kept, f"(The result would be too long. {rest})"]
            kept.append(text)
            size += len(text)
        last_shown = number
        waiting.clear()
    return kept


def _parts(number: int, line: str, keyword: str) -> Iterator[tuple[str, str]]:
    """Yield a line, or the parts of a long one that are around its matches; before each how to go on with it."""
    text, stop = bare(line), 0
    found = text.find(keyword, 0, _SEARCHED_CHARS) if len(text) > MAX_LINE_CHARS else -1
    if found < 0 and len(text) <= _SEARCHED_CHARS:
        yield f"Go on with start_line={number}.", numbered(number, line)
    while found >= 0:
        start, stop = max(found - _CHARS_AROUND, stop), found + len(keyword) + _CHARS_AROUND
        place = f"{number} (characters {start + 1} to {min(stop, len(text))})"
        rest = REST_HINT.format(line=number, character=start + 1) if start else f"Go on with start_line={number}."
        yield rest, f"{place}: {text[start:stop]}"
        found = text.find(keyword, stop - len(keyword) + 1, _SEARCHED_CHARS)
    if len(text) > _SEARCHED_CHARS:
        rest = REST_HINT.format(line=number, character=_SEARCHED_CHARS - len(keyword) + 2)
        yield rest, f"(The rest of line {number} was not searched. {rest})"


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
                return f"{bare(line)[:max_chars]}\n{rest_of_line(1, max_chars)}"
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


def _with_dropped(lines: list[str], first: int, dropped: int) -> Iterator[str]:
    """Return the lines, the one of this number without its first characters."""
    if not dropped or first > len(lines):
        return iter(lines)
    line = lines[first - 1]
    return iter([*lines[: first - 1], bare(line)[dropped:] + ending(line), *lines[first:]])


def _no_character(uri: str, line: int, character: int) -> ToolError:
    return ToolError(f"There is no character {character:,} in line {line} of {shown(uri)!r}: the line is shorter.")
