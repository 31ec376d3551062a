"""FastMCP clients for our connections: new ones for each server, with sessions that are guarded and do not log."""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from fastmcp import Client
from fastmcp.client.auth import BearerAuth
from fastmcp.client.elicitation import create_elicitation_callback
from fastmcp.client.transports import (
    ClientTransport,
    FastMCPTransport,
    SSETransport,
    StdioTransport,
    StreamableHttpTransport,
)
from fastmcp.client.transports.base import TransportOptions
from fastmcp.client.transports.config import MCPConfigTransport
from mcp import ClientSession
from mcp_types import Implementation

from ahvn_tools.errors import DefinitionError
from ahvn_tools.mcp.client.client_settings import ClientSettings
from ahvn_tools.mcp.client.guarded_session import make_session_class
from ahvn_tools.mcp.client.http import BoundedHTTPFactory, ObservedAuth
from ahvn_tools.mcp.client.mcp_config import ServerEntry
from ahvn_tools.mcp.client.stdio import BoundedStdioTransport
from ahvn_tools.redaction.names import is_secret_name
from ahvn_tools.redaction.texts import SecretTexts
from ahvn_tools.version import __version__

FASTMCP_TIMEOUT = 86_400.0  # seconds; a connection has its own timeouts, and a shorter one here would end long calls

_TRANSFORM_KEYS = frozenset({"tools", "include_tags", "exclude_tags"})
"""What an entry of FastMCP's configuration changes in the tools behind it."""


class ObservedTransport(ClientTransport):
    """A transport whose sessions report to the settings' functions, are limited, and forward questions by default."""

    def __init__(self, inner: ClientTransport, settings: ClientSettings, *, is_own_client: bool = True) -> None:
        """The client of a caller (not `is_own_client`) still logs as it is configured to."""
        self.inner = inner
        self.legacy_only = inner.legacy_only
        self._settings = settings
        self._is_own_client = is_own_client

    @contextlib.asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Any
    ) -> AsyncIterator[ClientSession]:
        """Yield a session of the inner transport."""
        fastmcp_handler = session_kwargs.get("message_handler")

        async def handle_message(message: Any) -> None:
            self._settings.on_message(message)
            if fastmcp_handler is not None:
                await fastmcp_handler(message)

        session_kwargs["message_handler"] = handle_message
        requests = self._settings.requests
        session_kwargs.setdefault("elicitation_callback", requests.elicit)
        if self._settings.samples_from_client and session_kwargs.get("sampling_callback") is None:
            session_kwargs["sampling_callback"] = requests.sample
        if self._settings.get_roots() is not None and session_kwargs.get("list_roots_callback") is None:
            session_kwargs["list_roots_callback"] = requests.list_roots
        if self._is_own_client:
            session_kwargs.update(logging_callback=requests.log, log_level=None)
        if isinstance(self.inner, BoundedStdioTransport | StreamableHttpTransport | SSETransport):
            session_class = make_session_class(self._settings)
            transport_options = replace(transport_options or TransportOptions(), session_class=session_class)
        if transport_options is not None:
            session_kwargs["transport_options"] = transport_options  # not every transport takes it
        async with self.inner.connect_session(**session_kwargs) as session:
            yield session

    async def close(self) -> None:
        """Close the inner transport."""
        await self.inner.close()  # type: ignore[no-untyped-call]

    def get_session_id(self) -> str | None:
        """Return the inner transport's session id."""
        return self.inner.get_session_id()


class _Client(Client[Any]):
    """A client that announces tasks only if its settings say so; FastMCP decides by what was imported."""

    _auto_internal_extensions = False


def make_client(transport: ClientTransport, settings: ClientSettings) -> Client[Any]:
    """Return a client with a new transport."""
    return _Client(
        ObservedTransport(transport, settings),
        elicitation_handler=settings.elicitation,
        sampling_handler=settings.sampling,
        timeout=FASTMCP_TIMEOUT,
        init_timeout=FASTMCP_TIMEOUT,
        extensions=_make_extensions(settings),
        mode=settings.mode,
        client_info=Implementation(name="ahvn-tools", version=__version__),
    )


def _make_extensions(settings: ClientSettings) -> list[Any]:
    if not settings.tasks:
        return []
    from ahvn_tools.mcp.client.tasks import Tasks  # it needs an extra

    callback: Any = settings.requests.elicit
    if settings.elicitation is not None:
        callback = create_elicitation_callback(settings.elicitation)
    return [Tasks(callback)]


def make_stdio_transport(
    command: Sequence[str],
    settings: ClientSettings,
    *,
    env: Mapping[str, str] | None,
    cwd: str | Path | None,
    log_file: Path | TextIO | None,
) -> ClientTransport:
    """Return a transport that starts a server process. Its stderr is appended to `log_file`, by default to ours."""
    if sys.platform == "win32":  # pragma: no cover  # it has no process groups; mcp's own transport uses job objects
        folder = str(cwd) if cwd else None
        return StdioTransport(
            command[0], list(command[1:]), env=dict(env or {}), cwd=folder, keep_alive=False, log_file=log_file
        )
    return BoundedStdioTransport(command, settings, env=env, cwd=cwd, log_file=log_file)


def make_http_client(
    url: str, settings: ClientSettings, *, headers: Mapping[str, str], auth: Any, is_sse: bool, verify: Any = None
) -> Client[Any]:
    """Return a client of a server over HTTP; `verify` is httpx2's, for the server's certificate."""
    factory = BoundedHTTPFactory(settings, verify, has_sessions=not is_sse)
    kind = SSETransport if is_sse else StreamableHttpTransport
    transport = kind(url, headers=dict(headers), auth=auth, httpx_client_factory=factory)
    if isinstance(transport, StreamableHttpTransport):
        transport.max_sse_event_size = None  # the factory's clients limit each message
    return make_client(transport, settings)


def clone(client: Client[Any], settings: ClientSettings) -> Client[Any]:
    """Return an independent client with the configuration of another one; `settings` have priority."""
    new = client.new()
    if settings.elicitation is not None:
        new.set_elicitation_callback(settings.elicitation)
    if settings.sampling is not None:
        new.set_sampling_callback(settings.sampling)
    inner = new.transport
    if isinstance(inner, MCPConfigTransport):
        return new  # FastMCP asks for exactly this type
    if isinstance(inner, StdioTransport):
        add_credentials(inner, settings.secrets)
        command = (inner.command, *inner.args)
        inner = make_stdio_transport(command, settings, env=inner.env, cwd=inner.cwd, log_file=inner.log_file)
    elif isinstance(inner, StreamableHttpTransport | SSETransport):
        inner = copy.copy(inner)
        inner.headers = {name.lower(): value for name, value in {**inner.headers, **settings.headers}.items()}
        if "authorization" in map(str.lower, settings.headers):
            inner.auth = None  # the client's own token would overwrite the call's
        add_credentials(inner, settings.secrets)
        inner.auth = None if inner.auth is None else ObservedAuth(inner.auth, settings.secrets)
    new.transport = ObservedTransport(inner, settings, is_own_client=False)
    return new


def add_credentials(transport: Any, secrets: SecretTexts) -> None:
    """Add the credentials that a transport names; those of a login are known when they are sent."""
    if isinstance(transport, StdioTransport):
        secrets.add_command((transport.command, *transport.args))
        secrets.add_variables(transport.env or {})
    elif isinstance(transport, StreamableHttpTransport | SSETransport):
        secrets.add_url(transport.url)
        for name, value in transport.headers.items():
            secrets.add_header(name, value, only_in_errors=not is_secret_name(name))
        if isinstance(transport.auth, BearerAuth):
            secrets.add(transport.auth.token.get_secret_value())


def get_client_config(client: Any) -> dict[str, Any] | None:
    """Return the configuration of a client or transport; None where there is none, or where it changes the tools."""
    transport = client.transport if isinstance(client, Client) else client
    if not isinstance(transport, MCPConfigTransport):
        return None
    config: dict[str, Any] = transport.config.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    is_plain = all(_TRANSFORM_KEYS.isdisjoint(entry) for entry in config.get("mcpServers", {}).values())
    return config if is_plain else None


def get_location(client: Client[Any]) -> str | list[str] | None:
    """Return the URL of a client's server, or its command; None where FastMCP knows neither."""
    inner = client.transport
    if isinstance(inner, StreamableHttpTransport | SSETransport):
        return inner.url
    return [inner.command, *inner.args] if isinstance(inner, StdioTransport) else None


_TRUST_ADVICE = "or, if you trust the server with messages of any size, pass fastmcp.Client(transport)"


def read_transport(server: Any) -> Any:
    """Return what a transport object connects to: a ServerEntry, a server object, or a configuration.

    Returns None for an object that is no transport. Raises DefinitionError for a transport whose messages cannot be
    limited.
    """
    if not isinstance(server, ClientTransport):
        return None
    if _is_kind(server, StdioTransport):
        stdio: Any = server
        command = (stdio.command, *stdio.args)
        return ServerEntry(command=command, env=stdio.env or {}, cwd=stdio.cwd, log_file=stdio.log_file)
    if _is_kind(server, StreamableHttpTransport) or _is_kind(server, SSETransport):
        return _read_http_transport(server)
    if _is_kind(server, FastMCPTransport):
        in_memory: Any = server
        return in_memory.server
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
