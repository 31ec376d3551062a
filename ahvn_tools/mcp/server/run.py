"""Run a server over stdio or HTTP until it is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import math
import socket
import sys
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict, Unpack

import uvicorn
from fastmcp import FastMCP
from uvicorn.config import LOG_LEVELS

from ahvn_tools.errors import ToolSpecError, unknown_options
from ahvn_tools.mcp.server.app import ServedToolsServer
from ahvn_tools.mcp.server.running_calls import CANCEL_SECONDS, RunningCalls
from ahvn_tools.mcp.server.standard_streams import line_buffered_stdout
from ahvn_tools.settings import is_duration

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@contextlib.contextmanager
def log_to_stderr(level: int | None) -> Generator[None]:
    """Write the records of this package of at least this level to stderr, until the end of the block.

    A host that has configured logging keeps its handlers and, without a `level`, its levels. Otherwise the level is
    INFO by default, that of the middleware `log`.
    """
    logger, handlers = logging.getLogger(__package__.partition(".")[0]), []
    before = logger.level
    if not logger.hasHandlers():
        handlers = [logging.StreamHandler(sys.stderr)]
        handlers[0].setFormatter(logging.Formatter(_FORMAT))
        level = logging.INFO if level is None and before == logging.NOTSET else level
    if level is not None:
        logger.setLevel(level)
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.setLevel(before)
        for handler in handlers:
            logger.removeHandler(handler)


log = logging.getLogger(__name__)

GRACE_SECONDS: Final = 2.0
"""Seconds that running calls have to end when a server is stopped."""

FOLLOW_UP_SECONDS: Final = 0.5
"""Seconds after a result in which a client may have a question about it."""

CLOSE_SECONDS: Final = 1.0
"""Seconds that a server then has to send its last answers and to close its resources, before it is cancelled."""

MAX_PORT: Final = 65_535

WILDCARD_HOSTS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  # compared, not bound
"""Addresses that mean every address of the machine, and no host name."""

_HTTP_APP_OPTIONS = frozenset({
    "path",
    "host_origin_protection",
    "allowed_hosts",
    "allowed_origins",
    "session_idle_timeout",
})  # fmt: skip
"""Options of FastMCP's `http_app` that are set here."""


class ServerRunOptions(TypedDict, total=False):
    """How a server runs. All but `log_level` are for HTTP."""

    host: str
    """The name or address to listen on, `"127.0.0.1"` by default. Clients may use it for the server."""
    port: int
    """8000 by default; 0: any free port."""
    path: str
    """`"/mcp"` by default."""
    allowed_hosts: str | Sequence[str]
    """One or more host names, in addition to localhost and `host`, that clients may use for the server."""
    allowed_origins: str | Sequence[str]
    """Web pages that may call the server, such as `"https://app.example"`."""
    session_idle_timeout: float
    """Seconds without a request or an open stream after which the session of a client ends, 1800 by default."""
    sockets: Sequence[socket.socket]
    """Sockets to listen on, instead of host and port."""
    http: dict[str, Any]
    """Further options of FastMCP's `http_app`."""
    log_level: str | None
    """From `"critical"` to `"debug"`, for all records of the server. By default `"info"` for those of this package, of
    which each call that the middleware `log` sees is one, and `"warning"` for those of FastMCP and uvicorn."""


_DEFAULTS: Final[ServerRunOptions] = {
    "host": "127.0.0.1",
    "port": 8000,
    "path": "/mcp",
    "session_idle_timeout": 1800.0,
}

_DEFAULT_LEVEL: Final = "warning"
"""The log level of FastMCP and uvicorn."""


async def run_server(server: FastMCP, transport: str, **options: Unpack[ServerRunOptions]) -> None:
    """Run a server until its client disconnects (stdio) or this task is cancelled; it then ends within seconds.

    A second cancellation leaves no more time to the running calls. Raises ToolSpecError for an unknown transport or
    option, OSError for an address that is not available.
    """
    if unknown := unknown_options(options, ServerRunOptions.__annotations__):
        raise ToolSpecError(unknown)
    if transport not in {"stdio", "http"}:
        raise ToolSpecError(f"A server runs over 'stdio' or 'http', not over {transport!r}.")
    options = {**_DEFAULTS, **options}
    _check_options(options)
    level = options.get("log_level")
    with log_to_stderr(None if level is None else LOG_LEVELS[level]):
        if transport == "stdio":
            await _run_stdio(server, level or _DEFAULT_LEVEL)
        else:
            await _run_http(server, options)


def _check_options(options: ServerRunOptions) -> None:
    """Raise ToolSpecError for options on which uvicorn or FastMCP would fail without an explanation."""
    untyped: Mapping[str, Any] = options  # a caller may pass anything
    path, host, port, level = (untyped.get(name) for name in ("path", "host", "port", "log_level"))
    idle: Any = options["session_idle_timeout"]
    repeated = options.get("http", {}).keys() & _HTTP_APP_OPTIONS
    for is_valid, rule in (
        (isinstance(path, str) and path.startswith("/"), f"`path` must start with a slash, not be {path!r}"),
        (isinstance(host, str), f"`host` must be a string, not a {type(host).__name__}"),
        (isinstance(port, int) and 0 <= port <= MAX_PORT, f"`port` must be from 0 to {MAX_PORT}, not {port!r}"),
        (is_duration(idle) and idle > 0, f"`session_idle_timeout` must be a positive number of seconds, not {idle!r}"),
        (level is None or level in LOG_LEVELS, f"`log_level` must be one of {', '.join(LOG_LEVELS)}, not {level!r}"),
        (not repeated, f"pass {sorted(repeated)} as options of the server, not inside `http`"),
    ):
        if not is_valid:
            raise ToolSpecError(f"The server cannot run: {rule}.")


async def _run_stdio(server: FastMCP, log_level: str) -> None:
    def end() -> None:
        if isinstance(server, ServedToolsServer):
            server.stop_reading()

    with line_buffered_stdout():
        level = "debug" if log_level == "trace" else log_level  # uvicorn's own level
        await _wait_until_stopped(server, server.run_stdio_async(show_banner=False, log_level=level), end)


async def _run_http(server: FastMCP, options: ServerRunOptions) -> None:
    http_options = options.get("http", {})
    if not http_options.get("stateless_http"):  # where there are no sessions, mcp 2.0 refuses the option
        http_options = {**http_options, "session_idle_timeout": options["session_idle_timeout"]}
    app = server.http_app(
        options["path"],
        host_origin_protection=True,
        allowed_hosts=_list_allowed_hosts(options),
        allowed_origins=_to_list(options.get("allowed_origins")),
        **http_options,
    )
    logging_options: dict[str, Any] = {"log_level": options.get("log_level") or _DEFAULT_LEVEL}
    if logging.getLogger("uvicorn.error").hasHandlers():  # of the program, or of the server that runs it
        logging_options = {"log_level": options.get("log_level"), "log_config": None}
    seconds = math.ceil(CLOSE_SECONDS)
    config = uvicorn.Config(app, ws="none", lifespan="on", timeout_graceful_shutdown=seconds, **logging_options)
    uvicorn_server = _UvicornServer(config)

    def end() -> None:
        uvicorn_server.should_exit = True
        if isinstance(server, ServedToolsServer):
            server.close_streams()

    with _open_sockets(options) as sockets:
        _send_at_once(sockets)
        _print_addresses(server, sockets, options["path"])
        await _wait_until_stopped(server, uvicorn_server.serve(sockets), end)


async def _wait_until_stopped(server: FastMCP, serving: Coroutine[Any, Any, None], end: Callable[[], None]) -> None:
    """Run a server. When this task is cancelled, let the calls end, then the server, then cancel it, then abandon it.

    Until the calls have ended the server answers requests: some clients lose all their calls when one of them is not
    answered.
    """
    server_task = asyncio.create_task(serving)
    try:
        await asyncio.wait({server_task})
    except asyncio.CancelledError:
        if isinstance(server, ServedToolsServer):
            await _end_calls(server.running_calls)
        end()
        await asyncio.wait({server_task}, timeout=CLOSE_SECONDS)
        server_task.cancel()
        await asyncio.wait({server_task}, timeout=CLOSE_SECONDS)
        raise
    server_task.result()


async def _end_calls(running_calls: RunningCalls) -> None:
    stop_task = asyncio.create_task(running_calls.stop(GRACE_SECONDS, follow_up_seconds=FOLLOW_UP_SECONDS))
    try:
        await asyncio.wait({stop_task})
    except asyncio.CancelledError:
        running_calls.cancel()
        await asyncio.wait({stop_task}, timeout=CANCEL_SECONDS)


class _UvicornServer(uvicorn.Server):
    """Handles no signals: the owner of the process does."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@contextlib.contextmanager
def _open_sockets(options: ServerRunOptions) -> Generator[list[socket.socket]]:
    sockets = options.get("sockets")
    if sockets is not None:
        yield list(sockets)
        return
    host, port = options["host"], options["port"]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listener:
        yield [listener]


def _send_at_once(sockets: Iterable[socket.socket]) -> None:
    """Let no answer wait for an acknowledgement. asyncio sees to it only for sockets that name their protocol."""
    for listener in sockets:
        if listener.family in {socket.AF_INET, socket.AF_INET6}:
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _print_addresses(server: FastMCP, sockets: Iterable[socket.socket], path: str) -> None:
    for listener in sockets:
        if listener.family not in {socket.AF_INET, socket.AF_INET6}:
            continue
        host, port = listener.getsockname()[:2]
        url_host = f"[{host}]" if ":" in host else host
        sys.stderr.write(f"Serving {server.name!r} at http://{url_host}:{port}{path}\n")
        if server.auth is None and not ipaddress.ip_address(host).is_loopback:
            log.warning("%r is open to all that can reach %s: pass auth=…, or listen on 127.0.0.1.", server.name, host)


def _list_allowed_hosts(options: ServerRunOptions) -> list[str] | None:
    """Return the host names that clients may use: a name that the server listens on is one of them."""
    allowed, host = _to_list(options.get("allowed_hosts")), options["host"]
    return allowed if host in WILDCARD_HOSTS else [*(allowed or ()), host]


def _to_list(names: str | Sequence[str] | None) -> list[str] | None:
    return [names] if isinstance(names, str) else None if names is None else list(names)
