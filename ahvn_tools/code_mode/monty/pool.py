"""MontyPool: the worker processes of one sandbox, and which of them are used."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import weakref
from typing import Final, Protocol

import pydantic_monty

MAX_IDLE: Final = 8
"""How many processes stay when no program runs. A new one takes about a millisecond to start."""

STEP_SECONDS: Final = 30.0
"""How long a step takes at most, apart from the time that the program itself may use."""

_MAX_STEP_SECONDS: Final = 3600.0
"""After this time, Monty kills any process that does not respond."""


class UsedWorker(Protocol):
    """What uses a process of the pool."""

    def kill(self) -> None:
        """End the process, from any thread."""


class MontyPool:
    """A pool of worker processes."""

    def __init__(self, max_processes: int) -> None:
        """Start the pool, without a process."""
        self.monty = pydantic_monty.Monty(
            min_processes=0,
            max_processes=max_processes,
            checkout_timeout=STEP_SECONDS,
            request_timeout=_MAX_STEP_SECONDS,
        )
        self.monty.__enter__()
        self.is_closed = False
        self._lock = threading.Lock()
        self._used: set[UsedWorker] = set()
        self._idle: set[int] = set()
        """The ids of the processes in the pool."""
        weakref.finalize(self, _kill_all, self._used, os.getpid())  # also when the interpreter ends

    def add(self, worker: UsedWorker) -> bool:
        """Count a worker as used. Return False if the pool is closed."""
        with self._lock:
            if not self.is_closed:
                self._used.add(worker)
            return not self.is_closed

    def remove(self, worker: UsedWorker) -> None:
        """Count a worker as used no more."""
        with self._lock:
            self._used.discard(worker)

    def take_idle(self, process_id: int | None) -> None:
        """Remember that the pool has given out this process."""
        with self._lock:
            if process_id in self._idle:
                self._idle.remove(process_id)
            else:  # a new one, because all of these have ended
                self._idle.clear()

    def keep_idle(self, process_id: int) -> bool:
        """Return whether a process that is returned stays; otherwise it has to be killed."""
        with self._lock:
            keeps = not self.is_closed and len(self._idle) < MAX_IDLE
            if keeps:
                self._idle.add(process_id)
            return keeps

    def kill_idle(self) -> None:
        """Kill the processes in the pool, because one of them does not respond."""
        with self._lock:
            for process_id in self._idle:
                with contextlib.suppress(OSError):  # it has ended
                    os.waitid(os.P_PID, process_id, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # raises if it is no child
                    os.kill(process_id, signal.SIGKILL)
            self._idle.clear()

    def kill(self) -> None:
        """Kill the processes that are used. No other one is given out."""
        with self._lock:
            self.is_closed = True
            used = list(self._used)
        for worker in used:
            worker.kill()

    def close(self) -> None:
        """End the processes. It blocks for at most a second."""
        self.monty.__exit__(None, None, None)


def _kill_all(workers: set[UsedWorker], process_id: int) -> None:
    """Kill processes that run programs; otherwise they notice the end of this process when a program ends."""
    if os.getpid() == process_id:  # a forked process has none
        for worker in list(workers):
            worker.kill()
