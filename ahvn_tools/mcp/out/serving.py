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
from ahvn_tools.mcp.out.listening import let_listen
from ahvn_tools.mcp.out.provider import Catalog, CatalogProvider, look_up_schemas
from ahvn_tools.mcp.out.standard_input import can_end, is_own

log = logging.getLogger(__name__)

FINISHING: Final = 2.0
"""Seconds that calls under way have to end when a server is stopped."""

LEAVING: Final = 1.0
"""Seconds more that a server has to close what it holds; then it is left behind."""

MOST_PORT: Final = 65_535

_OURS = frozenset({"path", "host_origin_protection", "allowed_hosts", "allowed_origins"})
"""What is given to FastMCP's `http_app` here."""


class RunOptions(TypedDict, total=False):
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


def server(catalog: Catalog, name: str, **options: Any) -> FastMCP:
    """Return a FastMCP server of a catalog; options are those of FastMCP."""
    provider = CatalogProvider(catalog)
    made = _Server(name, **{"dereference_schemas": False, "mask_error_details": True, **options})
    made.first = provider
    look_up_schemas(made, provider)
    made.end_listening = let_listen(made, catalog.mark)
    return made


class _Server(FastMCP):
    """Asks the catalog first, and FastMCP's providers for what the host has added beside it.

    A tool of the catalog has its name for itself. When the catalog cannot be asked that is an error; a provider that
    fails is left out, as FastMCP does.
    """

    first: CatalogProvider
    end_listening: Callable[[], None]
    """Ends the streams of those who wait for news, which would hold up the end of a server over HTTP."""

    async def _list_tools(self) -> Sequence[Tool]:
        own = await self.first.list_tools()
        names = {tool.name for tool in own}
        return [*own, *(tool for tool in await super()._list_tools() if tool.name not in names)]

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        found = await self.first.get_tool(name, version)
        return await super()._get_tool(name, version) if found is None else found


async def run(server: FastMCP, transport: str, **options: Unpack[RunOptions]) -> None:
    """Run a server until its client has gone (stdio), or this is cancelled. That is done within a few seconds.

    Raises ToolSpecError for an unknown transport or option, OSError for an address that cannot be had.
    """
    unknown = options.keys() - RunOptions.__annotations__.keys()
    if unknown:
        raise ToolSpecError(f"Unknown options {sorted(unknown)}; known: {', '.join(RunOptions.__annotations__)}.")
    if transport == "stdio":
        await _over_stdio(server, options.get("log_level", "warning"))
    elif transport == "http":
        _refuse_unfit(options)
        await _over_http(server, options)
    else:
        raise ToolSpecError(f"A server runs over 'stdio' or 'http', not over {transport!r}.")


def _refuse_unfit(options: RunOptions) -> None:
    """Raise ToolSpecError for options that uvicorn or FastMCP would fail on without saying how."""
    given: Mapping[str, Any] = options  # a caller may give anything
    path, host, port = given.get("path", "/mcp"), given.get("host", "127.0.0.1"), given.get("port", 8000)
    level, twice = given.get("log_level", "warning"), options.get("http", {}).keys() & _OURS
    for fits, told in (
        (isinstance(path, str) and path.startswith("/"), f"`path` begins with a slash, not as in {path!r}"),
        (isinstance(host, str), f"`host` is a text, not a {type(host).__name__}"),
        (isinstance(port, int) and 0 <= port <= MOST_PORT, f"`port` is a number from 0 to {MOST_PORT}, not {port!r}"),
        (level in LOG_LEVELS, f"`log_level` is one of {', '.join(LOG_LEVELS)}, not {level!r}"),
        (not twice, f"give {sorted(twice)} beside `http`, and not in it"),
    ):
        if not fits:
            raise ToolSpecError(f"The server cannot run: {told}.")


async def _over_stdio(server: FastMCP, log_level: str) -> None:
    with can_end() as end_input, _prints_at_once():
        await _until_stopped(
            asyncio.create_task(server.run_stdio_async(show_banner=False, log_level=log_level)), end_input
        )


@contextlib.contextmanager
def _prints_at_once() -> Generator[None]:
    """Let what tools print be on stderr at once: when the server has ended, stdout is the client's again."""
    stream = sys.stdout
    if not (isinstance(stream, io.TextIOWrapper) and is_own(stream, 1)):
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


async def _over_http(server: FastMCP, options: RunOptions) -> None:
    path = options.get("path", "/mcp")
    app = server.http_app(
        path,
        host_origin_protection=True,
        allowed_hosts=_listed(options.get("allowed_hosts")),
        allowed_origins=_listed(options.get("allowed_origins")),
        **options.get("http", {}),
    )
    level = options.get("log_level", "warning")
    config = uvicorn.Config(app, ws="none", lifespan="on", log_level=level, timeout_graceful_shutdown=int(FINISHING))
    with _listening(options) as sockets:
        _tell(server, sockets, path)
        listener = _Listener(config, getattr(server, "end_listening", None))
        await _until_stopped(asyncio.create_task(listener.serve(sockets)), listener.leave)


async def _until_stopped(running: asyncio.Task[None], stop: Callable[[], None]) -> None:
    """Wait for a server. When this is cancelled it is asked to stop, then cancelled, then left behind."""
    try:
        await asyncio.wait({running})
    except asyncio.CancelledError:
        stop()
        await asyncio.wait({running}, timeout=FINISHING + LEAVING)
        running.cancel()
        await asyncio.wait({running}, timeout=LEAVING)
        raise
    running.result()


class _Listener(uvicorn.Server):
    """Leaves the signals alone: who runs the process sees to them."""

    def __init__(self, config: uvicorn.Config, end_listening: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._end_listening = end_listening

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    def leave(self) -> None:
        self.should_exit = True
        if self._end_listening is not None:
            self._end_listening()


@contextlib.contextmanager
def _listening(options: RunOptions) -> Generator[list[socket.socket]]:
    given = options.get("sockets")
    if given is not None:
        yield list(given)
        return
    host, port = options.get("host", "127.0.0.1"), options.get("port", 8000)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listener:
        yield [listener]


def _tell(server: FastMCP, sockets: Iterable[socket.socket], path: str) -> None:
    for listener in sockets:
        if listener.family not in {socket.AF_INET, socket.AF_INET6}:
            continue
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        sys.stderr.write(f"Serving {server.name!r} at http://{shown}:{port}{path}\n")
        if server.auth is None and not ipaddress.ip_address(host).is_loopback:
            log.warning("%r is open to whoever reaches %s: give it auth=…, or listen on 127.0.0.1.", server.name, host)


def _listed(names: str | Sequence[str] | None) -> list[str] | None:
    return [names] if isinstance(names, str) else None if names is None else list(names)
