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

from ahvn_tools.errors import CallCancelledError, ToolCallError, ToolSpecError, ToolTimeoutError, of_code
from ahvn_tools.execution import bridge, failure, innermost
from ahvn_tools.execution.call import Call, Emit, Middleware, Next, is_inline
from ahvn_tools.execution.crossing import LOOP_IS_BLOCKED
from ahvn_tools.execution.deadline import GRACE, end, outcome_of
from ahvn_tools.execution.drive import carried, late
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.relay import Relay
from ahvn_tools.execution.settle import failed
from ahvn_tools.results import ErrorDetail, ToolResult

log = logging.getLogger(__name__)

_NOT_INLINE = "A middleware that is marked `inline` waited for something. Take the mark away."


def execute(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run a call from sync code."""
    if not (call.plan.is_direct and not call.plan.has_awaited):
        return _waited(bridge.Crossing(carried, _guarded, _chained(middleware, innermost.awaited), call), call)
    if all(map(is_inline, middleware)):
        return _by_hand(_settled(_chained(middleware, _here), call))
    return _handed_back(middleware, call)


async def aexecute(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run a call from async code, in the task that this is awaited in."""
    return await _guarded(_chained(middleware, innermost.awaited), call)


def stream(middleware: Sequence[Middleware], call: Call) -> Generator[ToolResult, None, None]:
    """Yield the chunks of a call to a sync reader, then its result."""
    plan = call.plan
    if plan.is_direct and not (plan.has_awaited or plan.takes_context) and all(map(is_inline, middleware)):
        yield from _stream_by_hand(_chained(middleware, innermost.iterated), call)
    else:
        yield from _stream_over(middleware, call)


def _stream_over(middleware: Sequence[Middleware], call: Call) -> Generator[ToolResult, None, None]:
    """Run a streamed call on the background loop."""
    chunks: queue.SimpleQueue[ToolResult | None] = queue.SimpleQueue()
    relay = Relay(chunks.put)
    started, run = perf_counter(), _chained(middleware, innermost.awaited)
    crossing = bridge.Crossing(carried, _guarded, run, replace(call, emit=_chunks_only(relay.emit, call.id)))
    crossing.on_end(lambda: chunks.put(None))
    try:
        while (chunk := _next(chunks, call)) is not None:
            yield chunk
            bridge.call_soon(relay.go_on)
        yield crossing.outcome().get()
    except ToolTimeoutError as error:
        yield replace(failed(failure.of_call(error), started), id=call.id)
    finally:
        relay.is_over = True
        crossing.leave()


def _next(chunks: queue.SimpleQueue[ToolResult | None], call: Call) -> ToolResult | None:
    """Return the next chunk. Raises ToolTimeoutError when a body blocks the loop, so that no timer fires."""
    while True:
        loop = _Watched(call)
        try:
            return chunks.get(timeout=loop.patience)
        except queue.Empty:
            loop.refuse_late()


def _waited(crossing: bridge.Crossing, call: Call) -> ToolResult:
    """Wait for what comes of a call on the background loop: no longer than its body may take, if a body blocks that."""
    started = perf_counter()
    while True:
        loop = _Watched(call)
        try:
            made: ToolResult = crossing.outcome(loop.patience).get()
        except TimeoutError:
            try:
                loop.refuse_late()
            except ToolTimeoutError as error:
                crossing.leave(0)
                return replace(call.fate.note(error, failed(failure.of_call(error), started)), id=call.id)
        except BaseException:
            crossing.leave()
            raise
        else:
            return made


class _Watched:
    """The background loop, as a sync caller sees it who waits for a call in there."""

    def __init__(self, call: Call) -> None:
        plan = self._plan = call.plan
        self._fate = call.fate
        self._has_run = threading.Event()
        self.patience = None if plan.timeout is None else max(plan.timeout, 0) + plan.headroom + 2 * GRACE
        """How long to wait before the clock is looked at; middleware may take any time of its own."""
        if self.patience is not None:
            bridge.call_soon(self._has_run.set)

    def refuse_late(self) -> None:
        """Raise ToolTimeoutError when the body's time has been over for a while, or the loop has stood still."""
        clock = self._fate.clock
        is_late = clock is not None and clock.left() + self._plan.headroom < -GRACE
        if is_late or not self._has_run.is_set():
            raise late(self._plan, LOOP_IS_BLOCKED)


async def astream(middleware: Sequence[Middleware], call: Call) -> AsyncGenerator[ToolResult, None]:
    """Yield the chunks of a call to an async reader, then its result. One task owns the call from first to last."""
    chunks: asyncio.Queue[ToolResult | None] = asyncio.Queue()
    relay = Relay(chunks.put_nowait)
    run = _chained(middleware, innermost.awaited)
    task = asyncio.create_task(carried(_guarded, run, replace(call, emit=_chunks_only(relay.emit, call.id))))
    task.add_done_callback(lambda _: chunks.put_nowait(None))
    try:
        while (chunk := await chunks.get()) is not None:
            yield chunk
            relay.go_on()
    finally:
        relay.is_over = True
        await end(task)
    yield outcome_of(task).get()


def value(call: Call, made: ToolResult) -> Any:
    """Return what `call` gives for a result, or raise: what the body raised, where nothing has replaced its result."""
    if made.error is None:
        return made.value
    error = call.fate.error
    if error is not None and made.error is call.fate.detail and not failure.is_cancellation(error):
        raise error
    raise of_code(made.error.code, made.error.message, tool=call.name)


def _chunks_only(give: Emit, id: str) -> Emit:  # noqa: A002  # the id of the call
    """Return what gives a reader chunks: whatever a middleware makes of one, it is not the last result."""

    async def emit(chunk: ToolResult) -> None:
        is_whole = not chunk.is_last and chunk.id is not None
        await give(chunk if is_whole else replace(chunk, is_last=False, id=chunk.id or id))

    return emit


def _chained(middleware: Sequence[Middleware], run: Next) -> Next:
    for layer in reversed(middleware):
        run = _around(layer, run)
    return run


def _around(layer: Middleware, inner: Next) -> Next:
    def run(call: Call) -> Awaitable[ToolResult]:
        return layer(call, inner)

    return run


async def _guarded(run: Next, call: Call) -> ToolResult:
    """Run the chain in this task, which a cancellation by the call's id reaches."""
    fate = call.fate
    with fate.owned():
        made = await _settled(run, call)
        is_left = fate.is_sent and fate.is_left
    if is_left:
        raise asyncio.CancelledError  # both were cancelled at once, the call and whoever waits for it
    return made


async def _settled(run: Next, call: Call) -> ToolResult:
    """Run the chain; what a middleware raises is an error result, too, and so is a cancellation by the call's id."""
    started, fate = perf_counter(), call.fate
    try:
        made = fate.cut(call.name) if fate.is_cancelled else await run(call)
        if not isinstance(made, ToolResult):
            raise TypeError(f"A middleware of tool {call.name!r} returned a {type(made).__name__} and no ToolResult.")
    except asyncio.CancelledError as error:
        if fate.is_left:
            raise
        made = (fate.interrupted or fate.cut(call.name)) if fate.is_cancelled else _cancelled(call, error, started)
    except ToolCallError as error:
        made = fate.note(error, failed(failure.of_call(error), started))
    except Exception as error:  # noqa: BLE001  # whatever it is: a caller of `exec` gets a result
        log.error("A middleware of tool %r raised %s.", call.name, type(error).__name__)  # noqa: TRY400  # no values in logs
        detail = ErrorDetail(code="tool_error", message=f"A middleware of tool {call.name!r} failed.")
        made = fate.note(error, failed(detail, started))
    return made if made.id == call.id and made.is_last else made.answering(call.id)


def _cancelled(call: Call, cause: BaseException, started: float) -> ToolResult:
    """Return the result of a call that one of its middleware has cancelled by itself."""
    error = CallCancelledError(f"A middleware of tool {call.name!r} cancelled the call.")
    error.__cause__ = cause
    return call.fate.note(error, failed(failure.of_call(error), started))


async def _here(call: Call) -> ToolResult:
    """Run a sync body in this thread."""
    return innermost.run_here(call)


def _by_hand(chain: Coroutine[Any, Any, ToolResult]) -> ToolResult:
    """Drive a coroutine that suspends nowhere."""
    try:
        chain.send(None)
    except StopIteration as stop:
        made: ToolResult = stop.value
        return made
    chain.close()
    raise ToolSpecError(_NOT_INLINE)


class _Handed:
    """A chunk on its way to the reader who drives the chain by hand."""

    def __init__(self, chunk: ToolResult) -> None:
        self.chunk = chunk

    def __await__(self) -> Generator[_Handed, None, None]:
        yield self


async def _hand_over(chunk: ToolResult) -> None:
    await _Handed(chunk)


def _stream_by_hand(run: Next, call: Call) -> Generator[ToolResult, None, None]:
    """Drive a streamed call in its reader's own thread, in a context that the reader does not see."""
    within = contextvars.copy_context().run
    chain = _settled(run, replace(call, emit=_chunks_only(_hand_over, call.id)))
    try:
        while True:
            try:
                step = within(chain.send, None)
            except StopIteration as stop:
                yield stop.value
                return
            if not isinstance(step, _Handed):
                raise ToolSpecError(_NOT_INLINE)
            yield step.chunk
    finally:
        within(chain.close)


def _handed_back(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run the middleware on the background loop, and the body in this thread, which waits for it."""
    jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    async def back(call: Call) -> ToolResult:
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        done: asyncio.Future[Outcome] = loop.create_future()

        def job() -> None:
            outcome = Outcome.of(lambda: context.run(innermost.run_here, call))
            loop.call_soon_threadsafe(_settle, done, outcome)

        jobs.put(job)
        try:
            made: ToolResult = (await asyncio.shield(done)).get()
        except asyncio.CancelledError:
            if (asked := call.fate.context) is not None:
                asked.cancel()
            if not call.fate.is_cancelled or call.fate.is_left:
                raise
            made = (await done).get()  # the body is told by its context, and ends when it ends
        return made

    crossing = bridge.Crossing(carried, _guarded, _chained(middleware, back), call)
    crossing.on_end(lambda: jobs.put(None))
    try:
        while (job := jobs.get()) is not None:
            job()
        made: ToolResult = crossing.outcome().get()
        return made
    finally:
        crossing.leave()


def _settle(done: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not done.done():
        done.set_result(outcome)
