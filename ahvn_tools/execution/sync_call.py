"""Calls from sync code. A sync body runs in its caller's thread, and asyncio is not imported for it.

A body that needs an event loop, a timeout or an async resolver runs by `async_to_sync`.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from ahvn_tools.binding import StateScopes
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution.cancellation import is_cancellation, normalize_cancellation, self_cancelled_error
from ahvn_tools.execution.consume import consume
from ahvn_tools.execution.convert import call_error_detail, error_result, returned_result, to_result, unwrap_value
from ahvn_tools.execution.outcome import Outcome, is_consumable, is_iterator
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.results import ToolResult


def call(plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes) -> Any:
    """Return the value, or raise the body's exception unchanged or a ToolCallError."""
    values = prepare(plan, positional, arguments, scopes)
    if plan.runs_in_caller_thread:
        return call_body(plan, body, values)
    from ahvn_tools.execution.async_to_sync import run_body_on_loop

    return unwrap_value(plan, body, normalize_cancellation(plan, run_body_on_loop(plan, body, values)).get(), values)


def call_body(plan: Plan, body: Body, values: Arguments) -> Any:
    """Call a sync body in this thread and return the value of what it returned.

    A CancelledError that the body raises becomes a CallCancelledError: a sync call cannot be cancelled by its caller.
    """
    try:
        returned = body(**values) if plan.is_keyword_callable else plan.invoke(body, values)
    except BaseException as error:
        if is_cancellation(error):
            raise self_cancelled_error(plan) from error
        raise
    if type(returned) is plan.exact_type:
        return returned
    if is_consumable(returned):
        outcome = Outcome.capture(lambda: consume_returned(returned))
        return unwrap_value(plan, body, normalize_cancellation(plan, outcome).get(), values)
    return unwrap_value(plan, body, returned, values)


def execute(
    plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes
) -> ToolResult:
    """Return a result, an error result for any Exception that the body raises."""
    started = perf_counter()
    try:
        values = prepare(plan, positional, arguments, scopes)
    except ToolCallError as error:
        return error_result(call_error_detail(error), started)
    if not plan.runs_in_caller_thread:
        from ahvn_tools.execution.async_to_sync import run_body_on_loop

        return to_result(plan, body, run_body_on_loop(plan, body, values), values, started)
    try:
        returned = body(**values) if plan.is_keyword_callable else plan.invoke(body, values)
        if type(returned) is not plan.exact_type and is_consumable(returned):
            returned = consume_returned(returned)
    except BaseException as error:  # noqa: BLE001  # a body's own CancelledError is a result; `to_result` raises the others
        return to_result(plan, body, Outcome(error=error), values, started)
    return returned_result(plan, body, returned, values, started)


def prepare(plan: Plan, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes) -> Arguments:
    """Return the body's arguments; async resolvers run on the background loop."""
    if not plan.has_async_resolvers:
        return plan.prepare(positional, arguments, scopes)
    from ahvn_tools.execution.async_to_sync import run_resolvers_on_loop

    return plan.prepare(positional, arguments, scopes, run_resolvers_on_loop(plan, scopes))


def consume_returned(returned: Any) -> Any:
    """Iterate what a body returned in this thread; an awaitable or async iterator runs on the background loop."""
    if is_iterator(returned):
        return consume(returned)
    from ahvn_tools.execution.async_to_sync import consume_on_loop

    return consume_on_loop(returned)
