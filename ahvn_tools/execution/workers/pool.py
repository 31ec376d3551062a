"""ProcessPool: processes that run one piece of work at a time, which are reused and ended."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from time import monotonic
from typing import Generic, Protocol, TypeVar

MAX_IDLE_PROCESSES = 8
"""Idle processes beyond this number end."""

IDLE_EXIT_SECONDS = 1.0
"""How many seconds an idle process has to exit when it is no longer needed."""


class PooledProcess(Protocol):
    """A process that a pool can keep idle, and end."""

    def kill(self) -> None:
        """Kill it with all that it started, from any thread, and wait until it is gone."""

    def request_exit(self) -> None:
        """Let it exit, when it is idle."""

    def close(self, timeout: float = 0) -> None:
        """Wait up to `timeout` seconds for its exit, kill it, and close what connects to it; for its user's thread."""

    def detach(self) -> None:
        """In a forked child process: release the process, which belongs to the parent."""


Process = TypeVar("Process", bound=PooledProcess)


class ProcessPool(Generic[Process]):
    """Processes of one kind, busy and idle. Slots limit how many are busy."""

    def __init__(self, start: Callable[[], Process], *, max_idle: float = MAX_IDLE_PROCESSES) -> None:
        """`start` starts a process, or raises OSError. More than `max_idle` idle ones end."""
        self._start = start
        self._max_idle = max_idle
        self._lock = threading.RLock()
        self._all: set[Process] = set()
        self._idle: list[Process] = []
        self.is_closed = False

    def acquire(self) -> Process:
        """Return the idle process that was used last, which may have died since, or a new one, which is still starting.

        Raises OSError when no process can be started, also because the pool was closed.
        """
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if self.is_closed:
                raise OSError(errno.ESHUTDOWN, "the interpreter is exiting")
            process = self._start()
            self._all.add(process)
            return process

    def release(self, process: Process, *, is_reusable: bool) -> None:
        """Make a process idle. End it when it is not reusable, or when enough are idle."""
        with self._lock:
            if is_reusable and len(self._idle) < self._max_idle and not self.is_closed:
                self._idle.append(process)
                return
        process.close()
        with self._lock:
            self._all.discard(process)

    def end_idle(self) -> None:
        """End the idle processes; the next call starts a new one."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.request_exit()
        deadline = monotonic() + IDLE_EXIT_SECONDS
        for process in idle:
            process.close(max(deadline - monotonic(), 0))
        with self._lock:
            self._all.difference_update(idle)

    def close(self) -> None:
        """End all processes for good: kill the busy ones."""
        with self._lock:
            self.is_closed = True
            busy = self._all.difference(self._idle)
        for process in busy:
            process.kill()
        self.end_idle()

    def detach(self) -> None:  # pragma: no cover  # runs in child processes, which report no coverage
        """Begin without processes: in a forked child they belong to the parent.

        The child closes its copies of what connects to them, so that they notice when the parent ends.
        """
        for process in self._all:
            process.detach()
        self._lock = threading.RLock()
        self._all.clear()
        self._idle.clear()

    def count(self) -> tuple[int, int]:
        """Return how many processes there are, and how many of them are idle."""
        with self._lock:
            return len(self._all), len(self._idle)

    @property
    def idle(self) -> list[Process]:
        """The idle processes."""
        with self._lock:
            return [*self._idle]
