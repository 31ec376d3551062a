"""MontyChecker: type-checks programs against stubs, in workers that stay warm: a first check takes 30 times as long."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import Final

from ahvn_tools.code_mode.monty.process_pool import ProcessPool
from ahvn_tools.code_mode.monty.slots import Slots
from ahvn_tools.code_mode.monty.worker import STEP_SECONDS, MontyWorker
from ahvn_tools.code_mode.monty_process.messages import START
from ahvn_tools.code_mode.sandbox import SandboxError

_MAX_CHECKS_AT_ONCE: Final = 2

_MAX_WARM: Final = 4
"""How many workers stay warm, each for other stubs."""

_MAX_CHECKERS: Final = _MAX_CHECKS_AT_ONCE + _MAX_WARM
"""How many workers there are for checks."""

_MAX_CHECKS: Final = 500
"""After how many checks a worker is replaced."""

_LIMITS: Final = {
    "max_feed_duration_secs": 4.0,  # Monty ends a check one second later
    "max_memory": 200_000_000,
    "max_recursion_depth": 50,
    "max_suspensions": 1_000_000,
}
_STUB: Final = f"\ndef {START}() -> None: ...\n"


@dataclass(kw_only=True, eq=False)
class _WarmWorker:
    """A worker that knows the stubs of some tools."""

    worker: MontyWorker
    stubs: str
    checks: int = 0


class MontyChecker:
    """Type-checks programs, without running anything of them."""

    def __init__(self, pool: ProcessPool) -> None:
        self._pool = pool
        self._slots = Slots(_MAX_CHECKS_AT_ONCE)
        self._processes = Slots(_MAX_CHECKERS)
        self._lock = threading.RLock()  # for the same reason as that of Slots
        self._warm: list[_WarmWorker] = []
        """The workers that check nothing, the last used one at the end."""

    async def check(self, code: str, stubs: str) -> None:
        """Raises InvalidProgramError for a program that does not fit the stubs, SandboxError if it is not known."""
        await self._slots.acquire(STEP_SECONDS)
        try:
            warm = self._take(stubs)
            if warm is not None:
                with contextlib.suppress(SandboxError):  # the process ended while it was idle, or is full
                    return await self._check(warm, code)
            await self._check(self._new(stubs), code)
        finally:
            self._slots.release()

    def close(self) -> None:
        """Return the warm workers to the pool, which was closed before. It blocks."""
        with self._lock:
            warm, self._warm = self._warm, []
        for one in warm:
            one.worker.leave()

    async def _check(self, warm: _WarmWorker, code: str) -> None:
        warm.checks += 1
        try:
            await warm.worker.request("check", code=code)
        finally:
            if (surplus := self._keep(warm)) is not None:
                surplus.worker.end()

    def _take(self, stubs: str) -> _WarmWorker | None:
        with self._lock:
            for warm in reversed(self._warm):
                if warm.stubs == stubs:
                    self._warm.remove(warm)
                    return warm
        return None

    def _keep(self, warm: _WarmWorker) -> _WarmWorker | None:
        """Keep a worker for a later check. Return the one that has to end, if any."""
        with self._lock:
            if not warm.worker.is_alive or warm.checks >= _MAX_CHECKS or self._pool.is_closed:
                return warm
            self._warm.append(warm)
            return self._warm.pop(0) if len(self._warm) > _MAX_WARM else None

    def _new(self, stubs: str) -> _WarmWorker:
        options = {
            "limits": _LIMITS,
            "type_check": True,
            "type_check_stubs": stubs + _STUB,
            "type_check_format": "concise",
        }
        worker = MontyWorker(self._pool, self._processes, options=options, value_bytes=0, output_chars=0)
        return _WarmWorker(worker=worker, stubs=stubs)
