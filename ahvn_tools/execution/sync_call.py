"""The sync doors, `call` and `execute`. A sync body runs in its caller's own thread; asyncio is not even imported.

A body that needs the loop, a timeout or an async resolver takes the crossing.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from ahvn_tools import execution
from ahvn_tools.binding import StateScopes
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution import failure
from ahvn_tools.execution.convert import (
    error_result,
    normalize_cancellation,
    self_cancelled_error,
    success_result,
    to_result,
    unwrap_value,
)
from ahvn_tools.execution.outcome import Outcome, is_consumable, is_iterator
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.results import ToolResult, item_value


def call(plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes) -> Any:
    """Return the value, or raise: the body's own exception unchanged, or a ToolCallError."""
    values = prepare(plan, positional, arguments, scopes)
    if not plan.runs_in_caller_thread:
        return unwrap_value(
            plan,
            body,
            normalize_cancellation(plan, execution.async_to_sync.run_body_on_loop(plan, body, values)).get(),
            values,
        )
    return call_body(plan, body, values)


def call_body(plan: Plan, body: Body, values: Arguments) -> Any:
    """Call a sync body in this thread and return the value of what it returned.

    A CancelledError of the body's own is raised as ours: nobody can have cancelled a sync call.
    """
    try:
        returned = body(**values) if plan.is_keyword_callable else plan.invoke(body, values)
    except BaseException as error:
        if failure.is_cancellation(error):
            raise self_cancelled_error(plan) from error
        raise
    if type(returned) is plan.exact_type:
        return returned
    if is_consumable(returned):
        live = returned
        returned = normalize_cancellation(plan, Outcome.capture(lambda: consume(live))).get()
    return unwrap_value(plan, body, returned, values)


def execute(
    plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes
) -> ToolResult:
    """Return a result; whatever Exception the body raises is in it."""
    started = perf_counter()
    try:
        values = prepare(plan, positional, arguments, scopes)
    except ToolCallError as error:
        return error_result(failure.call_error_detail(error), started)
    if not plan.runs_in_caller_thread:
        return to_result(plan, body, execution.async_to_sync.run_body_on_loop(plan, body, values), values, started)
    try:
        returned = body(**values) if plan.is_keyword_callable else plan.invoke(body, values)
        if type(returned) is not plan.exact_type and is_consumable(returned):
            returned = consume(returned)
    except BaseException as error:  # noqa: BLE001  # a body's own cancellation is a result, too; `result` raises the others
        return to_result(plan, body, Outcome(error=error), values, started)
    return success_result(plan, body, returned, values, started)


def prepare(plan: Plan, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes) -> Arguments:
    """Return the body's arguments; async resolvers run on the background loop."""
    awaited = execution.async_to_sync.run_resolvers_on_loop(plan, scopes) if plan.has_async_resolvers else None
    return plan.prepare(positional, arguments, scopes, awaited)


def consume(returned: Any, emit: Callable[[Any], None] | None = None, collected_items: list[Any] | None = None) -> Any:
    """Bring what a body returned to its end, in the thread this is called in; an awaitable crosses to the loop.

    `give` gets each item as it comes, and `items` holds those so far.
    """
    if not is_iterator(returned):
        return execution.async_to_sync.consume_on_loop(returned)
    collected_items = [] if collected_items is None else collected_items
    try:
        for item in returned:
            collected_items.append(item_value(item))
            if emit is not None:
                emit(item)
    finally:
        if hasattr(returned, "close"):
            returned.close()
    return collected_items
