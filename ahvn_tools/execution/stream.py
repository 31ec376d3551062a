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

from ahvn_tools.binding import Layers
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution import bridge, failure
from ahvn_tools.execution.awaited import aprepared
from ahvn_tools.execution.crossing import LOOP_IS_BLOCKED
from ahvn_tools.execution.deadline import GRACE, Deadline, end, outcome_of
from ahvn_tools.execution.direct import prepared
from ahvn_tools.execution.drive import drive, late
from ahvn_tools.execution.hand import Emit
from ahvn_tools.execution.outcome import Outcome, is_iterator, is_live
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.relay import Relay
from ahvn_tools.execution.settle import failed, result
from ahvn_tools.results import ToolResult, item_value
from ahvn_tools.schema.output import Output

Chunks = Generator[ToolResult, None, Outcome]
"""Yields the chunks and returns what came of the body."""


def stream(
    plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, layers: Layers
) -> Generator[ToolResult, None, None]:
    """Yield the results of one call to a sync reader."""
    started = perf_counter()
    try:
        values = prepared(plan, positional, arguments, layers)
    except ToolCallError as error:
        yield failed(failure.of_call(error), started)
        return
    if plan.is_direct:
        outcome = yield from here(plan, body, values)
    else:
        outcome = yield from _bridged(plan, body, values)
    yield result(plan, body, outcome, values, started)


async def astream(
    plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, layers: Layers
) -> AsyncGenerator[ToolResult, None]:
    """Yield the results of one call to an async reader."""
    started = perf_counter()
    try:
        values = await aprepared(plan, positional, arguments, layers)
    except ToolCallError as error:
        yield failed(failure.of_call(error), started)
        return
    chunks: asyncio.Queue[ToolResult | None] = asyncio.Queue()
    relay = Relay(chunks.put_nowait)
    task = asyncio.create_task(drive(plan, body, values, _giving(plan.output, relay)))
    task.add_done_callback(lambda _: chunks.put_nowait(None))
    try:
        while (chunk := await chunks.get()) is not None:
            yield chunk
            relay.go_on()
    finally:
        relay.is_over = True
        await end(task)
    yield result(plan, body, outcome_of(task), values, started)


def _giving(output: Output, relay: Relay) -> Emit:
    """Return what gives an item of the body to a reader, as a chunk."""

    async def give(item: Any) -> None:
        await relay.emit(output.chunk(item))

    return give


def here(plan: Plan, body: Body, values: Arguments) -> Chunks:
    """Iterate a sync body in the reader's own thread, in a context of its own; return the outcome."""
    within = contextvars.copy_context().run
    started = Outcome.of(lambda: within(plan.invoke, body, values))
    if started.error is not None or not is_live(started.value):
        return started
    if not is_iterator(started.value):
        return (yield from _bridged(plan, lambda: started.value, {}))
    items: list[Any] = []
    try:
        while True:
            step = Outcome.of(lambda: within(next, started.value))
            if isinstance(step.error, StopIteration):
                return Outcome(items)
            if step.error is not None:
                return step
            items.append(item_value(step.value))
            yield plan.output.chunk(step.value)
    finally:
        if hasattr(started.value, "close"):
            with contextlib.suppress(Exception):  # the reader has gone, or has got the error that ended the body
                within(started.value.close)


def _bridged(plan: Plan, body: Body, values: Arguments) -> Chunks:
    """Run the body on the background loop (or in a thread of it) and hand its items over; return the outcome."""
    chunks: queue.SimpleQueue[ToolResult | None] = queue.SimpleQueue()
    relay = Relay(chunks.put)
    clocks: list[Deadline] = []

    async def whole() -> Outcome:
        if plan.timeout is not None:
            clocks.append(Deadline(plan.timeout))
        return await drive(plan, body, values, _giving(plan.output, relay), *clocks)

    crossing = bridge.Crossing(whole)
    crossing.on_end(lambda: chunks.put(None))
    try:
        while (chunk := chunks.get(timeout=_backstop(plan, clocks))) is not None:
            yield chunk
            bridge.call_soon(relay.go_on)
        return crossing.outcome()
    except queue.Empty:  # a body blocks the loop, so that no timer fires
        return Outcome(error=late(plan, LOOP_IS_BLOCKED), is_ours=True)
    finally:
        relay.is_over = True
        crossing.leave()


def _backstop(plan: Plan, clocks: list[Deadline]) -> float | None:
    """Return how long to wait for the next chunk: the time that the body has left, and a little for the loop."""
    if plan.timeout is None:
        return None
    return max(clocks[0].left() if clocks else plan.timeout, 0) + plan.headroom + 2 * GRACE
