"""Standard input that can be ended: what reads it in a thread of its own would wait for its client for ever."""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
from collections.abc import Callable, Generator
from typing import Any


@contextlib.contextmanager
def interruptible_stdin() -> Generator[Callable[[], None]]:
    """Put a standard input in the place of the process's; the function that this gives ends it, from any thread.

    Who reads it first has it for himself: `sys.stdin` and file descriptor 0 hold nothing from then on, so that neither
    a tool nor what it starts takes away what the client sends.
    Where standard input is not the process's own, or cannot be waited for (Windows), it stays as it is.
    """
    if os.name == "nt" or not is_process_stream(sys.stdin, 0):  # pragma: no cover  # Windows has no `select` for pipes
        yield _do_nothing
        return
    kept, wire = sys.stdin, os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    woken, wake = os.pipe()
    ending = contextlib.ExitStack()
    ending.callback(os.close, wake)

    def put_back() -> None:
        sys.stdin = kept

    sys.stdin = io.TextIOWrapper(io.BufferedReader(_InterruptibleReader(wire, woken, put_back)), encoding="utf-8")
    try:
        yield ending.close
    finally:
        ending.close()
        put_back()
        os.dup2(wire, 0)


def is_process_stream(stream: Any, descriptor: int) -> bool:
    """Tell whether a stream is the process's own of that number, and not what somebody has put in its place."""
    try:
        return bool(stream.fileno() == descriptor)
    except (AttributeError, OSError, ValueError):
        return False


def _do_nothing() -> None:
    """Leave it."""


class _InterruptibleReader(io.RawIOBase):
    """Reads a file descriptor until it ends, or another one does."""

    def __init__(self, input_descriptor: int, wake_descriptor: int, on_read: Callable[[], None]) -> None:
        self._input_descriptor = input_descriptor
        self._wake_descriptor = wake_descriptor
        self._on_read = on_read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]  # what a BufferedReader gives
        self._on_read()
        ready, _, _ = select.select([self._input_descriptor, self._wake_descriptor], [], [])
        if self._wake_descriptor in ready:
            return 0
        read = os.read(self._input_descriptor, len(buffer))
        buffer[: len(read)] = read
        return len(read)
