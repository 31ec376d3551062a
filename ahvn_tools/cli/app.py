"""The command `ahvn-tools`: `serve` serves the tools of a file to any MCP client, over stdio or HTTP."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter
from cyclopts.validators import Number

from ahvn_tools import __version__
from ahvn_tools.cli.loader import CommandError, load_toolkit
from ahvn_tools.errors import ToolCallError, ToolSpecError
from ahvn_tools.toolkit import Toolkit

INTERRUPTED_STATUS = 130
"""The exit status after Ctrl-C, as in shells."""

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8000

Names = Annotated[list[str] | None, Parameter(negative="")]

app = App(
    name="ahvn-tools",
    help="Tools for LLM agents, from the command line.",
    version=__version__,
    suppress_keyboard_interrupt=False,  # `main` handles it
)


class UsageError(Exception):
    """The command line is wrong."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, or those of the process, and return the exit status.

    0: success; 1: failure; 2: a command line that cannot be parsed; 130: interrupted by Ctrl-C. An error is printed to
    stderr as one line.
    """
    try:
        app(arguments, exit_on_error=False, print_error=False, result_action="return_none")
    except CycloptsError as error:
        return _report_error(f"{error} See {app.name[0]} --help.", status=2)
    except UsageError as error:
        return _report_error(str(error), status=2)
    except (CommandError, ToolSpecError, ToolCallError, OSError) as error:
        return _report_error(str(error), status=1)
    except KeyboardInterrupt:
        return INTERRUPTED_STATUS
    return 0


def _report_error(message: str, *, status: int) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201  # the output of a command
    return status


@app.command
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
    log_level: Literal["critical", "error", "warning", "info", "debug"] | None = None,
) -> None:
    """Serve tools to MCP clients: over stdin and stdout to the client that starts it, or over HTTP.

    Parameters
    ----------
    file
        A Python file or a module. NAME in it is a Toolkit, an instance of a ToolRegistry, a tool, or a list of these;
        without NAME, the only Toolkit in the file is served, else all its tools.
    http
        Serve over HTTP, at the path /mcp.
    host
        The address to listen on, 127.0.0.1 by default.
    port
        The port to listen on, 8000 by default; 0 takes a free port and prints it to stderr.
    allowed_host
        A host name, in addition to localhost and HOST, that clients may use for the server. Can be repeated.
    auth_token_env
        The environment variable that contains the token that clients must send.
    audience
        The audience to serve; without it, only tools for everyone are served. Can be repeated.
    group
        Serve only the tools of this group, and activate it. Can be repeated.
    name
        The name of the server, by default that of the toolkit.
    log_level
        What is written to stderr; by default each call that the middleware `log` sees, and warnings.
    """
    if not http:
        _refuse_http_options(host=host, port=port, allowed_host=allowed_host, auth_token_env=auth_token_env)
    auth = None if auth_token_env is None else _create_verifier(auth_token_env)
    kit = _select_groups(load_toolkit(file), group)
    options: dict[str, Any] = {"name": name or kit.name, "audience": audience, "log_level": log_level}
    from ahvn_tools.toolkit.serve import serve as serve_toolkit  # slow: help and refusals do not need it

    if not http:
        serve_toolkit(kit, "stdio", **options)
        return
    host, port = DEFAULT_HOST if host is None else host, DEFAULT_PORT if port is None else port
    try:
        serve_toolkit(kit, "http", host=host, port=port, allowed_hosts=allowed_host or (), auth=auth, **options)
    except OSError as error:
        raise CommandError(f"Cannot serve at {host}:{port}: {error}.") from error


def _refuse_http_options(**options: Any) -> None:
    for option, value in options.items():
        if value is not None:
            raise UsageError(f"--{option.replace('_', '-')} is for serving over HTTP: add --http.")


def _create_verifier(variable: str) -> Any:
    token = os.environ.get(variable, "").strip()
    if not token:
        raise CommandError(f"The environment variable {variable!r} contains no token: set it, or omit the option.")
    from ahvn_tools.cli.token import SharedTokenVerifier

    return SharedTokenVerifier(token)


def _select_groups(kit: Toolkit, groups: list[str] | None) -> Toolkit:
    """Return the tools of some groups, active here and unchanged in the toolkit itself; all tools without groups."""
    return kit.session().activate(*groups).select(groups=groups) if groups else kit
