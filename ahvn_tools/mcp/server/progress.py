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

from ahvn_tools.formats.rendering.content import replace_surrogates
from ahvn_tools.results import ToolResult, join_text_blocks

ProgressMessage = tuple[float, float | None, str | None]
"""Progress, its total, a text."""

SendProgress = Callable[[float, float | None, str | None], Awaitable[None]]

MAX_QUEUED = 100
"""When more messages than this wait to be sent, the tool waits for its client."""

STALL_SECONDS = 2.0
"""Seconds that a tool waits for a client which reads none of what it is told."""


class ProgressReporter:
    """The progress messages of one call. Must be made and used in the loop that sends them."""

    def __init__(self, send: SendProgress) -> None:
        """Take what sends one message."""
        self._send = send
        self._context = contextvars.copy_context()  # the request's: a thread of the tool's own has another
        self._queue: deque[ProgressMessage] = deque()
        self._send_task: asyncio.Task[None] | None = None
        self._last_report: tuple[float, float | None] | None = None
        self._output_count = 0
        self._last_progress = -math.inf
        self._is_closed = False

    async def emit(self, chunk: ToolResult) -> None:
        """Tell the client of a chunk; where much waits to be sent, wait for that, unless the client reads nothing."""
        if self._is_closed:
            await asyncio.sleep(0)  # a body that never waits is not to hold the loop
            return
        told = chunk.meta.get("progress")
        message = self._to_output_message(chunk) if told is None else self._to_report_message(told, chunk)
        if message is None:
            return
        self._queue.append(self._make_increasing(message))
        if self._send_task is None or self._send_task.done():
            self._send_task = asyncio.get_running_loop().create_task(self._send_queued(), context=self._context)
        if len(self._queue) > MAX_QUEUED:
            await self.drain()

    async def drain(self) -> None:
        """Wait until all is sent; a client that reads nothing for `PATIENCE` seconds is told nothing more."""
        while self._send_task is not None and not self._send_task.done():
            before = len(self._queue)
            await asyncio.wait({self._send_task}, timeout=STALL_SECONDS)
            if not self._send_task.done() and len(self._queue) >= before:
                self.close()
                return

    def close(self) -> None:
        """Send nothing more."""
        self._is_closed = True
        self._queue.clear()
        if self._send_task is not None:
            self._send_task.cancel()

    def _make_increasing(self, message: ProgressMessage) -> ProgressMessage:
        """Return a message with more progress than any before it: MCP wants that, whatever a tool reports."""
        progress, total, text = message
        least = min(math.nextafter(self._last_progress, math.inf), sys.float_info.max)
        self._last_progress = max(progress, least)
        return self._last_progress, total, text

    def _to_report_message(self, report: Any, chunk: ToolResult) -> ProgressMessage | None:
        """Return the message of a report of the tool; none for what is no number."""
        if not (isinstance(report, Mapping) and _is_json_number(report.get("progress"))):
            return None
        total = report.get("total")
        self._last_report = report["progress"], total if _is_json_number(total) else None
        return (*self._last_report, None if chunk.value is None else replace_surrogates(chunk.text))

    def _to_output_message(self, chunk: ToolResult) -> ProgressMessage | None:
        """Return the message of what the tool has given before its result; none for what is no text."""
        text = chunk.text if chunk.blocks is None else join_text_blocks(chunk.blocks)
        if text is None:
            return None
        if self._last_report is None:
            self._output_count += 1
            return self._output_count, None, replace_surrogates(text)
        return (
            *self._last_report,
            replace_surrogates(text),
        )  # a step further: nobody but the tool knows what its measure means

    async def _send_queued(self) -> None:
        while self._queue:
            with contextlib.suppress(Exception):  # the client has gone: it is a courtesy
                await self._send(*self._queue.popleft())


def _is_json_number(number: Any) -> bool:
    """Tell whether JSON can say a number: another would end the connection."""
    try:
        return math.isfinite(number)
    except (TypeError, ValueError, OverflowError):
        return False
