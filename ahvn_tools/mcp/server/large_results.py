"""Large results over HTTP: encoded in a thread and sent in pieces, because mcp would block the event loop with them.

FastMCP and mcp see a placeholder in place of the large parts, which `LargeResultSender` replaces in the response.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from mcp_types import CallToolRequestParams, CallToolResult, TextContent
from pydantic_core import to_json
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ahvn_tools.errors import LimitExceededError
from ahvn_tools.execution.pipeline import MAX_CHARS_ON_LOOP
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.json_types import exceeds_size

MAX_WAITING_BYTES: Final = 128 * 1024 * 1024
"""Bytes of large results that may wait for one client to read them. One result alone may be larger."""

STALL_SECONDS: Final = 60.0
"""Seconds without any progress after which a client that does not read is disconnected."""

_SCOPE_KEY: Final = "ahvn_tools.large_parts"
_SENT_BYTES: Final = 256 * 1024

CallToolHandler = Callable[[Any, CallToolRequestParams], Awaitable[Any]]


class LargeParts:
    """The encoded large parts of one response, by the bytes of their placeholders."""

    def __init__(self, client: str, waiting: Counter[str]) -> None:
        self._client = client
        self._waiting = waiting
        self._pieces: dict[bytes, list[bytes]] = {}
        self._size = 0
        self._is_closed = False

    def __bool__(self) -> bool:
        return bool(self._pieces)

    async def replace(self, result: CallToolResult) -> CallToolResult:
        """Return a result whose large parts are placeholders. Raises LimitExceededError if too much waits already."""
        replaced: dict[str, Any] = {}
        if exceeds_size(result.structured_content, MAX_CHARS_ON_LOOP):
            name = secrets.token_hex(16)
            replaced["structured_content"] = {name: 0}
            await self._add(f'{{"{name}":0}}', result.structured_content)
        content = list(result.content)
        for index, block in enumerate(content):
            for owner, field in _text_fields(block):
                if len(getattr(owner, field)) <= MAX_CHARS_ON_LOOP:
                    continue
                name = secrets.token_hex(16)
                await self._add(f'"{name}"', getattr(owner, field))
                copy = owner.model_copy(update={field: name})
                content[index] = copy if owner is block else block.model_copy(update={"resource": copy})
        if content != result.content:
            replaced["content"] = content
        return result.model_copy(update=replaced) if replaced else result

    async def _add(self, placeholder: str, value: Any) -> None:
        pieces = (await run_in_thread(lambda _: encode(value))).get()
        if self._is_closed:
            return
        size = sum(map(len, pieces))
        waiting = self._waiting[self._client]
        is_alone = waiting == self._size
        if not is_alone and waiting + size > MAX_WAITING_BYTES:
            raise LimitExceededError("Too many results wait for this client to read them. Read them, then call again.")
        self._waiting[self._client] += size
        self._size += size
        self._pieces[placeholder.encode()] = pieces

    def split(self, body: bytes) -> Iterator[bytes]:
        """Yield a body in pieces, its placeholders replaced."""
        for placeholder, pieces in self._pieces.items():
            before, found, after = body.partition(placeholder)
            if found:
                yield from self.split(before)
                while pieces:
                    yield pieces.pop(0)
                yield from self.split(after)
                return
        yield body

    def close(self) -> None:
        """Count these parts as read. No response contains a part that is added later: its client has disconnected."""
        self._is_closed = True
        self._waiting[self._client] -= self._size
        if not self._waiting[self._client]:
            del self._waiting[self._client]


class LargeResultSender:
    """Sends large results in pieces, each of them when the client has read enough of the one before."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._waiting: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = scope.get("client") or ("",)
        parts = scope[_SCOPE_KEY] = LargeParts(client[0], self._waiting)
        lock = asyncio.Lock()

        async def send_alone(message: Message) -> None:
            async with lock:  # sse-starlette sends pings at any time
                await send_parts(message)

        async def send_parts(message: Message) -> None:
            if not parts:
                await send(message)
            elif message["type"] == "http.response.start":
                headers = [(name, value) for name, value in message["headers"] if name.lower() != b"content-length"]
                await send({**message, "headers": headers})
            else:
                for piece in parts.split(message.get("body", b"")):
                    await _send_piece(send, {**message, "body": piece, "more_body": True})
                await send({**message, "body": b""})

        try:
            await self._app(scope, receive, send_alone)
        finally:
            parts.close()


async def _send_piece(send: Send, message: Message) -> None:
    try:
        await asyncio.wait_for(send(message), STALL_SECONDS)
    except TimeoutError:
        raise OSError("The client does not read its response.") from None
    await asyncio.sleep(0)  # `send` waits only when its buffer is full


def wrap_handler(handler: CallToolHandler) -> CallToolHandler:
    """Return a handler of `tools/call` whose large results are sent in pieces, over HTTP."""

    async def call_tool(context: Any, params: CallToolRequestParams) -> Any:
        result = await handler(context, params)
        request = getattr(context, "request", None)
        parts: LargeParts | None = None if request is None else request.scope.get(_SCOPE_KEY)
        if parts is None or not isinstance(result, CallToolResult):
            return result
        try:
            return await parts.replace(result)
        except LimitExceededError as error:
            return CallToolResult(content=[TextContent(type="text", text=error.message)], is_error=True)

    return call_tool


def _text_fields(block: Any) -> Iterator[tuple[Any, str]]:
    """Yield the objects of a content block, and their fields, that may contain a long text."""
    for owner in (block, getattr(block, "resource", None)):
        for field in ("text", "data", "blob"):
            if isinstance(getattr(owner, field, None), str):
                yield owner, field


def encode(value: Any) -> list[bytes]:
    """Return the JSON of a value in pieces."""
    data = to_json(value)
    return [data[start : start + _SENT_BYTES] for start in range(0, len(data), _SENT_BYTES)]
