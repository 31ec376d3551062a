"""Streams: one chunk per item as it is made, then one last result, exactly what `execute` would have given.

One task owns a streamed call from its first line to its last, so that scopes, spans and contextvars of the body never
reach the reader; the body waits for its reader, and a reader who leaves closes the body.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
from collections.abc import AsyncGenerator, Generator
from time import perf_counter
from typing import Any

from ahvn_tools.binding import StateScopes
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution import background_loop, failure
from ahvn_tools.execution.async_call import aprepare
from ahvn_tools.execution.async_to_sync import LOOP_BLOCKED_REASON
from ahvn_tools.execution.convert import error_result, to_result
from ahvn_tools.execution.deadline import CANCEL_GRACE_SECONDS, Deadline, cancel_and_wait, outcome_of
from ahvn_tools.execution.hand import EmitItem
from ahvn_tools.execution.outcome import Outcome, is_consumable, is_iterator
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.relay import ChunkChannel
from ahvn_tools.execution.runner import run_body, timeout_error
from ahvn_tools.execution.sync_call import prepare
from ahvn_tools.results import ToolResult, item_value
from ahvn_tools.schema.output import Output

ChunkGenerator = Generator[ToolResult, None, Outcome]
"""Yields the chunks and returns what came of the body."""


def stream(
    plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes
) -> Generator[ToolResult, None, None]:
    """Yield the results of one call to a sync reader."""
    started = perf_counter()
    try:
        values = prepare(plan, positional, arguments, scopes)
    except ToolCallError as error:
        yield error_result(failure.call_error_detail(error), started)
        return
    if plan.runs_in_caller_thread:
        outcome = yield from iterate_inline(plan, body, values)
    else:
        outcome = yield from _iterate_on_loop(plan, body, values)
    yield to_result(plan, body, outcome, values, started)


async def astream(
    plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes
) -> AsyncGenerator[ToolResult, None]:
    """Yield the results of one call to an async reader."""
    started = perf_counter()
    try:
        values = await aprepare(plan, positional, arguments, scopes)
    except ToolCallError as error:
        yield error_result(failure.call_error_detail(error), started)
        return
    chunks: asyncio.Queue[ToolResult | None] = asyncio.Queue()
    relay = ChunkChannel(chunks.put_nowait)
    task = asyncio.create_task(run_body(plan, body, values, _to_emit_item(plan.output, relay)))
    task.add_done_callback(lambda _: chunks.put_nowait(None))
    try:
        while (chunk := await chunks.get()) is not None:
            yield chunk
            relay.request_next()
    finally:
        relay.is_closed = True
        await cancel_and_wait(task)
    yield to_result(plan, body, outcome_of(task), values, started)


def _to_emit_item(output: Output, channel: ChunkChannel) -> EmitItem:
    """Return what gives an item of the body to a reader, as a chunk."""

    async def give(item: Any) -> None:
        await channel.emit(output.to_chunk(item))

    return give


def iterate_inline(plan: Plan, body: Body, values: Arguments) -> ChunkGenerator:
    """Iterate a sync body in the reader's own thread, in a context of its own; return the outcome."""
    within = contextvars.copy_context().run
    started = Outcome.capture(lambda: within(plan.invoke, body, values))
    if started.error is not None or not is_consumable(started.value):
        return started
    if not is_iterator(started.value):
        return (yield from _iterate_on_loop(plan, lambda: started.value, {}))
    items: list[Any] = []
    try:
        while True:
            step = Outcome.capture(lambda: within(next, started.value))
            if isinstance(step.error, StopIteration):
                return Outcome(items)
            if step.error is not None:
                return step
            items.append(item_value(step.value))
            yield plan.output.to_chunk(step.value)
    finally:
        if hasattr(started.value, "close"):
            with contextlib.suppress(Exception):  # the reader has gone, or has got the error that ended the body
                within(started.value.close)


def _iterate_on_loop(plan: Plan, body: Body, values: Arguments) -> ChunkGenerator:
    """Run the body on the background loop (or in a thread of it) and hand its items over; return the outcome."""
    chunks: queue.SimpleQueue[ToolResult | None] = queue.SimpleQueue()
    relay = ChunkChannel(chunks.put)
    clocks: list[Deadline] = []

    async def whole() -> Outcome:
        if plan.timeout is not None:
            clocks.append(Deadline(plan.timeout))
        return await run_body(plan, body, values, _to_emit_item(plan.output, relay), *clocks)

    crossing = background_loop.LoopCall(whole)
    crossing.on_end(lambda: chunks.put(None))
    try:
        while (chunk := chunks.get(timeout=_max_wait(plan, clocks))) is not None:
            yield chunk
            background_loop.call_soon(relay.request_next)
        return crossing.outcome()
    except queue.Empty:  # a body blocks the loop, so that no timer fires
        return Outcome(error=timeout_error(plan, LOOP_BLOCKED_REASON), is_runner_error=True)
    finally:
        relay.is_closed = True
        crossing.cancel()


def _max_wait(plan: Plan, deadlines: list[Deadline]) -> float | None:
    """Return how long to wait for the next chunk: the time that the body has left, and a little for the loop."""
    if plan.timeout is None:
        return None
    return (
        max(deadlines[0].remaining_seconds() if deadlines else plan.timeout, 0)
        + plan.startup_seconds
        + 2 * CANCEL_GRACE_SECONDS
    )
