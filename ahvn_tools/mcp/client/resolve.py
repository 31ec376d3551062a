"""The servers that an argument names, such as a URL, a command or an mcp.json, as RemoteServers."""

from __future__ import annotations

import importlib.util
from typing import Any

from ahvn_tools.errors import DefinitionError
from ahvn_tools.mcp.client.options import ConnectOptions, check_options, is_credentials_provider
from ahvn_tools.mcp.client.remote_server import RemoteServer
from ahvn_tools.mcp.client.targets import resolve_targets


def resolve_server(server: Any, name: str | None, options: ConnectOptions) -> RemoteServer:
    """Return the one server that `server` names. Raises DefinitionError."""
    servers = resolve_servers(server, None, options)
    if len(servers) == 1:
        return servers[0] if name is None else resolve_servers(server, name, options)[0]
    named = [one for one in servers if one.name == name]
    if len(named) != 1:
        raise DefinitionError(f"There are {len(servers)} servers: {[one.name for one in servers]}. Choose one: name=….")
    return named[0]


def resolve_servers(server: Any, name: str | None, options: ConnectOptions) -> list[RemoteServer]:
    """Return the servers that `server` names, none of them connected. Raises DefinitionError."""
    if importlib.util.find_spec("fastmcp") is None:
        raise ImportError('MCP servers need fastmcp: pip install "fastmcp>=4,<5"', name="fastmcp")
    check_options(options)
    auth = options.get("auth")
    targets = resolve_targets(
        server,
        name=name,
        auth=None if is_credentials_provider(auth) else auth,
        env=options.get("env"),
        inputs=options.get("inputs"),
        stderr=options.get("stderr"),
    )
    return [RemoteServer(target, **options) for target in targets]
