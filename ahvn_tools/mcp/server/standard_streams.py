"""The standard streams of a process that serves over stdio, where they belong to the client."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ahvn_tools.mcp.server.stdio_messages import MessageWriter, StdioMessageReader


@contextlib.contextmanager
def line_buffered_stdout() -> Generator[None]:
    """Write what tools print to stderr at once: when the server has ended, stdout is the client's again."""
    stream = sys.stdout
    if not (isinstance(stream, io.TextIOWrapper) and is_process_stream(stream, 1)):
        yield
        return
    was_line_buffered = stream.line_buffering
    stream.reconfigure(line_buffering=True)
    try:
        yield
    finally:
        try:
            with redirect_descriptor(1, to=2):
                stream.flush()
        finally:
            stream.reconfigure(line_buffering=was_line_buffered)


@contextlib.contextmanager
def claimed_stdin() -> Generator[StdioMessageReader | None]:
    """Yield what reads the messages of standard input, which is empty for others meanwhile.

    So neither a tool nor its child processes take away what the client sends. None where standard input is not the
    process's, or on Windows: mcp reads there.
    """
    if os.name == "nt" or not is_process_stream(sys.stdin, 0):
        yield None
        return
    import fcntl  # Windows has no such module

    from ahvn_tools.mcp.server.stdio_messages import StdioMessageReader  # others need only the redirection

    with contextlib.ExitStack() as stack:
        descriptor = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
        stack.callback(os.close, descriptor)
        empty = stack.enter_context(Path(os.devnull).open())
        stack.enter_context(redirect_descriptor(0, to=empty.fileno()))
        yield StdioMessageReader(descriptor)


@contextlib.contextmanager
def claimed_stdout() -> Generator[MessageWriter | None]:
    """Yield what writes messages to standard output; what others write there goes to stderr, or nowhere without one.

    None where standard output is not the process's, or on Windows: mcp writes there.
    """
    if os.name == "nt" or not is_process_stream(sys.stdout, 1):
        yield None
        return
    import fcntl  # Windows has no such module

    from ahvn_tools.mcp.server.stdio_messages import MessageWriter  # others need only the redirection

    with contextlib.ExitStack() as stack:
        descriptor = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)  # `dup` could return that of a closed standard stream
        stack.callback(os.close, descriptor)
        try:
            diversion = os.dup(2)
        except OSError:
            diversion = os.open(os.devnull, os.O_WRONLY)
        stack.callback(os.close, diversion)
        stack.enter_context(redirect_descriptor(1, to=diversion))
        yield MessageWriter(descriptor)


@contextlib.contextmanager
def redirect_descriptor(descriptor: int, *, to: int) -> Generator[None]:
    """Let a file descriptor refer to the file of another one for a while."""
    saved = os.dup(descriptor)
    os.dup2(to, descriptor)
    try:
        yield
    finally:
        os.dup2(saved, descriptor)
        os.close(saved)


def is_process_stream(stream: Any, descriptor: int) -> bool:
    """Return whether a stream is the process's own, with this file descriptor, and not a replacement."""
    try:
        return bool(stream.fileno() == descriptor)
    except (AttributeError, OSError, ValueError):
        return False
