"""Calls from async code.

An async body runs in the caller's task (a timeout runs it in another task). A sync body runs in a worker thread with
the caller's contextvars, unless `run_in_thread=False`. Importing this module does not import asyncio.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any

from ahvn_tools.binding import StateScopes
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution.cancellation import is_self_cancellation, normalize_cancellation, self_cancelled_error
from ahvn_tools.execution.consume import aconsume
from ahvn_tools.execution.convert import call_error_detail, error_result, returned_result, to_result, unwrap_value
from ahvn_tools.execution.outcome import Outcome, is_consumable
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.results import ToolResult


async def acall(plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes) -> Any:
    """Return the value, or raise the body's exception unchanged or a ToolCallError."""
    values = await aprepare(plan, positional, arguments, scopes)
    if not plan.runs_in_caller_task:
        from ahvn_tools.execution.runner import run_body

        outcome = normalize_cancellation(plan, await run_body(plan, body, values))
        return unwrap_value(plan, body, outcome.get(), values)
    try:
        returned = await (body(**values) if plan.is_keyword_callable else plan.invoke(body, values))
    except BaseException as error:
        if is_self_cancellation(error):
            raise self_cancelled_error(plan) from None
        raise
    return await aunwrap_value(plan, body, returned, values)


async def aunwrap_value(plan: Plan, body: Body, returned: Any, values: Mapping[str, Any]) -> Any:
    """Return the value of what an async body returned."""
    if type(returned) is plan.exact_type:
        return returned
    if is_consumable(returned):
        from ahvn_tools.execution.runner import capture_outcome

        returned = normalize_cancellation(plan, await capture_outcome(aconsume, returned)).get()
    return unwrap_value(plan, body, returned, values)


async def aexecute(
    plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes
) -> ToolResult:
    """Return a result, an error result for any Exception that the body raises."""
    started = perf_counter()
    try:
        if plan.has_async_resolvers:
            values = await aprepare(plan, positional, arguments, scopes)
        else:
            values = plan.prepare(positional, arguments, scopes)
    except ToolCallError as error:
        return error_result(call_error_detail(error), started)
    if not plan.runs_in_caller_task:
        from ahvn_tools.execution.runner import run_body

        outcome = await run_body(plan, body, values)
        if outcome.error is None:
            return returned_result(plan, body, outcome.value, values, started)
        return to_result(plan, body, outcome, values, started)
    try:
        returned = await (body(**values) if plan.is_keyword_callable else plan.invoke(body, values))
    except BaseException as error:
        if not (isinstance(error, Exception) or is_self_cancellation(error)):
            raise
        return to_result(plan, body, Outcome(error=error), values, started)
    if type(returned) is plan.exact_type or not is_consumable(returned):
        return returned_result(plan, body, returned, values, started)
    from ahvn_tools.execution.runner import capture_outcome

    return to_result(plan, body, await capture_outcome(aconsume, returned), values, started)


async def aprepare(plan: Plan, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes) -> Arguments:
    """Return the body's arguments; async resolvers are awaited, for as long as the body may take."""
    if not plan.has_async_resolvers:
        return plan.prepare(positional, arguments, scopes)
    from ahvn_tools.execution.runner import run_resolvers

    resolved = normalize_cancellation(plan, await run_resolvers(plan, scopes)).get()
    return plan.prepare(positional, arguments, scopes, resolved)
