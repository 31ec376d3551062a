"""MCP clients: connections to servers, and functions that call their tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ahvn_tools import Limits, ToolResult, ToolSpec
from ahvn_tools.compat.agentscope.tool import ToolResponse, to_response
from ahvn_tools.errors import ToolError, ToolLookupError
from ahvn_tools.mcp import aconnect

if TYPE_CHECKING:
    from mcp.types import CallToolResult, Tool

    from ahvn_tools.mcp import RemoteServer

__all__ = [
    "HttpStatefulClient", "HttpStatelessClient", "MCPClientBase", "MCPToolFunction", "StatefulClientBase",
    "StdIOStatefulClient",
]  # fmt: skip

STDIO_TIMEOUT = 300.0
"""Seconds for a call of a tool whose function has no `execution_timeout`."""


@dataclass(frozen=True, eq=False)
class MCPToolFunction:
    """An async function that calls one tool of a server.

    A call raises ToolCallError if its server is not available, or does not get the call. The function of a stateful
    client works again when its client has connected again.
    """

    name: str
    description: str
    json_schema: dict[str, Any]
    """The function schema of OpenAI."""
    mcp_name: str
    """The name of the client."""
    client: MCPClientBase = field(repr=False)
    wrap_tool_result: bool = True
    execution_timeout: float | None = None
    """Seconds for a call."""

    async def __call__(self, /, **kwargs: Any) -> ToolResponse | CallToolResult:
        """Call the tool and return its answer, also that of a failed tool: its texts say what is wrong.

        The `meta` of its result is the metadata of the response. Without `wrap_tool_result`, MCP's result is returned,
        with its structured content and, for a failed tool, `is_error`.
        """
        sent = (await self._call(kwargs)).to_mcp()
        return to_response(sent) if self.wrap_tool_result else sent

    @property
    def body(self) -> Callable[..., Awaitable[ToolResponse | CallToolResult]]:
        """The function that a toolkit calls. A failed tool raises ToolError there, whose text is shown without presets.

        It is no method, because values of its object would be left out of that text, too.
        """

        async def call(**kwargs: Any) -> ToolResponse | CallToolResult:
            result = await self._call(kwargs)
            if self.wrap_tool_result and result.error is not None:
                raise ToolError(result.error.message, tool=self.name)
            return to_response(result.to_mcp()) if self.wrap_tool_result else result.to_mcp()

        return call

    async def _call(self, arguments: dict[str, Any]) -> ToolResult:
        result = await self.client.call_tool(self.name, arguments, self.execution_timeout)
        if result.exception is not None:
            raise result.exception
        return result


class MCPClientBase:
    """The tools of one MCP server, with one connection for each request. `name` identifies the server in a toolkit."""

    def __init__(self, name: str, server: Any, timeout: float, **options: Any) -> None:
        """`server` and `options` are those of `mcp.connect`; `timeout` is for a call without one."""
        self.name = name
        self._server = server
        self._timeout = timeout
        self._options = options
        self._tools: Mapping[str, Tool] = {}
        """The tools of the last listing."""

    @property
    def is_connected(self) -> bool:
        """Whether tools can be listed and called."""
        return True

    async def list_tools(self) -> list[Tool]:
        """List the tools of the server."""
        async with self._connection() as server:
            await server.arefresh()
            self._tools = server.tools
        return list(self._tools.values())

    async def get_callable_function(
        self, func_name: str, wrap_tool_result: bool = True, execution_timeout: float | None = None
    ) -> MCPToolFunction:
        """Return a function that calls a tool, for at most `execution_timeout` seconds.

        Its result is a ToolResponse; with `wrap_tool_result=False` the result of MCP. Raises ToolLookupError, a
        KeyError, for a tool that the server does not have.
        """
        if not self.is_connected or func_name not in self._tools:
            await self.list_tools()
        if func_name not in self._tools:
            raise ToolLookupError(f"The MCP server {self.name!r} has no tool {func_name!r}. Known: {[*self._tools]}.")
        tool = self._tools[func_name].model_copy(deep=True)
        function = {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema}
        return MCPToolFunction(
            tool.name, tool.description or "", {"type": "function", "function": function}, self.name, self,
            wrap_tool_result, execution_timeout,
        )  # fmt: skip

    async def call_tool(self, name: str, arguments: dict[str, Any], timeout: float | None = None) -> ToolResult:
        """Call a tool for at most `timeout` seconds. A failure of the call is a result, too."""
        async with self._connection() as server:
            tools = ToolSpec.from_server(server, timeout=timeout or self._timeout, names=[name])
            return await tools[name].aexec(**arguments)

    async def _connect(self) -> RemoteServer:
        return await aconnect(self._server, name=self.name, **self._options)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[RemoteServer]:
        async with await self._connect() as server:
            yield server


class StatefulClientBase(MCPClientBase):
    """A client with one connection from `connect` to `close`. A call opens a lost connection again.

    Several clients may be closed in any order, and each may connect again.
    """

    def __init__(self, name: str, server: Any, timeout: float, **options: Any) -> None:
        super().__init__(name, server, timeout, **options)
        self._connected: RemoteServer | None = None
        self._is_connecting = False

    @property
    def is_connected(self) -> bool:
        """Whether `connect` has succeeded, and `close` was not called."""
        return self._connected is not None

    async def connect(self) -> None:
        """Connect to the server. Raises ToolConnectionError if the server fails.

        Raises RuntimeError if this is connected, or is connecting in another task.
        """
        if self.is_connected:
            raise RuntimeError("The MCP client is already connected to the server. Use the `close()` method first.")
        if self._is_connecting:
            raise RuntimeError("The MCP client is already connecting to the server. Wait for that `connect()`.")
        self._is_connecting = True
        try:
            self._connected = await self._connect()
        finally:
            self._is_connecting = False

    async def close(self, ignore_errors: bool = True) -> None:  # noqa: ARG002  # there are none
        """Close the connection, and end a server process. Raises RuntimeError if this is not connected.

        `ignore_errors` changes nothing: no failure of a server is an error here.
        """
        async with self._connection() as server:
            self._connected = None
            await server.aclose()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[RemoteServer]:
        if self._connected is None:
            raise RuntimeError("The MCP client is not connected to the server. Use the `connect()` method first.")
        yield self._connected


class StdIOStatefulClient(StatefulClientBase):
    """A client of a server that is a process of this machine."""

    def __init__(  # noqa: PLR0917  # the parameters in their order
        self, name: str, command: str, args: list[str] | None = None, env: dict[str, str] | None = None,
        cwd: str | Path | None = None, encoding: str = "utf-8",
        encoding_error_handler: Literal["strict", "ignore", "replace"] = "strict",  # noqa: ARG002  # see the docstring
    ) -> None:  # fmt: skip
        """The process gets PATH, HOME and similar variables, and `env`.

        Raises ValueError for an `encoding` that is not UTF-8, which MCP demands. A line that is not UTF-8 is skipped
        with every `encoding_error_handler`.
        """
        from fastmcp.client.transports import StdioTransport

        if encoding.lower() not in {"utf-8", "utf8"}:
            raise ValueError(f"MCP messages over stdio are UTF-8, not {encoding!r}. Leave out `encoding`.")
        folder = None if cwd is None else str(cwd)
        super().__init__(name, StdioTransport(command, args or [], env=env, cwd=folder), STDIO_TIMEOUT)


class _HttpClient(MCPClientBase):
    """A client of a server with a URL."""

    def __init__(  # noqa: PLR0917  # the parameters in their order
        self, name: str, transport: Literal["sse", "streamable_http"], url: str, headers: dict[str, str] | None = None,
        timeout: float = 30, sse_read_timeout: float = 300, **kwargs: Any,
    ) -> None:  # fmt: skip
        """`timeout` is for connecting, and `sse_read_timeout` for a call, in seconds.

        `kwargs` are further options of `mcp.connect`, such as `auth`. Raises ValueError for another transport.
        """
        from fastmcp.client.transports import SSETransport, StreamableHttpTransport

        transports = {"sse": SSETransport, "streamable_http": StreamableHttpTransport}
        if transport not in transports:
            raise ValueError(f"`transport` is 'sse' or 'streamable_http', not {transport!r}.")
        server = transports[transport](url, headers=headers)
        super().__init__(name, server, sse_read_timeout, **{"limits": Limits(connect=timeout), **kwargs})


class HttpStatefulClient(_HttpClient, StatefulClientBase):
    """A client of a server with a URL, with one connection from `connect` to `close`."""


class HttpStatelessClient(_HttpClient):
    """A client of a server with a URL, with one connection for each request."""
