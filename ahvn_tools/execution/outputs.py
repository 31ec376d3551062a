"""Outputs: what a streamed call gives its reader: the body's items, and what the tool appends by itself, in order."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from dataclasses import replace
from typing import Any, Final

from ahvn_tools.execution.call import Call
from ahvn_tools.execution.deadline import end
from ahvn_tools.execution.drive import is_being_cancelled
from ahvn_tools.results import ToolResult
from ahvn_tools.schema.output import Output

MOST_WAITING: Final = 100
"""When so many chunks wait for the reader, newer progress takes the place of older progress."""

_ANYTHING: Final = Output()


class UnreadError(Exception):
    """A chunk has not reached its reader; `Outputs.fault` says why."""


class Outputs:
    """The chunks of one call, on their way through its middleware."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # the call's: a thread of the tool's own has another
        self._putting = threading.Lock()
        self._appended: deque[ToolResult] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()  # a middleware may wait on one chunk: the next does not overtake it
        self._is_over = False
        self.items: list[Any] = []
        """What the body has made so far."""
        self.fault: BaseException | None = None
        """What a middleware has raised on a chunk."""

    def put(self, chunk: ToolResult) -> None:
        """Give a chunk from any thread, without waiting for the reader."""
        if self._call.emit is None or self._is_over:
            return
        with self._putting:
            if len(self._appended) >= MOST_WAITING and _is_progress(chunk) and _is_progress(self._appended[-1]):
                self._appended[-1] = chunk
                return
            self._appended.append(chunk)
        with contextlib.suppress(RuntimeError):  # the loop was closed under us: nobody reads
            self._loop.call_soon_threadsafe(self._go_out)

    async def give(self, item: Any) -> None:
        """Give an item of the body, when what was appended before it has been taken."""
        await self.delivered()
        await self._emit(replace(self._call.plan.output.chunk(item), id=self._call.id))

    async def delivered(self) -> None:
        """Wait until the reader has taken all that was appended."""
        while not self._is_over and (self._appended or self._is_pumping):
            await (asyncio.wait({self._pump}) if self._is_pumping and self._pump is not None else asyncio.sleep(0))
            if self.fault is not None:
                raise UnreadError from self.fault

    async def close(self) -> None:
        """Forget what no reader has taken, and take nothing more: a thread that is left behind may go on."""
        self._is_over = True
        self._appended.clear()
        if self._pump is not None:
            await end(self._pump)

    @property
    def _is_pumping(self) -> bool:
        return self._pump is not None and not self._pump.done()

    def _go_out(self) -> None:
        """Let what was appended go out, in the loop of the call. One task sees to all of it: it ends with the call."""
        if self._appended and self.fault is None and not (self._is_over or self._is_pumping):
            self._pump = self._loop.create_task(self._pumping(), context=self._context)

    async def _pumping(self) -> None:
        with contextlib.suppress(UnreadError):  # `fault` says it
            try:
                while chunk := self._next():
                    await self._emit(_shown(chunk))
            except asyncio.CancelledError as error:
                if is_being_cancelled():
                    raise
                self.fault = self.fault or error  # a middleware's own, or the reader has gone

    def _next(self) -> ToolResult | None:
        with self._putting:
            return self._appended.popleft() if self._appended else None

    async def _emit(self, chunk: ToolResult) -> None:
        if self._call.emit is None or self._is_over:
            return
        try:
            async with self._turn:
                await self._call.emit(chunk)
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:  # a SystemExit, too: it would end the loop that this runs in
            self.fault = self.fault or error
            raise UnreadError from error


def _shown(chunk: ToolResult) -> ToolResult:
    """Return what a tool has appended in the form that its items have."""
    if _is_progress(chunk):
        return chunk
    made = _ANYTHING.chunk(chunk.value)
    return replace(made, id=chunk.id, meta={**made.meta, **chunk.meta})


def _is_progress(chunk: ToolResult) -> bool:
    return "progress" in chunk.meta
