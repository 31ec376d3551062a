"""A server of the tools of sources: what it serves and how, as a value, and its run in this process."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ahvn_tools.cli.errors import CommandError
from ahvn_tools.cli.sources import SourceOptions, open_toolkit
from ahvn_tools.json_types import JsonObject
from ahvn_tools.mcp.client.server_process import killed_by_signals

if TYPE_CHECKING:  # the command line is parsed without pydantic
    import socket

    from ahvn_tools.toolkit import Toolkit


@dataclass(frozen=True, kw_only=True)
class HTTPOptions:
    """Where and to whom a server listens."""

    host: str
    port: int
    path: str
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]
    auth_token_env: str | None


@dataclass(frozen=True, kw_only=True)
class ServeRequest:
    """What to serve, and how; a process that is started for it receives it as it is."""

    sources: tuple[str, ...]
    source_options: SourceOptions
    audience: tuple[str, ...]
    groups: tuple[str, ...]
    name: str | None
    state: JsonObject = field(repr=False)
    """The state that all clients share, in addition to that of the toolkit."""
    log_level: str | None
    tasks: str | None
    """A URL, or an environment variable that contains it."""
    code_mode: bool
    """Whether clients call the tools in programs."""
    http: HTTPOptions | None
    """None: over stdio."""


def run(
    request: ServeRequest,
    *,
    sockets: Sequence[socket.socket] | None = None,
    on_loaded: Callable[[Toolkit], None] = lambda _kit: None,
) -> None:
    """Load the sources and serve them until the server is stopped; on `sockets`, if they are open already."""
    auth = None if request.http is None else _create_verifier(request.http.auth_token_env)
    tasks = request.tasks
    if tasks is not None and "://" not in tasks:
        tasks = _read_environment(tasks, "URL")
    if sockets is None:  # a source such as `fastmcp.py` would hide a part of the server
        importlib.import_module("ahvn_tools.toolkit.serve")
    with killed_by_signals(), open_toolkit(request.sources, request.source_options) as loaded:
        kit = _select_groups(loaded.session(request.state, audience=None) if request.state else loaded, request.groups)
        options: dict[str, Any] = {
            "name": request.name or kit.name,
            "audience": list(request.audience) or None,
            "log_level": request.log_level,
            "tasks": tasks,
            "code_mode": request.code_mode,
        }
        on_loaded(loaded)
        from ahvn_tools.toolkit.serve import serve as serve_toolkit  # slow: refusals do not need it

        if request.http is None:
            serve_toolkit(kit, "stdio", **options)
            return
        http = request.http
        options |= {"path": http.path, "allowed_hosts": http.allowed_hosts, "auth": auth}
        if http.allowed_origins:
            options["allowed_origins"] = http.allowed_origins
        if sockets is not None:
            options["sockets"] = sockets
        try:
            serve_toolkit(kit, "http", host=http.host, port=http.port, **options)
        except OSError as error:
            raise cannot_listen(http, error) from error


def cannot_listen(http: HTTPOptions, error: OSError) -> CommandError:
    """Return the error of an address that is not available."""
    return CommandError(f"Cannot serve at {http.host}:{http.port}: {error}.")


def _create_verifier(variable: str | None) -> Any:
    if variable is None:
        return None
    token = _read_environment(variable, "token")
    from ahvn_tools.cli.token import SharedTokenVerifier

    return SharedTokenVerifier(token)


def _read_environment(variable: str, what: str) -> str:
    if value := os.environ.get(variable, "").strip():
        return value
    raise CommandError(f"The environment variable {variable!r} contains no {what}: set it, or omit the option.")


def _select_groups(kit: Toolkit, groups: Sequence[str]) -> Toolkit:
    """Return the tools of some groups, active here and unchanged in the toolkit itself; all tools without groups."""
    return kit.session(audience=None).activate(*groups).select(groups=list(groups)) if groups else kit
