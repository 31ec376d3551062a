"""Slots: limits how many steps run at once, in all event loops and threads together."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import asynccontextmanager


class Slots:
    """Limits how many tasks are inside of `hold` at once; the others wait in order, without a thread."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._free = count
        self._waiting: deque[Future[None]] = deque()

    @asynccontextmanager
    async def hold(self) -> AsyncGenerator[None]:
        """Wait for a slot, and hold it inside of the block."""
        turn: Future[None] = Future()
        with self._lock:
            self._waiting.append(turn)
        self._grant()
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            if not turn.cancel():  # it was this task's turn already
                self._release()
            raise
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        with self._lock:
            self._free += 1
        self._grant()

    def _grant(self) -> None:
        with self._lock:
            turns = []
            while self._free and self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    self._free -= 1
                    turns.append(turn)
        for turn in turns:
            turn.set_result(None)
