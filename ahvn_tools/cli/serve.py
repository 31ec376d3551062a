"""`serve`: the tools of a file for any MCP client, over stdio or HTTP."""

from __future__ import annotations

import os
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from ahvn_tools.cli import loader
from ahvn_tools.cli.errors import CommandError, UsageError
from ahvn_tools.toolkit import Toolkit

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8000

_WILDCARD_HOSTS = ("0.0.0.0", "::", "")  # noqa: S104  # told apart, not bound to

Names = Annotated[list[str] | None, Parameter(negative="")]


def serve(
    file: Annotated[str, Parameter(name="FILE[:NAME]")],
    /,
    *,
    http: Annotated[bool, Parameter(negative="")] = False,
    host: str | None = None,
    port: Annotated[int | None, Parameter(validator=Number(gte=0, lte=65535))] = None,
    allowed_host: Names = None,
    auth_token_env: str | None = None,
    audience: Names = None,
    group: Names = None,
    name: str | None = None,
) -> None:
    """Serve tools to MCP clients: over stdin and stdout to the one that starts it, or over HTTP.

    Parameters
    ----------
    file
        A Python file or a module. NAME in it is a Toolkit, an instance of a ToolRegistry, a tool, or a list of these;
        without NAME it is the one Toolkit there, else all tools there.
    http
        Serve over HTTP, at the path /mcp.
    host
        The address to listen on, 127.0.0.1 by default.
    port
        The port to listen on, 8000 by default; 0 takes a free one, and stderr tells which.
    allowed_host
        A name, beside localhost and HOST, by which clients may call the server. Can be repeated.
    auth_token_env
        The environment variable that holds the token which clients have to send.
    audience
        Whom the tools are for; without it those that are for everyone are served. Can be repeated.
    group
        Serve the tools of this group alone, switched on. Can be repeated.
    name
        The name of the server, the toolkit's by default.
    """
    if not http:
        _refuse_http_options(host=host, port=port, allowed_host=allowed_host, auth_token_env=auth_token_env)
    auth = None if auth_token_env is None else _read_shared_token(auth_token_env)
    kit = _select_groups(loader.load_toolkit(file), group)
    options: dict[str, Any] = {"name": name or kit.name, "audience": audience}
    from ahvn_tools.toolkit.serve import serve as run  # imported when touched: help and refusals come at once

    if not http:
        run(kit, "stdio", **options)
        return
    options |= {
        "host": DEFAULT_HOST if host is None else host,
        "port": DEFAULT_PORT if port is None else port,
        "auth": auth,
    }
    names = [*(allowed_host or ()), *([] if options["host"] in _WILDCARD_HOSTS else [options["host"]])]
    try:
        run(kit, "http", allowed_hosts=names, **options)
    except OSError as error:
        raise CommandError(f"Cannot serve at {options['host']}:{options['port']}: {error}.") from error


def _refuse_http_options(**options: Any) -> None:
    for option, value in options.items():
        if value is not None:
            raise UsageError(f"--{option.replace('_', '-')} is about serving over HTTP: give --http, too.")


def _read_shared_token(variable: str) -> Any:
    token = os.environ.get(variable, "").strip()
    if not token:
        raise CommandError(f"The environment variable {variable!r} holds no token: set it, or leave out the option.")
    from ahvn_tools.cli.token import SharedTokenVerifier

    return SharedTokenVerifier(token)


def _select_groups(kit: Toolkit, groups: list[str] | None) -> Toolkit:
    """Return the tools of these groups, switched on here and not in the toolkit itself; all tools without any."""
    return kit.session().activate(*groups).select(groups=groups) if groups else kit
