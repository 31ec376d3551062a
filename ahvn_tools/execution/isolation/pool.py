"""The pool of this process's worker processes: it starts them, reuses them and ends them."""

from __future__ import annotations

import atexit
import threading
from time import monotonic

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.execution.isolation import protocol
from ahvn_tools.execution.isolation.worker_process import WorkerProcess

MAX_IDLE_PROCESSES = 8
"""Idle workers beyond this number end."""


class ProcessPool:
    """Worker processes, busy and idle. Their number has no upper limit: limit calls instead of workers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._is_closed = False

    def acquire(self) -> WorkerProcess:
        """Return the idle process that was used last, which may have died since, or a new one, which is still starting.

        Raises OSError when no process can be started, also because the interpreter is exiting.
        """
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if self._is_closed:
                raise OSError("the interpreter is exiting")
            process = WorkerProcess()
            self._all.add(process)
            return process

    def release(self, process: WorkerProcess, *, is_reusable: bool) -> None:
        """Make a process idle. Kill it when it is not reusable, or when enough are idle."""
        with self._lock:
            if is_reusable and not self._is_closed and len(self._idle) < MAX_IDLE_PROCESSES:
                process.is_new = False
                self._idle.append(process)
                return
        process.kill_and_close()
        with self._lock:
            self._all.discard(process)

    def end_idle(self) -> None:
        """End the idle processes; the next call starts a new one."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.request_exit()
        deadline = monotonic() + protocol.IDLE_EXIT_SECONDS
        for process in idle:
            process.wait_and_close(max(deadline - monotonic(), 0))
        with self._lock:
            self._all.difference_update(idle)

    def close(self) -> None:
        """End all processes for good: kill the busy ones."""
        with self._lock:
            self._is_closed = True
            busy = self._all.difference(self._idle)
        for process in busy:
            process.kill()
        self.end_idle()

    def detach(self) -> None:  # pragma: no cover  # runs in child processes, which report no coverage
        """In a forked child process: close its copies of the pipes, so that workers notice when the parent ends."""
        for process in self._all:
            process.detach()

    def count(self) -> tuple[int, int]:
        """Return how many processes there are, and how many of them are idle."""
        with self._lock:
            return len(self._all), len(self._idle)


process_pool = ProcessPool()


@atexit.register
def _close_pool() -> None:
    process_pool.close()


@reset_after_fork
def _replace_pool() -> None:  # pragma: no cover  # runs in child processes, which report no coverage
    global process_pool  # noqa: PLW0603
    process_pool.detach()
    process_pool = ProcessPool()
