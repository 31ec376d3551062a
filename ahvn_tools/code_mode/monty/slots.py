"""Slots: limits how many programs run at once, in all event loops and threads together."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from typing import Final

from ahvn_tools.code_mode.sandbox import SandboxBusyError

_BUSY: Final = "No program can start now: {count} programs run already. Try again later."


class Slots:
    """A number of slots. Tasks wait for them in order, without a thread."""

    def __init__(self, count: int) -> None:
        self._lock = threading.RLock()
        """The garbage collector ends tasks, which release their slots, also in a thread that holds the lock."""
        self._count = self._free = count
        self._waiting: deque[Future[None]] = deque()

    async def acquire(self, seconds: float) -> None:
        """Wait for a slot. Raises SandboxBusyError if there is none in time."""
        turn: Future[None] = Future()
        with self._lock:
            self._waiting.append(turn)
        self._grant()
        if turn.done():
            return
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wrap_future(turn)
        except BaseException as error:
            if not turn.cancel():  # it was this task's turn already
                self.release()
            if isinstance(error, TimeoutError):
                raise SandboxBusyError(_BUSY.format(count=self._count)) from None
            raise

    def release(self) -> None:
        """Give a slot back, from any thread."""
        with self._lock:
            self._free += 1
        self._grant()

    def _grant(self) -> None:
        with self._lock:
            turns = []
            while self._free and self._waiting:
                self._free -= 1  # before calls, in which the garbage collector may run
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    turns.append(turn)
                else:
                    self._free += 1
        for turn in turns:
            turn.set_result(None)
