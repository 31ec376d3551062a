"""The pipeline: a call passes through its middleware, outermost first, to its body, and the result comes back.

From sync code it runs on the background loop, while the caller's thread waits and runs a sync body. A sync body that
nothing wraps needs no loop.

A streamed call has one chunk per item as it is made, then one last result, exactly what `execute` would have returned.
One task owns it from first to last, or one context where there is no loop, so that scopes, spans and contextvars of the
body never reach the reader. The body waits for its reader, and a reader who leaves closes the body.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator, Sequence
from dataclasses import replace
from time import monotonic, perf_counter
from typing import Any, Final, TypeVar

from ahvn_tools.context import ToolContext, current_context
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import CallCancelledError, ToolCallError, error_for_code
from ahvn_tools.execution import background_loop, direct_call
from ahvn_tools.execution.async_to_sync import read_emitted
from ahvn_tools.execution.call import Call, EmitChunk, Middleware, Next
from ahvn_tools.execution.channel import ChunkDeliveryError, ChunkEmitter, ChunkReader
from ahvn_tools.execution.consume import iterate
from ahvn_tools.execution.convert import (
    body_error_detail,
    call_error_detail,
    error_result,
    items_so_far,
    returned_result,
    summarize_exception,
    to_result,
)
from ahvn_tools.execution.deadline import Deadline, seconds_left
from ahvn_tools.execution.outcome import Outcome, is_cancellation
from ahvn_tools.execution.plan import Arguments
from ahvn_tools.execution.runner import capture_outcome, run_body, with_resolved_values
from ahvn_tools.execution.threads import CallerThread, Threads, call_in_thread, thread_pool
from ahvn_tools.json_types import exceeds_size
from ahvn_tools.results import ToolResult, to_final_result

T = TypeVar("T")


class MiddlewareResultError(TypeError):
    """A middleware has not returned a ToolResult. The message has no values."""


MAX_CHARS_ON_LOOP: Final = 128 * 1024
"""Served arguments with a longer JSON text are validated in a thread, and a value is converted in one."""


async def run_to_result(call: Call, *, threads: Threads = thread_pool) -> ToolResult:
    """Run the body: an async one in this task, a sync one in one of the threads."""
    if call.scope.is_cancelled:
        return call.scope.interrupted_result(call.name)
    started, plan, scope = perf_counter(), call.plan, call.scope
    takes_context = plan.takes_context and call.takes_context
    emitter = None if call.emit is None else ChunkEmitter(call)
    emit = None if emitter is None else emitter.emit_item
    items: list[Any] = []
    context = call.make_context(None if emitter is None else emitter.put_nowait) if takes_context else None
    outcome, values = Outcome(), call.arguments
    try:
        values = await _prepare(call, context)
        outcome = await run_body(
            plan,
            call.body,
            values,
            emit,
            scope.deadline,
            items=items,
            waits_for_reader=not call.is_served,
            threads=threads,
        )
        if emitter is not None:
            await emitter.drain()
    except (ToolCallError, KeyboardInterrupt) as error:
        return _preparation_result(call, error, started)
    except ChunkDeliveryError:
        pass  # raised below, behind the handlers for what the body does
    except asyncio.CancelledError:
        _cancel_context(context)
        result = _interrupted_result(call, list(items))
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
    convert = functools.partial(_to_result, call, outcome, values, started, context)
    return await run_if_large_in_thread(call, outcome.value, convert)


def _preparation_result(call: Call, error: ToolCallError | KeyboardInterrupt, started: float) -> ToolResult:
    """Return the result of a call whose body has not run; a KeyboardInterrupt is one of a validator or a resolver."""
    if isinstance(error, KeyboardInterrupt):
        return _to_result(call, Outcome(error=error), call.arguments, started)
    return call.scope.record_error(error, error_result(call_error_detail(error), started))


async def run_if_large_in_thread(call: Call, value: Any, function: Callable[[], T]) -> T:
    """Return what `function` returns, which reads a value: of a served call in a thread if the value is large.

    Other clients do not wait for it.
    """
    if not (call.is_served and exceeds_size(value, MAX_CHARS_ON_LOOP)):
        return function()
    return await call_in_thread(function)


async def _prepare(call: Call, context: ToolContext | None) -> Arguments:
    """Return the body's arguments, made with the call's ToolContext if the tool takes one; start the body's clock."""
    started, plan, token = monotonic(), call.plan, current_context.set(context)
    try:
        if plan.has_async_resolvers:
            plan = await with_resolved_values(plan, call.state_scopes)
        work = functools.partial(plan.prepare, call.positional, call.arguments, call.state_scopes)
        values = await run_if_large_in_thread(call, call.arguments, work)
        seconds = seconds_left(plan, started)
    finally:
        with contextlib.suppress(ValueError):  # the loop was closed: this runs outside the call's context
            current_context.reset(token)
    call.scope.bound_values = plan.bound_values(values)
    if seconds is not None:
        call.scope.deadline = Deadline(seconds)  # a waiting sync caller reads it
    return values


def _interrupted_result(call: Call, items: list[Any]) -> ToolResult:
    """Return the result of a body that was interrupted after these items."""
    return call.scope.interrupted_result(call.name, items_so_far(call.plan, items), is_raw=call.plan.output.is_raw)


def _cancel_context(context: ToolContext | None) -> None:
    """Mark the body's ToolContext as cancelled: its thread may still run, and no caller waits for it."""
    if context is not None:
        context._cancel()  # noqa: SLF001  # of this package


def _to_result(
    call: Call, outcome: Outcome, values: Arguments, started: float, context: ToolContext | None = None
) -> ToolResult:
    """Return the result of an outcome, with what the tool requested; the call's scope remembers the error."""
    plan, scope = call.plan, call.scope
    if outcome.error is None:
        result = returned_result(plan, call.body, outcome.value, values, started, find_hidden=call.hidden_values)
    else:
        result = to_result(
            plan,
            call.body,
            outcome,
            values,
            started,
            is_served=call.is_served,
            masks_errors=call.masks_errors,
            find_hidden=call.hidden_values,
        )
        scope.record_error(outcome.error, result)
    if scope.is_cancelled and not result.is_interrupted:
        result = replace(result, is_interrupted=True)
    if context is not None and outcome.is_runner_error:
        context._cancel()  # noqa: SLF001  # of this package
    if context is not None and context._ends_session:  # noqa: SLF001  # of this package
        result.meta["ends_session"] = True
    return result


log = logging.getLogger(__name__)


def execute(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run a call from sync code: a sync body in this thread, all else on the background loop."""
    started, plan = perf_counter(), call.plan
    if not (_needs_loop(middleware, call) or plan.output.is_stream):
        return _execute_here(call)
    if not plan.runs_in_caller_thread:
        stack = _build_stack(middleware, run_to_result)
        return _result_of(call, background_loop.run(capture_outcome, _run_cancellable, stack, call), started)
    thread = CallerThread()
    stack = _build_stack(middleware, functools.partial(run_to_result, threads=thread))
    return _result_of(call, thread.wait_for(capture_outcome, _run_cancellable, stack, call), started)


def _needs_loop(middleware: Sequence[Middleware], call: Call) -> bool:
    """Return whether a call from sync code has middleware, a timeout, a ToolContext or a client, or is async."""
    plan = call.plan
    is_plain = plan.runs_in_caller_thread and not (plan.has_async_resolvers or plan.takes_context)
    return bool(middleware) or plan.seconds is not None or call.is_served or not is_plain


def _execute_here(call: Call) -> ToolResult:
    """Run a sync body that nothing wraps in this thread, without a loop."""
    started, plan = perf_counter(), call.plan
    values = _prepare_here(call, started)
    if isinstance(values, ToolResult):
        return values
    items: list[Any] = []
    outcome = Outcome.capture(lambda: direct_call.run_body_here(plan, call.body, values, items))
    outcome = outcome if outcome.error is None else replace(outcome, made=items)
    return replace(_to_result(call, outcome, values, started), id=call.id)


def _prepare_here(call: Call, started: float) -> Arguments | ToolResult:
    """Return the body's arguments, or the result of a call whose body does not run."""
    plan, scope = call.plan, call.scope
    if scope.is_cancelled:
        return replace(scope.interrupted_result(call.name), id=call.id)
    try:
        values = plan.prepare(call.positional, call.arguments, call.state_scopes)
    except (ToolCallError, KeyboardInterrupt) as error:
        return replace(_preparation_result(call, error, started), id=call.id)
    scope.bound_values = plan.bound_values(values)
    return values


async def aexecute(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run a call from async code, in the task that awaits this."""
    return await _run_cancellable(_build_stack(middleware, run_to_result), call)


def stream(middleware: Sequence[Middleware], call: Call) -> Generator[ToolResult, None, None]:
    """Yield the chunks of a call to a sync reader, then its result."""
    started = perf_counter()
    if not _needs_loop(middleware, call) and inspect.isgeneratorfunction(call.body):
        yield from _stream_here(call)
        return
    outcome = yield from read_emitted(_streaming(middleware, call))
    yield _result_of(call, outcome, started)


def _stream_here(call: Call) -> Generator[ToolResult, None, None]:
    """Yield the chunks of a generator that nothing wraps, then the result; it runs in this thread, without a loop.

    It has a context of its own: no context variable that it sets reaches the reader.
    """
    context, started, plan = contextvars.copy_context(), perf_counter(), call.plan
    values = context.run(_prepare_here, call, started)
    if isinstance(values, ToolResult):
        yield values
        return
    made, end = list[Any](), object()
    items = iterate(plan.invoke(call.body, values), plan.item_limits, made)
    try:
        while True:
            outcome = Outcome.capture(lambda: context.run(next, items, end))
            if outcome.error is not None or outcome.value is end:
                break
            yield replace(context.run(plan.output.to_chunk, outcome.value), id=call.id)
            if call.scope.is_cancelled:
                yield replace(_interrupted_result(call, made), id=call.id)
                return
        outcome = Outcome(made) if outcome.error is None else replace(outcome, made=made)
        yield replace(_to_result(call, outcome, values, started), id=call.id)
    finally:
        context.run(items.close)


async def astream(middleware: Sequence[Middleware], call: Call) -> AsyncGenerator[ToolResult, None]:
    """Yield the chunks of a call to an async reader, then its result."""
    started, reader = perf_counter(), ChunkReader(_streaming(middleware, call))
    async with contextlib.aclosing(reader.read()) as chunks:
        async for chunk in chunks:
            yield chunk
    yield _result_of(call, reader.outcome, started)


def _streaming(middleware: Sequence[Middleware], call: Call) -> Callable[[EmitChunk], Coroutine[Any, Any, Outcome]]:
    """Return what runs a call that passes its chunks to an `emit`."""
    stack = _build_stack(middleware, run_to_result)
    return lambda emit: capture_outcome(_run_cancellable, stack, replace(call, emit=make_emit(emit, call.id)))


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
        result: Any = self.middleware(call, self.next)
        if hasattr(result, "__await__"):
            result = await result
        if not isinstance(result, ToolResult):
            name = getattr(self.middleware, "__qualname__", type(self.middleware).__qualname__)
            raise MiddlewareResultError(
                f"The middleware {name} of tool {call.name!r} returned {type(result).__name__}, not a ToolResult: "
                "end it with `return await next(call)`."
            )
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
        why = str(error) if isinstance(error, MiddlewareResultError) else summarize_exception(error)
        log.error("A middleware of tool %r failed: %s", call.name, why)  # noqa: TRY400  # no values in logs
        detail = ErrorDetail(code="tool_error", message=f"A middleware of tool {call.name!r} failed.").hold(error)
        result = scope.record_error(error, error_result(detail, started))
    return result if result.id == call.id and result.is_last else to_final_result(result, call.id)


def _result_of(call: Call, outcome: Outcome, started: float) -> ToolResult:
    """Return the result of a call that ran in a task of this package, or raise what the call raised.

    A cancelled task was cancelled by the body itself: its caller still waits.
    """
    if outcome.error is None or not is_cancellation(outcome.error):
        result: ToolResult = outcome.get()
        return result
    detail = body_error_detail(outcome.error, {}, tool=call.name)
    return replace(call.scope.record_error(outcome.error, error_result(detail, started)), id=call.id)


def make_emit(emit: EmitChunk, call_id: str | None) -> EmitChunk:
    """Return an `emit` for middleware: whatever it passes on is a chunk of this call and never the last result."""

    async def emit_chunk(chunk: ToolResult) -> None:
        is_of_call = not chunk.is_last and chunk.id == call_id
        await emit(chunk if is_of_call else replace(chunk, is_last=False, id=call_id))

    return emit_chunk
