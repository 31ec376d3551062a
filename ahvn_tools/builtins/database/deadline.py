"""Deadline: the end of a call, by its time limit or because it was cancelled."""

from __future__ import annotations

import time
from typing import Final

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError

POLL_SECONDS: Final = 0.02
"""How often a wait looks whether the call was cancelled."""


class Deadline:
    """The time until which a call may run."""

    def __init__(self, timeout: float, context: ToolContext) -> None:
        """Start now. `timeout` is in seconds."""
        self.timeout = timeout
        self._context = context
        self._end = time.monotonic() + timeout

    @property
    def is_over(self) -> bool:
        """Whether the call was cancelled, or its time is over."""
        return self._context.cancelled or time.monotonic() > self._end

    def check(self) -> None:
        """Raise CallCancelledError after a cancellation, and ToolError after the time limit."""
        self._context.check_cancelled()
        if time.monotonic() > self._end:
            raise self.error()

    def error(self) -> ToolError:
        """Return the error of a statement that took too long."""
        return timeout_error(self.timeout)


def timeout_error(timeout: float) -> ToolError:
    """Return the error of a statement that was stopped after `timeout` seconds."""
    return ToolError(
        f"The statement was stopped after {timeout:g} seconds. Make it cheaper: read fewer rows with WHERE or LIMIT."
    )
