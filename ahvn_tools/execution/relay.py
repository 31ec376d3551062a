"""Relay: hands chunks to a reader; the body goes on when the reader wants the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ahvn_tools.results import ToolResult


class ChunkChannel:
    """One stream between the loop that the call runs in and its reader, wherever that is."""

    def __init__(self, put: Callable[[ToolResult], None]) -> None:
        """Take what gives the reader a chunk without waiting."""
        self._put = put
        self._next_requested = asyncio.Semaphore(0)  # belongs to a loop only when it is first waited for
        self.is_closed = False
        """Whether the reader has gone."""

    async def emit(self, chunk: ToolResult) -> None:
        """Give a chunk, and return when the reader wants the next. Raises CancelledError when the reader has gone."""
        if self.is_closed:
            raise asyncio.CancelledError
        self._put(chunk)
        await self._next_requested.acquire()

    def request_next(self) -> None:
        """Let the body make the next chunk. In the loop of the call."""
        self._next_requested.release()
