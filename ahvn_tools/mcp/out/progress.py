"""Progress: what a call tells its client before it has ended, in the order in which it was told."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import math
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ahvn_tools.formats.content import whole
from ahvn_tools.results import ToolResult, text_of

Message = tuple[float, float | None, str | None]
"""Progress, its total, a text."""

Send = Callable[[float, float | None, str | None], Awaitable[None]]

MOST_WAITING = 100
"""When more messages than this wait to be sent, the tool waits for its client."""

PATIENCE = 2.0
"""Seconds that a tool waits for a client which reads none of what it is told."""


class Progress:
    """The progress messages of one call. Must be made and used in the loop that sends them."""

    def __init__(self, send: Send) -> None:
        """Take what sends one message."""
        self._send = send
        self._context = contextvars.copy_context()  # the request's: a thread of the tool's own has another
        self._waiting: deque[Message] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._last: tuple[float, float | None] | None = None
        self._outputs = 0
        self._told = -math.inf
        self._is_closed = False

    async def emit(self, chunk: ToolResult) -> None:
        """Tell the client of a chunk; where much waits to be sent, wait for that, unless the client reads nothing."""
        if self._is_closed:
            await asyncio.sleep(0)  # a body that never waits is not to hold the loop
            return
        told = chunk.meta.get("progress")
        message = self._output(chunk) if told is None else self._progress(told, chunk)
        if message is None:
            return
        self._waiting.append(self._grown(message))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(self._sending(), context=self._context)
        if len(self._waiting) > MOST_WAITING:
            await self.finish()

    async def finish(self) -> None:
        """Wait until all is sent; a client that reads nothing for `PATIENCE` seconds is told nothing more."""
        while self._pump is not None and not self._pump.done():
            before = len(self._waiting)
            await asyncio.wait({self._pump}, timeout=PATIENCE)
            if not self._pump.done() and len(self._waiting) >= before:
                self.close()
                return

    def close(self) -> None:
        """Send nothing more."""
        self._is_closed = True
        self._waiting.clear()
        if self._pump is not None:
            self._pump.cancel()

    def _grown(self, message: Message) -> Message:
        """Return a message with more progress than any before it: MCP wants that, whatever a tool reports."""
        progress, total, text = message
        least = min(math.nextafter(self._told, math.inf), sys.float_info.max)
        self._told = max(progress, least)
        return self._told, total, text

    def _progress(self, told: Any, chunk: ToolResult) -> Message | None:
        """Return the message of a report of the tool; none for what is no number."""
        if not (isinstance(told, Mapping) and _is_sayable(told.get("progress"))):
            return None
        total = told.get("total")
        self._last = told["progress"], total if _is_sayable(total) else None
        return (*self._last, None if chunk.value is None else whole(chunk.text))

    def _output(self, chunk: ToolResult) -> Message | None:
        """Return the message of what the tool has given before its result; none for what is no text."""
        text = chunk.text if chunk.blocks is None else text_of(chunk.blocks)
        if text is None:
            return None
        if self._last is None:
            self._outputs += 1
            return self._outputs, None, whole(text)
        return (*self._last, whole(text))  # a step further: nobody but the tool knows what its measure means

    async def _sending(self) -> None:
        while self._waiting:
            with contextlib.suppress(Exception):  # the client has gone: it is a courtesy
                await self._send(*self._waiting.popleft())


def _is_sayable(number: Any) -> bool:
    """Tell whether JSON can say a number: another would end the connection."""
    try:
        return math.isfinite(number)
    except (TypeError, ValueError, OverflowError):
        return False
