"""What a command prints, and the errors that end it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


class CommandError(Exception):
    """A failure that ends the command with this message to its user, without a traceback."""


class UsageError(Exception):
    """The command line is wrong."""


NARROW_WIDTH = 80
"""In a terminal with fewer columns, each row of a table is a block of lines."""


def prepare_streams() -> None:
    """Open the standard streams that are closed, and let stdout and stderr escape what their encoding does not have."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # in the order of the file descriptors
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  # for the whole process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush_stdout() -> None:
    """Write what is buffered. Raises BrokenPipeError when its reader has gone."""
    sys.stdout.flush()


def escape(text: str) -> str:
    """Return a text with its control and other invisible characters escaped, apart from line feeds and tabs."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    from ahvn_tools import invisible  # slow, and few texts need it

    return invisible.escape(text).replace("\r\n", "\n")


def escape_line(text: str) -> str:
    """Return a text on one line, with its control and other invisible characters escaped."""
    return " ".join(escape(text).split())


def plural(count: int, noun: str) -> str:
    """Return a number with its noun: `1 tool`, `2 tools`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def is_terminal() -> bool:
    """Return whether stdout is a terminal, or is to be treated as one because of FORCE_COLOR."""
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def print_text(text: str) -> None:
    """Print a text to stdout."""
    print(escape(text))  # noqa: T201  # the output of a command


def print_message(text: str) -> None:
    """Print a message for the user to stderr, on one line."""
    print(escape_line(text), file=sys.stderr)  # noqa: T201  # as above


def print_traceback(error: BaseException) -> None:
    """Print the traceback of an exception to stderr."""
    import traceback

    print(escape("".join(traceback.format_exception(error)).rstrip()), file=sys.stderr)  # noqa: T201  # as above


def to_json(value: Any) -> str:
    """Return a value as indented JSON. If it has invisible characters, all that are not ASCII are escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=not is_unicode(sys.stdout))
    if escape(text) != text:
        text = json.dumps(value, indent=2)
    return text.replace("\x7f", "\\u007f")


def print_json(value: Any) -> None:
    """Print a value to stdout as one JSON document."""
    print(to_json(value))  # noqa: T201  # as above


def print_data(value: Any, file: TextIO | None = None) -> None:
    """Print a value as JSON for a person: in color in a terminal, which `file` must be; by default to stdout."""
    if file is None and not is_terminal():
        print_json(value)
        return
    from rich.highlighter import JSONHighlighter
    from rich.text import Text

    create_console(file).print(JSONHighlighter()(Text(to_json(value))), soft_wrap=True)


def print_heading(text: str) -> None:
    """Print a line above a part of the output."""
    if not is_terminal():
        print_text(text)
        return
    from rich.text import Text

    create_console().print(Text(escape(text), style="bold", overflow="fold"))


def print_words(*words: str, styles: Mapping[str, str]) -> None:
    """Print words as one line; in a terminal, those with a style in color."""
    cleaned = [escape(word).replace("\n", " ") for word in words]
    if not is_terminal():
        print_text("".join(cleaned))
        return
    from rich.text import Text

    line = Text.assemble(*((word, styles.get(word, "")) for word in cleaned))
    create_console().print(line, soft_wrap=True)


def create_console(file: TextIO | None = None) -> Console:
    """Return rich's console for a stream, by default stdout, which takes no text for markup."""
    from rich.console import Console

    return Console(file=file, markup=False, highlight=False, emoji=False, soft_wrap=False)


def print_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Print names and texts, one pair on a line."""
    width = max(len(name) for name, _ in pairs)
    for name, text in pairs:
        print_text(f"{f'{name}:':{width + 1}} {escape_line(text)}")


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, styles: Mapping[str, str] | None = None
) -> None:
    """Print a table to stdout. Nothing is cut: in a terminal texts wrap, in a pipe each row is one line.

    Without a terminal all columns are printed, so that they keep their places; in one, those that have a text.
    `styles` are the styles of cells with these texts, in a terminal with room for the table.
    """
    lines = [[escape_line(cell) for cell in row] for row in rows]
    if not is_terminal():
        _print_plain_table(headings, lines)
        return
    used = [column for column in range(len(headings)) if any(row[column] for row in lines)]
    console = create_console()
    chosen, cells = [headings[column] for column in used], [[row[column] for column in used] for row in lines]
    is_narrow = console.width < NARROW_WIDTH
    console.print(_to_blocks(chosen, cells) if is_narrow else _to_table(chosen, cells, styles or {}))


def _print_plain_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = [[heading.upper() for heading in headings], *([cell or "-" for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())  # noqa: T201  # as above


def _to_table(headings: Sequence[str], rows: Iterable[Sequence[str]], styles: Mapping[str, str]) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold", style="cyan" if heading == headings[0] else "")
    for first, *others in rows:
        table.add_row(Text(first), *(Text(cell, style=styles.get(cell, "")) for cell in others))
    return table


def _to_blocks(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> RenderableType:
    """Return each row as lines: the first cell, then the other ones with their headings."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    lines: list[RenderableType] = []
    for first, *others in rows:
        lines.append(Text(first, style="bold cyan", overflow="fold"))
        for heading, cell in zip(headings[1:], others, strict=True):
            if cell:
                text = Text.assemble((f"{heading}: ", "dim"), cell, overflow="fold")
                lines.append(Padding(text, (0, 0, 0, 2)))
    return Group(*lines)


def is_unicode(stream: TextIO | None) -> bool:
    """Return whether the encoding of a stream has all characters."""
    return (getattr(stream, "encoding", None) or "").lower().startswith("utf")


@contextlib.contextmanager
def log_to_stderr(*, tracebacks: bool) -> Generator[None]:
    """Print the warnings of this package to stderr, each on one line.

    With `tracebacks`, those are below the line, and what was left out by intention is printed, too.

    mcp's client logs nothing meanwhile: the error about a server says what is wrong.
    """
    import logging  # slow, and completion does not need it

    class MessageHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            """Print the message, and the traceback of the exception that it is about."""
            print_message(f"{record.levelname.lower()}: {record.getMessage()}")
            if tracebacks and record.exc_info and record.exc_info[1] is not None:
                print_traceback(record.exc_info[1])

    client_logger = logging.getLogger("mcp.client")
    level = client_logger.level
    client_logger.setLevel(logging.CRITICAL)
    logger = logging.getLogger("ahvn_tools")
    handler = MessageHandler(logging.INFO if tracebacks else logging.WARNING)
    propagates, own_level = logger.propagate, logger.level
    logger.addHandler(handler)
    if tracebacks:
        logger.setLevel(logging.INFO)
    logger.propagate = False  # a source may configure the root logger
    try:
        yield
    finally:
        client_logger.setLevel(level)
        logger.setLevel(own_level)
        logger.removeHandler(handler)
        logger.propagate = propagates
