"""The doors of a call: `call`, `acall`, `execute`, `aexecute`. One plan behind them; only a crossing takes the bridge.

What a body may do and where it runs:

- sync body, sync caller: in the caller's thread (a timeout moves it);
- sync body, async caller: in a worker thread with the caller's contextvars, unless `run_in_thread=False`;
- async body, sync caller: on the background loop;
- async body, async caller: in the caller's task (a timeout gives it a task of its own).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

from ahvn_tools.binding import Layers
from ahvn_tools.errors import CallCancelledError, ToolCallError, ToolTimeoutError
from ahvn_tools.execution import bridge, failure
from ahvn_tools.execution.deadline import GRACE, Deadline, within
from ahvn_tools.execution.outcome import Outcome, is_awaitable, is_iterator, is_live
from ahvn_tools.execution.plan import Arguments, Plan
from ahvn_tools.execution.threads import Stop, in_thread
from ahvn_tools.redaction import clip, redact
from ahvn_tools.results import ErrorDetail, ToolResult

Body = Callable[..., Any]
Emit = Callable[[Any], Awaitable[None]]
"""Takes one item of a stream and returns when its reader wants the next."""


def call(plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, layers: Layers) -> Any:
    """Return the value, or raise: the body's own exception unchanged, or a ToolCallError."""
    if not plan.is_direct:
        return plan.output.value(_bridged(plan, body, prepared(plan, positional, arguments, layers)).get())
    values = plan.prepare(positional, arguments, layers)
    return settled(plan, body(**values) if plan.is_named else plan.invoke(body, values))


def settled(plan: Plan, returned: Any) -> Any:
    """Return the value of what a body returned to a sync caller."""
    if type(returned) is plan.exact:
        return returned
    return plan.output.value(gathered(returned) if is_live(returned) else returned)


async def acall(plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, layers: Layers) -> Any:
    """Return the value, or raise: the body's own exception unchanged, or a ToolCallError."""
    if not plan.is_coroutine:
        values = await aprepared(plan, positional, arguments, layers)
        outcome = await drive(plan, body, values)
        return plan.output.value(raised(plan, outcome).get())
    values = plan.prepare(positional, arguments, layers)
    try:
        returned = await (body(**values) if plan.is_named else plan.invoke(body, values))
    except asyncio.CancelledError as error:
        if _is_being_cancelled():
            raise
        raise _cancelled(plan) from error
    if type(returned) is plan.exact:
        return returned
    return plan.output.value(await _agathered(returned, None, is_threaded=True) if is_live(returned) else returned)


def execute(plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, layers: Layers) -> ToolResult:
    """Return a result; whatever Exception the body raises is in it."""
    started = perf_counter()
    try:
        values = (
            plan.prepare(positional, arguments, layers)
            if plan.is_direct
            else prepared(plan, positional, arguments, layers)
        )
    except ToolCallError as error:
        return failed(failure.of_call(error), started)
    if not plan.is_direct:
        return result(plan, _bridged(plan, body, values), values, started)
    try:
        returned = body(**values) if plan.is_named else plan.invoke(body, values)
        if type(returned) is not plan.exact and is_live(returned):
            returned = gathered(returned)
    except Exception as error:  # noqa: BLE001  # whatever a body raises is its result
        return result(plan, Outcome(error=error), values, started)
    return _finished(plan, returned, values, started)


async def aexecute(
    plan: Plan,
    body: Body,
    positional: tuple[Any, ...],
    arguments: Arguments,
    layers: Layers,
    *,
    is_served: bool = False,
) -> ToolResult:
    """Return a result; whatever Exception the body raises is in it.

    For a served tool BaseExceptions become results too, and texts that are not meant for the model are masked.
    """
    started = perf_counter()
    try:
        if plan.has_awaited:
            values = await aprepared(plan, positional, arguments, layers)
        else:
            values = plan.prepare(positional, arguments, layers)
    except ToolCallError as error:
        return failed(failure.of_call(error), started)
    if plan.is_coroutine and not is_served:
        try:
            returned = await (body(**values) if plan.is_named else plan.invoke(body, values))
        except Exception as error:  # noqa: BLE001  # whatever a body raises is its result
            return result(plan, Outcome(error=error), values, started)
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            return result(plan, Outcome(error=error), values, started)
        if type(returned) is plan.exact or not is_live(returned):
            return _finished(plan, returned, values, started)
        return result(plan, await _carried(_agathered(returned, None, is_threaded=True)), values, started)
    return result(plan, await drive(plan, body, values), values, started, is_served=is_served)


def result(plan: Plan, outcome: Outcome, values: Arguments, started: float, *, is_served: bool = False) -> ToolResult:
    """Return the result of an outcome. A local caller gets KeyboardInterrupt, SystemExit and their like raised."""
    error = outcome.error
    if error is None:
        return _finished(plan, outcome.value, values, started)
    if outcome.is_ours and isinstance(error, ToolCallError):
        return failed(failure.of_call(error), started)
    if not (is_served or isinstance(error, Exception | asyncio.CancelledError)):
        raise error
    return failed(failure.of_body(error, plan.bound_values(values), tool=plan.name, is_masked=is_served), started)


def failed(detail: ErrorDetail, started: float) -> ToolResult:
    """Return an error result."""
    return ToolResult(error=detail, meta={"duration": perf_counter() - started})


def _finished(plan: Plan, returned: Any, values: Arguments, started: float) -> ToolResult:
    try:
        made = plan.output.result(returned)
    except ToolCallError as invalid:
        return failed(failure.of_call(invalid), started)
    if made is returned:  # the body's own object: it may be used again
        made = replace(made, meta=dict(made.meta))
    if made.error is not None:
        message = clip(redact(made.error.message, plan.bound_values(values)))
        made = replace(made, error=ErrorDetail(code=made.error.code, message=message), blocks=None)
    made.meta["duration"] = perf_counter() - started
    return made


def prepared(plan: Plan, positional: tuple[Any, ...], arguments: Arguments, layers: Layers) -> Arguments:
    """Return the body's arguments; async resolvers run on the bridge."""
    if not plan.has_awaited:
        return plan.prepare(positional, arguments, layers)
    awaited = bridge.run(_carried(_resolved(plan, layers))).get()
    return plan.prepare(positional, arguments, layers, awaited)


async def aprepared(plan: Plan, positional: tuple[Any, ...], arguments: Arguments, layers: Layers) -> Arguments:
    """Return the body's arguments; async resolvers are awaited here."""
    awaited = await _resolved(plan, layers) if plan.has_awaited else None
    return plan.prepare(positional, arguments, layers, awaited)


async def _resolved(plan: Plan, layers: Layers) -> Mapping[str, Any]:
    try:
        async with asyncio.timeout(plan.timeout):
            return await plan.resolve(layers)
    except TimeoutError as error:
        raise late(plan, "its resolvers took too long") from error


async def drive(plan: Plan, body: Body, values: Arguments, emit: Emit | None = None) -> Outcome:
    """Run the body to its end, in loop or thread, within the plan's timeout; give items to `emit` as they come."""
    if plan.timeout is None:
        return await _carried(_produce(plan, body, values, emit))
    deadline = Deadline(plan.timeout)
    timed = None if emit is None else _unhurried(emit, deadline)
    reason = "it was cancelled" if plan.is_async else "its thread may still be running"
    return await within(deadline, _carried(_produce(plan, body, values, timed)), late(plan, reason))


def late(plan: Plan, reason: str) -> ToolTimeoutError:
    """Return the error of a call that took too long."""
    message = f"Tool {plan.name!r} did not finish within {plan.timeout:g} seconds; {reason}."
    return ToolTimeoutError(message, tool=plan.name, timeout=plan.timeout)


def raised(plan: Plan, outcome: Outcome) -> Outcome:
    """Return the outcome as `call` raises it: a body's own cancellation would be taken for the caller's."""
    return Outcome(error=_cancelled(plan)) if isinstance(outcome.error, asyncio.CancelledError) else outcome


def gathered(returned: Any, hand: Hand | None = None) -> Any:
    """Bring what a body returned to its end, in the thread this is called in; an awaitable crosses the bridge."""
    if not is_iterator(returned):
        outcome: Outcome = bridge.run(_carried(_agathered(returned, None, is_threaded=True)))
        return outcome.get()
    items: list[Any] = []
    try:
        for item in returned:
            if hand is not None:
                hand(item)
            items.append(_value(item))
    finally:
        if hasattr(returned, "close"):
            returned.close()
    return items


def _bridged(plan: Plan, body: Body, values: Arguments) -> Outcome:
    backstop = None if plan.timeout is None else plan.timeout + 2 * GRACE
    try:
        outcome: Outcome = bridge.run(drive(plan, body, values), backstop=backstop)
    except TimeoutError:  # a body on the loop blocks it, so that no timer fires
        return Outcome(error=late(plan, "the background loop is blocked"), is_ours=True)
    return raised(plan, outcome)


async def _produce(plan: Plan, body: Body, values: Arguments, emit: Emit | None) -> Outcome:
    if plan.is_async or not plan.run_in_thread:
        outcome = Outcome.of(lambda: plan.invoke(body, values))
    else:
        outcome = await _threaded(lambda hand: _started(plan, body, values, hand), emit)
    if outcome.error is not None or not is_live(outcome.value):
        return outcome
    return Outcome(await _agathered(outcome.value, emit, is_threaded=plan.run_in_thread))


def _started(plan: Plan, body: Body, values: Arguments, hand: Hand) -> Any:
    returned = plan.invoke(body, values)
    return gathered(returned, hand) if is_iterator(returned) else returned


async def _agathered(returned: Any, emit: Emit | None, *, is_threaded: bool) -> Any:
    while is_live(returned):
        if is_awaitable(returned):
            returned = await returned
        elif not is_iterator(returned):
            return await _collected(returned, emit)
        elif is_threaded:
            returned = (await _threaded(functools.partial(gathered, returned), emit)).get()
        else:
            return await _collected(_inline(returned), emit)
    return returned


async def _collected(stream: AsyncIterator[Any], emit: Emit | None) -> list[Any]:
    items: list[Any] = []
    try:
        async for item in stream:
            items.append(_value(item))
            if emit is not None:
                await emit(item)
    finally:
        if hasattr(stream, "aclose"):
            await stream.aclose()
    return items


async def _inline(iterator: Iterator[Any]) -> AsyncIterator[Any]:
    try:
        for item in iterator:
            yield item
    finally:
        if hasattr(iterator, "close"):
            iterator.close()


async def _threaded(work: Callable[[Hand], Any], emit: Emit | None) -> Outcome:
    hand = Hand(emit)
    try:
        return await in_thread(lambda stop: work(hand.until(stop)))
    except asyncio.CancelledError:
        hand.cancel()
        raise


class Hand:
    """Gives the items of a sync generator from its thread to the loop, one when the reader wants one."""

    def __init__(self, emit: Emit | None) -> None:
        """Must be made in the loop that `emit` belongs to."""
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._giving: concurrent.futures.Future[None] | None = None
        self._stop: Stop | None = None

    def until(self, stop: Stop) -> Hand:
        """Stop giving when `stop` is set."""
        self._stop = stop
        return self

    def __call__(self, item: Any) -> None:
        """Give one item. Raises CancelledError when nobody waits for the generator any more."""
        if self._stop is not None and self._stop.is_set:
            raise concurrent.futures.CancelledError
        if self._emit is None:
            return
        self._giving = asyncio.run_coroutine_threadsafe(_given(self._emit, item), self._loop)
        if self._stop is not None and self._stop.is_set:
            self._giving.cancel()
        self._giving.result()

    def cancel(self) -> None:
        """Wake the thread that waits for a reader who has gone."""
        if self._giving is not None:
            self._giving.cancel()


async def _given(emit: Emit, item: Any) -> None:
    await emit(item)


def _unhurried(emit: Emit, deadline: Deadline) -> Emit:
    async def paused(item: Any) -> None:
        deadline.pause()
        try:
            await emit(item)
        finally:
            deadline.resume()

    return paused


async def _carried(running: Coroutine[Any, Any, Any]) -> Outcome:
    """Await a coroutine and return its outcome; only a cancellation from outside passes through."""
    try:
        returned = await running
    except asyncio.CancelledError as error:
        if _is_being_cancelled():
            raise
        return Outcome(error=error)
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001  # the runner's second net: carried, and raised again in the caller
        return Outcome(error=error)
    return returned if isinstance(returned, Outcome) else Outcome(returned)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _cancelled(plan: Plan) -> CallCancelledError:
    return CallCancelledError(f"Tool {plan.name!r} cancelled itself; nobody had cancelled the call.", tool=plan.name)


def _value(item: Any) -> Any:
    return item.value if isinstance(item, ToolResult) else item
