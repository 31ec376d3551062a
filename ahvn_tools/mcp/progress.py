"""Progress: what a call tells its client before it has ended, in order, from whatever thread it is told in."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import math
import threading
from collections import deque
from collections.abc import Awaitable, Callable

from ahvn_tools.formats.content import whole
from ahvn_tools.results import ToolResult, text_of

Send = Callable[[float, float | None, str | None], Awaitable[None]]

MOST_WAITING = 100
"""So many reports wait to be sent; then a newer one takes the place of the last."""


class Progress:
    """The progress messages of one call. Must be made in the loop that sends them."""

    def __init__(self, send: Send) -> None:
        """Take what sends one message: progress, its total, a text."""
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # the request's: a thread of the tool's own has another
        self._lock = threading.Lock()
        self._reports = 0
        self._newest: _Message | None = None
        self._waiting: deque[_Message] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._last: tuple[float, float | None] | None = None
        self._outputs = 0
        self._is_over = False

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell how far the call has come. Any thread may do so; it does not wait."""
        with self._lock:
            if self._is_over:
                return
            if self._reports >= MOST_WAITING and self._newest is not None:
                self._newest.said = progress, total, message
                return
            self._reports += 1
            self._newest = _Message(progress, total, message, is_report=True)
            with contextlib.suppress(RuntimeError):  # the loop was closed under a body that nobody waits for
                self._loop.call_soon_threadsafe(self._loop.call_soon, self._put, self._newest)

    async def emit(self, chunk: ToolResult) -> None:
        """Tell the client what the tool has given before its result; where much waits to be sent, wait for that."""
        text = chunk.text if chunk.blocks is None else text_of(chunk.blocks)
        if text is None:
            return
        if self._last is None:
            self._outputs += 1
            self._enqueue(_Message(self._outputs, None, text))
        else:  # progress has to grow, and nobody but the tool knows what its measure means
            progress, total = self._last
            self._last = math.nextafter(progress, math.inf), total
            self._enqueue(_Message(*self._last, text))
        if len(self._waiting) > MOST_WAITING:
            await self._sent()

    async def finish(self) -> None:
        """Send what was told before this, and nothing after it."""
        while self._reports:
            await asyncio.sleep(0)  # they are on their way from another thread
            await self._sent()
        await self._sent()  # the last one may be on its way out
        self.close()

    def close(self) -> None:
        """Send nothing more."""
        with self._lock:
            self._is_over = True
        if self._pump is not None:
            self._pump.cancel()

    async def _sent(self) -> None:
        if self._pump is not None:
            await asyncio.wait({self._pump})

    def _put(self, message: _Message) -> None:
        progress, total, _ = message.said
        self._last = progress, total
        self._enqueue(message)

    def _enqueue(self, message: _Message) -> None:
        self._waiting.append(message)
        if self._pump is None or self._pump.done():
            self._pump = self._loop.create_task(self._sending(), context=self._context)

    async def _sending(self) -> None:
        while self._waiting:
            message = self._waiting.popleft()
            with self._lock:
                self._reports -= message.is_report
                said = message.said
            with contextlib.suppress(Exception):  # the client has gone, or this is no number: it is a courtesy
                await self._send(*_sendable(*said))


def _sendable(progress: float, total: float | None, text: str | None) -> tuple[float, float | None, str | None]:
    """Return what JSON can say of a message: another would end the connection. Raises ValueError for no number."""
    if not math.isfinite(progress):
        raise ValueError(progress)
    is_known = total is not None and math.isfinite(total)
    return progress, total if is_known else None, None if text is None else whole(text)


class _Message:
    """One message: progress, its total, a text. It can still change while it waits."""

    def __init__(self, progress: float, total: float | None, text: str | None, *, is_report: bool = False) -> None:
        self.said = progress, total, text
        self.is_report = is_report
