"""The endpoint of a pipeline: runs the body of a Call behind the last middleware."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any, Final

from ahvn_tools.context import ToolContext, current_context
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution.async_to_sync import consume_on_loop, iterate_on_loop
from ahvn_tools.execution.call import Call
from ahvn_tools.execution.channel import ChunkDeliveryError, ChunkEmitter
from ahvn_tools.execution.consume import consume
from ahvn_tools.execution.convert import call_error_detail, error_result, returned_result, to_result
from ahvn_tools.execution.deadline import Deadline
from ahvn_tools.execution.outcome import Outcome, is_consumable, is_iterator
from ahvn_tools.execution.plan import Arguments
from ahvn_tools.execution.runner import prepare, run_body
from ahvn_tools.execution.scope import CallInterruptedError
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.json_types import exceeds_size
from ahvn_tools.results import ToolResult, item_value

MAX_CHARS_ON_LOOP: Final = 128 * 1024
"""Served arguments with a longer JSON text are validated in a thread, and a value is converted in one."""


async def run_async(call: Call) -> ToolResult:
    """Run the body: an async one in this task, a sync one in a worker thread."""
    if call.scope.is_cancelled:
        return call.scope.interrupted_result(call.name)
    started, plan, scope = perf_counter(), call.plan, call.scope
    takes_context = plan.takes_context and call.takes_context
    emitter = None if call.emit is None else ChunkEmitter(call)
    emit = None if emitter is None else emitter.emit_item
    items: list[Any] = []
    context = call.make_context(None if emitter is None else emitter.put_nowait) if takes_context else None
    outcome, values = Outcome(), call.arguments
    try:
        values = await _aprepare(call, context)
        outcome = await run_body(
            plan, call.body, values, emit, scope.deadline, items=items, waits_for_reader=not call.is_served
        )
        if emitter is not None:
            await emitter.drain()
    except (ToolCallError, KeyboardInterrupt) as error:
        return _preparation_result(call, error, started)
    except ChunkDeliveryError:
        pass  # raised below, behind the handlers for what the body does
    except asyncio.CancelledError:
        _cancel_context(context)
        result = _interrupted_result(call, list(items))
        if not scope.is_cancelled or scope.is_caller_cancelled:
            raise
        return result
    finally:
        scope.deadline = None
        if emitter is not None:
            await emitter.close()
    if emitter is not None and emitter.middleware_error is not None:  # not an error of the tool
        _cancel_context(context)
        raise emitter.middleware_error
    if call.is_served and exceeds_size(outcome.value, MAX_CHARS_ON_LOOP):  # other clients do not wait for it
        convert = functools.partial(_to_result, call, outcome, values, started, context)
        converted: ToolResult = (await run_in_thread(lambda _: convert())).get()
        return converted
    return _to_result(call, outcome, values, started, context)


def _preparation_result(call: Call, error: ToolCallError | KeyboardInterrupt, started: float) -> ToolResult:
    """Return the result of a call whose body has not run; a KeyboardInterrupt is one of a validator or a resolver."""
    if isinstance(error, KeyboardInterrupt):
        return _to_result(call, Outcome(error=error), call.arguments, started)
    return call.scope.record_error(error, error_result(call_error_detail(error), started))


async def run_inline(call: Call) -> ToolResult:
    """Run a sync body in this thread, to its end. It awaits only `call.emit`."""
    started, plan, scope = perf_counter(), call.plan, call.scope
    if scope.is_cancelled:
        return scope.interrupted_result(call.name)
    context = call.make_context() if call.takes_context else None
    try:
        values = _prepare(call, context)
    except ToolCallError as error:
        return scope.record_error(error, error_result(call_error_detail(error), started))
    items: list[Any] = []
    outcome = Outcome.capture(lambda: plan.invoke(call.body, values))
    if outcome.error is None and is_consumable(outcome.value):
        outcome = await _consume_inline(call, outcome.value, items)
    if isinstance(outcome.error, CallInterruptedError):
        return _interrupted_result(call, items)
    return _to_result(call, outcome, values, started, context)


async def _consume_inline(call: Call, returned: Any, items: list[Any]) -> Outcome:
    """Await or iterate what a sync body returned, and emit the items; `items` is the list to fill."""
    limits = call.plan.item_limits
    if call.emit is None and is_iterator(returned):
        return Outcome.capture(lambda: consume(returned, limits, call.scope.raise_if_cancelled, items))
    if call.emit is None:
        return Outcome.capture(lambda: consume_on_loop(returned, limits))
    iterator = returned if is_iterator(returned) else iterate_on_loop(call.plan, returned)
    count = limits.make_counter()
    try:
        while True:
            step = Outcome.capture(lambda: next(iterator))
            if isinstance(step.error, StopIteration):
                return Outcome(items if iterator is returned else step.error.value)
            if step.error is not None:
                return step
            taken = Outcome.capture(functools.partial(_take, step.value, items, count))
            if taken.error is not None:
                return taken
            await call.emit(replace(call.plan.output.to_chunk(step.value), id=call.id))
            if call.scope.is_cancelled:
                return Outcome(error=CallInterruptedError())
    except GeneratorExit:  # the reader has left
        _interrupted_result(call, items)
        raise
    finally:
        if hasattr(iterator, "close"):
            with contextlib.suppress(Exception):  # the reader has left, or has the error that ended the body
                iterator.close()


def _take(item: Any, items: list[Any], count: Callable[[Any], None]) -> None:
    items.append(item_value(item))
    count(items[-1])


def has_large_arguments(call: Call) -> bool:
    """Return whether to validate the arguments in a thread: other clients do not wait for it."""
    return call.is_served and exceeds_size(call.arguments, MAX_CHARS_ON_LOOP)


async def run_if_large_in_thread(call: Call, function: Callable[[], Any]) -> Any:
    """Return what `function` returns, which validates the arguments: in a thread, if they are large."""
    if not has_large_arguments(call):
        return function()
    return (await run_in_thread(lambda _: function())).get()


async def _aprepare(call: Call, context: ToolContext | None) -> Arguments:
    """Return the body's arguments as `_prepare` does, and start the clock of the body."""
    plan = call.plan
    is_large = has_large_arguments(call)
    if not (is_large or plan.has_async_resolvers or plan.timeout is not None):
        values, seconds = _prepare(call, context), None
    else:
        token = current_context.set(context)
        try:
            values, seconds = await prepare(
                plan, call.positional, call.arguments, call.state_scopes, in_thread=is_large
            )
        finally:
            with contextlib.suppress(ValueError):  # the loop was closed: this runs outside the call's context
                current_context.reset(token)
        call.scope.bound_values = plan.bound_values(values)
    if seconds is not None:
        call.scope.deadline = Deadline(seconds)  # a waiting sync caller reads it
    return values


def _prepare(call: Call, context: ToolContext | None) -> Arguments:
    """Return the body's arguments, made with the call's ToolContext if the tool takes one."""
    plan, token = call.plan, current_context.set(context)
    try:
        values = plan.prepare(call.positional, call.arguments, call.state_scopes)
    finally:
        current_context.reset(token)
    if plan.bound_parameters:
        call.scope.bound_values = plan.bound_values(values)
    return values


def _interrupted_result(call: Call, items: list[Any]) -> ToolResult:
    """Return the result of a body that was interrupted after these items."""
    return call.scope.interrupted_result(call.name, items or None, is_raw=call.plan.output.is_raw)


def _cancel_context(context: ToolContext | None) -> None:
    """Mark the body's ToolContext as cancelled: its thread may still run, and no caller waits for it."""
    if context is not None:
        context.cancel()


def _to_result(
    call: Call, outcome: Outcome, values: Arguments, started: float, context: ToolContext | None = None
) -> ToolResult:
    """Return the result of an outcome, with what the tool requested; the call's scope remembers the error."""
    plan, scope = call.plan, call.scope
    if outcome.error is None:
        result = returned_result(plan, call.body, outcome.value, values, started)
    else:
        options = {"is_served": call.is_served, "masks_errors": call.masks_errors}
        result = to_result(plan, call.body, outcome, values, started, **options)
        scope.record_error(outcome.error, result)
    if scope.is_cancelled:
        result = scope.mark_interrupted(result)
    if context is not None and outcome.is_runner_error:
        context.cancel()
    if context is not None and context.ends_session:
        result.meta["ends_session"] = True
    return result
