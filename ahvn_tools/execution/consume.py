"""Consuming what a body returned: iterators are iterated and awaitables awaited until a plain value is left."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

from ahvn_tools.execution.outcome import is_awaitable, is_consumable, is_iterator
from ahvn_tools.results import item_value


def consume(
    iterator: Iterator[Any], emit: Callable[[Any], None] | None = None, items: list[Any] | None = None
) -> list[Any]:
    """Iterate to the end in this thread and return the values of the items.

    `emit` takes each item as it is made; `items` is the list to fill, for a caller that reads it after an interruption.
    """
    items = [] if items is None else items
    try:
        for item in iterator:
            items.append(item_value(item))
            if emit is not None:
                emit(item)
    finally:
        if hasattr(iterator, "close"):
            iterator.close()
    return items


async def aconsume(
    returned: Any,
    emit: Callable[[Any], Coroutine[Any, Any, None]] | None = None,
    items: list[Any] | None = None,
    *,
    is_threaded: bool = True,
) -> Any:
    """Await and iterate what a body returned until a plain value is left; `emit` and `items` are as for `consume`.

    A sync iterator runs in a worker thread unless `is_threaded` is False.
    """
    while is_consumable(returned):
        if is_awaitable(returned):
            returned = await returned
        elif not is_iterator(returned):
            return await _collect(returned, emit, items)
        elif is_threaded:
            from ahvn_tools.execution.threads import run_emitting_in_thread  # it imports asyncio

            work = functools.partial(consume, returned, items=items)
            returned = (await run_emitting_in_thread(work, emit)).get()
        else:
            return await _collect(_to_async_iterator(returned), emit, items)
    return returned


async def _collect(
    stream: AsyncIterable[Any], emit: Callable[[Any], Coroutine[Any, Any, None]] | None, items: list[Any] | None
) -> list[Any]:
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


async def _to_async_iterator(iterator: Iterator[Any]) -> AsyncIterator[Any]:
    try:
        for item in iterator:
            yield item
    finally:
        if hasattr(iterator, "close"):
            iterator.close()
