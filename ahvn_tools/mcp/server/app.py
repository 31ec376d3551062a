"""The FastMCP server of some served tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastmcp import FastMCP
from fastmcp.tools import Tool
from fastmcp.utilities.versions import VersionSpec

from ahvn_tools.mcp.server.provider import ServedTools, ServedToolsProvider, install_schema_lookup
from ahvn_tools.mcp.server.subscriptions import enable_subscriptions


def build_server(served_tools: ServedTools, name: str, **options: Any) -> FastMCP:
    """Return a FastMCP server of some tools; `options` are those of FastMCP."""
    provider = ServedToolsProvider(served_tools)
    server = _Server(name, **{"dereference_schemas": False, "mask_error_details": True, **options})
    server.served_tools_provider = provider
    install_schema_lookup(server, provider)
    server.close_subscriptions = enable_subscriptions(server, served_tools.get_revision)
    return server


class _Server(FastMCP):
    """Asks the served tools first, then FastMCP's providers for what the host added to the server.

    A served tool hides others of its name. If the served tools cannot be listed, that is an error; FastMCP ignores a
    provider that fails.
    """

    served_tools_provider: ServedToolsProvider
    close_subscriptions: Callable[[], None]
    """Ends the streams of subscribed clients, which would delay the end of a server over HTTP."""

    async def _list_tools(self) -> Sequence[Tool]:
        served = await self.served_tools_provider.list_tools()
        names = {tool.name for tool in served}
        return [*served, *(tool for tool in await super()._list_tools() if tool.name not in names)]

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        served = await self.served_tools_provider.get_tool(name, version)
        return await super()._get_tool(name, version) if served is None else served
