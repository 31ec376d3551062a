"""Chain: a call through its middleware, outermost first, to the body and back; from sync and from async code.

From sync code a sync body runs in its caller's own thread. The middleware around it is driven by hand where all of it
is `inline`; otherwise it runs on the background loop, which hands the body back.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import queue
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from ahvn_tools.errors import CallCancelledError, ToolCallError, ToolSpecError, ToolTimeoutError, error_for_code
from ahvn_tools.execution import background_loop, endpoint, failure
from ahvn_tools.execution.async_to_sync import LOOP_BLOCKED_REASON
from ahvn_tools.execution.call import Call, EmitChunk, Middleware, Next, is_inline
from ahvn_tools.execution.convert import error_result
from ahvn_tools.execution.deadline import CANCEL_GRACE_SECONDS, cancel_and_wait, outcome_of
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.relay import ChunkChannel
from ahvn_tools.execution.runner import capture_outcome, timeout_error
from ahvn_tools.results import ErrorDetail, ToolResult

log = logging.getLogger(__name__)

_NOT_INLINE = "A middleware that is marked `inline` waited for something. Take the mark away."


def execute(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run a call from sync code."""
    if not (call.plan.runs_in_caller_thread and not call.plan.has_async_resolvers):
        return _wait_for_result(
            background_loop.LoopCall(
                capture_outcome, _run_cancellable, _build_middleware_stack(middleware, endpoint.run_async), call
            ),
            call,
        )
    if all(map(is_inline, middleware)):
        return _run_without_loop(_run_to_result(_build_middleware_stack(middleware, _run_inline), call))
    return _run_body_in_caller(middleware, call)


async def aexecute(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run a call from async code, in the task that this is awaited in."""
    return await _run_cancellable(_build_middleware_stack(middleware, endpoint.run_async), call)


def stream(middleware: Sequence[Middleware], call: Call) -> Generator[ToolResult, None, None]:
    """Yield the chunks of a call to a sync reader, then its result."""
    plan = call.plan
    if (
        plan.runs_in_caller_thread
        and not (plan.has_async_resolvers or plan.takes_context)
        and all(map(is_inline, middleware))
    ):
        yield from _stream_without_loop(_build_middleware_stack(middleware, endpoint.stream_inline), call)
    else:
        yield from _stream_on_loop(middleware, call)


def _stream_on_loop(middleware: Sequence[Middleware], call: Call) -> Generator[ToolResult, None, None]:
    """Run a streamed call on the background loop."""
    chunks: queue.SimpleQueue[ToolResult | None] = queue.SimpleQueue()
    relay = ChunkChannel(chunks.put)
    started, run = perf_counter(), _build_middleware_stack(middleware, endpoint.run_async)
    crossing = background_loop.LoopCall(
        capture_outcome, _run_cancellable, run, replace(call, emit=_make_chunk_emit(relay.emit, call.id))
    )
    crossing.on_end(lambda: chunks.put(None))
    try:
        while (chunk := _next_chunk(chunks, call)) is not None:
            yield chunk
            background_loop.call_soon(relay.request_next)
        yield crossing.outcome().get()
    except ToolTimeoutError as error:
        yield replace(error_result(failure.call_error_detail(error), started), id=call.id)
    finally:
        relay.is_closed = True
        crossing.cancel()


def _next_chunk(chunks: queue.SimpleQueue[ToolResult | None], call: Call) -> ToolResult | None:
    """Return the next chunk. Raises ToolTimeoutError when a body blocks the loop, so that no timer fires."""
    while True:
        loop = _LoopWatchdog(call)
        try:
            return chunks.get(timeout=loop.check_interval)
        except queue.Empty:
            loop.raise_if_late()


def _wait_for_result(loop_call: background_loop.LoopCall, call: Call) -> ToolResult:
    """Wait for what comes of a call on the background loop: no longer than its body may take, if a body blocks that."""
    started = perf_counter()
    while True:
        loop = _LoopWatchdog(call)
        try:
            made: ToolResult = loop_call.outcome(loop.check_interval).get()
        except TimeoutError:
            try:
                loop.raise_if_late()
            except ToolTimeoutError as error:
                loop_call.cancel(0)
                return replace(
                    call.scope.record_error(error, error_result(failure.call_error_detail(error), started)), id=call.id
                )
        except BaseException:
            loop_call.cancel()
            raise
        else:
            return made


class _LoopWatchdog:
    """The background loop, as a sync caller sees it who waits for a call in there."""

    def __init__(self, call: Call) -> None:
        plan = self._plan = call.plan
        self._scope = call.scope
        self._has_responded = threading.Event()
        self.check_interval = (
            None if plan.timeout is None else max(plan.timeout, 0) + plan.startup_seconds + 2 * CANCEL_GRACE_SECONDS
        )
        """How long to wait before the clock is looked at; middleware may take any time of its own."""
        if self.check_interval is not None:
            background_loop.call_soon(self._has_responded.set)

    def raise_if_late(self) -> None:
        """Raise ToolTimeoutError when the body's time has been over for a while, or the loop has stood still."""
        clock = self._scope.deadline
        is_late = clock is not None and clock.remaining_seconds() + self._plan.startup_seconds < -CANCEL_GRACE_SECONDS
        if is_late or not self._has_responded.is_set():
            raise timeout_error(self._plan, LOOP_BLOCKED_REASON)


async def astream(middleware: Sequence[Middleware], call: Call) -> AsyncGenerator[ToolResult, None]:
    """Yield the chunks of a call to an async reader, then its result. One task owns the call from first to last."""
    chunks: asyncio.Queue[ToolResult | None] = asyncio.Queue()
    relay = ChunkChannel(chunks.put_nowait)
    run = _build_middleware_stack(middleware, endpoint.run_async)
    task = asyncio.create_task(
        capture_outcome(_run_cancellable, run, replace(call, emit=_make_chunk_emit(relay.emit, call.id)))
    )
    task.add_done_callback(lambda _: chunks.put_nowait(None))
    try:
        while (chunk := await chunks.get()) is not None:
            yield chunk
            relay.request_next()
    finally:
        relay.is_closed = True
        await cancel_and_wait(task)
    yield outcome_of(task).get()


def unwrap_result(call: Call, result: ToolResult) -> Any:
    """Return what `call` gives for a result, or raise: what the body raised, where nothing has replaced its result."""
    if result.error is None:
        return result.value
    error = call.scope.error
    if error is not None and result.error is call.scope.error_detail and not failure.is_cancellation(error):
        raise error
    raise error_for_code(result.error.code, result.error.message, tool=call.name)


def _make_chunk_emit(emit_chunk: EmitChunk, id: str) -> EmitChunk:  # noqa: A002  # the id of the call
    """Return what gives a reader chunks: whatever a middleware makes of one, it is not the last result."""

    async def emit(chunk: ToolResult) -> None:
        is_whole = not chunk.is_last and chunk.id is not None
        await emit_chunk(chunk if is_whole else replace(chunk, is_last=False, id=chunk.id or id))

    return emit


def _build_middleware_stack(middleware: Sequence[Middleware], run: Next) -> Next:
    for layer in reversed(middleware):
        run = _wrap(layer, run)
    return run


def _wrap(middleware: Middleware, inner: Next) -> Next:
    def run(call: Call) -> Awaitable[ToolResult]:
        return middleware(call, inner)

    return run


async def _run_cancellable(run: Next, call: Call) -> ToolResult:
    """Run the chain in this task, which a cancellation by the call's id reaches."""
    fate = call.scope
    with fate.attach_task():
        made = await _run_to_result(run, call)
        is_left = fate.has_cancelled_task and fate.is_caller_cancelled
    if is_left:
        raise asyncio.CancelledError  # both were cancelled at once, the call and whoever waits for it
    return made


async def _run_to_result(run: Next, call: Call) -> ToolResult:
    """Run the chain; what a middleware raises is an error result, too, and so is a cancellation by the call's id."""
    started, fate = perf_counter(), call.scope
    try:
        made = fate.interrupted_result(call.name) if fate.is_cancelled else await run(call)
        if not isinstance(made, ToolResult):
            raise TypeError(f"A middleware of tool {call.name!r} returned a {type(made).__name__} and no ToolResult.")
    except asyncio.CancelledError as error:
        if fate.is_caller_cancelled:
            raise
        made = (
            (fate.interrupted or fate.interrupted_result(call.name))
            if fate.is_cancelled
            else _middleware_cancelled_result(call, error, started)
        )
    except ToolCallError as error:
        made = fate.record_error(error, error_result(failure.call_error_detail(error), started))
    except Exception as error:  # noqa: BLE001  # whatever it is: a caller of `exec` gets a result
        log.error("A middleware of tool %r raised %s.", call.name, type(error).__name__)  # noqa: TRY400  # no values in logs
        detail = ErrorDetail(code="tool_error", message=f"A middleware of tool {call.name!r} failed.")
        made = fate.record_error(error, error_result(detail, started))
    return made if made.id == call.id and made.is_last else made.as_final_result(call.id)


def _middleware_cancelled_result(call: Call, cause: BaseException, started: float) -> ToolResult:
    """Return the result of a call that one of its middleware has cancelled by itself."""
    error = CallCancelledError(f"A middleware of tool {call.name!r} cancelled the call.")
    error.__cause__ = cause
    return call.scope.record_error(error, error_result(failure.call_error_detail(error), started))


async def _run_inline(call: Call) -> ToolResult:
    """Run a sync body in this thread."""
    return endpoint.run_inline(call)


def _run_without_loop(chain: Coroutine[Any, Any, ToolResult]) -> ToolResult:
    """Drive a coroutine that suspends nowhere."""
    try:
        chain.send(None)
    except StopIteration as stop:
        made: ToolResult = stop.value
        return made
    chain.close()
    raise ToolSpecError(_NOT_INLINE)


class _YieldedChunk:
    """A chunk on its way to the reader who drives the chain by hand."""

    def __init__(self, chunk: ToolResult) -> None:
        self.chunk = chunk

    def __await__(self) -> Generator[_YieldedChunk, None, None]:
        yield self


async def _yield_chunk(chunk: ToolResult) -> None:
    await _YieldedChunk(chunk)


def _stream_without_loop(run: Next, call: Call) -> Generator[ToolResult, None, None]:
    """Drive a streamed call in its reader's own thread, in a context that the reader does not see."""
    within = contextvars.copy_context().run
    chain = _run_to_result(run, replace(call, emit=_make_chunk_emit(_yield_chunk, call.id)))
    try:
        while True:
            try:
                step = within(chain.send, None)
            except StopIteration as stop:
                yield stop.value
                return
            if not isinstance(step, _YieldedChunk):
                raise ToolSpecError(_NOT_INLINE)
            yield step.chunk
    finally:
        within(chain.close)


def _run_body_in_caller(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run the middleware on the background loop, and the body in this thread, which waits for it."""
    jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    async def back(call: Call) -> ToolResult:
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        done: asyncio.Future[Outcome] = loop.create_future()

        def job() -> None:
            outcome = Outcome.capture(lambda: context.run(endpoint.run_inline, call))
            loop.call_soon_threadsafe(_set_outcome, done, outcome)

        jobs.put(job)
        try:
            made: ToolResult = (await asyncio.shield(done)).get()
        except asyncio.CancelledError:
            if (asked := call.scope.context) is not None:
                asked.cancel()
            if not call.scope.is_cancelled or call.scope.is_caller_cancelled:
                raise
            made = (await done).get()  # the body is told by its context, and ends when it ends
        return made

    crossing = background_loop.LoopCall(
        capture_outcome, _run_cancellable, _build_middleware_stack(middleware, back), call
    )
    crossing.on_end(lambda: jobs.put(None))
    try:
        while (job := jobs.get()) is not None:
            job()
        made: ToolResult = crossing.outcome().get()
        return made
    finally:
        crossing.cancel()


def _set_outcome(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)
