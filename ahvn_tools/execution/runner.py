"""The drive: a body is run to its end, in loop or thread, within its timeout, giving its items as they come."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

from ahvn_tools.errors import ToolTimeoutError
from ahvn_tools.execution.deadline import Deadline, run_with_deadline
from ahvn_tools.execution.hand import EmitItem, EmitItemSync, thread_emitter
from ahvn_tools.execution.outcome import Outcome, is_awaitable, is_consumable, is_iterator
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.sync_call import consume
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.results import item_value


async def run_body(
    plan: Plan,
    body: Body,
    values: Arguments,
    emit: EmitItem | None = None,
    deadline: Deadline | None = None,
    *,
    collected_items: list[Any] | None = None,
    waits_for_reader: bool = True,
) -> Outcome:
    """Run the body to its end, in loop or thread, within the plan's timeout; give items to `emit` as they come.

    `deadline` is the clock of the timeout where somebody else reads it too; `items` is filled with what the body makes.
    The clock stands still while a reader takes an item, unless nobody `waits_for_reader`.
    """
    if plan.timeout is None:
        return await capture_outcome(_dispatch, plan, body, values, emit, collected_items)
    deadline = deadline or Deadline(plan.timeout)
    timed = emit if emit is None or not waits_for_reader else _make_pausing_emit(emit, deadline)
    return await run_with_deadline(
        deadline,
        timeout_error(plan, _timeout_reason(plan)),
        capture_outcome,
        _dispatch,
        plan,
        body,
        values,
        timed,
        collected_items,
        deadline,
    )


def _timeout_reason(plan: Plan) -> str:
    """Say what becomes of a body that takes too long."""
    if plan.is_isolated:
        return "its process was ended"
    return "it was cancelled" if plan.is_async else "its thread may still be running"


def timeout_error(plan: Plan, reason: str) -> ToolTimeoutError:
    """Return the error of a call that took too long."""
    message = f"Tool {plan.name!r} did not finish within {plan.timeout:g} seconds; {reason}."
    return ToolTimeoutError(message, tool=plan.name, timeout=plan.timeout)


async def _dispatch(  # noqa: PLR0917  # what carries it takes no names
    plan: Plan,
    body: Body,
    values: Arguments,
    emit: EmitItem | None,
    collected_items: list[Any] | None,
    deadline: Deadline | None = None,
) -> Outcome:
    if plan.is_isolated:
        return await _run_in_process(plan, body, values, _make_collecting_emit(emit, collected_items), deadline)
    if plan.is_async or not plan.run_in_thread:
        outcome = Outcome.capture(lambda: plan.invoke(body, values))
    else:
        outcome = await _run_emitting_in_thread(
            lambda give: _invoke_and_consume(plan, body, values, give, collected_items), emit
        )
    if outcome.error is not None or not is_consumable(outcome.value):
        return outcome
    return Outcome(await aconsume(outcome.value, emit, collected_items, is_threaded=plan.run_in_thread))


async def _run_in_process(
    plan: Plan, body: Body, values: Arguments, emit: EmitItem | None, deadline: Deadline | None
) -> Outcome:
    """Run the body in a worker process. The clock stands still until it begins there, within a limit."""
    from ahvn_tools.execution.isolation.process_call import ProcessCall  # it needs an extra

    loop = asyncio.get_running_loop()

    def starting(is_starting: bool) -> None:
        if deadline is not None:
            tell = functools.partial(deadline.pause_for, plan.startup_seconds) if is_starting else deadline.resume
            with contextlib.suppress(RuntimeError):  # the loop was closed under us
                loop.call_soon_threadsafe(tell)

    errand = ProcessCall(plan, body, values, has_reader=emit is not None, set_starting=starting)
    outcome: Outcome = (await _run_emitting_in_thread(errand.run, emit, errand.stop)).get()
    return outcome


def _invoke_and_consume(
    plan: Plan, body: Body, values: Arguments, emit: EmitItemSync, collected_items: list[Any] | None
) -> Any:
    returned = plan.invoke(body, values)
    return consume(returned, emit, collected_items) if is_iterator(returned) else returned


async def aconsume(
    returned: Any, emit: EmitItem | None = None, collected_items: list[Any] | None = None, *, is_threaded: bool = True
) -> Any:
    """Bring what a body returned to its end, awaiting and iterating; each item is given to `emit` as it comes."""
    while is_consumable(returned):
        if is_awaitable(returned):
            returned = await returned
        elif not is_iterator(returned):
            return await _collect_async(returned, emit, collected_items)
        elif is_threaded:
            returned = (await _run_emitting_in_thread(_make_consumer(returned, collected_items), emit)).get()
        else:
            return await _collect_async(_to_async_iterator(returned), emit, collected_items)
    return returned


def _make_consumer(returned: Any, collected_items: list[Any] | None) -> Callable[[EmitItemSync], Any]:
    return lambda give: consume(returned, give, collected_items)


async def _collect_async(
    stream: AsyncIterable[Any], emit: EmitItem | None, collected_items: list[Any] | None
) -> list[Any]:
    collected_items = [] if collected_items is None else collected_items
    try:
        async for item in stream:
            collected_items.append(item_value(item))
            if emit is not None:
                await emit(item)
    finally:
        if hasattr(stream, "aclose"):
            await stream.aclose()
    return collected_items


async def _to_async_iterator(iterator: Iterator[Any]) -> AsyncIterator[Any]:
    try:
        for item in iterator:
            yield item
    finally:
        if hasattr(iterator, "close"):
            iterator.close()


async def _run_emitting_in_thread(
    work: Callable[[EmitItemSync], Any], emit: EmitItem | None, stop: Callable[[], None] | None = None
) -> Outcome:
    loop = asyncio.get_running_loop()
    return await run_in_thread(lambda visit: work(thread_emitter(emit, loop, visit)), stop)


def _make_collecting_emit(emit: EmitItem | None, collected_items: list[Any] | None) -> EmitItem | None:
    """Return what gives items on, and keeps them."""
    if emit is None or collected_items is None:
        return emit
    given, kept = emit, collected_items

    async def keep(item: Any) -> None:
        kept.append(item_value(item))
        await given(item)

    return keep


def _make_pausing_emit(emit: EmitItem, deadline: Deadline) -> EmitItem:
    async def paused(item: Any) -> None:
        deadline.pause()
        try:
            await emit(item)
        finally:
            deadline.resume()

    return paused


async def capture_outcome(start: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Outcome:
    """Await `start(*arguments)` and return its outcome; only what is done to the task from outside passes through."""
    task = asyncio.current_task()
    try:
        returned = await start(*arguments)
    except asyncio.CancelledError as error:
        if is_being_cancelled():
            raise
        return Outcome(error=error)
    except GeneratorExit as error:
        if _current_task() is not task:  # this coroutine is being closed
            raise
        return Outcome(error=error)
    except BaseException as error:  # noqa: BLE001  # the runner's second net: carried, and raised again in the caller
        return Outcome(error=error)
    return returned if isinstance(returned, Outcome) else Outcome(returned)


def is_being_cancelled() -> bool:
    """Tell whether somebody cancels the current task (and not the body itself)."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs here
        return None
