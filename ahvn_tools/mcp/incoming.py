"""Incoming: answers before mcp reads them. What is too much or no JSON is refused, what is no tool is left out."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Any, Self

from mcp import ClientSession
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCResponse, ListToolsResult, PaginatedRequestParams
from mcp_types.methods import validate_server_result
from pydantic_core import ValidationError

from ahvn_tools.errors import InvalidResultError, LimitExceededError, ToolCallError
from ahvn_tools.mcp.limits import Limits

MODERN = "2026-07-28"


def session_class(limits: Limits) -> type[Guarded]:
    """Return the class of sessions that keep to these limits."""
    return type("Guarded", (Guarded,), {"limits": limits})


class Guarded(ClientSession):
    """A session that looks at each answer before it is read: mcp reads on the event loop, all of it at once."""

    limits = Limits()

    def __init__(self, read_stream: Any = None, write_stream: Any = None, *arguments: Any, **options: Any) -> None:
        """`read_stream` is None for a server in this process, whose answers are no messages."""
        self._incoming = None if read_stream is None else Incoming(read_stream, self.limits)
        super().__init__(self._incoming, write_stream, *arguments, **options)

    async def list_tools(self, *, params: PaginatedRequestParams | None = None) -> ListToolsResult:
        """Ask for a page of tools. mcp refuses all of it for one that is no tool: then it is asked for once more."""
        try:
            return await super().list_tools(params=params)
        except ValidationError:
            if self._incoming is None or self._incoming.version is not None:
                raise
            self._incoming.version = self.protocol_version or MODERN
        return await super().list_tools(params=params)

    def malformed(self) -> list[Any]:
        """Return what came as tools since the last time and is none."""
        if self._incoming is None:
            return []
        malformed, self._incoming.malformed = self._incoming.malformed, []
        return malformed


class Incoming:
    """A stream of messages, as mcp reads them, with the answers looked through."""

    def __init__(self, stream: Any, limits: Limits) -> None:
        self.malformed: list[Any] = []
        self.version: str | None = None
        """The version of the protocol by which tools are sorted out; None: they are taken to be tools."""
        self._stream = stream
        self._limits = limits

    @property
    def last_context(self) -> Any:
        """What mcp asks of a stream that carries its sender's context variables."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Wait for the next message."""
        return self._passed(await self._stream.receive())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return self._passed(await self._stream.__anext__())

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        closed: bool | None = await self._stream.__aexit__(kind, error, traceback)
        return closed

    def _passed(self, item: Any) -> Any:
        message = getattr(item, "message", None)
        if not isinstance(message, JSONRPCResponse):
            return item
        try:
            check(message.result, self._limits)
        except ToolCallError as error:
            return refusal(message.id, error)
        tools = message.result.get("tools")
        if self.version is not None and isinstance(tools, list):
            message.result["tools"] = [tool for tool in tools if self._is_tool(tool, message.result)]
        return item

    def _is_tool(self, tool: Any, page: dict[str, Any]) -> bool:
        try:
            validate_server_result("tools/list", self.version or MODERN, {**page, "tools": [tool]})
        except ValueError:
            self.malformed.append(tool)
            return False
        return True


def refusal(identifier: Any, error: ToolCallError) -> SessionMessage:
    """Return what stands for an answer that is not passed on; `faults.read` finds the error in it."""
    told = ErrorData(code=INTERNAL_ERROR, message=error.message, data=error)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=identifier, error=told))


def check(result: dict[str, Any], limits: Limits) -> None:
    """Raise LimitExceededError for a result of too many parts, InvalidResultError for one with a NaN or an Infinity."""
    tools, content = result.get("tools"), result.get("content")
    if isinstance(tools, list) and len(tools) > limits.page:
        raise LimitExceededError(f"The server lists more than {limits.page} tools on one page.")
    if isinstance(content, list) and len(content) > limits.blocks:
        raise LimitExceededError(f"The server answered with more than {limits.blocks} blocks of content.")
    left = limits.values
    waiting: list[Any] = [result]
    while waiting:
        value = waiting.pop()
        if isinstance(value, float):
            if not math.isfinite(value):
                raise InvalidResultError("The server's answer holds NaN or Infinity, which are no JSON numbers.")
        elif isinstance(value, dict | list):
            left -= len(value)
            if left < 0:
                raise LimitExceededError(f"The server's answer has more than {limits.values} values.")
            waiting.extend(value.values() if isinstance(value, dict) else value)
