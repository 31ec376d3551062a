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
import functools
import logging
import os
import queue
import types
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from types import CodeType, TracebackType
from typing import Any, Final

from ahvn_tools.context import ToolContext, current_context
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import CallCancelledError, ToolCallError, ToolSpecError, ToolTimeoutError, error_for_code
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.async_to_sync import consume_on_loop, iterate_on_loop, read_on_loop, run_on_loop
from ahvn_tools.execution.call import Call, CallInterruptedError, EmitChunk, Middleware, Next, is_inline
from ahvn_tools.execution.channel import ChunkDeliveryError, ChunkEmitter, ChunkReader
from ahvn_tools.execution.consume import consume
from ahvn_tools.execution.convert import body_error_detail, call_error_detail, error_result, returned_result, to_result
from ahvn_tools.execution.deadline import Deadline
from ahvn_tools.execution.outcome import Outcome, is_cancellation, is_consumable, is_iterator
from ahvn_tools.execution.plan import Arguments
from ahvn_tools.execution.runner import capture_outcome, prepare, run_body
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.json_types import exceeds_size
from ahvn_tools.results import ToolResult, item_value, to_final_result

_PACKAGE: Final = f"{Path(__file__).parents[1]}{os.sep}"


class MiddlewareResultError(TypeError):
    """A middleware has not returned a ToolResult. The message has no values."""

    def __init__(self, middleware: Any, tool: str, what: str) -> None:
        place = _place(code.co_filename, code.co_firstlineno) if (code := _code(middleware)) is not None else ""
        super().__init__(
            f"The middleware {_name(middleware)}{place} of tool {tool!r} {what}: "
            "write it as `async def`, and end it with `return await next(call)`."
        )


def describe_failure(error: BaseException, tool: str, layer: CodeType) -> str:
    """Return a sentence on an exception that a middleware raised, without its text. `layer` is the code that called it.

    The place is that of the middleware itself or, for one of this package, of the host's function that it called.
    """
    if isinstance(error, MiddlewareResultError):
        return str(error)
    kind, frame = type(error).__name__, _failing_frame(error.__traceback__, layer)
    if frame is None:
        return f"A middleware of tool {tool!r} raised {kind}."
    code = frame.tb_frame.f_code
    place = _place(code.co_filename, frame.tb_lineno)
    return f"The middleware {code.co_qualname}{place} of tool {tool!r} raised {kind}."


def _failing_frame(trace: TracebackType | None, layer: CodeType) -> TracebackType | None:
    """Return the frame of the innermost middleware, outside of this package if possible."""
    inner: list[TracebackType] = []
    while trace is not None:
        if trace.tb_frame.f_code is layer:
            inner.clear()
        else:
            inner.append(trace)
        trace = trace.tb_next
    outside = [frame for frame in inner if not frame.tb_frame.f_code.co_filename.startswith(_PACKAGE)]
    return next(iter(outside or inner), None)


def _place(file: str, line: int) -> str:
    return f" ({Path(file).name}, line {line})"


def _name(middleware: Any) -> str:
    return str(getattr(middleware, "__qualname__", type(middleware).__qualname__))


def _code(middleware: Any) -> CodeType | None:
    function = middleware if hasattr(middleware, "__code__") else type(middleware).__call__
    return getattr(function, "__code__", None)


MAX_CHARS_ON_LOOP: Final = 128 * 1024
"""Served arguments with a longer JSON text are validated in a thread, and a value is converted in one."""


async def run_async(call: Call) -> ToolResult:
    """Run the body: an async one in this task, a sync one in a worker thread."""
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
        values = await _aprepare(call, context)
        outcome = await run_body(
            plan, call.body, values, emit, scope.deadline, items=items, waits_for_reader=not call.is_served
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
    if call.is_served and exceeds_size(outcome.value, MAX_CHARS_ON_LOOP):  # other clients do not wait for it
        convert = functools.partial(_to_result, call, outcome, values, started, context)
        converted: ToolResult = (await run_in_thread(lambda _: convert())).get()
        return converted
    return _to_result(call, outcome, values, started, context)


def _preparation_result(call: Call, error: ToolCallError | KeyboardInterrupt, started: float) -> ToolResult:
    """Return the result of a call whose body has not run; a KeyboardInterrupt is one of a validator or a resolver."""
    if isinstance(error, KeyboardInterrupt):
        return _to_result(call, Outcome(error=error), call.arguments, started)
    return call.scope.record_error(error, error_result(call_error_detail(error), started))


async def run_inline(call: Call) -> ToolResult:
    """Run a sync body in this thread, to its end. It awaits only `call.emit`."""
    started, plan, scope = perf_counter(), call.plan, call.scope
    if scope.is_cancelled:
        return scope.interrupted_result(call.name)
    context = call.make_context() if call.takes_context else None
    try:
        values = _prepare(call, context)
    except ToolCallError as error:
        return scope.record_error(error, error_result(call_error_detail(error), started))
    items: list[Any] = []
    outcome = Outcome.capture(lambda: plan.invoke(call.body, values))
    if outcome.error is None and is_consumable(outcome.value):
        outcome = await _consume_inline(call, outcome.value, items)
    if isinstance(outcome.error, CallInterruptedError):
        return _interrupted_result(call, items)
    return _to_result(call, outcome, values, started, context)


async def _consume_inline(call: Call, returned: Any, items: list[Any]) -> Outcome:
    """Await or iterate what a sync body returned, and emit the items; `items` is the list to fill."""
    limits = call.plan.item_limits
    if call.emit is None and is_iterator(returned):
        return Outcome.capture(lambda: consume(returned, limits, call.scope.raise_if_cancelled, items))
    if call.emit is None:
        return Outcome.capture(lambda: consume_on_loop(returned, limits))
    iterator = returned if is_iterator(returned) else iterate_on_loop(call.plan, returned)
    count = limits.make_counter()
    try:
        while True:
            step = Outcome.capture(lambda: next(iterator))
            if isinstance(step.error, StopIteration):
                return Outcome(items if iterator is returned else step.error.value)
            if step.error is not None:
                return step
            taken = Outcome.capture(functools.partial(_take, step.value, items, count))
            if taken.error is not None:
                return taken
            await call.emit(replace(call.plan.output.to_chunk(step.value), id=call.id))
            if call.scope.is_cancelled:
                return Outcome(error=CallInterruptedError())
    except GeneratorExit:  # the reader has left
        _interrupted_result(call, items)
        raise
    finally:
        if hasattr(iterator, "close"):
            with contextlib.suppress(Exception):  # the reader has left, or has the error that ended the body
                iterator.close()


def _take(item: Any, items: list[Any], count: Callable[[Any], None]) -> None:
    items.append(item_value(item))
    count(items[-1])


def has_large_arguments(call: Call) -> bool:
    """Return whether to validate the arguments in a thread: other clients do not wait for it."""
    return call.is_served and exceeds_size(call.arguments, MAX_CHARS_ON_LOOP)


async def run_if_large_in_thread(call: Call, function: Callable[[], Any]) -> Any:
    """Return what `function` returns, which validates the arguments: in a thread, if they are large."""
    if not has_large_arguments(call):
        return function()
    return (await run_in_thread(lambda _: function())).get()


async def _aprepare(call: Call, context: ToolContext | None) -> Arguments:
    """Return the body's arguments as `_prepare` does, and start the clock of the body."""
    plan = call.plan
    is_large = has_large_arguments(call)
    if not (is_large or plan.has_async_resolvers or plan.timeout is not None):
        values, seconds = _prepare(call, context), None
    else:
        token = current_context.set(context)
        try:
            values, seconds = await prepare(
                plan, call.positional, call.arguments, call.state_scopes, in_thread=is_large
            )
        finally:
            with contextlib.suppress(ValueError):  # the loop was closed: this runs outside the call's context
                current_context.reset(token)
        call.scope.bound_values = plan.bound_values(values)
    if seconds is not None:
        call.scope.deadline = Deadline(seconds)  # a waiting sync caller reads it
    return values


def _prepare(call: Call, context: ToolContext | None) -> Arguments:
    """Return the body's arguments, made with the call's ToolContext if the tool takes one."""
    plan, token = call.plan, current_context.set(context)
    try:
        values = plan.prepare(call.positional, call.arguments, call.state_scopes)
    finally:
        current_context.reset(token)
    if plan.bound_parameters:
        call.scope.bound_values = plan.bound_values(values)
    return values


def _interrupted_result(call: Call, items: list[Any]) -> ToolResult:
    """Return the result of a body that was interrupted after these items."""
    return call.scope.interrupted_result(call.name, items or None, is_raw=call.plan.output.is_raw)


def _cancel_context(context: ToolContext | None) -> None:
    """Mark the body's ToolContext as cancelled: its thread may still run, and no caller waits for it."""
    if context is not None:
        context.cancel()


def _to_result(
    call: Call, outcome: Outcome, values: Arguments, started: float, context: ToolContext | None = None
) -> ToolResult:
    """Return the result of an outcome, with what the tool requested; the call's scope remembers the error."""
    plan, scope = call.plan, call.scope
    if outcome.error is None:
        result = returned_result(plan, call.body, outcome.value, values, started)
    else:
        options = {"is_served": call.is_served, "masks_errors": call.masks_errors}
        result = to_result(plan, call.body, outcome, values, started, **options)
        scope.record_error(outcome.error, result)
    if scope.is_cancelled:
        result = scope.mark_interrupted(result)
    if context is not None and outcome.is_runner_error:
        context.cancel()
    if context is not None and context.ends_session:
        result.meta["ends_session"] = True
    return result


log = logging.getLogger(__name__)

_NOT_INLINE: Final = "A middleware that is marked `inline` waited for something. Remove the mark."


def execute(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run a call from sync code."""
    if not call.plan.runs_in_caller_thread or call.plan.has_async_resolvers:
        started, run = perf_counter(), _build_stack(middleware, run_async)
        outcome = run_on_loop(call.plan, capture_outcome, _run_cancellable, run, call, scope=call.scope)
        return _result_of(call, outcome, started)
    if all(map(is_inline, middleware)):
        return _run_without_loop(_run_to_result(_build_stack(middleware, run_inline), call))
    return _run_body_in_caller(middleware, call)


async def aexecute(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run a call from async code, in the task that awaits this."""
    return await _run_cancellable(_build_stack(middleware, run_async), call)


def stream(middleware: Sequence[Middleware], call: Call) -> Generator[ToolResult, None, None]:
    """Yield the chunks of a call to a sync reader, then its result."""
    plan = call.plan
    needs_loop = not plan.runs_in_caller_thread or plan.has_async_resolvers or call.takes_context
    if needs_loop or not all(map(is_inline, middleware)):
        return _stream_on_loop(middleware, call)
    return _stream_without_loop(middleware, call)


async def astream(middleware: Sequence[Middleware], call: Call) -> AsyncGenerator[ToolResult, None]:
    """Yield the chunks of a call to an async reader, then its result."""
    started, stack = perf_counter(), _build_stack(middleware, run_async)
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
    return result if result.id == call.id and result.is_last else to_final_result(result, call.id)


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
            body = run_inline(replace(call, emit=None))
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
    run = _build_stack(middleware, run_inline)
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
