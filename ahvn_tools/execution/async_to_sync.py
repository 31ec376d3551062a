"""The crossing: what a sync caller does on the background loop, and waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ahvn_tools.binding import StateScopes
from ahvn_tools.errors import SyncCallError
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.async_call import arun_resolvers as aresolved
from ahvn_tools.execution.convert import normalize_cancellation
from ahvn_tools.execution.deadline import CANCEL_GRACE_SECONDS
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.runner import aconsume, capture_outcome, run_body, timeout_error

LOOP_BLOCKED_REASON = "a body blocks the background loop"
"""The reason of a timeout that no timer could tell of."""


def run_body_on_loop(plan: Plan, body: Body, values: Arguments) -> Outcome:
    """Run the body to its end and return what came of it."""
    return _run_on_loop(plan, run_body, plan, body, values)


def run_resolvers_on_loop(plan: Plan, scopes: StateScopes) -> Mapping[str, Any]:
    """Return what the async resolvers give."""
    values: Mapping[str, Any] = normalize_cancellation(plan, _run_on_loop(plan, aresolved, plan, scopes)).get()
    return values


def consume_on_loop(returned: Any) -> Any:
    """Bring an awaitable or an async iterator to its end."""
    try:
        return background_loop.run(capture_outcome, aconsume, returned).get()
    except SyncCallError:
        if hasattr(returned, "close"):
            returned.close()  # a coroutine that nobody can await
        raise


def _run_on_loop(plan: Plan, start: background_loop.CoroutineFactory, *arguments: Any) -> Outcome:
    """Run `start` on the background loop; return on time even when another body blocks that, so that no timer fires."""
    backstop = None if plan.timeout is None else max(plan.timeout, 0) + plan.startup_seconds + 2 * CANCEL_GRACE_SECONDS
    try:
        return background_loop.run(start, *arguments, max_wait=backstop)
    except TimeoutError:
        return Outcome(error=timeout_error(plan, LOOP_BLOCKED_REASON), is_runner_error=True)
