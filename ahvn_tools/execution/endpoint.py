"""Innermost: the body at the end of a chain, awaited, run in the caller's thread, or iterated there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from dataclasses import replace
from time import perf_counter
from typing import Any

from ahvn_tools.context import ToolContext, current_context
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution import failure
from ahvn_tools.execution.async_call import aprepare
from ahvn_tools.execution.call import Call
from ahvn_tools.execution.channel import ChunkDeliveryError, ChunkEmitter
from ahvn_tools.execution.convert import error_result, to_result
from ahvn_tools.execution.deadline import Deadline
from ahvn_tools.execution.outcome import Outcome, is_consumable
from ahvn_tools.execution.plan import Arguments
from ahvn_tools.execution.runner import run_body
from ahvn_tools.execution.scope import CallInterruptedError
from ahvn_tools.execution.stream_call import ChunkGenerator
from ahvn_tools.execution.stream_call import iterate_inline as chunks_here
from ahvn_tools.execution.sync_call import consume, prepare
from ahvn_tools.results import ToolResult


async def run_async(call: Call) -> ToolResult:
    """Run the body: an async one in this task, a sync one in a worker thread."""
    started, plan, fate = perf_counter(), call.plan, call.scope
    outputs = ChunkEmitter(call)
    context = call.make_context(outputs.put_nowait)
    try:
        fate.raise_if_cancelled()
        with _use_context(context):
            values = await aprepare(plan, (), call.arguments, call.state_scopes)
        fate.bound_values = plan.bound_values(values)
        outcome = await _run_timed(call, values, outputs)
        await outputs.drain()
    except ToolCallError as error:
        return fate.record_error(error, error_result(failure.call_error_detail(error), started))
    except CallInterruptedError:
        return fate.interrupted_result(call.name)
    except ChunkDeliveryError:
        pass
    except asyncio.CancelledError:
        _cancel_context(context)
        made = fate.interrupted_result(call.name, list(outputs.items) or None)
        if not fate.is_cancelled or fate.is_caller_cancelled:
            raise
        return made
    finally:
        await outputs.close()
    if outputs.middleware_error is not None:  # a middleware's own, on a chunk: no error of the tool
        _cancel_context(context)
        raise outputs.middleware_error
    if outcome.is_runner_error:
        _cancel_context(context)
    made = to_result(
        plan, call.body, outcome, values, started, is_served=call.is_served, shows_errors=call.shows_errors
    )
    return _record_result(call, outcome, made, context)


async def _run_timed(call: Call, values: Arguments, outputs: ChunkEmitter) -> Outcome:
    """Run the body to its end, by a clock that a sync caller may look at for as long."""
    plan, fate = call.plan, call.scope
    give = None if call.emit is None else outputs.emit_item
    fate.deadline = None if plan.timeout is None else Deadline(plan.timeout)
    try:
        return await run_body(
            plan,
            call.body,
            values,
            give,
            fate.deadline,
            collected_items=outputs.items,
            waits_for_reader=not call.is_served,
        )
    finally:
        fate.deadline = None


def run_inline(call: Call) -> ToolResult:
    """Run a sync body in this thread, to its end."""
    started, plan, fate = perf_counter(), call.plan, call.scope
    if fate.is_cancelled:
        return fate.interrupted_result(call.name)
    context = call.make_context()
    try:
        with _use_context(context):
            values = prepare(plan, (), call.arguments, call.state_scopes)
        fate.bound_values = plan.bound_values(values)
    except ToolCallError as error:
        return fate.record_error(error, error_result(failure.call_error_detail(error), started))
    items: list[Any] = []

    def run() -> Any:
        returned = plan.invoke(call.body, values)
        return consume(returned, fate.raise_if_cancelled, items) if is_consumable(returned) else returned

    outcome = Outcome.capture(run)
    if isinstance(outcome.error, CallInterruptedError):
        return fate.interrupted_result(call.name, items or None)
    return _record_result(call, outcome, to_result(plan, call.body, outcome, values, started), context)


async def stream_inline(call: Call) -> ToolResult:
    """Run a sync body in this thread, giving its items to the reader."""
    started, plan, fate = perf_counter(), call.plan, call.scope
    if fate.is_cancelled:
        return fate.interrupted_result(call.name)
    try:
        values = prepare(plan, (), call.arguments, call.state_scopes)
    except ToolCallError as error:
        return fate.record_error(error, error_result(failure.call_error_detail(error), started))
    fate.bound_values = plan.bound_values(values)
    items: list[Any] = []
    try:
        outcome = await _emit_chunks(call, chunks_here(plan, call.body, values), items)
    except CallInterruptedError:
        return fate.interrupted_result(call.name, items or None)
    return _record_result(call, outcome, to_result(plan, call.body, outcome, values, started), None)


async def _emit_chunks(call: Call, chunks: ChunkGenerator, items: list[Any]) -> Outcome:
    """Give chunks to the reader, and return what came of the body. Raises CutError."""
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
    except GeneratorExit:  # the reader has gone
        call.scope.interrupted_result(call.name, items or None)
        raise
    finally:
        chunks.close()


def _cancel_context(context: ToolContext | None) -> None:
    """Tell a body that nobody waits for it any more: its thread may still run."""
    if context is not None:
        context.cancel()


def _record_result(call: Call, outcome: Outcome, tool_result: ToolResult, context: ToolContext | None) -> ToolResult:
    """Return a result with what the tool has asked for beside it."""
    if context is not None and context.ends_session:
        tool_result.meta["ends_session"] = True
    return call.scope.record_error(outcome.error, call.scope.mark_interrupted(tool_result))


def _use_context(context: ToolContext | None) -> contextlib.AbstractContextManager[None]:
    """Let the arguments of a call be made with its context, where the tool asks for it."""
    return contextlib.nullcontext() if context is None else _set_current_context(context)


@contextlib.contextmanager
def _set_current_context(context: ToolContext) -> Generator[None]:
    token = current_context.set(context)
    try:
        yield
    finally:
        current_context.reset(token)
