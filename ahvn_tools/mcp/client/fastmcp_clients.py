"""Fresh FastMCP clients, whose sessions hear everything and log nothing."""

from __future__ import annotations

import contextlib
import copy
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.client.auth import OAuth
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
from mcp.server.mcpserver import MCPServer
from mcp_types import ElicitResult

from ahvn_tools.mcp.client.guarded_session import GuardedSession, make_session_class
from ahvn_tools.mcp.client.handlers import Handlers
from ahvn_tools.mcp.client.http import BoundedHTTPFactory
from ahvn_tools.mcp.client.stdio import BoundedStdioTransport
from ahvn_tools.mcp.trust.limits import Limits

_TRANSFORM_KEYS = frozenset({"tools", "include_tags", "exclude_tags"})
"""What an entry of FastMCP's configuration says of the tools behind it."""

FASTMCP_TIMEOUT = 86_400.0
"""Seconds: the connection has its own clocks, and a shorter one of FastMCP's would cut a long call."""


class ObservedTransport(ClientTransport):
    """A transport with sessions as we want them: see the first line of the module."""

    def __init__(
        self, inner: ClientTransport, handlers: Handlers, limits: Limits, *, is_own_client: bool = True
    ) -> None:
        self.inner = inner
        self._limits = limits
        self._session: ClientSession | None = None
        self.legacy_only = inner.legacy_only
        self._handlers = handlers
        self._is_own_client = is_own_client

    def failure_reason(self) -> str | None:
        """Say why nothing can be sent any more; None where nothing is known against it."""
        if isinstance(self.inner, BoundedStdioTransport):
            return self.inner.failure_reason()
        return None if (web := self._http_factory()) is None else web.failure_reason

    def error_status(self) -> int | None:
        """Return the last HTTP status that was a refusal."""
        return None if (web := self._http_factory()) is None else web.error_status

    def _http_factory(self) -> BoundedHTTPFactory | None:
        made_by = getattr(self.inner, "httpx_client_factory", None)
        return made_by if isinstance(made_by, BoundedHTTPFactory) else None

    def stray_lines(self) -> int:
        """Return how many lines came that are no messages."""
        return self.inner.stray_lines() if isinstance(self.inner, BoundedStdioTransport) else 0

    def take_malformed(self) -> list[Any]:
        """Return what was listed as tools since the last time and is none."""
        return self._session.take_malformed() if isinstance(self._session, GuardedSession) else []

    @contextlib.asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Any
    ) -> AsyncIterator[ClientSession]:
        """Give a session of the inner transport."""
        theirs, ours = session_kwargs.get("message_handler"), self._handlers.on_message

        async def hear(message: Any) -> None:
            if ours is not None:  # pragma: no branch  # a connection always listens
                ours(message)
            if theirs is not None:
                await theirs(message)

        session_kwargs["message_handler"] = hear
        session_kwargs.setdefault("elicitation_callback", _decline_elicitation)
        if self._is_own_client:
            session_kwargs.update(logging_callback=_ignore_log, log_level=None)
        if isinstance(self.inner, BoundedStdioTransport | StreamableHttpTransport | SSETransport):
            guarded = make_session_class(self._limits, self._handlers.on_connection_lost)
            transport_options = replace(transport_options or TransportOptions(), session_class=guarded)
        if transport_options is not None:
            session_kwargs["transport_options"] = transport_options  # passed on only where FastMCP does
        async with self.inner.connect_session(**session_kwargs) as session:
            self._session = session
            yield session

    async def close(self) -> None:
        """Close the inner transport."""
        await self.inner.close()  # type: ignore[no-untyped-call]

    def get_session_id(self) -> str | None:
        """Return the inner transport's session id."""
        return self.inner.get_session_id()


async def _ignore_log(_message: Any) -> None:
    return None


async def _decline_elicitation(_context: Any, _params: Any) -> ElicitResult:
    return ElicitResult(action="decline")


def _make_client(transport: ClientTransport, handlers: Handlers, limits: Limits) -> Client[Any]:
    return Client(
        ObservedTransport(transport, handlers, limits),
        elicitation_handler=handlers.elicitation,
        sampling_handler=handlers.sampling,
        timeout=FASTMCP_TIMEOUT,
        init_timeout=FASTMCP_TIMEOUT,
    )


def make_stdio_client(
    command: Sequence[str],
    handlers: Handlers,
    limits: Limits,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    stderr: str | os.PathLike[str] | None = None,
) -> Client[Any]:
    """Return a client that starts a server of its own."""
    errors = None if stderr is None else Path(stderr)
    if sys.platform == "win32":  # pragma: no cover  # it has no process groups; mcp knows what it has
        inner = StdioTransport(
            command[0], list(command[1:]), env=dict(env or {}), cwd=str(cwd) if cwd else None, keep_alive=False,
            log_file=errors,
        )  # fmt: skip
        return _make_client(inner, handlers, limits)
    inner = BoundedStdioTransport(
        command, env=env, cwd=cwd, log_file=errors, limits=limits, on_connection_lost=handlers.on_connection_lost
    )
    return _make_client(inner, handlers, limits)


def make_http_client(
    url: str, handlers: Handlers, limits: Limits, *, headers: Mapping[str, str], auth: Any = None, is_sse: bool
) -> Client[Any]:
    """Return a client of a server somewhere."""
    kind = SSETransport if is_sse else StreamableHttpTransport
    transport = kind(url, headers=dict(headers), auth=auth, httpx_client_factory=BoundedHTTPFactory(limits))
    return _make_client(transport, handlers, limits)


def make_oauth(url: str) -> OAuth:
    """Return what logs in to a server: one for all clients of it, so that its tokens outlive them."""
    return OAuth(url)


def is_server(thing: Any) -> bool:
    """Say whether this is a server object of FastMCP or of mcp."""
    return isinstance(thing, FastMCP | MCPServer)


def is_client(thing: Any) -> bool:
    """Say whether this is a client of FastMCP."""
    return isinstance(thing, Client)


def make_memory_client(server: Any, handlers: Handlers, limits: Limits) -> Client[Any]:
    """Return a client of a server object in this process."""
    return _make_client(FastMCPTransport(server), handlers, limits)


def clone(client: Client[Any], handlers: Handlers, limits: Limits, headers: Mapping[str, str]) -> Client[Any]:
    """Return a client with the settings of another, and nothing else in common with it."""
    fresh = client.new()
    if handlers.elicitation is not None:
        fresh.set_elicitation_callback(handlers.elicitation)
    if handlers.sampling is not None:
        fresh.set_sampling_callback(handlers.sampling)
    inner = fresh.transport
    if isinstance(inner, MCPConfigTransport):
        return fresh  # FastMCP asks for exactly this type
    if isinstance(inner, StdioTransport):
        command = (inner.command, *inner.args)
        inner = BoundedStdioTransport(
            command,
            env=inner.env,
            cwd=inner.cwd,
            log_file=inner.log_file,
            limits=limits,
            on_connection_lost=handlers.on_connection_lost,
        )
    elif isinstance(inner, StreamableHttpTransport | SSETransport):
        inner = copy.copy(inner)
        inner.headers = {name.lower(): value for name, value in {**inner.headers, **headers}.items()}
        if "authorization" in (name.lower() for name in headers):
            inner.auth = None  # the client's own token would overwrite the call's
    fresh.transport = ObservedTransport(inner, handlers, limits, is_own_client=False)
    return fresh


def get_client_config(thing: Any) -> dict[str, Any] | None:
    """Return the configuration that a client is made of; None where there is none, or where it changes the tools."""
    if not (is_client(thing) and isinstance(thing.transport, MCPConfigTransport)):
        return None
    config: dict[str, Any] = thing.transport.config.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    is_plain = all(_TRANSFORM_KEYS.isdisjoint(entry) for entry in config.get("mcpServers", {}).values())
    return config if is_plain else None


def get_location(client: Client[Any]) -> str | list[str] | None:
    """Return the URL or the command behind a client whose name FastMCP made up; None for one that has a name."""
    inner = client.transport
    if not client.name.startswith("Client-"):
        return None
    if isinstance(inner, StreamableHttpTransport | SSETransport):
        return inner.url
    return [inner.command, *inner.args] if isinstance(inner, StdioTransport) else None


def is_http(client: Client[Any]) -> bool:
    """Say whether a client's server is reached over HTTP, so that headers mean something to it."""
    return isinstance(client.transport, StreamableHttpTransport | SSETransport)


def is_stdio(client: Client[Any]) -> bool:
    """Say whether a client's server is a process of its own."""
    return isinstance(client.transport, StdioTransport)
