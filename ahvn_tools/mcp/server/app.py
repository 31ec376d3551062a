"""Serving: a catalog as a FastMCP server, and a server run over stdio or HTTP until it is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import io
import ipaddress
import logging
import os
import socket
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict, Unpack

import uvicorn
from fastmcp import FastMCP
from fastmcp.tools import Tool
from fastmcp.utilities.versions import VersionSpec
from uvicorn.config import LOG_LEVELS

from ahvn_tools.errors import ToolSpecError
from ahvn_tools.mcp.server.provider import ServedTools, ServedToolsProvider, install_schema_lookup
from ahvn_tools.mcp.server.stdin import interruptible_stdin, is_process_stream
from ahvn_tools.mcp.server.subscriptions import enable_subscriptions

log = logging.getLogger(__name__)

GRACEFUL_SHUTDOWN_SECONDS: Final = 2.0
"""Seconds that calls under way have to end when a server is stopped."""

CLOSE_SECONDS: Final = 1.0
"""Seconds more that a server has to close what it holds; then it is left behind."""

MAX_PORT: Final = 65_535

_OWN_HTTP_OPTIONS = frozenset({"path", "host_origin_protection", "allowed_hosts", "allowed_origins"})
"""What is given to FastMCP's `http_app` here."""


class ServerRunOptions(TypedDict, total=False):
    """How a server runs. All but `log_level` are for HTTP."""

    host: str
    """Where it listens, `"127.0.0.1"` by default."""
    port: int
    """8000 by default; 0: any that is free."""
    path: str
    """`"/mcp"` by default."""
    allowed_hosts: str | Sequence[str]
    """A name or names, beside localhost, that clients may call it by."""
    allowed_origins: str | Sequence[str]
    """Web pages that may call it, such as `"https://app.example"`."""
    sockets: Sequence[socket.socket]
    """Sockets to listen on, in the place of host and port."""
    http: dict[str, Any]
    """More of what FastMCP's `http_app` takes."""
    log_level: str
    """`"warning"` by default."""


def build_server(served_tools: ServedTools, name: str, **options: Any) -> FastMCP:
    """Return a FastMCP server of a catalog; options are those of FastMCP."""
    provider = ServedToolsProvider(served_tools)
    made = _Server(name, **{"dereference_schemas": False, "mask_error_details": True, **options})
    made.served_tools_provider = provider
    install_schema_lookup(made, provider)
    made.close_subscriptions = enable_subscriptions(made, served_tools.get_revision)
    return made


class _Server(FastMCP):
    """Asks the catalog first, and FastMCP's providers for what the host has added beside it.

    A tool of the catalog has its name for itself. When the catalog cannot be asked that is an error; a provider that
    fails is left out, as FastMCP does.
    """

    served_tools_provider: ServedToolsProvider
    close_subscriptions: Callable[[], None]
    """Ends the streams of those who wait for news, which would hold up the end of a server over HTTP."""

    async def _list_tools(self) -> Sequence[Tool]:
        own = await self.served_tools_provider.list_tools()
        names = {tool.name for tool in own}
        return [*own, *(tool for tool in await super()._list_tools() if tool.name not in names)]

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        found = await self.served_tools_provider.get_tool(name, version)
        return await super()._get_tool(name, version) if found is None else found


async def run_server(server: FastMCP, transport: str, **options: Unpack[ServerRunOptions]) -> None:
    """Run a server until its client has gone (stdio), or this is cancelled. That is done within a few seconds.

    Raises ToolSpecError for an unknown transport or option, OSError for an address that cannot be had.
    """
    unknown = options.keys() - ServerRunOptions.__annotations__.keys()
    if unknown:
        raise ToolSpecError(f"Unknown options {sorted(unknown)}; known: {', '.join(ServerRunOptions.__annotations__)}.")
    if transport == "stdio":
        await _run_stdio(server, options.get("log_level", "warning"))
    elif transport == "http":
        _check_http_options(options)
        await _run_http(server, options)
    else:
        raise ToolSpecError(f"A server runs over 'stdio' or 'http', not over {transport!r}.")


def _check_http_options(options: ServerRunOptions) -> None:
    """Raise ToolSpecError for options that uvicorn or FastMCP would fail on without saying how."""
    given: Mapping[str, Any] = options  # a caller may give anything
    path, host, port = given.get("path", "/mcp"), given.get("host", "127.0.0.1"), given.get("port", 8000)
    level, twice = given.get("log_level", "warning"), options.get("http", {}).keys() & _OWN_HTTP_OPTIONS
    for fits, told in (
        (isinstance(path, str) and path.startswith("/"), f"`path` begins with a slash, not as in {path!r}"),
        (isinstance(host, str), f"`host` is a text, not a {type(host).__name__}"),
        (isinstance(port, int) and 0 <= port <= MAX_PORT, f"`port` is a number from 0 to {MAX_PORT}, not {port!r}"),
        (level in LOG_LEVELS, f"`log_level` is one of {', '.join(LOG_LEVELS)}, not {level!r}"),
        (not twice, f"give {sorted(twice)} beside `http`, and not in it"),
    ):
        if not fits:
            raise ToolSpecError(f"The server cannot run: {told}.")


async def _run_stdio(server: FastMCP, log_level: str) -> None:
    with interruptible_stdin() as end_input, _line_buffered_stdout():
        await _wait_until_stopped(
            asyncio.create_task(server.run_stdio_async(show_banner=False, log_level=log_level)), end_input
        )


@contextlib.contextmanager
def _line_buffered_stdout() -> Generator[None]:
    """Let what tools print be on stderr at once: when the server has ended, stdout is the client's again."""
    stream = sys.stdout
    if not (isinstance(stream, io.TextIOWrapper) and is_process_stream(stream, 1)):
        yield
        return
    was_buffered = stream.line_buffering
    stream.reconfigure(line_buffering=True)
    try:
        yield
    finally:
        kept = os.dup(1)
        try:
            os.dup2(2, 1)
            stream.flush()
        finally:
            os.dup2(kept, 1)
            os.close(kept)
            stream.reconfigure(line_buffering=was_buffered)


async def _run_http(server: FastMCP, options: ServerRunOptions) -> None:
    path = options.get("path", "/mcp")
    app = server.http_app(
        path,
        host_origin_protection=True,
        allowed_hosts=_to_list(options.get("allowed_hosts")),
        allowed_origins=_to_list(options.get("allowed_origins")),
        **options.get("http", {}),
    )
    level = options.get("log_level", "warning")
    config = uvicorn.Config(
        app, ws="none", lifespan="on", log_level=level, timeout_graceful_shutdown=int(GRACEFUL_SHUTDOWN_SECONDS)
    )
    with _open_sockets(options) as sockets:
        _print_addresses(server, sockets, path)
        listener = _UvicornServer(config, getattr(server, "close_subscriptions", None))
        await _wait_until_stopped(asyncio.create_task(listener.serve(sockets)), listener.request_exit)


async def _wait_until_stopped(server_task: asyncio.Task[None], request_stop: Callable[[], None]) -> None:
    """Wait for a server. When this is cancelled it is asked to stop, then cancelled, then left behind."""
    try:
        await asyncio.wait({server_task})
    except asyncio.CancelledError:
        request_stop()
        await asyncio.wait({server_task}, timeout=GRACEFUL_SHUTDOWN_SECONDS + CLOSE_SECONDS)
        server_task.cancel()
        await asyncio.wait({server_task}, timeout=CLOSE_SECONDS)
        raise
    server_task.result()


class _UvicornServer(uvicorn.Server):
    """Leaves the signals alone: who runs the process sees to them."""

    def __init__(self, config: uvicorn.Config, close_subscriptions: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._close_subscriptions = close_subscriptions

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    def request_exit(self) -> None:
        self.should_exit = True
        if self._close_subscriptions is not None:
            self._close_subscriptions()


@contextlib.contextmanager
def _open_sockets(options: ServerRunOptions) -> Generator[list[socket.socket]]:
    given = options.get("sockets")
    if given is not None:
        yield list(given)
        return
    host, port = options.get("host", "127.0.0.1"), options.get("port", 8000)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listener:
        yield [listener]


def _print_addresses(server: FastMCP, sockets: Iterable[socket.socket], path: str) -> None:
    for listener in sockets:
        if listener.family not in {socket.AF_INET, socket.AF_INET6}:
            continue
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        sys.stderr.write(f"Serving {server.name!r} at http://{shown}:{port}{path}\n")
        if server.auth is None and not ipaddress.ip_address(host).is_loopback:
            log.warning("%r is open to whoever reaches %s: give it auth=…, or listen on 127.0.0.1.", server.name, host)


def _to_list(names: str | Sequence[str] | None) -> list[str] | None:
    return [names] if isinstance(names, str) else None if names is None else list(names)
