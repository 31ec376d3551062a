"""MontySandbox: a pool of worker processes, one for each program that runs."""

from __future__ import annotations

import _thread
import contextlib
import importlib.metadata
import threading
import weakref
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.code_mode.limits import CodeLimits
from ahvn_tools.code_mode.monty.checker import MontyChecker
from ahvn_tools.code_mode.monty.process_pool import ProcessPool
from ahvn_tools.code_mode.monty.session import MontySession
from ahvn_tools.code_mode.monty.slots import Slots
from ahvn_tools.code_mode.monty.worker import MontyWorker
from ahvn_tools.code_mode.sandbox import Program
from ahvn_tools.errors import ToolkitError

_SLEEP_SECONDS: Final = 60.0


class MontySandbox:
    """Runs each program in a worker process of a pool. Leaving its context closes it."""

    def __init__(self, max_processes: int = 32) -> None:
        """`max_processes`: how many programs run at once; the others wait, for at most 30 seconds.

        Raises ToolkitError for a number that is not whole, or not above 0.
        """
        if type(max_processes) is not int or max_processes < 1:
            raise ToolkitError(f"`max_processes` is a whole number above 0, not {max_processes!r}.")
        self._max_processes = max_processes
        self._lock = threading.Lock()
        self._slots = Slots(max_processes)
        self._pool: ProcessPool | None = None
        self._checker: MontyChecker | None = None
        self._end: Any = None
        """Ends the worker processes when this object is deleted."""
        _sandboxes.add(self)

    @property
    def version(self) -> str:
        """Monty's version: its snapshots are not compatible with other versions."""
        return f"monty {importlib.metadata.version('pydantic-monty')}"

    async def check(self, program: Program) -> None:
        """Check a program without running it. Raises InvalidProgramError."""
        await self._start()[1].check(program.code, program.stubs)

    def open(self, limits: CodeLimits) -> AbstractAsyncContextManager[MontySession]:
        """Return the context of one program, in a worker process of its own until the context ends."""
        return self._open(limits)

    @asynccontextmanager
    async def _open(self, limits: CodeLimits) -> AsyncGenerator[MontySession]:
        worker = MontyWorker(
            self._start()[0],
            self._slots,
            options={"limits": _resource_limits(limits)},
            value_bytes=limits.value_bytes,
            output_chars=limits.output_chars,
        )
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
            pool, self._pool = self._pool, None
        if pool is not None and self._checker is not None:
            self._end.detach()
            _close(pool, self._checker)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> tuple[ProcessPool, MontyChecker]:
        with self._lock:
            if self._pool is None or self._checker is None:
                self._pool = ProcessPool()
                self._checker = MontyChecker(self._pool)
                self._end = weakref.finalize(self, _start_close, self._pool, self._checker)
                self._end.atexit = False  # the pool ends them then
            return self._pool, self._checker

    def leave_to_parent(self) -> None:  # pragma: no cover  # runs in child processes, which report no coverage
        """In a forked child: begin without processes."""
        self._lock = threading.Lock()
        self._slots = Slots(self._max_processes)
        self._pool = None
        if self._end is not None:
            self._end.detach()


_sandboxes: weakref.WeakSet[MontySandbox] = weakref.WeakSet()


@reset_after_fork
def _leave_to_parent() -> None:  # pragma: no cover  # as above
    for sandbox in list(_sandboxes):
        sandbox.leave_to_parent()


def _start_close(pool: ProcessPool, checker: MontyChecker) -> None:
    """Close in a new thread. The garbage collector calls this, also in a thread that has locked the thread pool."""
    with contextlib.suppress(RuntimeError):  # the system starts no thread; the processes end without their sockets
        _thread.start_new_thread(_close, (pool, checker))  # `Thread.start` would wait


def _close(pool: ProcessPool, checker: MontyChecker) -> None:
    pool.close()
    checker.close()


def _resource_limits(limits: CodeLimits) -> dict[str, Any]:
    return {
        "max_feed_duration_secs": limits.seconds,
        "max_memory": limits.memory_bytes,
        "max_recursion_depth": limits.recursion,
        "max_suspensions": limits.calls * 4 + 100,  # lookups of names and answers are suspensions, too
        "max_total_sleep_secs": _SLEEP_SECONDS,
    }
