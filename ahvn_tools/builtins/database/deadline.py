"""Deadline: the end of a call, by its time limit or because it was cancelled."""

from __future__ import annotations

import time
from typing import Final

from ahvn_tools.builtins.database.statement import timeout_error
from ahvn_tools.context import ToolContext

POLL_SECONDS: Final = 0.02
"""How often a wait looks whether the call was cancelled."""


class Deadline:
    """The time until which a call may run."""

    def __init__(self, timeout: float, context: ToolContext, *, knows_locks: bool = True) -> None:
        """Start now. `timeout` is in seconds; `knows_locks` is that of `timeout_error`."""
        self._timeout = timeout
        self._knows_locks = knows_locks
        self._context = context
        self._end = time.monotonic() + timeout

    def check(self) -> None:
        """Raise CallCancelledError after a cancellation, and ToolError after the time limit."""
        self._context.check_cancelled()
        if time.monotonic() > self._end:
            raise timeout_error(self._timeout, knows_locks=self._knows_locks)
