"""The sync doors, `call` and `execute`. A sync body runs in its caller's own thread; asyncio is not even imported.

A body that needs the loop, a timeout or an async resolver takes the crossing.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from ahvn_tools import execution
from ahvn_tools.binding import Layers
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution import failure
from ahvn_tools.execution.outcome import Outcome, is_iterator, is_live
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.settle import cancelled, failed, finished, raised, result, shown
from ahvn_tools.results import ToolResult, item_value


def call(plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, layers: Layers) -> Any:
    """Return the value, or raise: the body's own exception unchanged, or a ToolCallError."""
    values = prepared(plan, positional, arguments, layers)
    if not plan.is_direct:
        return shown(plan, body, raised(plan, execution.crossing.outcome(plan, body, values)).get(), values)
    return called(plan, body, values)


def called(plan: Plan, body: Body, values: Arguments) -> Any:
    """Call a sync body in this thread and return the value of what it returned.

    A CancelledError of the body's own is raised as ours: nobody can have cancelled a sync call.
    """
    try:
        returned = body(**values) if plan.is_named else plan.invoke(body, values)
    except BaseException as error:
        if failure.is_cancellation(error):
            raise cancelled(plan) from error
        raise
    if type(returned) is plan.exact:
        return returned
    if is_live(returned):
        live = returned
        returned = raised(plan, Outcome.of(lambda: gathered(live))).get()
    return shown(plan, body, returned, values)


def execute(plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, layers: Layers) -> ToolResult:
    """Return a result; whatever Exception the body raises is in it."""
    started = perf_counter()
    try:
        values = prepared(plan, positional, arguments, layers)
    except ToolCallError as error:
        return failed(failure.of_call(error), started)
    if not plan.is_direct:
        return result(plan, body, execution.crossing.outcome(plan, body, values), values, started)
    try:
        returned = body(**values) if plan.is_named else plan.invoke(body, values)
        if type(returned) is not plan.exact and is_live(returned):
            returned = gathered(returned)
    except BaseException as error:  # noqa: BLE001  # a body's own cancellation is a result, too; `result` raises the others
        return result(plan, body, Outcome(error=error), values, started)
    return finished(plan, body, returned, values, started)


def prepared(plan: Plan, positional: tuple[Any, ...], arguments: Arguments, layers: Layers) -> Arguments:
    """Return the body's arguments; async resolvers run on the background loop."""
    awaited = execution.crossing.resolved(plan, layers) if plan.has_awaited else None
    return plan.prepare(positional, arguments, layers, awaited)


def gathered(returned: Any, give: Callable[[Any], None] | None = None, items: list[Any] | None = None) -> Any:
    """Bring what a body returned to its end, in the thread this is called in; an awaitable crosses to the loop.

    `give` gets each item as it comes, and `items` holds those so far.
    """
    if not is_iterator(returned):
        return execution.crossing.gathered(returned)
    items = [] if items is None else items
    try:
        for item in returned:
            items.append(item_value(item))
            if give is not None:
                give(item)
    finally:
        if hasattr(returned, "close"):
            returned.close()
    return items
