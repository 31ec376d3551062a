"""MontyWorkers: the worker processes of one sandbox, for programs and for checks."""

from __future__ import annotations

from typing import Any, Final

import pydantic_monty

from ahvn_tools.code_mode.monty.checker import MAX_CHECKS_AT_ONCE, MAX_WARM, MontyChecker
from ahvn_tools.code_mode.monty.messages import FILE_NAME
from ahvn_tools.code_mode.monty.worker import MontyWorker

_START_SECONDS: Final = 30.0
"""How long to wait for a free worker process."""


class MontyWorkers:
    """A pool of worker processes, and what checks programs in some of them."""

    def __init__(self, max_programs: int) -> None:
        """Start the pool, with one process."""
        self._pool = pydantic_monty.Monty(
            max_processes=max_programs + MAX_WARM + MAX_CHECKS_AT_ONCE, checkout_timeout=_START_SECONDS
        )
        self._pool.__enter__()
        self.checker = MontyChecker(self._pool)

    def checkout(self, limits: Any) -> MontyWorker:
        """Return the context of a worker process for one program."""
        return MontyWorker(self._pool, script_name=FILE_NAME, limits=limits)

    def close(self) -> None:
        """End the processes. It blocks."""
        self.checker.close()
        self._pool.__exit__(None, None, None)
