"""MontyChecker: type-checks programs against stubs, in workers that stay warm: a first check takes 30 times as long."""

from __future__ import annotations

import contextlib
import threading
from typing import Final

from ahvn_tools.code_mode.monty.program_process import ProgramProcess
from ahvn_tools.code_mode.monty.worker import MontyWorker, acquire_slot
from ahvn_tools.code_mode.monty_process.messages import START
from ahvn_tools.code_mode.sandbox import SandboxError
from ahvn_tools.execution.workers.pool import ProcessPool
from ahvn_tools.execution.workers.slots import Slots

_MAX_WARM: Final = 4
"""How many workers stay warm, each for other stubs."""

_MAX_CHECKS_AT_ONCE: Final = 2

_MAX_CHECKS: Final = 500
"""After how many checks a worker is replaced."""

_LIMITS: Final = {
    "max_feed_duration_secs": 4.0,  # Monty ends a check one second later
    "max_memory": 200_000_000,
    "max_recursion_depth": 50,
    "max_suspensions": 1_000_000,
}
_STUB: Final = f"\ndef {START}() -> None: ...\n"


class MontyChecker:
    """Type-checks programs, without running anything of them."""

    def __init__(self, pool: ProcessPool[ProgramProcess]) -> None:
        self._pool = pool
        self._slots = Slots(_MAX_CHECKS_AT_ONCE)
        self._lock = threading.RLock()
        self._warm: list[tuple[str, MontyWorker]] = []
        """The workers that check nothing, each with the stubs that it knows; the last used one at the end."""

    async def check(self, code: str, stubs: str) -> None:
        """Raises InvalidProgramError for a program that does not fit the stubs, SandboxError if it is not known."""
        await acquire_slot(self._slots)
        try:
            if (warm := self._take(stubs)) is not None:
                with contextlib.suppress(SandboxError):  # the process ended while it was idle, or is full
                    await self._check(stubs, warm, code)
                    return
            await self._check(stubs, self._new(stubs), code)
        finally:
            self._slots.release()

    def close(self) -> None:
        """Return the warm workers to the pool, which was closed before. It blocks."""
        with self._lock:
            warm, self._warm = self._warm, []
        for _, worker in warm:
            worker.leave()

    async def _check(self, stubs: str, worker: MontyWorker, code: str) -> None:
        try:
            await worker.request("check", code=code)
        finally:
            if (surplus := self._keep(stubs, worker)) is not None:
                surplus.end()

    def _take(self, stubs: str) -> MontyWorker | None:
        with self._lock:
            for index in reversed(range(len(self._warm))):
                if self._warm[index][0] == stubs:
                    return self._warm.pop(index)[1]
        return None

    def _keep(self, stubs: str, worker: MontyWorker) -> MontyWorker | None:
        """Keep a worker for a later check. Return the one that has to end, if any."""
        with self._lock:
            if not worker.is_alive or worker.requests >= _MAX_CHECKS or self._pool.is_closed:
                return worker
            self._warm.append((stubs, worker))
            return self._warm.pop(0)[1] if len(self._warm) > _MAX_WARM else None

    def _new(self, stubs: str) -> MontyWorker:
        options = {
            "limits": _LIMITS,
            "type_check": True,
            "type_check_stubs": stubs + _STUB,
            "type_check_format": "concise",
        }
        return MontyWorker(self._pool, None, options=options, value_bytes=0, output_chars=0)
