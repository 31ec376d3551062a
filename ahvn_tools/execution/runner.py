"""The runner: runs a body to its end in a loop, a thread or a process, within its timeout."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine
from dataclasses import replace
from time import monotonic
from typing import Any, Final

from ahvn_tools.binding import StateScopes
from ahvn_tools.errors import ToolTimeoutError, UnboundStateError
from ahvn_tools.execution.consume import aconsume, consume
from ahvn_tools.execution.deadline import PREPARATION_TOO_SLOW, Deadline, run_with_deadline, seconds_left, timeout_error
from ahvn_tools.execution.outcome import Outcome, is_awaitable, is_being_cancelled, is_consumable, is_iterator
from ahvn_tools.execution.plan import MAX_START_SECONDS, Arguments, Body, BoundParameter, Plan
from ahvn_tools.execution.threads import (
    CallerThread,
    EmitItem,
    EmitItemSync,
    Threads,
    run_in_thread,
    thread_pool,
)
from ahvn_tools.results import item_value


async def run_body(
    plan: Plan,
    body: Body,
    values: Arguments,
    emit: EmitItem | None = None,
    deadline: Deadline | None = None,
    *,
    seconds: float | None = None,
    items: list[Any] | None = None,
    waits_for_reader: bool = True,
    threads: Threads = thread_pool,
) -> Outcome:
    """Run the body to its end within the plan's timeout; `emit` takes the chunk of each item as it is made.

    `deadline` is the clock of the timeout, for a caller that reads it too, or `seconds` are left of it; `items` is
    filled with the items made so far; a sync body runs in one of `threads`. The clock stops while `emit` waits for the
    reader, unless `waits_for_reader` is False.
    """
    items = [] if items is None else items
    if plan.seconds is None:
        outcome = await _dispatch(plan, body, values, emit and _emit_items(plan, emit), items, threads=threads)
        return outcome if outcome.error is None else replace(outcome, made=tuple(items))
    deadline = deadline or Deadline(plan.seconds if seconds is None else seconds)
    timed_emit = emit and _emit_items(plan, emit, deadline if waits_for_reader else None)

    def make_error(task: asyncio.Task[Outcome]) -> ToolTimeoutError:
        return timeout_error(plan, *(deadline.unstarted or _timeout_reasons(plan, task)))

    outcome = await run_with_deadline(deadline, make_error, _dispatch, plan, body, values, timed_emit, items, deadline)
    return outcome if outcome.error is None else replace(outcome, made=tuple(items))


async def prepare(
    plan: Plan, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes
) -> tuple[Arguments, float | None]:
    """Return the body's arguments, and how many seconds are left for the body; None without a timeout.

    Async resolvers are awaited in this loop. Raises as `Plan.prepare` does, and ToolTimeoutError.
    """
    started = monotonic()
    if plan.has_async_resolvers:
        plan = await with_resolved_values(plan, scopes)
    return plan.prepare(positional, arguments, scopes), seconds_left(plan, started)


async def with_resolved_values(plan: Plan, scopes: StateScopes) -> Plan:
    """Return the plan of one call with the values of its async resolvers. Raises as `prepare` does."""
    resolved, _ = await run_before_body(plan, functools.partial(run_resolvers, plan, scopes))
    return plan.with_bound_values(resolved)


async def run_before_body(
    plan: Plan, start: Callable[[], Coroutine[Any, Any, Any]], too_slow: str = PREPARATION_TOO_SLOW
) -> tuple[Any, float | None]:
    """Return what `start()` returns within the timeout of a call, and how many seconds are left for the body.

    `too_slow` says in the error of a timeout what took too long.
    """
    if plan.seconds is None:
        return (await capture_outcome(start)).get(tool=plan.name), None
    deadline, error = Deadline(plan.seconds), timeout_error(plan, too_slow)
    outcome = await run_with_deadline(deadline, lambda _: error, capture_outcome, start)
    return outcome.get(tool=plan.name), deadline.remaining_seconds()


async def run_resolvers(plan: Plan, scopes: StateScopes) -> Arguments:
    """Return the values of the async resolvers by parameter. Raises UnboundStateError when a resolver fails."""
    values: Arguments = {}
    for bound in plan.bound_parameters:
        if not bound.binding.is_async or bound.is_resolved_by_worker:
            continue
        outcome = await capture_outcome(_run_resolver, bound, scopes)
        if isinstance(outcome.error, UnboundStateError):
            raise outcome.error
        if outcome.error is not None:
            raise bound.to_unbound_error(outcome.error) from outcome.error
        values[bound.parameter.name] = outcome.value
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


async def _run_resolver(bound: BoundParameter, scopes: StateScopes) -> Any:
    value = bound.read(scopes)
    return await value if is_awaitable(value) else value


_MAY_RUN: Final = "it may still be running"


def _timeout_reasons(plan: Plan, task: asyncio.Task[Outcome]) -> tuple[str, str]:
    """Return what happened to a body that exceeded its timeout, for developers and for models."""
    if plan.isolation == "process":
        return "its process was ended", "it was ended"
    if plan.isolation is not None:
        return "its executor was asked to end it", _MAY_RUN
    if plan.is_async:
        reason = "it was cancelled" if task.cancelled() else "it ended too late" if task.done() else _MAY_RUN
        return reason, reason
    return "its thread may still be running", _MAY_RUN


async def _dispatch(  # noqa: PLR0917  # `run_with_deadline` passes positional arguments
    plan: Plan,
    body: Body,
    values: Arguments,
    emit: EmitItem | None,
    items: list[Any] | None,
    deadline: Deadline | None = None,
    threads: Threads = thread_pool,
) -> Outcome:
    if plan.isolation is not None:
        run = _run_in_process if plan.isolation == "process" else _run_in_executor
        outcome = await capture_outcome(run, plan, body, values, _collecting(emit, items), deadline)
    elif plan.is_async or not (plan.run_in_thread or isinstance(threads, CallerThread)):
        outcome = Outcome.capture(functools.partial(plan.invoke, body, values))
    else:
        work = functools.partial(_invoke_and_consume, plan, body, values, items)
        outcome = await run_in_thread(work, emit, threads=threads)
    if outcome.error is None and type(outcome.value) is not plan.exact_type and is_consumable(outcome.value):
        limits, is_threaded = plan.item_limits, plan.run_in_thread
        consumed = functools.partial(aconsume, outcome.value, limits, emit, items, is_threaded=is_threaded)
        outcome = await capture_outcome(consumed)
    return outcome


async def _run_in_process(
    plan: Plan, body: Body, values: Arguments, emit: EmitItem | None, deadline: Deadline | None
) -> Outcome:
    """Run the body in a worker process. The clock runs while it waits for one, and stops while that starts."""
    from ahvn_tools.execution.workers.process_call import ProcessCall  # it needs an extra

    loop = asyncio.get_running_loop()
    if deadline is not None:
        deadline.unstarted = ("it did not start, because other calls used all worker processes", "it did not start")

    def set_starting(is_starting: bool) -> None:
        if deadline is not None:
            deadline.unstarted = None
            change = functools.partial(deadline.pause_for, MAX_START_SECONDS) if is_starting else deadline.resume
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(change)

    process_call = ProcessCall(plan, body, values, has_reader=emit is not None, set_starting=set_starting)
    outcome: Outcome = (await run_in_thread(process_call.run, emit, process_call.stop)).get()
    return outcome


async def _run_in_executor(
    plan: Plan, body: Body, values: Arguments, emit: EmitItem | None, deadline: Deadline | None
) -> Outcome:
    """Run the body in a worker of the plan's executor. The clock runs while it waits for one."""
    from ahvn_tools.execution.workers.executor_call import ExecutorCall  # few tools need it

    remaining = None if deadline is None else deadline.remaining_seconds
    call = ExecutorCall(plan, body, values, has_reader=emit is not None, remaining_seconds=remaining)
    return await call.run(emit)


def _invoke_and_consume(plan: Plan, body: Body, values: Arguments, items: list[Any] | None, emit: EmitItemSync) -> Any:
    returned = plan.invoke(body, values)
    if type(returned) is plan.exact_type:
        return returned
    return consume(returned, plan.item_limits, emit, items) if is_iterator(returned) else returned


def _collecting(emit: EmitItem | None, items: list[Any] | None) -> EmitItem | None:
    """Return an `emit` that also collects the items."""
    if emit is None or items is None:
        return emit

    async def emit_and_collect(item: Any) -> None:
        items.append(item_value(item))
        await emit(item)

    return emit_and_collect


def _emit_items(plan: Plan, emit: EmitItem, deadline: Deadline | None = None) -> EmitItem:
    """Return a function that emits the chunk of an item; the clock stops while the reader takes the chunk."""

    async def emit_item(item: Any) -> None:
        if deadline is not None:
            deadline.pause()
        try:
            await emit(plan.output.to_chunk(item))
        finally:
            if deadline is not None:
                deadline.resume()

    return emit_item


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs here
        return None
