"""ASGI middleware: it refuses requests that FastMCP or mcp would mishandle, and ends streams with the server."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

INVALID_REQUEST: Final = -32600
"""JSON-RPC's error code."""

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a request that mcp reads. It refuses a longer one, which is passed on unread."""

_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/?#@\[\]]*)(:[0-9]{0,5})?")
"""A name or an address, and a port: RFC 3986, section 3.2. FastMCP compares only what precedes the first colon."""


_SINGLE_HEADERS: Final = frozenset({
    "authorization",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "origin",
})  # fmt: skip
"""The headers that decide how a request is served, and have one value."""


class HeaderGuard:
    """Answers a request with a repeated header, or whose `Host` is not a host and a port, with the status 400.

    Whoever checks a header reads the first of two, and a proxy may have read the last one. FastMCP 4 takes
    `localhost:80.evil.example` for localhost, and an empty `Origin` for none.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        problem = _find_problem(Headers(scope=scope)) if scope["type"] == "http" else None
        app = self._app if problem is None else PlainTextResponse(problem, 400)
        await app(scope, receive, send)


def _find_problem(headers: Headers) -> str | None:
    names = [name for name in headers if name in _SINGLE_HEADERS]
    if len(names) > len(set(names)):
        repeated = next(name for name in names if names.count(name) > 1)
        return f"Repeated {repeated} header"
    if not _HOST.fullmatch(headers.get("host", "")):
        return "Invalid Host header"
    return "Invalid Origin header" if not headers.get("origin", "-").strip() else None


class UniqueRequestIdGuard:
    """Answers a request with the ID of one that is still running in its session with the status 400.

    In the protocol versions with sessions, mcp 2 would never answer the first of them.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        session_id = Headers(scope=scope).get("mcp-session-id") if is_post else None
        if session_id is None:
            await self._app(scope, receive, send)
            return
        messages = await _receive_body(receive)

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        request_id = _find_request_id(b"".join(message.get("body", b"") for message in messages))
        key = (session_id, str(request_id))  # mcp finds the answer's stream by this text
        if request_id is None:
            await self._app(scope, replay, send)
        elif key in self._running:
            error = {"code": INVALID_REQUEST, "message": "A request with this ID is running."}
            await JSONResponse({"jsonrpc": "2.0", "id": request_id, "error": error}, 400)(scope, replay, send)
        else:
            self._running.add(key)
            try:
                await self._app(scope, replay, send)
            finally:
                self._running.discard(key)


class ListeningStreamEnd:
    """Ends the streams on which clients of older protocols listen for messages, as if the clients had left.

    sse-starlette would end each stream instead, also that of a call.
    """

    def __init__(self, app: ASGIApp, are_closed: asyncio.Event) -> None:
        self._app = app
        self._are_closed = are_closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""

        async def receive_until_closed() -> Message:
            received = asyncio.ensure_future(receive())
            closed = asyncio.ensure_future(self._are_closed.wait())
            try:
                await asyncio.wait({received, closed}, return_when=asyncio.FIRST_COMPLETED)
                return received.result() if received.done() else {"type": "http.disconnect"}
            finally:
                received.cancel()
                closed.cancel()

        is_listening = scope["type"] == "http" and scope["method"] == "GET"
        await self._app(scope, receive_until_closed if is_listening else receive, send)


async def _receive_body(receive: Receive) -> list[Message]:
    """Return the messages of a request's body, or the first ones of a body that is too long."""
    messages, size = [await receive()], 0
    while messages[-1]["type"] == "http.request" and messages[-1].get("more_body", False) and size <= MAX_BODY_BYTES:
        size += len(messages[-1].get("body", b""))
        messages.append(await receive())
    return messages


def _find_request_id(body: bytes) -> Any:
    """Return the ID of a JSON-RPC request; None for another message."""
    try:
        message = from_json(body)
    except ValueError:  # mcp refuses it
        return None
    return message.get("id") if isinstance(message, dict) and "method" in message else None
