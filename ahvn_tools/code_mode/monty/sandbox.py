"""MontySandbox: a pool of worker processes, one for each program that runs."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.code_mode.limits import CodeLimits
from ahvn_tools.code_mode.monty.session import MontySession
from ahvn_tools.code_mode.monty.slots import Slots
from ahvn_tools.code_mode.monty.workers import MontyWorkers
from ahvn_tools.code_mode.sandbox import Program
from ahvn_tools.errors import ToolkitError
from ahvn_tools.execution.threads import thread_pool

_SLEEP_SECONDS: Final = 60.0


class MontySandbox:
    """Runs each program in a worker process of a pool. Leaving its context closes it."""

    def __init__(self, max_processes: int = 32) -> None:
        """`max_processes`: how many programs run at once; the others wait, for at most 30 seconds."""
        self._max_processes = max_processes
        self._workers: MontyWorkers | None = None
        self._slots = Slots(max_processes)
        self._lock = threading.Lock()
        self._is_forked = False
        self._end: Any = None
        """Ends the worker processes when this object is deleted."""
        reset_after_fork(self._leave_to_parent)

    @property
    def version(self) -> str:
        """Monty's version: its snapshots are not compatible with other versions."""
        import pydantic_monty

        return f"monty {pydantic_monty.__version__}"

    async def check(self, program: Program) -> None:
        """Check a program without running it. Raises InvalidProgramError."""
        await self._started().checker.check(program.code, program.stubs)

    def open(self, limits: CodeLimits) -> AbstractAsyncContextManager[MontySession]:
        """Return the context of one program, in a worker process of its own until the context ends."""
        return self._open(limits)

    @asynccontextmanager
    async def _open(self, limits: CodeLimits) -> AsyncGenerator[MontySession]:
        worker = self._started().worker(_resource_limits(limits), self._slots)
        try:
            yield MontySession(worker, limits.seconds)
        except Exception:
            await worker.give_back()
            raise
        except BaseException:  # cancelled, or the event loop was closed
            worker.end()
            raise
        await worker.give_back()

    def close(self) -> None:
        """End the worker processes, and the programs in them with an error. The next program starts them again."""
        with self._lock:
            workers, self._workers = self._workers, None
        if workers is not None:
            self._end.detach()
            workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.close()

    def _started(self) -> MontyWorkers:
        if self._is_forked:
            raise ToolkitError(
                f"The process {os.getpid()} was forked from one that runs programs, and so it cannot run programs. "
                "Start it with multiprocessing's 'spawn' or 'forkserver'."
            )
        with self._lock:
            if self._workers is None:
                self._workers = MontyWorkers(self._max_processes)
                self._end = weakref.finalize(self, thread_pool.run, self._workers.close)
                self._end.atexit = False  # they end with this process
            return self._workers

    def _leave_to_parent(self) -> None:
        """In a forked child: never destroy the parent's pool, which would wait for threads that are not here."""
        self._lock = threading.Lock()
        if self._workers is not None:
            self._is_forked = True
            self._end.detach()
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._workers))


def _resource_limits(limits: CodeLimits) -> dict[str, Any]:
    return {
        "max_feed_duration_secs": limits.seconds,
        "max_memory": limits.memory_bytes,
        "max_recursion_depth": limits.recursion,
        "max_suspensions": limits.calls * 4 + 100,  # lookups of names and answers are suspensions, too
        "max_total_sleep_secs": _SLEEP_SECONDS,
    }
