"""The async doors, `acall` and `aexecute`.

An async body runs in the caller's own task (a timeout gives it one of its own), a sync one in a worker thread with the
caller's contextvars, unless `run_in_thread=False`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any

from ahvn_tools.binding import StateScopes
from ahvn_tools.errors import CallCancelledError, ToolCallError
from ahvn_tools.execution import failure
from ahvn_tools.execution.call import EmitChunk
from ahvn_tools.execution.convert import (
    error_result,
    normalize_cancellation,
    self_cancelled_error,
    success_result,
    to_result,
    unwrap_value,
)
from ahvn_tools.execution.deadline import Deadline, run_with_deadline
from ahvn_tools.execution.outcome import Outcome, is_consumable
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.runner import aconsume, capture_outcome, is_being_cancelled, run_body, timeout_error
from ahvn_tools.results import ToolResult

CancelledError = asyncio.CancelledError


async def acall(plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes) -> Any:
    """Return the value, or raise: the body's own exception unchanged, or a ToolCallError."""
    values = await aprepare(plan, positional, arguments, scopes)
    if not plan.runs_in_caller_task:
        return unwrap_value(plan, body, normalize_cancellation(plan, await run_body(plan, body, values)).get(), values)
    try:
        returned = await (body(**values) if plan.is_keyword_callable else plan.invoke(body, values))
    except CancelledError as error:
        raise cancellation_error(plan, error) from None
    return await aunwrap_value(plan, body, returned, values)


async def aunwrap_value(plan: Plan, body: Body, returned: Any, values: Mapping[str, Any]) -> Any:
    """Return the value of what an async body returned."""
    if type(returned) is plan.exact_type:
        return returned
    if is_consumable(returned):
        returned = normalize_cancellation(plan, await capture_outcome(aconsume, returned)).get()
    return unwrap_value(plan, body, returned, values)


def cancellation_error(plan: Plan, error: CancelledError) -> CancelledError | CallCancelledError:
    """Return what to raise for a CancelledError: the caller's own passes, a body's own would be taken for it."""
    return error if is_being_cancelled() else self_cancelled_error(plan)


async def aexecute(
    plan: Plan,
    body: Body,
    positional: tuple[Any, ...],
    arguments: Arguments,
    scopes: StateScopes,
    *,
    is_served: bool = False,
    shows_errors: bool = False,
    emit: EmitChunk | None = None,
) -> ToolResult:
    """Return a result; whatever Exception the body raises is in it.

    For a served tool BaseExceptions become results too, texts that are not meant for the model are masked, and `emit`
    takes the items that the body makes, as chunks.
    """
    started = perf_counter()
    try:
        values = await aprepare(plan, positional, arguments, scopes)
    except ToolCallError as error:
        return error_result(failure.call_error_detail(error), started)
    if plan.runs_in_caller_task and not is_served:
        try:
            returned = await (body(**values) if plan.is_keyword_callable else plan.invoke(body, values))
        except Exception as error:  # noqa: BLE001  # whatever a body raises is its result
            return to_result(plan, body, Outcome(error=error), values, started)
        except CancelledError as error:
            if is_being_cancelled():
                raise
            return to_result(plan, body, Outcome(error=error), values, started)
        if type(returned) is plan.exact_type or not is_consumable(returned):
            return success_result(plan, body, returned, values, started)
        return to_result(plan, body, await capture_outcome(aconsume, returned), values, started)
    give = None if emit is None else _to_emit_item(plan, emit)
    outcome = await run_body(plan, body, values, give, waits_for_reader=False)
    return to_result(plan, body, outcome, values, started, is_served=is_served, shows_errors=shows_errors)


def _to_emit_item(plan: Plan, emit: EmitChunk) -> Callable[[Any], Awaitable[None]]:
    """Return what gives the body's items to `emit` as chunks."""

    async def give(item: Any) -> None:
        await emit(plan.output.to_chunk(item))

    return give


async def aprepare(plan: Plan, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes) -> Arguments:
    """Return the body's arguments; async resolvers are awaited here."""
    awaited = (
        normalize_cancellation(plan, await arun_resolvers(plan, scopes)).get() if plan.has_async_resolvers else None
    )
    return plan.prepare(positional, arguments, scopes, awaited)


async def arun_resolvers(plan: Plan, scopes: StateScopes) -> Outcome:
    """Return what the async resolvers give. They may take as long as the body may."""
    if plan.timeout is None:
        return await capture_outcome(plan.arun_resolvers, scopes)
    reason = "a resolver of a bound parameter took too long"
    return await run_with_deadline(
        Deadline(plan.timeout), timeout_error(plan, reason), capture_outcome, plan.arun_resolvers, scopes
    )
