"""The endpoint of a pipeline: runs the body of a Call behind the last middleware."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator
from dataclasses import replace
from time import perf_counter
from typing import Any

from ahvn_tools.context import ToolContext, current_context
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution.async_call import aprepare
from ahvn_tools.execution.async_to_sync import iterate_on_loop
from ahvn_tools.execution.call import Call
from ahvn_tools.execution.channel import ChunkDeliveryError, ChunkEmitter
from ahvn_tools.execution.consume import consume
from ahvn_tools.execution.convert import call_error_detail, error_result, returned_result, to_result
from ahvn_tools.execution.deadline import Deadline
from ahvn_tools.execution.outcome import Outcome, is_consumable, is_iterator
from ahvn_tools.execution.plan import Arguments, Plan
from ahvn_tools.execution.runner import run_body
from ahvn_tools.execution.scope import CallInterruptedError
from ahvn_tools.execution.sync_call import consume_returned, prepare
from ahvn_tools.results import ToolResult, item_value


async def run_async(call: Call) -> ToolResult:
    """Run the body: an async one in this task, a sync one in a worker thread."""
    if call.scope.is_cancelled:
        return call.scope.interrupted_result(call.name)
    started, plan, scope = perf_counter(), call.plan, call.scope
    takes_context = plan.takes_context and call.takes_context
    emitter = ChunkEmitter(call) if call.emit is not None or takes_context else None
    emit = None if emitter is None or call.emit is None else emitter.emit_item
    items: list[Any] = [] if emitter is None else emitter.items
    context = call.make_context(emitter.put_nowait) if emitter is not None and takes_context else None
    outcome, values = Outcome(), call.arguments
    try:
        values = await _aprepare(call, context) if plan.has_async_resolvers or context else _prepare(call, None)
        if plan.timeout is not None:
            scope.deadline = Deadline(plan.timeout)  # a waiting sync caller reads it
        outcome = await run_body(
            plan, call.body, values, emit, scope.deadline, items=items, waits_for_reader=not call.is_served
        )
        if emitter is not None:
            await emitter.drain()
    except ToolCallError as error:
        return scope.record_error(error, error_result(call_error_detail(error), started))
    except ChunkDeliveryError:
        pass  # raised below, behind the handlers for what the body does
    except asyncio.CancelledError:
        _cancel_context(context)
        result = scope.interrupted_result(call.name, list(items) or None)
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
    return _to_result(call, outcome, values, started, context)


def run_inline(call: Call) -> ToolResult:
    """Run a sync body in this thread, to its end."""
    started, plan, scope = perf_counter(), call.plan, call.scope
    if scope.is_cancelled:
        return scope.interrupted_result(call.name)
    context = call.make_context() if call.takes_context else None
    try:
        values = _prepare(call, context)
    except ToolCallError as error:
        return scope.record_error(error, error_result(call_error_detail(error), started))
    items: list[Any] = []

    def run() -> Any:
        returned = plan.invoke(call.body, values)
        if is_iterator(returned):
            return consume(returned, scope.raise_if_cancelled, items)
        return consume_returned(returned) if is_consumable(returned) else returned

    outcome = Outcome.capture(run)
    if isinstance(outcome.error, CallInterruptedError):
        return scope.interrupted_result(call.name, items or None)
    return _to_result(call, outcome, values, started, context)


async def stream_inline(call: Call) -> ToolResult:
    """Run a sync body in this thread and emit its items; it awaits only `call.emit`."""
    started, plan, scope = perf_counter(), call.plan, call.scope
    if scope.is_cancelled:
        return scope.interrupted_result(call.name)
    try:
        values = _prepare(call, None)
    except ToolCallError as error:
        return scope.record_error(error, error_result(call_error_detail(error), started))
    items: list[Any] = []
    try:
        outcome = await _emit_items(call, _iterate(plan, lambda: plan.invoke(call.body, values)), items)
    except CallInterruptedError:
        return scope.interrupted_result(call.name, items or None)
    return _to_result(call, outcome, values, started)


def _prepare(call: Call, context: ToolContext | None) -> Arguments:
    plan = call.plan
    if context is None and not plan.has_async_resolvers:
        values = plan.prepare(call.positional, call.arguments, call.state_scopes)
    else:
        with _use_context(context):
            values = prepare(plan, call.positional, call.arguments, call.state_scopes)
    if plan.bound_parameters:
        call.scope.bound_values = plan.bound_values(values)
    return values


async def _aprepare(call: Call, context: ToolContext | None) -> Arguments:
    with _use_context(context):
        values = await aprepare(call.plan, call.positional, call.arguments, call.state_scopes)
    call.scope.bound_values = call.plan.bound_values(values)
    return values


def _iterate(plan: Plan, start: Callable[[], Any]) -> Generator[ToolResult, None, Outcome]:
    """Yield the chunks of a sync body as they are made and return its outcome."""
    started = Outcome.capture(start)
    returned = started.value
    if started.error is not None or not is_consumable(returned):
        return started
    if not is_iterator(returned):
        return (yield from iterate_on_loop(plan, returned))
    items: list[Any] = []
    try:
        while True:
            step = Outcome.capture(lambda: next(returned))
            if isinstance(step.error, StopIteration):
                return Outcome(items)
            if step.error is not None:
                return step
            items.append(item_value(step.value))
            yield plan.output.to_chunk(step.value)
    finally:
        if hasattr(returned, "close"):
            with contextlib.suppress(Exception):  # the reader has left, or has the error that ended the body
                returned.close()


async def _emit_items(call: Call, chunks: Generator[ToolResult, None, Outcome], items: list[Any]) -> Outcome:
    """Emit the chunks and return the outcome of the body. Raises CallInterruptedError."""
    try:
        while True:
            try:
                chunk = next(chunks)
            except StopIteration as stop:
                outcome: Outcome = stop.value
                return outcome
            items.append(chunk.value)
            if call.emit is not None:
                await call.emit(replace(chunk, id=call.id))
            call.scope.raise_if_cancelled()
    except GeneratorExit:  # the reader has left
        call.scope.interrupted_result(call.name, items or None)
        raise
    finally:
        chunks.close()


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
        served = {"is_served": call.is_served, "shows_errors": call.shows_errors}
        result = to_result(plan, call.body, outcome, values, started, **served)
        scope.record_error(outcome.error, result)
    if scope.is_cancelled:
        result = scope.mark_interrupted(result)
    if context is not None and outcome.is_runner_error:
        context.cancel()
    if context is not None and context.ends_session:
        result.meta["ends_session"] = True
    return result


@contextlib.contextmanager
def _use_context(context: ToolContext | None) -> Generator[None]:
    """Make the arguments of a call with its ToolContext, if the tool takes one."""
    if context is None:
        yield
        return
    token = current_context.set(context)
    try:
        yield
    finally:
        current_context.reset(token)
