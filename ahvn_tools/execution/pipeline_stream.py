"""Streamed calls: one chunk per item as it is made, then one last result, exactly what `exec` would have returned.

One task owns a streamed call from first to last, so that scopes, spans and contextvars of the body never reach the
reader. The body waits for its reader, and a reader who leaves closes the body.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
from collections.abc import AsyncGenerator, Generator, Sequence
from dataclasses import replace
from time import perf_counter

from ahvn_tools.errors import ToolSpecError, ToolTimeoutError
from ahvn_tools.execution import endpoint
from ahvn_tools.execution.async_to_sync import read_chunks
from ahvn_tools.execution.call import Call, EmitChunk, Middleware, is_inline
from ahvn_tools.execution.channel import ChunkChannel
from ahvn_tools.execution.convert import call_error_detail, error_result
from ahvn_tools.execution.deadline import cancel_and_wait, outcome_of
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.pipeline import (
    NOT_INLINE,
    LoopWatchdog,
    build_stack,
    result_of,
    run_cancellable,
    run_to_result,
)
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.results import ToolResult


def stream(middleware: Sequence[Middleware], call: Call) -> Generator[ToolResult, None, None]:
    """Yield the chunks of a call to a sync reader, then its result."""
    plan = call.plan
    needs_loop = not plan.runs_in_caller_thread or plan.has_async_resolvers or call.takes_context
    if needs_loop or not all(map(is_inline, middleware)):
        return _stream_on_loop(middleware, call)
    return _stream_without_loop(middleware, call)


async def astream(middleware: Sequence[Middleware], call: Call) -> AsyncGenerator[ToolResult, None]:
    """Yield the chunks of a call to an async reader, then its result."""
    started = perf_counter()
    chunks: asyncio.Queue[ToolResult | None] = asyncio.Queue()
    channel = ChunkChannel(chunks.put_nowait)
    run = build_stack(middleware, endpoint.run_async)
    streamed = replace(call, emit=_make_emit(channel.emit, call.id))
    task = asyncio.create_task(capture_outcome(run_cancellable, run, streamed))
    task.add_done_callback(lambda _: chunks.put_nowait(None))
    try:
        while (chunk := await chunks.get()) is not None:
            yield chunk
            channel.request_next()
    finally:
        channel.is_closed = True
        await cancel_and_wait(task)
    yield result_of(call, outcome_of(task), started)


def _stream_on_loop(middleware: Sequence[Middleware], call: Call) -> Generator[ToolResult, None, None]:
    started, stack = perf_counter(), build_stack(middleware, endpoint.run_async)

    async def run(emit: EmitChunk) -> Outcome:
        return await capture_outcome(run_cancellable, stack, replace(call, emit=_make_emit(emit, call.id)))

    def next_chunk(chunks: queue.SimpleQueue[ToolResult | None]) -> ToolResult | None:
        while True:
            watchdog = LoopWatchdog(call)
            try:
                return chunks.get(timeout=watchdog.check_interval)
            except queue.Empty:
                watchdog.raise_if_late()

    try:
        outcome = yield from read_chunks(run, next_chunk)
    except ToolTimeoutError as error:
        yield replace(error_result(call_error_detail(error), started), id=call.id)
    else:
        yield result_of(call, outcome, started)


class _YieldedChunk:
    """A chunk for the reader that runs the stack without a loop."""

    def __init__(self, chunk: ToolResult) -> None:
        self.chunk = chunk

    def __await__(self) -> Generator[_YieldedChunk, None, None]:
        yield self


async def _yield_chunk(chunk: ToolResult) -> None:
    await _YieldedChunk(chunk)


def _stream_without_loop(middleware: Sequence[Middleware], call: Call) -> Generator[ToolResult, None, None]:
    """Run a streamed call in its reader's thread, in a context that the reader does not see."""
    run = build_stack(middleware, endpoint.stream_inline)
    run_in_context = contextvars.copy_context().run
    stack = run_to_result(run, replace(call, emit=_make_emit(_yield_chunk, call.id)))
    try:
        while True:
            try:
                step = run_in_context(stack.send, None)
            except StopIteration as stop:
                yield stop.value
                return
            if not isinstance(step, _YieldedChunk):
                raise ToolSpecError(NOT_INLINE)
            yield step.chunk
    finally:
        run_in_context(stack.close)


def _make_emit(emit: EmitChunk, call_id: str | None) -> EmitChunk:
    """Return an `emit` for middleware: whatever it passes on is a chunk of this call and never the last result."""

    async def emit_chunk(chunk: ToolResult) -> None:
        is_complete = not chunk.is_last and chunk.id is not None
        await emit(chunk if is_complete else replace(chunk, is_last=False, id=chunk.id or call_id))

    return emit_chunk
