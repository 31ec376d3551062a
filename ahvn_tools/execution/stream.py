"""Streams: one chunk per item as it is made, then one last result, exactly what `execute` would have given.

One task owns a streamed call from its first line to its last, so that scopes, spans and contextvars of the body never
reach the reader; the body waits for its reader, and a reader who leaves closes the body.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from time import perf_counter
from typing import Any

from ahvn_tools.binding import Layers
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution import bridge, failure
from ahvn_tools.execution.deadline import GRACE, end
from ahvn_tools.execution.outcome import Outcome, is_iterator, is_live
from ahvn_tools.execution.plan import Arguments, Plan
from ahvn_tools.execution.run import Body, aprepared, drive, failed, late, prepared, result
from ahvn_tools.results import ToolResult

Chunks = Generator[ToolResult, None, Outcome]
"""Yields the chunks and returns what came of the body."""


def stream(
    plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, layers: Layers
) -> Iterator[ToolResult]:
    """Yield the results of one call to a sync reader."""
    started = perf_counter()
    try:
        values = prepared(plan, positional, arguments, layers)
    except ToolCallError as error:
        yield failed(failure.of_call(error), started)
        return
    if plan.is_direct:
        outcome = yield from _direct(plan, body, values)
    else:
        outcome = yield from _bridged(plan, body, values)
    yield result(plan, outcome, values, started)


async def astream(
    plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, layers: Layers
) -> AsyncIterator[ToolResult]:
    """Yield the results of one call to an async reader."""
    started = perf_counter()
    try:
        values = await aprepared(plan, positional, arguments, layers)
    except ToolCallError as error:
        yield failed(failure.of_call(error), started)
        return
    chunks: asyncio.Queue[ToolResult | None] = asyncio.Queue()
    turn = asyncio.Semaphore(0)
    task = asyncio.create_task(drive(plan, body, values, _emitter(plan, chunks.put_nowait, turn)))
    task.add_done_callback(lambda _: chunks.put_nowait(None))
    try:
        while (chunk := await chunks.get()) is not None:
            yield chunk
            turn.release()
        outcome = task.result()
    finally:
        if not task.done():
            await end(task)
    yield result(plan, outcome, values, started)


def _emitter(plan: Plan, put: Callable[[ToolResult], None], turn: asyncio.Semaphore) -> Any:
    async def emit(item: Any) -> None:
        put(plan.output.chunk(item))
        await turn.acquire()

    return emit


def _direct(plan: Plan, body: Body, values: Arguments) -> Chunks:
    """Iterate a sync body in the reader's own thread; return the outcome."""
    started = Outcome.of(lambda: plan.invoke(body, values))
    if started.error is not None or not is_live(started.value):
        return started
    if not is_iterator(started.value):
        return (yield from _bridged(plan, lambda: started.value, {}))
    items: list[Any] = []
    try:
        while True:
            step = Outcome.of(lambda: next(started.value))
            if isinstance(step.error, StopIteration):
                return Outcome(items)
            if step.error is not None:
                return step
            items.append(step.value.value if isinstance(step.value, ToolResult) else step.value)
            yield plan.output.chunk(step.value)
    finally:
        if hasattr(started.value, "close"):
            started.value.close()


def _bridged(plan: Plan, body: Body, values: Arguments) -> Chunks:
    """Run the body on the background loop (or in a thread of it) and hand its items over; return the outcome."""
    chunks: queue.SimpleQueue[ToolResult | None] = queue.SimpleQueue()
    turn, over = asyncio.Semaphore(0), threading.Event()

    async def whole() -> Outcome:
        try:
            return await drive(plan, body, values, _emitter(plan, chunks.put, turn))
        finally:
            over.set()

    future = bridge.start(whole())
    future.add_done_callback(lambda _: chunks.put(None))
    waits = _Waits(plan.timeout)
    try:
        while (chunk := waits.get(chunks)) is not None:
            yield chunk
            bridge.call_soon(turn.release)
        outcome: Outcome = future.result()
        return outcome
    except queue.Empty:  # a body on the loop blocks it, so that no timer fires
        return Outcome(error=late(plan, "the background loop is blocked"), is_ours=True)
    finally:
        if not future.done():
            future.cancel()
            over.wait(GRACE)


class _Waits:
    """Waits for chunks, for as long as the timeout allows over all waits."""

    def __init__(self, timeout: float | None) -> None:
        self._left = None if timeout is None else timeout + 2 * GRACE

    def get(self, chunks: queue.SimpleQueue[ToolResult | None]) -> ToolResult | None:
        if self._left is None:
            return chunks.get()
        since = time.monotonic()
        try:
            return chunks.get(timeout=max(self._left, 0))
        finally:
            self._left -= time.monotonic() - since
