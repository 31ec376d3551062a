"""Innermost: the body at the end of a chain, awaited, run in the caller's thread, or iterated there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from dataclasses import replace
from time import perf_counter
from typing import Any

from ahvn_tools.context import ToolContext, current
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution import failure
from ahvn_tools.execution.awaited import aprepared
from ahvn_tools.execution.call import Call
from ahvn_tools.execution.deadline import Deadline
from ahvn_tools.execution.direct import gathered, prepared
from ahvn_tools.execution.drive import drive
from ahvn_tools.execution.fate import CutError
from ahvn_tools.execution.outcome import Outcome, is_live
from ahvn_tools.execution.outputs import Outputs, UnreadError
from ahvn_tools.execution.plan import Arguments
from ahvn_tools.execution.settle import failed, result
from ahvn_tools.execution.stream import Chunks
from ahvn_tools.execution.stream import here as chunks_here
from ahvn_tools.results import ToolResult


async def awaited(call: Call) -> ToolResult:
    """Run the body: an async one in this task, a sync one in a worker thread."""
    started, plan, fate = perf_counter(), call.plan, call.fate
    outputs = Outputs(call)
    context = call.context(outputs.put)
    try:
        fate.go_on()
        with _asked(context):
            values = await aprepared(plan, (), call.arguments, call.layers)
        fate.bound = plan.bound_values(values)
        outcome = await _driven(call, values, outputs)
        await outputs.delivered()
    except ToolCallError as error:
        return fate.note(error, failed(failure.of_call(error), started))
    except CutError:
        return fate.cut(call.name)
    except UnreadError:
        pass
    except asyncio.CancelledError:
        _leave(context)
        made = fate.cut(call.name, list(outputs.items) or None)
        if not fate.is_cancelled or fate.is_left:
            raise
        return made
    finally:
        await outputs.close()
    if outputs.fault is not None:  # a middleware's own, on a chunk: no error of the tool
        _leave(context)
        raise outputs.fault
    if outcome.is_ours:
        _leave(context)
    made = result(plan, call.body, outcome, values, started, is_served=call.is_served, shows_errors=call.shows_errors)
    return _noted(call, outcome, made, context)


async def _driven(call: Call, values: Arguments, outputs: Outputs) -> Outcome:
    """Run the body to its end, by a clock that a sync caller may look at for as long."""
    plan, fate = call.plan, call.fate
    give = None if call.emit is None else outputs.give
    fate.clock = None if plan.timeout is None else Deadline(plan.timeout)
    try:
        return await drive(
            plan, call.body, values, give, fate.clock, items=outputs.items, waits_for_reader=not call.is_served
        )
    finally:
        fate.clock = None


def run_here(call: Call) -> ToolResult:
    """Run a sync body in this thread, to its end."""
    started, plan, fate = perf_counter(), call.plan, call.fate
    if fate.is_cancelled:
        return fate.cut(call.name)
    context = call.context()
    try:
        with _asked(context):
            values = prepared(plan, (), call.arguments, call.layers)
        fate.bound = plan.bound_values(values)
    except ToolCallError as error:
        return fate.note(error, failed(failure.of_call(error), started))
    items: list[Any] = []

    def run() -> Any:
        returned = plan.invoke(call.body, values)
        return gathered(returned, fate.go_on, items) if is_live(returned) else returned

    outcome = Outcome.of(run)
    if isinstance(outcome.error, CutError):
        return fate.cut(call.name, items or None)
    return _noted(call, outcome, result(plan, call.body, outcome, values, started), context)


async def iterated(call: Call) -> ToolResult:
    """Run a sync body in this thread, giving its items to the reader."""
    started, plan, fate = perf_counter(), call.plan, call.fate
    if fate.is_cancelled:
        return fate.cut(call.name)
    try:
        values = prepared(plan, (), call.arguments, call.layers)
    except ToolCallError as error:
        return fate.note(error, failed(failure.of_call(error), started))
    fate.bound = plan.bound_values(values)
    items: list[Any] = []
    try:
        outcome = await _emitted(call, chunks_here(plan, call.body, values), items)
    except CutError:
        return fate.cut(call.name, items or None)
    return _noted(call, outcome, result(plan, call.body, outcome, values, started), None)


async def _emitted(call: Call, chunks: Chunks, items: list[Any]) -> Outcome:
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
            call.fate.go_on()
    except GeneratorExit:  # the reader has gone
        call.fate.cut(call.name, items or None)
        raise
    finally:
        chunks.close()


def _leave(context: ToolContext | None) -> None:
    """Tell a body that nobody waits for it any more: its thread may still run."""
    if context is not None:
        context.cancel()


def _noted(call: Call, outcome: Outcome, made: ToolResult, context: ToolContext | None) -> ToolResult:
    """Return a result with what the tool has asked for beside it."""
    if context is not None and context.ends_session:
        made.meta["ends_session"] = True
    return call.fate.note(outcome.error, call.fate.marked(made))


def _asked(context: ToolContext | None) -> contextlib.AbstractContextManager[None]:
    """Let the arguments of a call be made with its context, where the tool asks for it."""
    return contextlib.nullcontext() if context is None else _as_current(context)


@contextlib.contextmanager
def _as_current(context: ToolContext) -> Generator[None]:
    token = current.set(context)
    try:
        yield
    finally:
        current.reset(token)
