"""Inbox: what the worker of a call has sent, and its caller has not handled yet."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Final

from ahvn_tools.execution.isolation import replies
from ahvn_tools.execution.isolation.body_call import WorkerLostError

MAX_WAITING: Final = 100
"""When so many items wait, newer progress replaces older progress, as where a local call waits for its reader."""

Item = bytes | WorkerLostError


class Inbox:
    """Takes replies, and the loss of the worker, from any thread. The task that created it handles them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._items: list[Item] = []
        self._has_items = asyncio.Event()

    def put(self, item: Item) -> None:
        """Add an item. It never waits."""
        with self._lock:
            if len(self._items) >= MAX_WAITING and _is_progress(item) and _is_progress(self._items[-1]):
                self._items[-1] = item
                return
            self._items.append(item)
            is_first = len(self._items) == 1
        if is_first:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._has_items.set)

    async def take_all(self) -> list[Item]:
        """Wait for items, and return them in their order."""
        await self._has_items.wait()
        with self._lock:
            self._has_items.clear()
            items, self._items = self._items, []
        return items


def _is_progress(item: Item) -> bool:
    return isinstance(item, bytes) and replies.is_progress(item)
