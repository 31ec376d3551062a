"""Progress messages that a call sends to its client before its result, in their order."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import math
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ahvn_tools.formats.json_data import replace_surrogates
from ahvn_tools.results import ToolResult, join_text_blocks

ProgressMessage = tuple[float, float | None, str | None]
"""The progress, its total, and a text."""

SendProgress = Callable[[float, float | None, str | None], Awaitable[None]]

MAX_QUEUED = 100
"""While more messages than this wait to be sent, the tool waits for its client."""

STALL_SECONDS = 2.0
"""Seconds that a tool waits for a client that reads no messages."""


class ProgressReporter:
    """Sends the progress messages of one call. Create and use it in the loop that sends them."""

    def __init__(self, send: SendProgress) -> None:
        """Send messages with `send`."""
        self._send = send
        self._context = contextvars.copy_context()  # the request's: a thread that a tool starts has another one
        self._queue: deque[ProgressMessage] = deque()
        self._send_task: asyncio.Task[None] | None = None
        self._last_report: tuple[float, float | None] | None = None
        self._output_count = 0
        self._last_progress = -math.inf
        self._is_closed = False

    async def emit(self, chunk: ToolResult) -> None:
        """Send a chunk to the client. With a full queue, wait until it is sent, unless the client reads nothing."""
        if self._is_closed:
            await asyncio.sleep(0)  # lets the loop run although the body never waits
            return
        report = chunk.meta.get("progress")
        message = self._to_output_message(chunk) if report is None else self._to_report_message(report, chunk)
        if message is None:
            return
        self._queue.append(self._make_increasing(message))
        if self._send_task is None or self._send_task.done():
            self._send_task = asyncio.get_running_loop().create_task(self._send_queued(), context=self._context)
        if len(self._queue) > MAX_QUEUED:
            await self.drain()

    async def drain(self) -> None:
        """Wait until all messages are sent. A client that reads nothing for `STALL_SECONDS` gets no more messages."""
        while self._send_task is not None and not self._send_task.done():
            before = len(self._queue)
            await asyncio.wait({self._send_task}, timeout=STALL_SECONDS)
            if not self._send_task.done() and len(self._queue) >= before:
                self.close()
                return

    def close(self) -> None:
        """Send no more messages."""
        self._is_closed = True
        self._queue.clear()
        if self._send_task is not None:
            self._send_task.cancel()

    def _make_increasing(self, message: ProgressMessage) -> ProgressMessage:
        """Return the message with more progress than the last one, as MCP requires, whatever the tool reports."""
        progress, total, text = message
        minimum = min(math.nextafter(self._last_progress, math.inf), sys.float_info.max)
        self._last_progress = max(progress, minimum)
        return self._last_progress, total, text

    def _to_report_message(self, report: Any, chunk: ToolResult) -> ProgressMessage | None:
        """Return the message of a progress report; None if its progress is not a number."""
        if not (isinstance(report, Mapping) and _is_json_number(report.get("progress"))):
            return None
        total = report.get("total")
        self._last_report = report["progress"], total if _is_json_number(total) else None
        return (*self._last_report, None if chunk.value is None else replace_surrogates(chunk.text))

    def _to_output_message(self, chunk: ToolResult) -> ProgressMessage | None:
        """Return the message of a chunk of output; None if it has no text."""
        text = chunk.text if chunk.blocks is None else join_text_blocks(chunk.blocks)
        if text is None:
            return None
        if self._last_report is not None:  # only the tool knows what its numbers mean
            return (*self._last_report, replace_surrogates(text))
        self._output_count += 1
        return self._output_count, None, replace_surrogates(text)

    async def _send_queued(self) -> None:
        while self._queue:
            with contextlib.suppress(Exception):  # the client has disconnected: progress is optional
                await self._send(*self._queue.popleft())


def _is_json_number(number: Any) -> bool:
    """Return whether JSON has this number; another one would end the connection."""
    try:
        return math.isfinite(number)
    except (TypeError, ValueError, OverflowError):
        return False
