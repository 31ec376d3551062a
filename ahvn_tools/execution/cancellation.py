"""Cancellation: distinguishes a caller's cancellation from a CancelledError that a body raised by itself.

asyncio is imported only when there is such an error.
"""

from __future__ import annotations

import sys

from ahvn_tools.errors import CallCancelledError
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.plan import Plan


def is_cancellation(error: BaseException) -> bool:
    """Return whether an exception is asyncio's CancelledError."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError)


def is_being_cancelled() -> bool:
    """Return whether the current task is being cancelled from outside."""
    import asyncio

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_self_cancellation(error: BaseException) -> bool:
    """Return whether a body raised CancelledError by itself, in a task that is not being cancelled."""
    return is_cancellation(error) and not is_being_cancelled()


def normalize_cancellation(plan: Plan, outcome: Outcome) -> Outcome:
    """Replace a CancelledError that a body raised by itself, which `call` would pass on as its caller's."""
    if outcome.error is not None and is_cancellation(outcome.error):
        return Outcome(error=self_cancelled_error(plan))
    return outcome


def self_cancelled_error(plan: Plan) -> CallCancelledError:
    """Return the error for a tool that cancelled itself."""
    return CallCancelledError(f"Tool {plan.name!r} cancelled itself; its caller did not cancel it.", tool=plan.name)
