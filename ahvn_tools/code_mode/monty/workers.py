"""MontyWorkers: the worker processes of one sandbox, for programs and for checks."""

from __future__ import annotations

from typing import Any

from ahvn_tools.code_mode.monty.checker import MAX_CHECKERS, MontyChecker
from ahvn_tools.code_mode.monty.messages import FILE_NAME
from ahvn_tools.code_mode.monty.pool import MontyPool
from ahvn_tools.code_mode.monty.slots import Slots
from ahvn_tools.code_mode.monty.worker import MontyWorker


class MontyWorkers:
    """A pool of worker processes, and what checks programs in some of them."""

    def __init__(self, max_programs: int) -> None:
        """Start the pool, without a process."""
        self._pool = MontyPool(max_programs + MAX_CHECKERS)
        self.checker = MontyChecker(self._pool)

    def worker(self, limits: Any, slots: Slots) -> MontyWorker:
        """Return a worker process for a program, which starts with its first step, when there is a slot."""
        return MontyWorker(self._pool, slots, script_name=FILE_NAME, limits=limits)

    def close(self) -> None:
        """End the processes, and the programs in them. It blocks for at most a second."""
        self._pool.kill()
        self.checker.close()
        self._pool.close()
