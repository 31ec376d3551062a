"""The pipeline: a call passes through its middleware, outermost first, to its body, and the result comes back.

From sync code a sync body runs in its caller's thread. Middleware that is all `inline` runs there too, without an event
loop; other middleware runs on the background loop while the caller's thread waits to run the body.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, Final

from ahvn_tools.errors import CallCancelledError, ToolCallError, ToolSpecError, ToolTimeoutError, error_for_code
from ahvn_tools.execution import background_loop, endpoint
from ahvn_tools.execution.async_to_sync import LOOP_BLOCKED_REASON
from ahvn_tools.execution.call import Call, Middleware, Next, is_inline
from ahvn_tools.execution.cancellation import is_cancellation
from ahvn_tools.execution.convert import body_error_detail, call_error_detail, error_result
from ahvn_tools.execution.deadline import CANCEL_GRACE_SECONDS, max_wait_seconds, timeout_error
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.results import ErrorDetail, ToolResult

log = logging.getLogger(__name__)

NOT_INLINE: Final = "A middleware that is marked `inline` waited for something. Remove the mark."


def execute(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run a call from sync code."""
    if not call.plan.runs_in_caller_thread or call.plan.has_async_resolvers:
        run = build_stack(middleware, endpoint.run_async)
        return _wait_for_result(background_loop.LoopCall(capture_outcome, run_cancellable, run, call), call)
    if all(map(is_inline, middleware)):
        return _run_without_loop(run_to_result(build_stack(middleware, _run_inline), call))
    return _run_body_in_caller(middleware, call)


async def aexecute(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run a call from async code, in the task that awaits this."""
    return await run_cancellable(build_stack(middleware, endpoint.run_async), call)


def unwrap_result(call: Call, result: ToolResult) -> Any:
    """Return the value that `call` returns for a result, or raise.

    What the body raised is raised again, unless a middleware has replaced its result.
    """
    if result.error is None:
        return result.value
    error = call.scope.error
    if error is not None and result.error is call.scope.error_detail and not is_cancellation(error):
        raise error
    raise error_for_code(result.error.code, result.error.message, tool=call.name)


def build_stack(middleware: Sequence[Middleware], run: Next) -> Next:
    """Return `run` wrapped in the middleware, the first outermost."""
    for layer in reversed(middleware):
        run = _wrap(layer, run)
    return run


def _wrap(middleware: Middleware, next: Next) -> Next:  # noqa: A002  # as the parameter of a middleware
    def run(call: Call) -> Awaitable[ToolResult]:
        return middleware(call, next)

    return run


async def run_cancellable(run: Next, call: Call) -> ToolResult:
    """Run a stack in the current task, which a cancellation by the call's id cancels."""
    scope = call.scope
    with scope.attach_task():
        result = await run_to_result(run, call)
        is_caller_cancelled = scope.has_cancelled_task and scope.is_caller_cancelled
    if is_caller_cancelled:
        raise asyncio.CancelledError  # both were cancelled at once, the call and the task that awaits it
    return result


async def run_to_result(run: Next, call: Call) -> ToolResult:
    """Run a stack; an exception of a middleware becomes an error result, as does a cancellation by the call's id."""
    started, scope = perf_counter(), call.scope
    try:
        result = scope.interrupted_result(call.name) if scope.is_cancelled else await run(call)
        if not isinstance(result, ToolResult):
            raise TypeError(f"A middleware of tool {call.name!r} returned {type(result).__name__}, not a ToolResult.")
    except asyncio.CancelledError as error:
        if scope.is_caller_cancelled:
            raise
        if scope.is_cancelled:
            result = scope.interrupted or scope.interrupted_result(call.name)
        else:
            result = _middleware_cancelled_result(call, error, started)
    except ToolCallError as error:
        result = scope.record_error(error, error_result(call_error_detail(error), started))
    except Exception as error:  # noqa: BLE001  # a caller of `exec` gets a result, whatever a middleware raises
        log.error("A middleware of tool %r raised %s.", call.name, type(error).__name__)  # noqa: TRY400  # no values in logs
        detail = ErrorDetail(code="tool_error", message=f"A middleware of tool {call.name!r} failed.")
        result = scope.record_error(error, error_result(detail, started))
    return result if result.id == call.id and result.is_last else result.as_final_result(call.id)


def result_of(call: Call, outcome: Outcome, started: float) -> ToolResult:
    """Return the result of a call that ran in a task of this package, or raise what the call raised.

    A cancelled task was cancelled by the body itself: its caller still waits.
    """
    if outcome.error is not None and is_cancellation(outcome.error):
        detail = body_error_detail(outcome.error, {}, tool=call.name)
        return replace(error_result(detail, started), id=call.id)
    result: ToolResult = outcome.get()
    return result


def _middleware_cancelled_result(call: Call, cause: BaseException, started: float) -> ToolResult:
    """Return the result of a call that one of its middleware cancelled."""
    error = CallCancelledError(f"A middleware of tool {call.name!r} cancelled the call.")
    error.__cause__ = cause
    return call.scope.record_error(error, error_result(call_error_detail(error), started))


async def _run_inline(call: Call) -> ToolResult:
    return endpoint.run_inline(call)


def _run_without_loop(stack: Coroutine[Any, Any, ToolResult]) -> ToolResult:
    """Run a coroutine that never suspends."""
    try:
        stack.send(None)
    except StopIteration as stop:
        result: ToolResult = stop.value
        return result
    stack.close()
    raise ToolSpecError(NOT_INLINE)


def _wait_for_result(loop_call: background_loop.LoopCall, call: Call) -> ToolResult:
    """Wait for a call on the background loop: no longer than its body may take when a body blocks the loop."""
    started = perf_counter()
    while True:
        watchdog = LoopWatchdog(call)
        try:
            result = result_of(call, loop_call.outcome(watchdog.check_interval), started)
        except TimeoutError:
            try:
                watchdog.raise_if_late()
            except ToolTimeoutError as error:
                loop_call.cancel(0)
                return replace(
                    call.scope.record_error(error, error_result(call_error_detail(error), started)), id=call.id
                )
        except BaseException:
            loop_call.cancel()
            raise
        else:
            return result


class LoopWatchdog:
    """Detects for a waiting sync caller that the background loop is blocked, so that no timer fires there."""

    def __init__(self, call: Call) -> None:
        self._plan = call.plan
        self._scope = call.scope
        self._has_responded = threading.Event()
        self.check_interval = max_wait_seconds(call.plan)
        """Seconds to wait before the clock is read; middleware is not limited by it."""
        if self.check_interval is not None:
            background_loop.call_soon(self._has_responded.set)

    def raise_if_late(self) -> None:
        """Raise ToolTimeoutError when the body's time has passed for a while, or the loop has not responded."""
        deadline = self._scope.deadline
        seconds = None if deadline is None else deadline.remaining_seconds() + self._plan.startup_seconds
        if (seconds is not None and seconds < -CANCEL_GRACE_SECONDS) or not self._has_responded.is_set():
            raise timeout_error(self._plan, LOOP_BLOCKED_REASON)


def _run_body_in_caller(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run the middleware on the background loop, and the body in this thread, which waits for it."""
    started = perf_counter()
    jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    async def run_in_caller(call: Call) -> ToolResult:
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        future: asyncio.Future[Outcome] = loop.create_future()

        def job() -> None:
            outcome = Outcome.capture(lambda: context.run(endpoint.run_inline, call))
            loop.call_soon_threadsafe(_set_outcome, future, outcome)

        jobs.put(job)
        try:
            result: ToolResult = (await asyncio.shield(future)).get()
        except asyncio.CancelledError:
            if (tool_context := call.scope.context) is not None:
                tool_context.cancel()
            if not call.scope.is_cancelled or call.scope.is_caller_cancelled:
                raise
            result = (await future).get()  # the body sees it in its ToolContext, and ends when it ends
        return result

    loop_call = background_loop.LoopCall(capture_outcome, run_cancellable, build_stack(middleware, run_in_caller), call)
    loop_call.on_end(lambda: jobs.put(None))
    try:
        while (job := jobs.get()) is not None:
            job()
        return result_of(call, loop_call.outcome(), started)
    finally:
        loop_call.cancel()


def _set_outcome(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)
