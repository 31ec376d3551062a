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
from ahvn_tools.execution.deadline import cancel_and_wait
from ahvn_tools.execution.runner import is_being_cancelled
from ahvn_tools.results import ToolResult
from ahvn_tools.schema.output import Output

MAX_PENDING_CHUNKS: Final = 100
"""When so many chunks wait for the reader, newer progress takes the place of older progress."""

_UNTYPED_OUTPUT: Final = Output()


class ChunkDeliveryError(Exception):
    """A chunk has not reached its reader; `Outputs.fault` says why."""


class ChunkEmitter:
    """The chunks of one call, on their way through its middleware."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # the call's: a thread of the tool's own has another
        self._queue_lock = threading.Lock()
        self._appended: deque[ToolResult] = deque()
        self._pump_task: asyncio.Task[None] | None = None
        self._emit_lock = asyncio.Lock()  # a middleware may wait on one chunk: the next does not overtake it
        self._is_closed = False
        self.items: list[Any] = []
        """What the body has made so far."""
        self.middleware_error: BaseException | None = None
        """What a middleware has raised on a chunk."""

    def put_nowait(self, chunk: ToolResult) -> None:
        """Give a chunk from any thread, without waiting for the reader."""
        if self._call.emit is None or self._is_closed:
            return
        with self._queue_lock:
            if len(self._appended) >= MAX_PENDING_CHUNKS and _is_progress(chunk) and _is_progress(self._appended[-1]):
                self._appended[-1] = chunk
                return
            self._appended.append(chunk)
        with contextlib.suppress(RuntimeError):  # the loop was closed under us: nobody reads
            self._loop.call_soon_threadsafe(self._start_pump)

    async def emit_item(self, item: Any) -> None:
        """Give an item of the body, when what was appended before it has been taken."""
        await self.drain()
        await self._emit(replace(self._call.plan.output.to_chunk(item), id=self._call.id))

    async def drain(self) -> None:
        """Wait until the reader has taken all that was appended."""
        while not self._is_closed and (self._appended or self._is_pumping):
            await (
                asyncio.wait({self._pump_task})
                if self._is_pumping and self._pump_task is not None
                else asyncio.sleep(0)
            )
            if self.middleware_error is not None:
                raise ChunkDeliveryError from self.middleware_error

    async def close(self) -> None:
        """Forget what no reader has taken, and take nothing more: a thread that is left behind may go on."""
        self._is_closed = True
        self._appended.clear()
        if self._pump_task is not None:
            await cancel_and_wait(self._pump_task)

    @property
    def _is_pumping(self) -> bool:
        return self._pump_task is not None and not self._pump_task.done()

    def _start_pump(self) -> None:
        """Let what was appended go out, in the loop of the call. One task sees to all of it: it ends with the call."""
        if self._appended and self.middleware_error is None and not (self._is_closed or self._is_pumping):
            self._pump_task = self._loop.create_task(self._run_pump(), context=self._context)

    async def _run_pump(self) -> None:
        with contextlib.suppress(ChunkDeliveryError):  # `fault` says it
            try:
                while chunk := self._pop_appended():
                    await self._emit(_to_item_chunk(chunk))
            except asyncio.CancelledError as error:
                if is_being_cancelled():
                    raise
                self.middleware_error = self.middleware_error or error  # a middleware's own, or the reader has gone

    def _pop_appended(self) -> ToolResult | None:
        with self._queue_lock:
            return self._appended.popleft() if self._appended else None

    async def _emit(self, chunk: ToolResult) -> None:
        if self._call.emit is None or self._is_closed:
            return
        try:
            async with self._emit_lock:
                await self._call.emit(chunk)
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:  # a SystemExit, too: it would end the loop that this runs in
            self.middleware_error = self.middleware_error or error
            raise ChunkDeliveryError from error


def _to_item_chunk(chunk: ToolResult) -> ToolResult:
    """Return what a tool has appended in the form that its items have."""
    if _is_progress(chunk):
        return chunk
    made = _UNTYPED_OUTPUT.to_chunk(chunk.value)
    return replace(made, id=chunk.id, meta={**made.meta, **chunk.meta})


def _is_progress(chunk: ToolResult) -> bool:
    return "progress" in chunk.meta
