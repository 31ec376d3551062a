"""MCP at both ends: tools of MCP servers are imported, and tools of a toolkit are served to MCP clients.

`client` connects to servers, `trust` checks what they send, `server` serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from ahvn_tools.lazy import lazy_names

if TYPE_CHECKING:
    from ahvn_tools.mcp.client.connect_options import ConnectOptions
    from ahvn_tools.mcp.client.remote_server import RemoteServer
    from ahvn_tools.mcp.trust.changes import Changes, compare
    from ahvn_tools.mcp.trust.limits import Budgets, Limits

__all__ = ["Budgets", "Changes", "Limits", "RemoteServer", "aconnect", "compare", "connect"]

__getattr__ = lazy_names(__name__, {
    "Budgets": ".trust.limits", "Changes": ".trust.changes", "Limits": ".trust.limits", "compare": ".trust.changes",
    "RemoteServer": ".client.remote_server",
})  # fmt: skip


def connect(server: Any, *, name: str | None = None, **options: Unpack[ConnectOptions]) -> RemoteServer:
    """Connect to an MCP server without a toolkit: `ToolSpec.from_server(mcp.connect("https://…/mcp"))`.

    `server` and the options are those of `Toolkit.add_mcp`; if an `mcp.json` has several servers, `name` chooses one.
    Close the result, or use it in a `with` block. Raises ToolConnectionError when the server cannot be reached,
    DefinitionError when `server` does not name one.
    """
    remote_server = _resolve_server(server, name, options)
    try:
        remote_server.refresh()
    except BaseException:
        remote_server.close()
        raise
    return remote_server


async def aconnect(server: Any, *, name: str | None = None, **options: Unpack[ConnectOptions]) -> RemoteServer:
    """Connect to an MCP server from async code, as `connect` does."""
    remote_server = _resolve_server(server, name, options)
    try:
        await remote_server.arefresh()
    except BaseException:
        await remote_server.aclose()
        raise
    return remote_server


def _resolve_server(server: Any, name: str | None, options: ConnectOptions) -> RemoteServer:
    from ahvn_tools.mcp.client.remote_server import resolve_server

    return resolve_server(server, name, options)
