"""MontySandbox: a pool of worker processes, one for each program that runs."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.code_mode.limits import CodeLimits
from ahvn_tools.code_mode.monty.messages import FILE_NAME
from ahvn_tools.code_mode.monty.session import MontySession
from ahvn_tools.code_mode.monty.slots import Slots
from ahvn_tools.code_mode.sandbox import Program
from ahvn_tools.errors import ToolkitError

_SLEEP_SECONDS: Final = 60.0
_START_SECONDS: Final = 30.0
"""How long to wait for a free worker process."""


class MontySandbox:
    """Runs each program in a worker process of a pool."""

    def __init__(self, max_processes: int = 32) -> None:
        """`max_processes`: how many programs run at once; the others wait."""
        self._max_processes = max_processes
        self._pool: Any = None
        self._checker: Any = None
        self._slots = Slots(max_processes)
        self._lock = threading.Lock()
        self._is_forked = False
        reset_after_fork(self._leave_to_parent)

    @property
    def version(self) -> str:
        """Monty's version: its snapshots are not compatible with other versions."""
        import pydantic_monty

        return f"monty {pydantic_monty.__version__}"

    async def check(self, program: Program) -> None:
        """Check a program without running it. Raises InvalidProgramError."""
        self._started_pool()
        await self._checker.check(program.code, program.stubs)

    def open(self, limits: CodeLimits) -> AbstractAsyncContextManager[MontySession]:
        """Return the context of one program, in a worker process of its own until the context ends."""
        return self._open(limits)

    @asynccontextmanager
    async def _open(self, limits: CodeLimits) -> AsyncGenerator[MontySession]:
        from ahvn_tools.code_mode.monty.worker import MontyWorker

        async with (
            self._slots.hold(),
            MontyWorker(self._started_pool(), script_name=FILE_NAME, limits=_resource_limits(limits)) as worker,
        ):
            yield MontySession(worker)

    def close(self) -> None:
        """End the worker processes. The next program starts them again."""
        with self._lock:
            pool, self._pool, self._checker = self._pool, None, None
        if pool is not None:
            pool.__exit__(None, None, None)

    def _started_pool(self) -> Any:
        if self._is_forked:
            raise ToolkitError(
                f"The process {os.getpid()} was forked from one that runs programs, and so it cannot run programs. "
                "Start it with multiprocessing's 'spawn' or 'forkserver'."
            )
        with self._lock:
            if self._pool is None:
                import pydantic_monty

                from ahvn_tools.code_mode.monty.checker import MAX_CHECKS_AT_ONCE, MAX_WARM, MontyChecker

                pool = pydantic_monty.Monty(
                    max_processes=self._max_processes + MAX_WARM + MAX_CHECKS_AT_ONCE, checkout_timeout=_START_SECONDS
                )
                self._pool, self._checker = pool.__enter__(), MontyChecker(pool)
            return self._pool

    def _leave_to_parent(self) -> None:
        """In a forked child: never destroy the parent's pool, which would wait for threads that are not here."""
        self._lock = threading.Lock()
        if self._pool is not None:
            self._is_forked = True
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._pool))


def _resource_limits(limits: CodeLimits) -> dict[str, Any]:
    return {
        "max_feed_duration_secs": limits.seconds,
        "max_memory": limits.memory_bytes,
        "max_recursion_depth": limits.recursion,
        "max_suspensions": limits.calls * 4 + 100,  # lookups of names and answers are suspensions, too
        "max_total_sleep_secs": _SLEEP_SECONDS,
    }
