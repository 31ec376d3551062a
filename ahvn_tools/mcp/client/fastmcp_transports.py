"""FastMCP's transport objects as servers to connect to: what they say of their server, for our own transports."""

from __future__ import annotations

from typing import Any

from fastmcp.client.transports import (
    ClientTransport,
    FastMCPTransport,
    SSETransport,
    StdioTransport,
    StreamableHttpTransport,
)
from fastmcp.client.transports.config import MCPConfigTransport

from ahvn_tools.errors import DefinitionError
from ahvn_tools.mcp.client.fastmcp_clients import get_client_config
from ahvn_tools.mcp.client.mcp_config import ServerEntry

_TRUST_ADVICE = "or, if you trust the server with messages of any size, pass fastmcp.Client(transport)"


def read_transport(server: Any) -> Any:
    """Return what a transport object connects to: a ServerEntry, a server object, or a configuration.

    Returns None for an object that is no transport. Raises DefinitionError for a transport whose messages cannot be
    limited.
    """
    if not isinstance(server, ClientTransport):
        return None
    if _is_kind(server, StdioTransport):
        return _read_stdio_transport(server)
    if _is_kind(server, StreamableHttpTransport) or _is_kind(server, SSETransport):
        return _read_http_transport(server)
    if _is_kind(server, FastMCPTransport):
        return _server_of(server)
    kind = type(server).__name__
    if isinstance(server, MCPConfigTransport):
        if (config := get_client_config(server)) is not None:
            return config
        raise DefinitionError(
            f"The configuration of a {kind} changes tools, so that the messages of its servers cannot be limited: "
            f"use `include`, `exclude`, `describe` and `arguments` instead, {_TRUST_ADVICE}."
        )
    raise DefinitionError(
        f"A {kind} connects by its own code, so that the messages of its server cannot be limited: pass a URL, a "
        f"command, or a transport class of FastMCP, {_TRUST_ADVICE}."
    )


def _is_kind(transport: Any, kind: type[ClientTransport]) -> bool:
    """Return whether a transport connects as this class of FastMCP does; a subclass may only choose the server."""
    return isinstance(transport, kind) and type(transport).connect_session is kind.connect_session


def _read_stdio_transport(transport: Any) -> ServerEntry:
    command = (transport.command, *transport.args)
    return ServerEntry(command=command, env=transport.env or {}, cwd=transport.cwd, log_file=transport.log_file)


def _server_of(transport: Any) -> Any:
    return transport.server


def _read_http_transport(transport: Any) -> ServerEntry:
    if transport.httpx_client_factory is not None:
        raise DefinitionError(
            f"A {type(transport).__name__} with an `httpx_client_factory` makes its own HTTP clients, so that the "
            f"messages of its server cannot be limited: use `headers`, `auth` and `verify` instead, {_TRUST_ADVICE}."
        )
    return ServerEntry(
        url=transport.url,
        headers=transport.headers,
        auth=transport.auth,
        transport="sse" if isinstance(transport, SSETransport) else "http",
        verify=transport.verify,
    )
