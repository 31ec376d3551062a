"""MCP at both ends: tools of any server come in, tools of a toolkit go out to any client.

In: `servers` reads what a server is, `connection` and `pool` own the connections, `screening`, `pins` and `changes`
look at what it tells, `imported` is the server as a source of tools.
Out: the folder `out`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    from ahvn_tools.mcp.client.remote_server import ConnectOptions, RemoteServer


def connect(server: Any, *, name: str | None = None, **options: Unpack[ConnectOptions]) -> RemoteServer:
    """Connect to an MCP server without a toolkit: `ToolSpec.from_server(mcp.connect("https://…/mcp"))`.

    `server` is what `Toolkit.add_mcp` takes; of several in an `mcp.json`, `name` chooses one. Close it, or use it in a
    `with` block. Raises ToolConnectionError when it cannot be reached, DefinitionError for what is no server.
    """
    made = _resolve_server(server, name, options)
    made.refresh()
    return made


async def aconnect(server: Any, *, name: str | None = None, **options: Unpack[ConnectOptions]) -> RemoteServer:
    """Connect to an MCP server from async code, as `connect` does."""
    made = _resolve_server(server, name, options)
    await made.arefresh()
    return made


def _resolve_server(server: Any, name: str | None, options: ConnectOptions) -> RemoteServer:
    from ahvn_tools.mcp.client.remote_server import resolve_server

    return resolve_server(server, name, options)
