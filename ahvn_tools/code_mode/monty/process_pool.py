"""ProcessPool: the processes of one sandbox, and which of them are idle."""

from __future__ import annotations

import atexit
import threading
import weakref
from typing import Final

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.code_mode.monty.program_process import ProgramProcess
from ahvn_tools.code_mode.monty.spawner import Spawner

MAX_IDLE: Final = 8
"""How many processes stay when no program runs."""


class ProcessPool:
    """Processes that run programs, one each, or check their types."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: set[ProgramProcess] = set()
        self._idle: list[ProgramProcess] = []
        self._spawner = Spawner()
        self.is_closed = False
        _pools.add(self)

    def acquire(self) -> ProgramProcess | None:
        """Return the idle process that was used last, which may have ended since, or a new one.

        Return None if the pool is closed. Raises OSError if no process can be started.
        """
        with self._lock:
            if self.is_closed:
                return None
            process = self._idle.pop() if self._idle else ProgramProcess(self._spawner)
            self._used.add(process)
            return process

    def release(self, process: ProgramProcess, *, is_reusable: bool) -> None:
        """Make a process idle, or end it."""
        with self._lock:
            self._used.discard(process)
            if is_reusable and not self.is_closed and len(self._idle) < MAX_IDLE:
                process.is_new = False
                self._idle.append(process)
                return
        process.end()

    def close(self) -> None:
        """Kill all processes. Programs that run in them fail."""
        with self._lock:
            self.is_closed = True
            used, idle = list(self._used), self._idle
            self._idle = []
        for process in [*used, *idle]:
            process.kill()
        for process in used:
            process.kill_and_wait()
        for process in idle:
            process.end()
        self._spawner.close()

    def abandon_connections(self) -> None:
        """When this process ends: leave the sockets of killed processes open, whose threads do not go on."""
        for process in list(self._used):
            process.abandon_connection()

    def leave_to_parent(self) -> None:  # pragma: no cover  # runs in child processes, which report no coverage
        """In a forked child process: forget the processes, which belong to the parent."""
        for process in [*self._used, *self._idle]:
            process.leave_to_parent()
        self._spawner.leave_to_parent()
        self._lock = threading.Lock()
        self._used.clear()
        self._idle.clear()
        self.is_closed = True


_pools: weakref.WeakSet[ProcessPool] = weakref.WeakSet()


@atexit.register
def _close_pools() -> None:
    for pool in list(_pools):
        pool.close()
        pool.abandon_connections()


@reset_after_fork
def _leave_to_parent() -> None:  # pragma: no cover  # as above
    for pool in list(_pools):
        pool.leave_to_parent()
