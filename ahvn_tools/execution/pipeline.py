"""The pipeline: a call passes through its middleware, outermost first, to its body, and the result comes back.

From sync code a sync body runs in its caller's thread. Middleware that is all `inline` runs there too, without an event
loop; other middleware runs on the background loop while the caller's thread waits to run the body.

A streamed call has one chunk per item as it is made, then one last result, exactly what `execute` would have returned.
One task owns it from first to last, so that scopes, spans and contextvars of the body never reach the reader. The body
waits for its reader, and a reader who leaves closes the body.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import queue
import types
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, Final

from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import CallCancelledError, ToolCallError, ToolSpecError, ToolTimeoutError, error_for_code
from ahvn_tools.execution import background_loop, endpoint
from ahvn_tools.execution.async_to_sync import read_on_loop, run_on_loop
from ahvn_tools.execution.call import Call, EmitChunk, Middleware, Next, is_inline
from ahvn_tools.execution.channel import ChunkReader
from ahvn_tools.execution.convert import body_error_detail, call_error_detail, error_result
from ahvn_tools.execution.middleware_errors import MiddlewareResultError, describe_failure
from ahvn_tools.execution.outcome import Outcome, is_cancellation
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.results import ToolResult

log = logging.getLogger(__name__)

_NOT_INLINE: Final = "A middleware that is marked `inline` waited for something. Remove the mark."


def execute(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run a call from sync code."""
    if not call.plan.runs_in_caller_thread or call.plan.has_async_resolvers:
        started, run = perf_counter(), _build_stack(middleware, endpoint.run_async)
        outcome = run_on_loop(call.plan, capture_outcome, _run_cancellable, run, call, scope=call.scope)
        return _result_of(call, outcome, started)
    if all(map(is_inline, middleware)):
        return _run_without_loop(_run_to_result(_build_stack(middleware, endpoint.run_inline), call))
    return _run_body_in_caller(middleware, call)


async def aexecute(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run a call from async code, in the task that awaits this."""
    return await _run_cancellable(_build_stack(middleware, endpoint.run_async), call)


def stream(middleware: Sequence[Middleware], call: Call) -> Generator[ToolResult, None, None]:
    """Yield the chunks of a call to a sync reader, then its result."""
    plan = call.plan
    needs_loop = not plan.runs_in_caller_thread or plan.has_async_resolvers or call.takes_context
    if needs_loop or not all(map(is_inline, middleware)):
        return _stream_on_loop(middleware, call)
    return _stream_without_loop(middleware, call)


async def astream(middleware: Sequence[Middleware], call: Call) -> AsyncGenerator[ToolResult, None]:
    """Yield the chunks of a call to an async reader, then its result."""
    started, stack = perf_counter(), _build_stack(middleware, endpoint.run_async)
    reader = ChunkReader(
        lambda emit: capture_outcome(_run_cancellable, stack, replace(call, emit=make_emit(emit, call.id)))
    )
    async with contextlib.aclosing(reader.read()) as chunks:
        async for chunk in chunks:
            yield chunk
    yield _result_of(call, reader.outcome, started)


def unwrap_result(call: Call, result: ToolResult) -> Any:
    """Return the value that `call` returns for a result, or raise.

    What the body raised is raised again, unless a middleware has replaced its result.
    """
    if result.error is None:
        return result.value
    error = call.scope.error
    if error is not None and result.error is call.scope.error_detail and not is_cancellation(error):
        raise error
    replaced = error_for_code(result.error.code, result.error.message, tool=call.name)
    replaced.mcp_response = result.error.mcp_response
    raise replaced


def _build_stack(middleware: Sequence[Middleware], run: Next) -> Next:
    """Return `run` wrapped in the middleware, the first outermost."""
    for layer in reversed(middleware):
        run = _Layer(layer, run)
    return run


class _Layer:
    """A middleware, with what it wraps as its `next`."""

    __slots__ = ("middleware", "next")

    def __init__(self, middleware: Middleware, next: Next) -> None:  # noqa: A002  # as the parameter of a middleware
        self.middleware, self.next = middleware, next

    async def __call__(self, call: Call) -> ToolResult:
        awaitable: Any = self.middleware(call, self.next)
        if not hasattr(awaitable, "__await__"):
            raise MiddlewareResultError(self.middleware, call.name, "is no async function")
        result = await awaitable
        if not isinstance(result, ToolResult):
            what = f"returned {type(result).__name__}, not a ToolResult"
            raise MiddlewareResultError(self.middleware, call.name, what)
        return result


def inner_middleware(run: Next) -> Iterator[Middleware]:
    """Yield the middleware that the `next` of a middleware runs, outermost first."""
    while isinstance(run, _Layer):
        yield run.middleware
        run = run.next


async def _run_cancellable(run: Next, call: Call) -> ToolResult:
    """Run a stack in the current task, which a cancellation by the call's id cancels."""
    scope = call.scope
    with scope.attach_task():
        result = await _run_to_result(run, call)
        is_caller_cancelled = scope.has_cancelled_task and scope.is_caller_cancelled
    if is_caller_cancelled:
        raise asyncio.CancelledError  # both were cancelled at once, the call and the task that awaits it
    return result


async def _run_to_result(run: Next, call: Call) -> ToolResult:
    """Run a stack; an exception of a middleware becomes an error result, as does a cancellation by the call's id."""
    started, scope = perf_counter(), call.scope
    try:
        result = scope.interrupted_result(call.name) if scope.is_cancelled else await run(call)
    except asyncio.CancelledError as error:
        if scope.is_caller_cancelled:
            raise
        if scope.is_cancelled:
            result = scope.interrupted or scope.interrupted_result(call.name)
        else:
            cancelled = CallCancelledError(f"A middleware of tool {call.name!r} cancelled the call.")
            cancelled.__cause__ = error
            result = scope.record_error(cancelled, error_result(call_error_detail(cancelled), started))
    except ToolCallError as error:
        result = scope.record_error(error, error_result(call_error_detail(error), started))
    except (Exception, KeyboardInterrupt, SystemExit) as error:  # a caller of `exec` gets a result, whatever fails
        if not (isinstance(error, Exception) or call.is_served):
            raise
        log.error("%s", describe_failure(error, call.name, _Layer.__call__.__code__))  # noqa: TRY400  # no values in logs
        detail = ErrorDetail(code="tool_error", message=f"A middleware of tool {call.name!r} failed.").hold(error)
        result = scope.record_error(error, error_result(detail, started))
    return result if result.id == call.id and result.is_last else result.as_final_result(call.id)


def _result_of(call: Call, outcome: Outcome, started: float) -> ToolResult:
    """Return the result of a call that ran in a task of this package, or raise what the call raised.

    A cancelled task was cancelled by the body itself: its caller still waits.
    """
    error = outcome.error
    if isinstance(error, ToolTimeoutError):
        detail = call_error_detail(error)
    elif error is not None and is_cancellation(error):
        detail = body_error_detail(error, {}, tool=call.name)
    else:
        result: ToolResult = outcome.get()
        return result
    return replace(call.scope.record_error(error, error_result(detail, started)), id=call.id)


def _run_without_loop(stack: Coroutine[Any, Any, ToolResult]) -> ToolResult:
    """Run a coroutine that never suspends."""
    try:
        stack.send(None)
    except StopIteration as stop:
        result: ToolResult = stop.value
        return result
    stack.close()
    raise ToolSpecError(_NOT_INLINE)


def _run_body_in_caller(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run the middleware on the background loop, and the body in this thread, which waits for it."""
    started = perf_counter()
    jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    async def run_in_caller(call: Call) -> ToolResult:
        context, loop = contextvars.copy_context(), asyncio.get_running_loop()
        ended: asyncio.Future[Outcome] = loop.create_future()

        def job() -> None:
            body = endpoint.run_inline(replace(call, emit=None))
            outcome = Outcome.capture(lambda: context.run(_run_without_loop, body))
            loop.call_soon_threadsafe(ended.set_result, outcome)

        jobs.put(job)
        try:
            result: ToolResult = (await asyncio.shield(ended)).get()
        except asyncio.CancelledError:
            if (tool_context := call.scope.context) is not None:
                tool_context.cancel()
            if not call.scope.is_cancelled or call.scope.is_caller_cancelled:
                raise
            result = (await asyncio.shield(ended)).get()  # the body sees it in its ToolContext, and ends when it ends
        return result

    stack = _build_stack(middleware, run_in_caller)
    loop_call = background_loop.LoopCall(capture_outcome, _run_cancellable, stack, call, on_end=lambda: jobs.put(None))
    with loop_call, loop_call:
        loop_call.start()
        while (job := jobs.get()) is not None:
            job()
        return _result_of(call, loop_call.outcome(), started)


def _stream_on_loop(middleware: Sequence[Middleware], call: Call) -> Generator[ToolResult, None, None]:
    started = perf_counter()
    try:
        outcome = yield from read_on_loop(call.plan, astream(middleware, call), call.scope)
    except ToolTimeoutError as error:
        outcome = Outcome(error=error)
    if outcome.error is not None:
        yield _result_of(call, outcome, started)


@types.coroutine
def _yield_chunk(chunk: ToolResult) -> Generator[ToolResult, None, None]:
    """Suspend the stack and pass a chunk to the reader, who runs it without a loop."""
    yield chunk


def _stream_without_loop(middleware: Sequence[Middleware], call: Call) -> Generator[ToolResult, None, None]:
    """Run a streamed call in its reader's thread, in a context that the reader does not see."""
    run = _build_stack(middleware, endpoint.run_inline)
    run_in_context = contextvars.copy_context().run
    stack = _run_to_result(run, replace(call, emit=make_emit(_yield_chunk, call.id)))
    try:
        while True:
            try:
                step = run_in_context(stack.send, None)
            except StopIteration as stop:
                yield stop.value
                return
            if not isinstance(step, ToolResult):
                raise ToolSpecError(_NOT_INLINE)
            yield step
    finally:
        run_in_context(stack.close)


def make_emit(emit: EmitChunk, call_id: str | None) -> EmitChunk:
    """Return an `emit` for middleware: whatever it passes on is a chunk of this call and never the last result."""

    async def emit_chunk(chunk: ToolResult) -> None:
        is_of_call = not chunk.is_last and chunk.id == call_id
        await emit(chunk if is_of_call else replace(chunk, is_last=False, id=call_id))

    return emit_chunk
