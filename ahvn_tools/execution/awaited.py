"""The async doors, `acall` and `aexecute`.

An async body runs in the caller's own task (a timeout gives it one of its own), a sync one in a worker thread with the
caller's contextvars, unless `run_in_thread=False`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any

from ahvn_tools.binding import Layers
from ahvn_tools.errors import CallCancelledError, ToolCallError
from ahvn_tools.execution import failure
from ahvn_tools.execution.call import Emit
from ahvn_tools.execution.deadline import Deadline, within
from ahvn_tools.execution.drive import agathered, carried, drive, is_being_cancelled, late
from ahvn_tools.execution.outcome import Outcome, is_live
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.settle import cancelled, failed, finished, raised, result, shown
from ahvn_tools.results import ToolResult

CancelledError = asyncio.CancelledError


async def acall(plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, layers: Layers) -> Any:
    """Return the value, or raise: the body's own exception unchanged, or a ToolCallError."""
    values = await aprepared(plan, positional, arguments, layers)
    if not plan.is_coroutine:
        return shown(plan, body, raised(plan, await drive(plan, body, values)).get(), values)
    try:
        returned = await (body(**values) if plan.is_named else plan.invoke(body, values))
    except CancelledError as error:
        raise cancellation(plan, error) from None
    return await asettled(plan, body, returned, values)


async def asettled(plan: Plan, body: Body, returned: Any, values: Mapping[str, Any]) -> Any:
    """Return the value of what an async body returned."""
    if type(returned) is plan.exact:
        return returned
    if is_live(returned):
        returned = raised(plan, await carried(agathered, returned)).get()
    return shown(plan, body, returned, values)


def cancellation(plan: Plan, error: CancelledError) -> CancelledError | CallCancelledError:
    """Return what to raise for a CancelledError: the caller's own passes, a body's own would be taken for it."""
    return error if is_being_cancelled() else cancelled(plan)


async def aexecute(
    plan: Plan,
    body: Body,
    positional: tuple[Any, ...],
    arguments: Arguments,
    layers: Layers,
    *,
    is_served: bool = False,
    shows_errors: bool = False,
    emit: Emit | None = None,
) -> ToolResult:
    """Return a result; whatever Exception the body raises is in it.

    For a served tool BaseExceptions become results too, texts that are not meant for the model are masked, and `emit`
    takes the items that the body makes, as chunks.
    """
    started = perf_counter()
    try:
        values = await aprepared(plan, positional, arguments, layers)
    except ToolCallError as error:
        return failed(failure.of_call(error), started)
    if plan.is_coroutine and not is_served:
        try:
            returned = await (body(**values) if plan.is_named else plan.invoke(body, values))
        except Exception as error:  # noqa: BLE001  # whatever a body raises is its result
            return result(plan, body, Outcome(error=error), values, started)
        except CancelledError as error:
            if is_being_cancelled():
                raise
            return result(plan, body, Outcome(error=error), values, started)
        if type(returned) is plan.exact or not is_live(returned):
            return finished(plan, body, returned, values, started)
        return result(plan, body, await carried(agathered, returned), values, started)
    give = None if emit is None else _giving(plan, emit)
    outcome = await drive(plan, body, values, give, waits_for_reader=False)
    return result(plan, body, outcome, values, started, is_served=is_served, shows_errors=shows_errors)


def _giving(plan: Plan, emit: Emit) -> Callable[[Any], Awaitable[None]]:
    """Return what gives the body's items to `emit` as chunks."""

    async def give(item: Any) -> None:
        await emit(plan.output.chunk(item))

    return give


async def aprepared(plan: Plan, positional: tuple[Any, ...], arguments: Arguments, layers: Layers) -> Arguments:
    """Return the body's arguments; async resolvers are awaited here."""
    awaited = raised(plan, await resolved(plan, layers)).get() if plan.has_awaited else None
    return plan.prepare(positional, arguments, layers, awaited)


async def resolved(plan: Plan, layers: Layers) -> Outcome:
    """Return what the async resolvers give. They may take as long as the body may."""
    if plan.timeout is None:
        return await carried(plan.resolve, layers)
    reason = "a resolver of a bound parameter took too long"
    return await within(Deadline(plan.timeout), late(plan, reason), carried, plan.resolve, layers)
