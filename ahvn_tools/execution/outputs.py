"""Outputs: what a streamed call gives its reader: the body's items, and what the tool appends by itself, in order."""

from __future__ import annotations

import asyncio
import concurrent.futures
from dataclasses import replace
from typing import Any

from ahvn_tools.execution.call import Call
from ahvn_tools.results import ToolResult


class UnreadError(Exception):
    """A chunk has not reached its reader; `Outputs.fault` says why."""


class Outputs:
    """The chunks of one call, on their way through its middleware."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._pending: list[concurrent.futures.Future[None]] = []
        self.items: list[Any] = []
        """What the body has made so far."""
        self.fault: BaseException | None = None
        """What a middleware has raised on a chunk."""

    def put(self, chunk: ToolResult) -> None:
        """Give a chunk from any thread, without waiting for the reader."""
        if self._call.emit is not None:
            self._pending.append(asyncio.run_coroutine_threadsafe(self._emit(chunk), self._loop))

    async def give(self, item: Any) -> None:
        """Give an item of the body, when what was appended before it has been taken."""
        await self.delivered()
        await self._emit(replace(self._call.plan.output.chunk(item), id=self._call.id))

    async def delivered(self) -> None:
        """Wait until the reader has taken all that was appended."""
        while self._pending:
            await asyncio.wrap_future(self._pending.pop(0))

    def drop(self) -> None:
        """Forget what no reader has taken."""
        for pending in self._pending:
            pending.cancel()

    async def _emit(self, chunk: ToolResult) -> None:
        if self._call.emit is None:
            return
        try:
            await self._call.emit(chunk)
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:  # a SystemExit, too: it would end the loop that this runs in
            self.fault = self.fault or error
            raise UnreadError from error
