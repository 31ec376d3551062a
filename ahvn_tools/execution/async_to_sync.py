"""What a sync caller runs on the background loop and waits for."""

from __future__ import annotations

import queue
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any

from ahvn_tools.binding import StateScopes
from ahvn_tools.errors import SyncCallError
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.call import EmitChunk
from ahvn_tools.execution.cancellation import normalize_cancellation
from ahvn_tools.execution.channel import ChunkChannel
from ahvn_tools.execution.consume import aconsume
from ahvn_tools.execution.deadline import max_wait_seconds, timeout_error
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.runner import capture_outcome, run_body, run_resolvers
from ahvn_tools.results import ToolResult

LOOP_BLOCKED_REASON = "a body blocks the background loop"
"""The reason of a timeout that no timer of the loop could report."""


def run_body_on_loop(plan: Plan, body: Body, values: Arguments) -> Outcome:
    """Run the body to its end and return its outcome."""
    return _run_on_loop(plan, run_body, plan, body, values)


def run_resolvers_on_loop(plan: Plan, scopes: StateScopes) -> Mapping[str, Any]:
    """Return the values of the async resolvers by parameter."""
    values: Mapping[str, Any] = normalize_cancellation(plan, _run_on_loop(plan, run_resolvers, plan, scopes)).get()
    return values


def consume_on_loop(returned: Any) -> Any:
    """Await or iterate what a body returned, to its end."""
    try:
        return background_loop.run(capture_outcome, aconsume, returned).get()
    except SyncCallError:
        if hasattr(returned, "close"):
            returned.close()  # a coroutine that cannot be awaited here
        raise


def _run_on_loop(plan: Plan, start: background_loop.CoroutineFactory, *arguments: Any) -> Outcome:
    """Run `start` on the background loop; return on time even when another body blocks the loop and no timer fires."""
    try:
        return background_loop.run(start, *arguments, max_wait=max_wait_seconds(plan))
    except TimeoutError:
        return Outcome(error=timeout_error(plan, LOOP_BLOCKED_REASON), is_runner_error=True)


def iterate_on_loop(plan: Plan, returned: Any) -> Generator[ToolResult, None, Outcome]:
    """Yield what a body returned, an awaitable or async iterator, as chunks to a sync reader; return its outcome."""

    async def run(emit: EmitChunk) -> Outcome:
        async def emit_item(item: Any) -> None:
            await emit(plan.output.to_chunk(item))

        return await capture_outcome(aconsume, returned, emit_item)

    return (yield from read_chunks(run, queue.SimpleQueue.get))


def read_chunks(
    run: Callable[[EmitChunk], Coroutine[Any, Any, Outcome]],
    next_chunk: Callable[[queue.SimpleQueue[ToolResult | None]], ToolResult | None],
) -> Generator[ToolResult, None, Outcome]:
    """Run a call on the background loop, yield the chunks that it emits to a sync reader, and return its outcome.

    `next_chunk` waits for the next chunk of the queue, and may raise instead; None ends the stream.
    """
    chunks: queue.SimpleQueue[ToolResult | None] = queue.SimpleQueue()
    channel = ChunkChannel(chunks.put)
    loop_call = background_loop.LoopCall(run, channel.emit)
    loop_call.on_end(lambda: chunks.put(None))
    try:
        while (chunk := next_chunk(chunks)) is not None:
            yield chunk
            background_loop.call_soon(channel.request_next)
        return loop_call.outcome()
    finally:
        channel.is_closed = True
        loop_call.cancel()
