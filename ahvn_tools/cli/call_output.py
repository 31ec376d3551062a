"""CallOutput: what `ahvn-tools call` prints while a tool runs, and of its result."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from ahvn_tools.cli import output
from ahvn_tools.cli.media_files import has_file, write_file
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolResult, to_sendable, whole_value

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class CallOutput:
    """Prints to the command's stdout, also while `sys.stdout` is stderr for the tool."""

    def __init__(self, stdout: TextIO, *, tool: str, folder: Path, is_json: bool) -> None:
        """Print the results of a call of `tool`, and write its files to `folder`."""
        self._stdout = stdout
        self._tool, self._folder, self._is_json = tool, folder, is_json
        self._is_terminal = stdout.isatty()
        self._progress = ProgressBar() if sys.stderr.isatty() else None
        self._has_items = False
        self.is_wrapped = False
        """Whether the structured content of a result is `{\"result\": value}`, by FastMCP's convention."""

    @classmethod
    @contextlib.contextmanager
    def open(cls, *, tool: str, folder: Path, is_json: bool) -> Generator[Self]:
        """Yield one that prints to what is stdout now."""
        with _own_stdout() as stdout:
            printing = cls(stdout, tool=tool, folder=folder, is_json=is_json)
            try:
                yield printing
            finally:
                printing.pause()

    def print_chunk(self, chunk: ToolResult) -> None:
        """Print what a tool sends before its result: items to stdout, other output and progress to stderr."""
        if "progress" in chunk.meta:
            if self._progress is not None:
                self._progress.update(chunk)
        elif chunk.meta.get("output"):
            self.pause()
            print(output.escape(_to_text(chunk.value)), file=sys.stderr, flush=True)  # noqa: T201  # the output of a command
        else:
            self._has_items = True
            self.pause()
            self._print_json(chunk) if self._is_json else self._print_value(chunk)

    def print_result(self, result: ToolResult) -> None:
        """Print the last result of a call that has succeeded. Items that were printed are not printed again."""
        self.pause()
        if self._is_json:
            self._print_json(result)
        elif not self._has_items:
            self._print_value(result)

    def print_failure(self, result: ToolResult) -> None:
        """Print the last result of a call that has failed, for machines only."""
        self.pause()
        if self._is_json:
            self._print_json(result)

    def pause(self) -> None:
        """Remove the progress bar, until there is new progress."""
        if self._progress is not None:
            self._progress.stop()

    def _print_json(self, result: ToolResult) -> None:
        data, is_ascii = to_json(result), not self._is_unicode
        text = json.dumps(data, ensure_ascii=is_ascii, default=_to_plain_block)
        if self._is_terminal and output.escape(text) != text:
            text = json.dumps(data, default=_to_plain_block).replace("\x7f", "\\u007f")
        self._print(text)

    def _print_value(self, result: ToolResult) -> None:
        blocks = result.blocks or ()
        if result.blocks is None or result.structured_content is not None:
            self._print_content(result.value if self.is_wrapped and result.is_unwrapped else whole_value(result))
            blocks = tuple(block for block in blocks if has_file(block))
        for block in blocks:
            if has_file(block):
                self._print(output.escape(str(write_file(block, self._folder, self._tool))))
            else:
                self._print_content(_block_text(block))

    def _print_content(self, value: Any) -> None:
        if value is None:
            return
        if not self._is_terminal:
            self._print(_to_text(value, is_ascii=not self._is_unicode))
        elif isinstance(value, str):
            self._print(output.escape(value))
        else:
            self._print_highlighted(output.to_json(value))

    def _print_highlighted(self, text: str) -> None:
        from rich.console import Console
        from rich.highlighter import JSONHighlighter
        from rich.text import Text

        console = Console(file=self._stdout, soft_wrap=True)
        console.print(JSONHighlighter()(Text(text)))
        self._stdout.flush()

    def _print(self, text: str) -> None:
        print(text, file=self._stdout, flush=True)

    @property
    def _is_unicode(self) -> bool:
        return (getattr(self._stdout, "encoding", None) or "").lower().startswith("utf")


class ProgressBar:
    """The progress of one call, as a bar on stderr."""

    def __init__(self) -> None:
        """Show nothing before the first report."""
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def update(self, chunk: ToolResult) -> None:
        """Show the progress that a tool reports, and its message."""
        report, message = chunk.meta["progress"], output.escape_line(_to_text(chunk.value)) if chunk.value else ""
        if self._bar is None or self._task is None:
            self._bar = _create_bar()
            self._task = self._bar.add_task("")
        self._bar.update(self._task, completed=report["progress"], total=report["total"], description=message)
        self._bar.start()

    def stop(self) -> None:
        """Remove the bar from the terminal, until there is another report."""
        if self._bar is not None:
            self._bar.stop()


def to_json(result: ToolResult) -> JsonObject:
    """Return a result as JSON data: its fields, its content as MCP writes it, and `is_error`."""
    sendable = to_sendable(result)
    return {
        "value": None if sendable.is_error else whole_value(sendable) if sendable.is_raw else sendable.value,
        "structured_content": sendable.structured_content,
        "content": _to_content(sendable),
        "is_error": sendable.is_error,
        "error": None if sendable.error is None else {"code": sendable.error.code, "message": sendable.error.message},
        "meta": sendable.meta,
        "is_last": result.is_last,
        "is_interrupted": result.is_interrupted,
        "id": result.id,
    }


def _to_content(result: ToolResult) -> list[Any]:
    """Return the content as JSON data; without mcp for a result that has no blocks."""
    if result.blocks is not None:
        return [_to_plain_block(block) for block in result.blocks]
    return [] if whole_value(result) is None and not result.is_error else [{"type": "text", "text": result.text}]


def _to_plain_block(block: Any) -> Any:
    return block.model_dump(mode="json", by_alias=True, exclude_none=True)


def _block_text(block: Any) -> str:
    """Return the text of a block, the URI of a link, or the text of a resource."""
    if block.type == "text":
        return str(block.text)
    if block.type == "resource":
        return str(block.resource.text)
    return str(getattr(block, "uri", f"[{block.type}]"))


def _to_text(value: Any, *, is_ascii: bool = False) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=is_ascii)


def _create_bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)


@contextlib.contextmanager
def _own_stdout() -> Iterator[TextIO]:
    """Yield a stream to what is stdout now; it stays so while file descriptor 1 is stderr."""
    from ahvn_tools.mcp.server.standard_streams import is_process_stream

    if not is_process_stream(sys.stdout, 1):
        yield sys.stdout
        return
    sys.stdout.flush()
    encoding = sys.stdout.encoding
    with os.fdopen(os.dup(1), "w", encoding=encoding, errors="backslashreplace", newline=None) as stream:
        yield stream
