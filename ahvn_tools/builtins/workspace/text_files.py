"""Tools that view and write text files by ranges of lines, which may count from the end."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator

from ahvn_tools.builtins.workspace.editing import CHANGES, MAX_SNIPPET_CHARS, Change, WritingTools, insert_lines
from ahvn_tools.builtins.workspace.folder_tools import READS, shown, similar_names, with_note
from ahvn_tools.builtins.workspace.lines import REST_HINT, TextFile, content_lines, numbered_block, replace_lines
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import reg_toolspec

_SNIPPET_LINES: Final = 5
"""Lines that are shown before and after what was written."""
_RANGE_LENGTH: Final = 2
"""The first and the last line."""


def _refuse_bool(number: Any) -> Any:
    if isinstance(number, bool):
        raise ValueError("is the number of a line, and not true or false")  # noqa: TRY004  # pydantic expects this
    return number


LineNumber = Annotated[int, BeforeValidator(_refuse_bool)]
"""The number of a line. A bool, which Python counts as a number, is none."""


class TextFileTools(WritingTools):
    """Tools that view and write text files by ranges of lines, which may count from the end."""

    rest_hint: str = REST_HINT
    """How a model reads the rest of a long line, with `{line}` and `{character}`."""

    @reg_toolspec(annotations=READS, tags={"files", "read"}, output_schema=None)
    def view_text_file(
        self,
        uri: str,
        context: ToolContext,
        ranges: list[LineNumber] | None = None,
        encoding: str | None = None,
    ) -> str:
        """View a text file, with the number of each line.

        Args:
            uri: The path or file: URI of the file.
            ranges: The first and the last line to view, as in [1, 100]; negative ones count from the end, so that
                [-100, -1] are the last 100 lines. Without it, the whole file.
            encoding: The encoding of the file, such as gbk, if the text is wrong without it.
        """
        file = self.read_text(self.folders.for_call(context), uri, context, encoding)
        start, stop = 0, len(file.lines)
        heading = f"The content of {shown(uri)}:"
        if ranges is not None:
            start, stop = _range_to_view(ranges, len(file.lines), uri)
            heading = f"The content of {shown(uri)} in {ranges} lines:"
        text = _fenced(file.lines, start, stop, self.max_output_chars, self.rest_hint)
        return with_note(f"{heading}\n{text}", file.form.note)

    @reg_toolspec(annotations=CHANGES, tags={"files", "write"}, output_schema=None)
    def write_text_file(
        self,
        uri: str,
        content: str,
        context: ToolContext,
        ranges: list[LineNumber] | None = None,
        encoding: str | None = None,
    ) -> str:
        """Create a text file, replace its whole content, or replace some of its lines.

        Args:
            uri: The path or file: URI of the file.
            content: The new text.
            ranges: The first and the last line that the content replaces, as in [1, 100]; negative ones count from the
                end. Without it, the whole file is replaced.
            encoding: The encoding of the file, such as gbk, if the tools guess it wrong. Without ranges, the encoding
                that the file gets.
        """
        folders = self.folders_to_write(context)
        if not folders.exists(uri):
            self.create(folders, uri, content, context, encoding=encoding)
            ignored = "" if ranges is None else f" The ranges {ranges} is ignored because the file does not exist."
            return f"Create and write {shown(uri)} successfully.{ignored}"
        if ranges is None:
            self.replace_content(folders, uri, content, context, encoding=encoding)
            return f"Overwrite {shown(uri)} successfully."

        def change(file: TextFile) -> list[str]:
            start, stop = _range_to_write(ranges, len(file.lines))
            return replace_lines(file.lines, start, stop, content_lines(content), file.form.newline)

        done = self.edit(folders, uri, change, context, encoding=encoding).change
        start, _ = _range_to_write(ranges, len(done.before))
        snippet = _around(done, start, start + len(content_lines(content)), self.rest_hint)
        return f"Write {shown(uri)} successfully. The new content snippet:\n{snippet}"

    @reg_toolspec(annotations=CHANGES, tags={"files", "write"}, output_schema=None)
    def insert_text_file(
        self,
        uri: str,
        content: str,
        line_number: LineNumber,
        context: ToolContext,
        encoding: str | None = None,
    ) -> str:
        """Insert lines into a text file.

        Args:
            uri: The path or file: URI of the file.
            content: The new lines.
            line_number: The number of the line before which the content is inserted, from 1; the number of lines plus 1
                inserts it at the end.
            encoding: The encoding of the file, such as gbk, if the tools guess it wrong.
        """
        folders = self.folders_to_write(context)
        if line_number < 1:
            raise ToolError(f"InvalidArgumentsError: The line number {line_number} is invalid. Lines count from 1.")
        if not folders.exists(uri):
            folders.locate(uri)
            if similar_names(folders, uri) is None:
                folders.status(uri)  # says why the file cannot be used
            missing = f"InvalidArgumentsError: The target file {shown(uri)} does not exist."
            raise ToolError(f"{missing} Create it with write_text_file.")

        def change(file: TextFile) -> list[str]:
            if line_number > len(file.lines) + 1:
                raise ToolError(
                    f"InvalidArgumentsError: The given line_number ({line_number}) is not in the valid range "
                    f"[1, {len(file.lines) + 1}]."
                )
            return insert_lines(file, line_number, content)

        done = self.edit(folders, uri, change, context, encoding=encoding).change
        start, stop = line_number - 1, line_number + len(content_lines(content))  # with the line that moved down
        first, last = _bounds(done, start, stop)
        return (
            f"Insert content into {shown(uri)} at line {line_number} successfully. The new content between lines "
            f"{first + 1}-{last} is:\n{_around(done, start, stop, self.rest_hint)}"
        )


def _range_to_view(ranges: list[int], count: int, uri: str) -> tuple[int, int]:
    """Return the indexes of a range, as a slice; a range that goes beyond the file ends with it."""
    first, last = _checked(ranges, count)
    if first > count:
        raise ToolError(
            f"InvalidArgumentError: The range '{ranges}' is out of bounds for the file {shown(uri)!r}, which has "
            f"only {count} lines."
        )
    return max(first, 1) - 1, min(last, count)


def _range_to_write(ranges: list[int], count: int) -> tuple[int, int]:
    """Return the indexes of a range, as a slice, whose first line must exist."""
    first, last = _checked(ranges, count)
    if not 1 <= first <= count:
        raise ToolError(f"The start line {ranges[0]} is invalid. The file only has {count} lines.")
    return first - 1, min(last, count)


def _checked(ranges: list[int], count: int) -> tuple[int, int]:
    """Return the first and the last line, counted from 1. Raises ToolError for what is no range of any file."""
    if len(ranges) != _RANGE_LENGTH or 0 in ranges:
        raise ToolError(
            f"InvalidArgumentError: Invalid range format. Expected a list of two integers, but got {ranges[:10]}. "
            "Lines count from 1, or from -1 at the end."
        )
    first, last = (number if number > 0 else count + 1 + number for number in ranges)
    if last < 1:
        raise ToolError(f"The end line {ranges[1]} is invalid. The file only has {count} lines.")
    if first > last:
        raise ToolError(
            f"InvalidArgumentError: The start line is greater than the end line in the given range {ranges}."
        )
    return first, last


def _bounds(change: Change, start: int, stop: int) -> tuple[int, int]:
    return max(start - _SNIPPET_LINES, 0), min(stop + _SNIPPET_LINES, len(change.after))


def _around(change: Change, start: int, stop: int, hint: str) -> str:
    return _fenced(change.after, *_bounds(change, start, stop), MAX_SNIPPET_CHARS, hint)


def _fenced(lines: list[str], start: int, stop: int, max_chars: int, hint: str) -> str:
    return f"```\n{numbered_block(lines, start, stop, max_chars=max_chars, hint=hint)}\n```"
