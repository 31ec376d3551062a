"""The pool of this process's worker processes: it starts them, reuses them and ends them."""

from __future__ import annotations

import atexit
import threading
from time import monotonic

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.execution.isolation import protocol
from ahvn_tools.execution.isolation.worker_process import WorkerProcess

MAX_IDLE_PROCESSES = 8
"""Idle workers beyond this number end, except those of tools that keep their children."""


class ProcessPool:
    """Worker processes, busy and idle. `ProcessSlots` limits how many are busy.

    Tools that keep their children have workers of their own, which stay until the pool is closed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[bool, list[WorkerProcess]] = {False: [], True: []}
        self._all: set[WorkerProcess] = set()
        self._is_closed = False

    def acquire(self, *, keeps_children: bool) -> WorkerProcess:
        """Return the idle process that was used last, which may have died since, or a new one, which is still starting.

        Raises OSError when no process can be started, also because the interpreter is exiting.
        """
        with self._lock:
            if idle := self._idle[keeps_children]:
                return idle.pop()
            if self._is_closed:
                raise OSError("the interpreter is exiting")
            process = WorkerProcess(keeps_children=keeps_children)
            self._all.add(process)
            return process

    def release(self, process: WorkerProcess, *, is_reusable: bool) -> None:
        """Make a process idle. Kill it when it is not reusable, or when enough are idle."""
        with self._lock:
            idle = self._idle[process.keeps_children]
            has_room = process.keeps_children or len(idle) < MAX_IDLE_PROCESSES
            if is_reusable and has_room and not self._is_closed:
                process.is_new = False
                idle.append(process)
                return
        process.kill_and_close()
        with self._lock:
            self._all.discard(process)

    def end_idle(self, *, also_keeping_children: bool = True) -> None:
        """End the idle processes; the next call starts a new one."""
        with self._lock:
            idle = self._pop_idle(keeps_children=False)
            if also_keeping_children:
                idle += self._pop_idle(keeps_children=True)
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
            busy = self._all.difference(*self._idle.values())
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
            return len(self._all), sum(map(len, self._idle.values()))

    def idle_process_ids(self) -> set[int]:
        """Return the ids of the idle processes."""
        with self._lock:
            return {process.process_id for idle in self._idle.values() for process in idle}

    def _pop_idle(self, *, keeps_children: bool) -> list[WorkerProcess]:
        idle, self._idle[keeps_children] = self._idle[keeps_children], []
        return idle


process_pool = ProcessPool()


@atexit.register
def _close_pool() -> None:
    process_pool.close()


@reset_after_fork
def _replace_pool() -> None:  # pragma: no cover  # runs in child processes, which report no coverage
    global process_pool  # noqa: PLW0603
    process_pool.detach()
    process_pool = ProcessPool()
