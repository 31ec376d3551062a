"""Incoming: answers before mcp reads them. What is too much or no JSON is refused, what is no tool is left out."""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import anyio
from mcp import ClientSession
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
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
from ahvn_tools.mcp.trust.limits import Limits, RateGuard

DEFAULT_PROTOCOL_VERSION = "2026-07-28"


def make_session_class(limits: Limits, on_connection_lost: Callable[[str], None] | None = None) -> type[GuardedSession]:
    """Return the class of sessions that keep to these limits. `lost` is told why one of them has ended."""
    return type(
        "GuardedSession",
        (GuardedSession,),
        {"limits": limits, "on_connection_lost": staticmethod(on_connection_lost or _ignore_reason)},
    )


def _ignore_reason(_reason: str) -> None:
    """Hear nothing."""


class GuardedSession(ClientSession):
    """A session that looks at each answer before it is read: mcp reads on the event loop, all of it at once."""

    limits = Limits()
    on_connection_lost: Callable[[str], None] = staticmethod(_ignore_reason)

    def __init__(self, read_stream: Any, write_stream: Any, *arguments: Any, **options: Any) -> None:
        """Take the streams of a transport that has messages, not one to a server object in this process."""
        self._guarded_stream = GuardedStream(read_stream, self.limits, self.on_connection_lost)
        super().__init__(self._guarded_stream, write_stream, *arguments, **options)

    async def list_tools(self, *, params: PaginatedRequestParams | None = None) -> ListToolsResult:
        """Ask for a page of tools. mcp refuses all of it for one that is no tool: then it is asked for once more."""
        try:
            return await super().list_tools(params=params)
        except ValidationError:
            self._guarded_stream.protocol_version = self.protocol_version or DEFAULT_PROTOCOL_VERSION
        return await super().list_tools(params=params)

    def take_malformed(self) -> list[Any]:
        """Return what came as tools since the last time and is none."""
        malformed, self._guarded_stream.malformed = self._guarded_stream.malformed, []
        return malformed


class GuardedStream:
    """A stream of messages, as mcp reads them, with the answers looked through."""

    def __init__(self, stream: Any, limits: Limits, on_connection_lost: Callable[[str], None] = _ignore_reason) -> None:
        self.malformed: list[Any] = []
        self.protocol_version: str | None = None
        """The version of the protocol by which tools are sorted out; None: they are taken to be tools."""
        self._stream = stream
        self._limits = limits
        self._on_connection_lost = on_connection_lost
        self._request_guard = RateGuard(limits.requests, "requests")

    @property
    def last_context(self) -> Any:
        """What mcp asks of a stream that carries its sender's context variables."""
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
            self._on_connection_lost(reason)
            raise StopAsyncIteration
        return self._check_response(item, message) if isinstance(message, JSONRPCResponse) else item

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        closed: bool | None = await self._stream.__aexit__(kind, error, traceback)
        return closed

    def _check_response(self, item: Any, message: JSONRPCResponse) -> Any:
        try:
            check_result(message.result, self._limits)
        except ToolCallError as error:
            return to_error_message(message.id, error)
        tools = message.result.get("tools")
        if self.protocol_version is not None and isinstance(tools, list):
            message.result["tools"] = [tool for tool in tools if self._is_tool(tool, message.result)]
        return item

    def _is_tool(self, tool: Any, page: dict[str, Any]) -> bool:
        try:
            validate_server_result(
                "tools/list", self.protocol_version or DEFAULT_PROTOCOL_VERSION, {**page, "tools": [tool]}
            )
        except ValueError:
            self.malformed.append(tool)
            return False
        return True


def to_error_message(identifier: Any, error: ToolCallError) -> SessionMessage:
    """Return what stands for an answer that is not passed on; `faults.read` finds the error in it."""
    told = ErrorData(code=INTERNAL_ERROR, message=error.message, data=error)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=identifier, error=told))


def check_result(result: dict[str, Any], limits: Limits) -> None:
    """Raise LimitExceededError for a result of too many parts, InvalidResultError for one with a NaN or an Infinity."""
    tools, content = result.get("tools"), result.get("content")
    if isinstance(tools, list) and len(tools) > limits.tools_per_page:
        raise LimitExceededError(f"The server lists more than {limits.tools_per_page} tools on one page.")
    if isinstance(content, list) and len(content) > limits.blocks:
        raise LimitExceededError(f"The server answered with more than {limits.blocks} blocks of content.")
    for block in content if isinstance(content, list) else ():
        _check_media(block)
    left = limits.values_per_message
    waiting: list[Any] = [result]
    while waiting:
        value = waiting.pop()
        if isinstance(value, float):
            if not math.isfinite(value):
                raise InvalidResultError("The server's answer holds NaN or Infinity, which are no JSON numbers.")
        elif isinstance(value, dict | list):
            left -= len(value)
            if left < 0:
                raise LimitExceededError(f"The server's answer has more than {limits.values_per_message} values.")
            waiting.extend(value.values() if isinstance(value, dict) else value)


def _check_media(block: Any) -> None:
    """Raise InvalidResultError for bytes that are no base64, and for a type of media that hides something."""
    if not isinstance(block, dict):
        return
    resource = block.get("resource")
    inner = resource if isinstance(resource, dict) else block
    data, kind = inner.get("blob", block.get("data")), inner.get("mimeType")
    if isinstance(kind, str) and not (kind.isascii() and kind.isprintable()):
        raise InvalidResultError("The server's answer holds media of a type that cannot be shown.")
    if isinstance(data, str):
        try:
            binascii.a2b_base64("".join(data.split()), strict_mode=True)
        except ValueError:
            raise InvalidResultError("The server's answer holds media that are no base64.") from None
