"""Consuming what a body returned: iterators are iterated and awaitables awaited until a plain value is left."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Generator, Iterator
from time import monotonic
from typing import Any

from ahvn_tools.execution.outcome import is_awaitable, is_consumable, is_iterator
from ahvn_tools.execution.plan import ItemLimits
from ahvn_tools.results import item_value

MAX_TURN_SECONDS = 0.001
"""How long an iterator that awaits nothing may keep the event loop from other work."""


def consume(
    iterator: Iterator[Any],
    limits: ItemLimits,
    emit: Callable[[Any], None] | None = None,
    items: list[Any] | None = None,
) -> list[Any]:
    """Iterate to the end in this thread and return the values of the items. Raises LimitExceededError.

    `emit` takes each item as it is made; `items` is the list to fill, for a caller that reads it after an interruption.
    """
    items = [] if items is None else items
    with contextlib.closing(iterate(iterator, limits, items)) as each:
        for item in each:
            if emit is not None:
                emit(item)
    return items


def iterate(iterator: Iterator[Any], limits: ItemLimits, items: list[Any]) -> Generator[Any, None, None]:
    """Yield the items of an iterator, whose values are appended to `items`. Raises LimitExceededError."""
    count = limits.make_counter()
    try:
        for item in iterator:
            count(value := item_value(item))
            items.append(value)
            yield item
    except BaseException:
        with contextlib.suppress(Exception):  # a generator that fails to close does not hide why it was closed
            _close(iterator)
        raise
    _close(iterator)


def _close(iterator: Iterator[Any]) -> None:
    if hasattr(iterator, "close"):
        iterator.close()


async def aconsume(
    returned: Any,
    limits: ItemLimits,
    emit: Callable[[Any], Coroutine[Any, Any, None]] | None = None,
    items: list[Any] | None = None,
    *,
    is_threaded: bool = True,
) -> Any:
    """Await and iterate what a body returned until a plain value is left; `emit` and `items` are as for `consume`.

    A sync iterator runs in a worker thread unless `is_threaded` is False. One that awaits nothing lets other work of
    the event loop run in between, and deadlines pass. Raises LimitExceededError.
    """
    while is_consumable(returned):
        if is_awaitable(returned):
            returned = await returned
            if is_awaitable(returned):
                await _yield_to_loop()  # it may be the same object again and again
        elif not is_iterator(returned):
            return await _collect(returned, limits, emit, items)
        elif is_threaded:
            from ahvn_tools.execution.threads import run_in_thread  # it imports asyncio

            work = functools.partial(consume, returned, limits, items=items)
            returned = (await run_in_thread(work, emit)).get()
        else:
            return await _collect(_to_async_iterator(returned), limits, emit, items)
    return returned


async def _collect(
    stream: AsyncIterable[Any],
    limits: ItemLimits,
    emit: Callable[[Any], Coroutine[Any, Any, None]] | None,
    items: list[Any] | None,
) -> list[Any]:
    items, count = [] if items is None else items, limits.make_counter()
    turn_end = monotonic() + MAX_TURN_SECONDS
    try:
        async for item in stream:
            count(value := item_value(item))
            items.append(value)
            if emit is not None:
                await emit(item)
            if monotonic() >= turn_end:
                await _yield_to_loop()
                turn_end = monotonic() + MAX_TURN_SECONDS
    except BaseException:
        with contextlib.suppress(Exception):  # as in `consume`; a hidden CancelledError would make a result
            await _aclose(stream)
        raise
    await _aclose(stream)
    return items


async def _aclose(stream: AsyncIterable[Any]) -> None:
    if hasattr(stream, "aclose"):
        await stream.aclose()


async def _yield_to_loop() -> None:
    """Let the event loop do its other work: run timers, read sockets, cancel this task."""
    import asyncio

    await asyncio.sleep(0)


async def _to_async_iterator(iterator: Iterator[Any]) -> AsyncIterator[Any]:
    try:
        for item in iterator:
            yield item
    finally:
        _close(iterator)
