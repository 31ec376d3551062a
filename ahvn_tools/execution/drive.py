"""The drive: a body is run to its end, in loop or thread, within its timeout, giving its items as they come."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

from ahvn_tools.errors import ToolTimeoutError
from ahvn_tools.execution.deadline import Deadline, within
from ahvn_tools.execution.direct import gathered
from ahvn_tools.execution.hand import Emit, Give, hand
from ahvn_tools.execution.outcome import Outcome, is_awaitable, is_iterator, is_live
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.threads import in_thread
from ahvn_tools.results import item_value


async def drive(
    plan: Plan,
    body: Body,
    values: Arguments,
    emit: Emit | None = None,
    deadline: Deadline | None = None,
    *,
    items: list[Any] | None = None,
    waits_for_reader: bool = True,
) -> Outcome:
    """Run the body to its end, in loop or thread, within the plan's timeout; give items to `emit` as they come.

    `deadline` is the clock of the timeout where somebody else reads it too; `items` is filled with what the body makes.
    The clock stands still while a reader takes an item, unless nobody `waits_for_reader`.
    """
    if plan.timeout is None:
        return await carried(_produce, plan, body, values, emit, items)
    deadline = deadline or Deadline(plan.timeout)
    timed = emit if emit is None or not waits_for_reader else _unhurried(emit, deadline)
    return await within(
        deadline, late(plan, _fate(plan)), carried, _produce, plan, body, values, timed, items, deadline
    )


def _fate(plan: Plan) -> str:
    """Say what becomes of a body that takes too long."""
    if plan.is_isolated:
        return "its process was ended"
    return "it was cancelled" if plan.is_async else "its thread may still be running"


def late(plan: Plan, reason: str) -> ToolTimeoutError:
    """Return the error of a call that took too long."""
    message = f"Tool {plan.name!r} did not finish within {plan.timeout:g} seconds; {reason}."
    return ToolTimeoutError(message, tool=plan.name, timeout=plan.timeout)


async def _produce(  # noqa: PLR0917  # what carries it takes no names
    plan: Plan,
    body: Body,
    values: Arguments,
    emit: Emit | None,
    items: list[Any] | None,
    deadline: Deadline | None = None,
) -> Outcome:
    if plan.is_isolated:
        return await _isolated(plan, body, values, _kept(emit, items), deadline)
    if plan.is_async or not plan.run_in_thread:
        outcome = Outcome.of(lambda: plan.invoke(body, values))
    else:
        outcome = await _threaded(lambda give: _started(plan, body, values, give, items), emit)
    if outcome.error is not None or not is_live(outcome.value):
        return outcome
    return Outcome(await agathered(outcome.value, emit, items, is_threaded=plan.run_in_thread))


async def _isolated(plan: Plan, body: Body, values: Arguments, emit: Emit | None, deadline: Deadline | None) -> Outcome:
    """Run the body in a worker process. The clock stands still until it begins there, within a limit."""
    from ahvn_tools.execution.errand import Errand  # it needs an extra

    loop = asyncio.get_running_loop()

    def starting(is_starting: bool) -> None:
        if deadline is not None:
            tell = functools.partial(deadline.hold, plan.headroom) if is_starting else deadline.resume
            with contextlib.suppress(RuntimeError):  # the loop was closed under us
                loop.call_soon_threadsafe(tell)

    errand = Errand(plan, body, values, is_read=emit is not None, starting=starting)
    outcome: Outcome = (await _threaded(errand.run, emit, errand.stop)).get()
    return outcome


def _started(plan: Plan, body: Body, values: Arguments, give: Give, items: list[Any] | None) -> Any:
    returned = plan.invoke(body, values)
    return gathered(returned, give, items) if is_iterator(returned) else returned


async def agathered(
    returned: Any, emit: Emit | None = None, items: list[Any] | None = None, *, is_threaded: bool = True
) -> Any:
    """Bring what a body returned to its end, awaiting and iterating; each item is given to `emit` as it comes."""
    while is_live(returned):
        if is_awaitable(returned):
            returned = await returned
        elif not is_iterator(returned):
            return await _collected(returned, emit, items)
        elif is_threaded:
            returned = (await _threaded(_gathering(returned, items), emit)).get()
        else:
            return await _collected(_inline(returned), emit, items)
    return returned


def _gathering(returned: Any, items: list[Any] | None) -> Callable[[Give], Any]:
    return lambda give: gathered(returned, give, items)


async def _collected(stream: AsyncIterable[Any], emit: Emit | None, items: list[Any] | None) -> list[Any]:
    items = [] if items is None else items
    try:
        async for item in stream:
            items.append(item_value(item))
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


async def _threaded(work: Callable[[Give], Any], emit: Emit | None, stop: Callable[[], None] | None = None) -> Outcome:
    loop = asyncio.get_running_loop()
    return await in_thread(lambda visit: work(hand(emit, loop, visit)), stop)


def _kept(emit: Emit | None, items: list[Any] | None) -> Emit | None:
    """Return what gives items on, and keeps them."""
    if emit is None or items is None:
        return emit
    given, kept = emit, items

    async def keep(item: Any) -> None:
        kept.append(item_value(item))
        await given(item)

    return keep


def _unhurried(emit: Emit, deadline: Deadline) -> Emit:
    async def paused(item: Any) -> None:
        deadline.pause()
        try:
            await emit(item)
        finally:
            deadline.resume()

    return paused


async def carried(start: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Outcome:
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
