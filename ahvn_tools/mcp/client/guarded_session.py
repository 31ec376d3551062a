"""A session that checks each answer before mcp parses it: limits, valid JSON and media, malformed tools left out."""

from __future__ import annotations

import binascii
import math
from types import TracebackType
from typing import Any, Self

import anyio
from mcp import ClientSession
from mcp.shared.message import SessionMessage
from mcp_types import (
    LATEST_PROTOCOL_VERSION,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    ListToolsResult,
    PaginatedRequestParams,
)
from mcp_types.methods import validate_server_result
from pydantic_core import ValidationError

from ahvn_tools.errors import InvalidResultError, LimitExceededError, ToolCallError
from ahvn_tools.mcp.client.errors import INTERNAL_ERROR
from ahvn_tools.mcp.client.handlers import Handlers
from ahvn_tools.mcp.trust.limits import Limits, RateGuard


def make_session_class(limits: Limits, handlers: Handlers) -> type[ClientSession]:
    """Return a session class with these limits: FastMCP takes a class, and makes the session itself."""

    class LimitedSession(GuardedSession):
        def __init__(self, read_stream: Any, *arguments: Any, **options: Any) -> None:
            super().__init__(GuardedStream(read_stream, limits, handlers), *arguments, **options)

    return LimitedSession


class GuardedSession(ClientSession):
    """A session that reads from a GuardedStream; mcp parses answers on the event loop, however large they are."""

    def __init__(self, guarded_stream: GuardedStream, *arguments: Any, **options: Any) -> None:
        self._guarded_stream = guarded_stream
        super().__init__(guarded_stream, *arguments, **options)

    async def list_tools(self, *, params: PaginatedRequestParams | None = None) -> ListToolsResult:
        """Request a page of tools; once more, without malformed ones, if mcp refuses the page because of them."""
        try:
            return await super().list_tools(params=params)
        except ValidationError:
            self._guarded_stream.protocol_version = self.protocol_version or LATEST_PROTOCOL_VERSION
        return await super().list_tools(params=params)


class GuardedStream:
    """A stream of messages for mcp, in which answers are checked and requests counted."""

    def __init__(self, stream: Any, limits: Limits, handlers: Handlers) -> None:
        self.protocol_version: str | None = None
        """The protocol version by which malformed tools are recognized; None: they are not looked for."""
        self._stream = stream
        self._limits = limits
        self._handlers = handlers
        self._request_guard = RateGuard(limits.requests, "requests")

    @property
    def last_context(self) -> Any:
        """The sender's context variables, which mcp asks of a stream that carries them."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Wait for the next message."""
        try:
            return await anext(self)
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        item = await self._stream.__anext__()
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCRequest) and (reason := self._request_guard.count_message()) is not None:
            if self._handlers.on_connection_lost is not None:  # pragma: no branch  # a session always has it
                self._handlers.on_connection_lost(reason)
            raise StopAsyncIteration
        return self._check_response(item, message) if isinstance(message, JSONRPCResponse) else item

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        suppresses: bool | None = await self._stream.__aexit__(kind, error, traceback)
        return suppresses

    def _check_response(self, item: Any, message: JSONRPCResponse) -> Any:
        try:
            check_result(message.result, self._limits)
        except ToolCallError as error:  # `errors.to_call_error` reads it from `data`
            details = ErrorData(code=INTERNAL_ERROR, message=error.message, data=error)
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=details))
        tools = message.result.get("tools")
        if self.protocol_version is not None and isinstance(tools, list):
            message.result["tools"] = [tool for tool in tools if self._is_tool(tool, message.result)]
        return item

    def _is_tool(self, tool: Any, page: dict[str, Any]) -> bool:
        version = self.protocol_version or LATEST_PROTOCOL_VERSION
        try:
            validate_server_result("tools/list", version, {**page, "tools": [tool]})
        except ValueError:
            self._handlers.status.malformed_tools.append(tool)
            return False
        return True


def check_result(result: dict[str, Any], limits: Limits) -> None:
    """Raise LimitExceededError for a result with too many parts, InvalidResultError for invalid numbers or media."""
    tools, content = result.get("tools"), result.get("content")
    if isinstance(tools, list) and len(tools) > limits.tools_per_page:
        raise LimitExceededError(f"The server lists more than {limits.tools_per_page} tools on one page.")
    if isinstance(content, list):
        if len(content) > limits.blocks:
            raise LimitExceededError(f"The server answered with more than {limits.blocks} blocks of content.")
        for block in content:
            _check_media(block)
    left = limits.values_per_message
    pending: list[Any] = [result]
    while pending:
        value = pending.pop()
        if isinstance(value, float):
            if not math.isfinite(value):
                raise InvalidResultError("The server's answer contains NaN or Infinity, which are not JSON numbers.")
        elif isinstance(value, dict | list):
            left -= len(value)
            if left < 0:
                raise LimitExceededError(f"The server's answer has more than {limits.values_per_message} values.")
            pending.extend(value.values() if isinstance(value, dict) else value)


def _check_media(block: Any) -> None:
    """Raise InvalidResultError for data that is not base64, and for an unprintable media type."""
    if not isinstance(block, dict):
        return
    resource = block.get("resource")
    inner = resource if isinstance(resource, dict) else block
    data, kind = inner.get("blob", block.get("data")), inner.get("mimeType")
    if isinstance(kind, str) and not (kind.isascii() and kind.isprintable()):
        raise InvalidResultError("The server's answer contains media of an unprintable type.")
    if isinstance(data, str):
        try:
            binascii.a2b_base64("".join(data.split()), strict_mode=True)
        except ValueError:
            raise InvalidResultError("The server's answer contains media that are not base64.") from None
