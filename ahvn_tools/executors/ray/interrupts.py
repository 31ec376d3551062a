"""Interrupts: how a worker sees at once that Ray cancels its task, also while the task waits in Ray's own code."""

from __future__ import annotations

import contextlib
import functools
import signal
import socket
import threading
from collections.abc import Callable, Iterator

from ahvn_tools.after_fork import reset_after_fork


class Interrupts:
    """Calls a function when the main thread of this process is interrupted: so does Ray cancel a task.

    The main thread takes an interrupt when it runs Python code again, but Python writes it into a socket at once.
    """

    def __init__(self) -> None:
        self._function: Callable[[], None] | None = None
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        reset_after_fork(_ignore_in_child)
        threading.Thread(target=self._read, name="ahvn-tools-interrupts", daemon=True).start()

    @contextlib.contextmanager
    def calling(self, function: Callable[[], None]) -> Iterator[None]:
        """Call a function in another thread at each interrupt during the block. Only for the main thread."""
        self._function = function
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            self._function = None

    def _read(self) -> None:
        while number := self._reader.recv(1):
            function = self._function
            if function is not None and number[0] == signal.SIGINT:
                function()


@functools.cache
def get_interrupts() -> Interrupts:
    """Return those of this process."""
    return Interrupts()


def _ignore_in_child() -> None:
    """A signal of a forked process is none of its parent, with which it shares the socket."""
    signal.set_wakeup_fd(-1)
