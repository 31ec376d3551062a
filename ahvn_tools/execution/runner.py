"""The runner: runs a body to its end in a loop, a thread or a process, within its timeout."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from ahvn_tools.binding import StateScopes
from ahvn_tools.execution.consume import aconsume, consume
from ahvn_tools.execution.deadline import Deadline, run_with_deadline, timeout_error
from ahvn_tools.execution.outcome import Outcome, is_being_cancelled, is_consumable, is_iterator
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.threads import EmitItem, EmitItemSync, run_emitting_in_thread
from ahvn_tools.results import item_value


async def run_body(
    plan: Plan,
    body: Body,
    values: Arguments,
    emit: EmitItem | None = None,
    deadline: Deadline | None = None,
    *,
    items: list[Any] | None = None,
    waits_for_reader: bool = True,
) -> Outcome:
    """Run the body to its end within the plan's timeout; `emit` takes each item as it is made.

    `deadline` is the clock of the timeout, for a caller that reads it too; `items` is filled with the items made so
    far. The clock stops while `emit` waits for the reader, unless `waits_for_reader` is False.
    """
    if plan.timeout is None:
        return await _dispatch(plan, body, values, emit, items)
    deadline = deadline or Deadline(plan.timeout)
    timed_emit = _pausing(emit, deadline) if emit is not None and waits_for_reader else emit
    error = timeout_error(plan, _timeout_reason(plan))
    return await run_with_deadline(deadline, error, _dispatch, plan, body, values, timed_emit, items, deadline)


async def run_resolvers(plan: Plan, scopes: StateScopes) -> Arguments:
    """Return the values of the async resolvers by parameter. They may take as long as the body may."""
    if plan.timeout is None:
        outcome = await capture_outcome(plan.arun_resolvers, scopes)
    else:
        error = timeout_error(plan, "a resolver of a bound parameter took too long")
        outcome = await run_with_deadline(Deadline(plan.timeout), error, capture_outcome, plan.arun_resolvers, scopes)
    values: Arguments = outcome.get(tool=plan.name)
    return values


async def capture_outcome(start: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Outcome:
    """Await `start(*arguments)` and return its outcome; only a cancellation or closing from outside passes through."""
    task = asyncio.current_task()
    try:
        returned = await start(*arguments)
    except asyncio.CancelledError as error:
        if is_being_cancelled():
            raise
        return Outcome(error=error)
    except GeneratorExit as error:
        if _current_task() is not task:  # this coroutine is being closed
            raise
        return Outcome(error=error)
    except BaseException as error:  # noqa: BLE001  # the runner's second net: raised again in the caller
        return Outcome(error=error)
    return returned if isinstance(returned, Outcome) else Outcome(returned)


def _timeout_reason(plan: Plan) -> str:
    """Return what happened to a body that exceeded its timeout."""
    if plan.is_isolated:
        return "its process was ended"
    return "it was cancelled" if plan.is_async else "its thread may still be running"


async def _dispatch(  # noqa: PLR0917  # `run_with_deadline` passes positional arguments
    plan: Plan,
    body: Body,
    values: Arguments,
    emit: EmitItem | None,
    items: list[Any] | None,
    deadline: Deadline | None = None,
) -> Outcome:
    if plan.is_isolated:
        return await capture_outcome(_run_in_process, plan, body, values, _collecting(emit, items), deadline)
    if plan.is_async or not plan.run_in_thread:
        outcome = Outcome.capture(functools.partial(plan.invoke, body, values))
    else:
        work = functools.partial(_invoke_and_consume, plan, body, values, items)
        outcome = await run_emitting_in_thread(work, emit)
    if outcome.error is not None or type(outcome.value) is plan.exact_type or not is_consumable(outcome.value):
        return outcome
    consumed = functools.partial(aconsume, outcome.value, emit, items, is_threaded=plan.run_in_thread)
    return await capture_outcome(consumed)


async def _run_in_process(
    plan: Plan, body: Body, values: Arguments, emit: EmitItem | None, deadline: Deadline | None
) -> Outcome:
    """Run the body in a worker process. The clock stops while the process starts, within a limit."""
    from ahvn_tools.execution.isolation.process_call import ProcessCall  # it needs an extra

    loop = asyncio.get_running_loop()

    def set_starting(is_starting: bool) -> None:
        if deadline is not None:
            change = functools.partial(deadline.pause_for, plan.startup_seconds) if is_starting else deadline.resume
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(change)

    process_call = ProcessCall(plan, body, values, has_reader=emit is not None, set_starting=set_starting)
    outcome: Outcome = (await run_emitting_in_thread(process_call.run, emit, process_call.stop)).get()
    return outcome


def _invoke_and_consume(plan: Plan, body: Body, values: Arguments, items: list[Any] | None, emit: EmitItemSync) -> Any:
    returned = plan.invoke(body, values)
    if type(returned) is plan.exact_type or not is_iterator(returned):
        return returned
    return consume(returned, emit, items)


def _collecting(emit: EmitItem | None, items: list[Any] | None) -> EmitItem | None:
    """Return an `emit` that also collects the items."""
    if emit is None or items is None:
        return emit

    async def emit_and_collect(item: Any) -> None:
        items.append(item_value(item))
        await emit(item)

    return emit_and_collect


def _pausing(emit: EmitItem, deadline: Deadline) -> EmitItem:
    """Return an `emit` that stops the clock while the reader takes the item."""

    async def emit_paused(item: Any) -> None:
        deadline.pause()
        try:
            await emit(item)
        finally:
            deadline.resume()

    return emit_paused


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs here
        return None
