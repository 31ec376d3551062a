"""The crossing: what a sync caller does on the background loop, and waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ahvn_tools.binding import Layers
from ahvn_tools.errors import SyncCallError
from ahvn_tools.execution import bridge
from ahvn_tools.execution.awaited import resolved as aresolved
from ahvn_tools.execution.deadline import GRACE
from ahvn_tools.execution.drive import agathered, carried, drive, late
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.settle import raised

LOOP_IS_BLOCKED = "a body blocks the background loop"
"""The reason of a timeout that no timer could tell of."""


def outcome(plan: Plan, body: Body, values: Arguments) -> Outcome:
    """Run the body to its end and return what came of it."""
    return _within(plan, drive, plan, body, values)


def resolved(plan: Plan, layers: Layers) -> Mapping[str, Any]:
    """Return what the async resolvers give."""
    values: Mapping[str, Any] = raised(plan, _within(plan, aresolved, plan, layers)).get()
    return values


def gathered(returned: Any) -> Any:
    """Bring an awaitable or an async iterator to its end."""
    try:
        return bridge.run(carried, agathered, returned).get()
    except SyncCallError:
        if hasattr(returned, "close"):
            returned.close()  # a coroutine that nobody can await
        raise


def _within(plan: Plan, start: bridge.Start, *arguments: Any) -> Outcome:
    """Run `start` on the background loop; return on time even when another body blocks that, so that no timer fires."""
    backstop = None if plan.timeout is None else max(plan.timeout, 0) + plan.headroom + 2 * GRACE
    try:
        return bridge.run(start, *arguments, backstop=backstop)
    except TimeoutError:
        return Outcome(error=late(plan, LOOP_IS_BLOCKED), is_ours=True)
