"""RunningCalls: the calls that a server runs. When it is stopped, they have time to end, and no other starts."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, Final

from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    TextContent,
)

from ahvn_tools.errors import quote_name

CallToolHandler = Callable[[Any, CallToolRequestParams], Awaitable[Any]]

CANCEL_SECONDS: Final = 0.5
"""Seconds that cancelled calls have to end, and their answers to be sent."""


class RunningCalls:
    """The requests `tools/call` of a server that runs in one event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cancelled: set[asyncio.Task[Any]] = set()
        self._unsent: set[Any] = set()
        """The ids of the calls of `wrap_streams` whose answers are not sent yet."""
        self._unparsed = 0
        """How many messages were read before the server was stopped, and did not come out of the stream yet."""
        self._is_stopping = False
        self._ended = asyncio.Event()
        self._returned_at = -math.inf
        """When the last call has returned a result, by the loop's clock."""

    def wrap_handler(self, handler: CallToolHandler) -> CallToolHandler:
        """Return a handler of `tools/call` that answers each call, whatever ends it."""

        async def call_tool(context: Any, params: CallToolRequestParams) -> Any:
            if self._is_stopping and context.request_id not in self._unsent:
                return _error(f"Tool {quote_name(params.name)} was not run: its server is being stopped.")
            task = asyncio.current_task()
            assert task is not None  # noqa: S101  # this is a coroutine
            self._tasks.add(task)
            try:
                result = await handler(context, params)
                self._returned_at = asyncio.get_running_loop().time()
                return result
            except asyncio.CancelledError:
                if task not in self._cancelled:
                    self._unsent.discard(context.request_id)  # the client has cancelled it and gets no answer
                    raise
                task.uncancel()
                return _error(
                    f"Tool {quote_name(params.name)} was cancelled, because its server was stopped. It did not finish, "
                    "and may have had an effect."
                )
            finally:
                self._tasks.discard(task)
                self._cancelled.discard(task)
                self._wake()

        return call_tool

    def wrap_streams(self, reader: Any, writer: Any) -> tuple[CallReadingStream, AnsweringStream]:
        """Return the streams of messages from and to the only client, whose calls `stop` waits for.

        A call begins a moment after its message was read, and the answer is sent a moment after it has ended. Over HTTP
        uvicorn waits for it.
        """
        return CallReadingStream(reader, self._note_message), AnsweringStream(writer, self._note_answer)

    def note_line(self) -> None:
        """Note that a message of the only client was read."""
        if not self._is_stopping:
            self._unparsed += 1

    async def stop(self, seconds: float, *, follow_up_seconds: float = 0.0) -> None:
        """Refuse new calls, wait `seconds` for the running ones, cancel the others, and wait for their answers.

        After a result the server is still needed for `follow_up_seconds`: mcp's client then lists the tools, to
        validate the result, and without that list its call fails.
        """
        loop = asyncio.get_running_loop()
        self._is_stopping, began = True, loop.time()
        await self._wait_for_end(seconds)
        self.cancel()
        await self._wait_for_end(CANCEL_SECONDS)
        if self._returned_at > began:
            await asyncio.sleep(self._returned_at + follow_up_seconds - loop.time())

    def cancel(self) -> None:
        """Refuse new calls, and cancel those that run."""
        self._is_stopping = True
        for task in self._tasks - self._cancelled:
            self._cancelled.add(task)
            task.cancel()

    async def _wait_for_end(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while self._tasks or self._unsent or self._unparsed:
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            return

    def _note_message(self, call_id: Any) -> None:
        """Note a message; `call_id` is None for one that is no call."""
        if not self._unparsed:  # it was read after the server was stopped
            return
        self._unparsed -= 1
        if call_id is not None:
            self._unsent.add(call_id)
        self._wake()

    def _note_answer(self, request_id: Any) -> None:
        self._unsent.discard(request_id)
        self._wake()

    def _wake(self) -> None:
        if not (self._tasks or self._unsent or self._unparsed):
            self._ended.set()


class CallReadingStream(ObjectReceiveStream[Any]):
    """A stream of messages from a client that reports each, with the id of a call."""

    def __init__(self, stream: Any, on_message: Callable[[Any], None]) -> None:
        self._stream = stream
        self._on_message = on_message

    @property
    def last_context(self) -> Any:
        """The sender's context variables, which mcp asks of a stream that carries them."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Wait for the next message."""
        item = await self._stream.receive()
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCRequest) and message.method == "tools/call":
            self._on_message(message.id)
        else:
            self._on_message(None)
        return item

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


class AnsweringStream(ObjectSendStream[Any]):
    """A stream of messages to a client that reports each answer when it is sent."""

    def __init__(self, stream: Any, on_answer: Callable[[Any], None]) -> None:
        self._stream = stream
        self._on_answer = on_answer

    async def send(self, item: SessionMessage) -> None:
        """Send a message."""
        await self._stream.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._on_answer(item.message.id)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


def _error(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)
