"""The standard streams of a process that serves over stdio, where they belong to the client."""

from __future__ import annotations

import contextlib
import io
import os
import re
import select
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ahvn_tools.mcp.server.message_writer import MessageWriter

_EMPTY_LINES: Final = re.compile(rb"^[ \t\r]*\n", re.MULTILINE)


@contextlib.contextmanager
def interruptible_stdin() -> Generator[Callable[[], None]]:
    """Replace standard input by one that can be ended; yield the function that ends it, from any thread.

    A thread that reads the usual standard input would block until the client writes. After the first read, `sys.stdin`
    and file descriptor 0 are empty for everybody else, so that neither a tool nor its child processes take away what
    the client sends. Standard input stays as it is where it is not the process's, or on Windows.
    """
    if os.name == "nt" or not is_process_stream(sys.stdin, 0):  # pragma: no cover  # Windows has no `select` for pipes
        yield lambda: None
        return
    original, input_descriptor = sys.stdin, os.dup(0)
    with Path(os.devnull).open() as empty:
        os.dup2(empty.fileno(), 0)
    wake_reader, wake_writer = os.pipe()
    end_input = contextlib.ExitStack()
    end_input.callback(os.close, wake_writer)

    def restore() -> None:
        sys.stdin = original

    reader = _InterruptibleReader(input_descriptor, wake_reader, on_read=restore)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(reader), encoding="utf-8")
    try:
        yield end_input.close
    finally:
        end_input.close()
        restore()
        os.dup2(input_descriptor, 0)
        reader.release()


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
def claimed_stdout() -> Generator[MessageWriter | None]:
    """Yield what writes messages to standard output; what others write there goes to stderr, or nowhere without one.

    None where standard output is not the process's, or on Windows: mcp writes there.
    """
    if os.name == "nt" or not is_process_stream(sys.stdout, 1):
        yield None
        return
    import fcntl  # Windows has no such module

    from ahvn_tools.mcp.server.message_writer import MessageWriter  # others need only the redirection

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


class _InterruptibleReader(io.RawIOBase):
    """Reads a file descriptor until it ends, or until another one does; drops empty lines.

    mcp 2 takes a quarter of a millisecond for each line that is not a message.
    """

    def __init__(self, input_descriptor: int, wake_descriptor: int, on_read: Callable[[], None]) -> None:
        self._input_descriptor = input_descriptor
        self._wake_descriptor = wake_descriptor
        self._on_read = on_read
        self._lock = threading.Lock()
        self._is_released = False
        self._is_at_line_start = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]  # a BufferedReader passes a bytearray
        self._on_read()
        data = b""
        while not data and (received := self._read(len(buffer))):
            data = _drop_empty_lines(received, is_at_line_start=self._is_at_line_start)
            self._is_at_line_start = received.endswith(b"\n")
        buffer[: len(data)] = data
        return len(data)

    def _read(self, size: int) -> bytes:
        """Wait for input; return none when it has ended."""
        with self._lock:
            if self._is_released:
                return b""
            ready, _, _ = select.select([self._input_descriptor, self._wake_descriptor], [], [])
            return b"" if self._wake_descriptor in ready else os.read(self._input_descriptor, size)

    def release(self) -> None:
        """Close both file descriptors, after a thread that still reads: the other end of the second one is closed."""
        with self._lock:
            self._is_released = True
            os.close(self._input_descriptor)
            os.close(self._wake_descriptor)


def _drop_empty_lines(data: bytes, *, is_at_line_start: bool) -> bytes:
    head, newline, lines = (b"", b"", data) if is_at_line_start else data.partition(b"\n")
    return head + newline + _EMPTY_LINES.sub(b"", lines)
