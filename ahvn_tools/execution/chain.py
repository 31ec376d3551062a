"""Chain: a call through its middleware, outermost first, to the body and back; from sync and from async code.

From sync code a sync body runs in its caller's own thread. The middleware around it is driven by hand where all of it
is `inline`; otherwise it runs on the background loop, which hands the body back.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import logging
import queue
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from ahvn_tools.context import ToolContext, current
from ahvn_tools.errors import ToolCallError, ToolSpecError, of_code
from ahvn_tools.execution import bridge, failure
from ahvn_tools.execution.awaited import aprepared
from ahvn_tools.execution.call import Call, Emit, Middleware, Next, is_inline
from ahvn_tools.execution.deadline import end, outcome_of
from ahvn_tools.execution.direct import gathered, prepared
from ahvn_tools.execution.drive import carried, drive
from ahvn_tools.execution.outcome import Outcome, is_live
from ahvn_tools.execution.relay import Relay
from ahvn_tools.execution.settle import failed, result
from ahvn_tools.results import ErrorDetail, ToolResult

log = logging.getLogger(__name__)


def execute(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run a call from sync code."""
    if not (call.plan.is_direct and not call.plan.has_awaited):
        made: ToolResult = bridge.run(carried, _guarded, _chained(middleware, _awaited), call).get()
        return made
    if all(map(is_inline, middleware)):
        return _by_hand(_guarded(_chained(middleware, _here), call))
    return _handed_back(middleware, call)


async def aexecute(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run a call from async code, in the task that this is awaited in."""
    return await _guarded(_chained(middleware, _awaited), call)


def stream(middleware: Sequence[Middleware], call: Call) -> Generator[ToolResult, None, None]:
    """Yield the chunks of a call to a sync reader, then its result."""
    chunks: queue.SimpleQueue[ToolResult | None] = queue.SimpleQueue()
    relay = Relay(chunks.put)
    run = _chained(middleware, _awaited)

    crossing = bridge.Crossing(carried, _guarded, run, replace(call, emit=_chunks_only(relay)))
    crossing.on_end(lambda: chunks.put(None))
    try:
        while (chunk := chunks.get()) is not None:
            yield chunk
            bridge.call_soon(relay.go_on)
        yield crossing.outcome().get()
    finally:
        relay.is_over = True
        crossing.leave()


async def astream(middleware: Sequence[Middleware], call: Call) -> AsyncGenerator[ToolResult, None]:
    """Yield the chunks of a call to an async reader, then its result. One task owns the call from first to last."""
    chunks: asyncio.Queue[ToolResult | None] = asyncio.Queue()
    relay = Relay(chunks.put_nowait)
    run = _chained(middleware, _awaited)
    task = asyncio.create_task(carried(_guarded, run, replace(call, emit=_chunks_only(relay))))
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
    if call.fate.error is not None and made.error is call.fate.detail:
        raise call.fate.error
    raise of_code(made.error.code, made.error.message, tool=call.name)


def _chunks_only(relay: Relay) -> Emit:
    """Return what gives a reader chunks: whatever a middleware makes of one, it is not the last result."""

    async def emit(chunk: ToolResult) -> None:
        await relay.emit(replace(chunk, is_last=False) if chunk.is_last else chunk)

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
    """Run the chain; what a middleware raises is an error result, too, and so is a cancellation by the call's id."""
    started, fate = perf_counter(), call.fate
    is_left = False
    try:
        with fate.owned():
            try:
                made = fate.cut(call.name) if fate.is_cancelled else await run(call)
            except asyncio.CancelledError:
                if not fate.is_cancelled or fate.is_left:
                    raise
                made = fate.interrupted or fate.cut(call.name)
            is_left = fate.is_sent and fate.is_left
        if not isinstance(made, ToolResult):
            raise TypeError(f"A middleware of tool {call.name!r} returned a {type(made).__name__} and no ToolResult.")
    except ToolCallError as error:
        made = fate.note(error, failed(failure.of_call(error), started))
    except Exception as error:  # noqa: BLE001  # whatever it is: a caller of `exec` gets a result
        log.error("A middleware of tool %r raised %s.", call.name, type(error).__name__)  # noqa: TRY400  # no values in logs
        detail = ErrorDetail(code="tool_error", message=f"A middleware of tool {call.name!r} failed.")
        made = fate.note(error, failed(detail, started))
    if is_left:
        raise asyncio.CancelledError  # both were cancelled at once, the call and whoever waits for it
    return made if made.id == call.id else replace(made, id=call.id)


async def _awaited(call: Call) -> ToolResult:
    """Run the body: an async one in this task, a sync one in a worker thread."""
    started, plan, fate = perf_counter(), call.plan, call.fate
    outputs = _Outputs(call)
    context = call.context(outputs.put)
    try:
        with _asked(context):
            values = await aprepared(plan, (), call.arguments, call.layers)
        fate.bound = plan.bound_values(values)
        give = None if call.emit is None else outputs.give
        outcome = await drive(plan, call.body, values, give, items=outputs.items)
        await outputs.delivered()
    except ToolCallError as error:
        return fate.note(error, failed(failure.of_call(error), started))
    except asyncio.CancelledError:
        _leave(context, outputs)
        made = fate.cut(call.name, outputs.items or None)
        if not fate.is_cancelled or fate.is_left:
            raise
        return made
    if outcome.is_ours:
        _leave(context, outputs)
    made = result(plan, call.body, outcome, values, started, is_served=call.is_served)
    return _noted(call, outcome, made, context)


class _Outputs:
    """What a streamed call gives its reader: items as chunks, and what the tool appends by itself, in their order."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._pending: list[concurrent.futures.Future[None]] = []
        self.items: list[Any] = []
        """What the body has made so far."""

    def put(self, chunk: ToolResult) -> None:
        """Give a chunk from any thread, without waiting for the reader."""
        if self._call.emit is not None:
            self._pending.append(asyncio.run_coroutine_threadsafe(self._emit(chunk), self._loop))

    async def give(self, item: Any) -> None:
        """Give an item of the body, when what was appended before it has been taken."""
        await self.delivered()
        await self._emit(replace(self._call.plan.output.chunk(item), id=self._call.id))

    async def delivered(self) -> None:
        """Wait until the reader has taken all that was appended."""
        while self._pending:
            await asyncio.wrap_future(self._pending.pop(0))

    def drop(self) -> None:
        """Forget what no reader has taken."""
        for pending in self._pending:
            pending.cancel()

    async def _emit(self, chunk: ToolResult) -> None:
        if self._call.emit is not None:
            await self._call.emit(chunk)


def _leave(context: ToolContext | None, outputs: _Outputs) -> None:
    """Tell a body that nobody waits for it any more: its thread may still run."""
    outputs.drop()
    if context is not None:
        context.cancel()


def _noted(call: Call, outcome: Outcome, made: ToolResult, context: ToolContext | None) -> ToolResult:
    """Return a result with what the tool has asked for beside it."""
    if context is not None and context.ends_session:
        made.meta["ends_session"] = True
    return call.fate.note(outcome.error, call.fate.marked(made))


@contextlib.contextmanager
def _asked(context: ToolContext | None) -> Generator[None]:
    """Let the arguments of a call be made with its context."""
    token = current.set(context)
    try:
        yield
    finally:
        current.reset(token)


async def _here(call: Call) -> ToolResult:
    """Run a sync body in this thread."""
    return _run_here(call)


def _run_here(call: Call) -> ToolResult:
    started, plan = perf_counter(), call.plan
    context = call.context()
    try:
        with _asked(context):
            values = prepared(plan, (), call.arguments, call.layers)
        call.fate.bound = plan.bound_values(values)
    except ToolCallError as error:
        return call.fate.note(error, failed(failure.of_call(error), started))

    def run() -> Any:
        returned = plan.invoke(call.body, values)
        return gathered(returned) if is_live(returned) else returned

    outcome = Outcome.of(run)
    return _noted(call, outcome, result(plan, call.body, outcome, values, started), context)


def _by_hand(chain: Coroutine[Any, Any, ToolResult]) -> ToolResult:
    """Drive a coroutine that suspends nowhere."""
    try:
        chain.send(None)
    except StopIteration as stop:
        made: ToolResult = stop.value
        return made
    chain.close()
    raise ToolSpecError("A middleware that is marked `inline` waited for something. Take the mark away.")


def _handed_back(middleware: Sequence[Middleware], call: Call) -> ToolResult:
    """Run the middleware on the background loop, and the body in this thread, which waits for it."""
    jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    async def back(call: Call) -> ToolResult:
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        done: asyncio.Future[Outcome] = loop.create_future()

        def job() -> None:
            outcome = Outcome.of(lambda: context.run(_run_here, call))
            loop.call_soon_threadsafe(_settle, done, outcome)

        jobs.put(job)
        try:
            made: ToolResult = (await asyncio.shield(done)).get()
        except asyncio.CancelledError:
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
