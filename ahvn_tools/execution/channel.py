"""How chunks of a stream reach their reader: ChunkEmitter puts those of a call in order, ChunkReader reads them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from ahvn_tools.execution.call import Call
from ahvn_tools.execution.deadline import cancel_and_wait, outcome_of
from ahvn_tools.execution.outcome import Outcome, is_being_cancelled
from ahvn_tools.execution.threads import EmitItem
from ahvn_tools.results import ToolResult
from ahvn_tools.schema.output import Output

MAX_PENDING_CHUNKS: Final = 100
"""When so many chunks wait for the reader, newer progress replaces older progress."""

_UNTYPED_OUTPUT: Final = Output()


class ChunkReader:
    """Runs a call in a separate task, and reads what it emits; the body waits until the next chunk is requested."""

    def __init__(self, run: Callable[[EmitItem], Coroutine[Any, Any, Outcome]]) -> None:
        """`run(emit)` runs the call. `emit` raises CancelledError when the reader has left."""
        self._run = run
        self.outcome = Outcome()
        """The outcome of the call, after its last chunk."""

    async def read(self) -> AsyncGenerator[Any, None]:
        """Yield the chunks as they are made."""
        chunks: asyncio.Queue[Any] = asyncio.Queue()
        next_requested, has_left, end = asyncio.Semaphore(0), False, object()

        async def emit(chunk: Any) -> None:
            if has_left:
                raise asyncio.CancelledError
            chunks.put_nowait(chunk)
            await next_requested.acquire()

        task = asyncio.create_task(self._run(emit))
        task.add_done_callback(lambda _: chunks.put_nowait(end))
        try:
            while (chunk := await chunks.get()) is not end:
                yield chunk
                next_requested.release()
        finally:
            has_left = True
            await cancel_and_wait(task)
        self.outcome = outcome_of(task)


class ChunkDeliveryError(Exception):
    """A chunk did not reach its reader; `ChunkEmitter.middleware_error` says why."""


class ChunkEmitter:
    """Emits the chunks of one call in order: the body's items, and what the tool appends through its ToolContext."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # the call's; a thread that the tool starts has another
        self._queue_lock = threading.Lock()
        self._appended: deque[ToolResult] = deque()
        self._pump_task: asyncio.Task[None] | None = None
        self._emit_lock = asyncio.Lock()  # a middleware may wait on one chunk: the next does not overtake it
        self._is_closed = False
        self._count = call.plan.item_limits.make_counter()
        self.middleware_error: BaseException | None = None
        """What a middleware raised on a chunk."""

    def put_nowait(self, chunk: ToolResult) -> None:
        """Queue a chunk, from any thread. Raises LimitExceededError after too many of them."""
        if self._is_closed:
            return
        with self._queue_lock:
            if len(self._appended) >= MAX_PENDING_CHUNKS and _is_progress(chunk) and _is_progress(self._appended[-1]):
                self._appended[-1] = chunk
                return
            if not _is_progress(chunk):
                self._count(chunk.value)
            self._appended.append(chunk)
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: there is no reader
            self._loop.call_soon_threadsafe(self._start_pump)

    async def emit_item(self, chunk: ToolResult) -> None:
        """Emit the chunk of an item of the body, after everything that was appended before it.

        Raises CancelledError after `close`, which ends a body that ignored its cancellation.
        """
        await self.drain()
        if self._is_closed:
            raise asyncio.CancelledError
        await self._emit(replace(chunk, id=self._call.id))

    async def drain(self) -> None:
        """Wait until the reader has taken everything that was appended."""
        while not self._is_closed and (self._appended or self._is_pumping):
            if self._pump_task is not None and self._is_pumping:
                await asyncio.wait({self._pump_task})
            else:
                await asyncio.sleep(0)
            if self.middleware_error is not None:
                raise ChunkDeliveryError from self.middleware_error

    async def close(self) -> None:
        """Drop what no reader has taken and accept no more: an abandoned thread may still append."""
        self._is_closed = True
        self._appended.clear()
        if self._pump_task is not None:
            await cancel_and_wait(self._pump_task)

    @property
    def _is_pumping(self) -> bool:
        return self._pump_task is not None and not self._pump_task.done()

    def _start_pump(self) -> None:
        """Emit what was appended, in one task that ends with the call. Runs in the loop of the call."""
        if self._appended and self.middleware_error is None and not (self._is_closed or self._is_pumping):
            self._pump_task = self._loop.create_task(self._pump(), context=self._context)

    async def _pump(self) -> None:
        with contextlib.suppress(ChunkDeliveryError):  # `middleware_error` has the cause
            try:
                while chunk := self._pop_appended():
                    await self._emit(_to_item_chunk(chunk))
            except asyncio.CancelledError as error:
                if is_being_cancelled():
                    raise
                self.middleware_error = self.middleware_error or error  # a middleware's own, or the reader has left

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
    """Return what a tool has appended in the form of an item's chunk."""
    if _is_progress(chunk):
        return chunk
    item_chunk = _UNTYPED_OUTPUT.to_chunk(chunk.value)
    return replace(item_chunk, id=chunk.id, meta={**item_chunk.meta, **chunk.meta})


def _is_progress(chunk: ToolResult) -> bool:
    return "progress" in chunk.meta
