"""`ahvn-tools serve`: serve the tools of sources to MCP clients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from ahvn_tools.cli.errors import UsageError
from ahvn_tools.cli.server import HTTPOptions, ServeRequest, run
from ahvn_tools.cli.sources import Flag, Names, SourceOptions, Sources
from ahvn_tools.cli.state_file import read_state

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8000
DEFAULT_PATH = "/mcp"

_STDIO_RELOAD = (
    "--reload needs --http: over stdio the server is a child process of its client, and a restart would end the "
    "connection. Let the client restart the server."
)


def serve(
    *sources: Sources,
    http: Flag = False,
    host: str | None = None,
    port: Annotated[int | None, Parameter(validator=Number(gte=0, lte=65535))] = None,
    path: str | None = None,
    allowed_host: Names = None,
    allowed_origin: Names = None,
    auth_token_env: str | None = None,
    tasks: str | None = None,
    code: Flag = False,
    reload: Flag = False,
    profile: str | None = None,
    trust: Names = None,
    root: Names = None,
    audience: Names = None,
    group: Names = None,
    tag: Names = None,
    include: Names = None,
    exclude: Names = None,
    name: str | None = None,
    state: Path | None = None,
    set: Names = None,  # noqa: A002  # the option --set
    log_level: Literal["critical", "error", "warning", "info", "debug"] | None = None,
    verbose: Flag = False,
) -> None:
    """Serve tools to MCP clients: over stdin and stdout to the client that starts it, or over HTTP.

    Parameters
    ----------
    sources
        What to serve: Python files (FILE or FILE:NAME), modules, folders, manifests, MCP servers, OpenAPI documents.
    http
        Serve over HTTP, at the path /mcp.
    host
        The address to listen on, 127.0.0.1 by default.
    port
        The port to listen on, 8000 by default; 0 takes a free port and prints it to stderr.
    path
        The path of the server, /mcp by default.
    allowed_host
        A host name, in addition to localhost and HOST, that clients may use for the server. Can be repeated.
    allowed_origin
        A web page that may call the server, such as https://app.example. Can be repeated.
    auth_token_env
        The environment variable that contains the token that clients must send.
    tasks
        Let clients call tools with the option task as MCP tasks. memory:// keeps them in memory. To keep them in Redis,
        pass its URL, or the name of an environment variable that contains it.
    code
        Let clients call the tools in programs that run in a sandbox: only search_tools, describe_tools and run_code are
        listed. It needs the extra code.
    reload
        With --http: start the server again when a Python or YAML file of the tools has changed.
    profile
        The profile of manifests to use, such as dev or prod.
    trust
        Trust only these files, modules, programs, variables, servers and features. Can be repeated.
    root
        A folder that the built-in tools may use: SOURCE is builtins or a manifest. Can be repeated.
    audience
        The audience to serve; without it, only tools for everyone are served. Can be repeated.
    group
        Serve only the tools of this group, and activate it. Can be repeated.
    tag
        Serve only the tools with this tag. Can be repeated.
    include
        Serve only the tools whose names match this pattern, such as 'get_*'. Can be repeated.
    exclude
        Serve no tools whose names match this pattern. Can be repeated.
    name
        The name of the server, by default that of the toolkit.
    state
        A JSON or YAML file with the state that all clients share, from which bound parameters are filled.
    set
        KEY=VALUE or KEY:=JSON: a value of the state, in addition to those of the file. Can be repeated.
    log_level
        What is written to stderr; by default each call that the middleware `log` sees, and warnings.
    verbose
        Print the tracebacks of errors.
    """
    if not sources:
        raise UsageError("A SOURCE is missing: a Python file, a folder, a manifest, an MCP server, …")
    if reload and not http:
        raise UsageError(_STDIO_RELOAD)
    chosen: dict[str, Any] = {"host": host, "port": port, "path": path, "allowed_host": allowed_host}
    chosen |= {"allowed_origin": allowed_origin, "auth_token_env": auth_token_env}
    if not http:
        _refuse_http_options(**chosen)
    request = ServeRequest(
        sources=tuple(map(str, sources)),
        source_options=SourceOptions(
            profile=profile, trust=trust, root=root, tag=tag, include=include, exclude=exclude, verbose=verbose
        ),
        audience=tuple(audience or ()),
        groups=tuple(group or ()),
        name=name,
        state=read_state(state, set or ()),
        log_level=log_level,
        tasks=tasks,
        code_mode=code,
        http=_to_http_options(**chosen) if http else None,
    )
    if not reload:
        run(request)
        return
    from ahvn_tools.cli.reload import serve_with_reload

    serve_with_reload(request)


def _to_http_options(**options: Any) -> HTTPOptions:
    return HTTPOptions(
        host=DEFAULT_HOST if options["host"] is None else options["host"],
        port=DEFAULT_PORT if options["port"] is None else options["port"],
        path=DEFAULT_PATH if options["path"] is None else options["path"],
        allowed_hosts=tuple(options["allowed_host"] or ()),
        allowed_origins=tuple(options["allowed_origin"] or ()),
        auth_token_env=options["auth_token_env"],
    )


def _refuse_http_options(**options: Any) -> None:
    for option, value in options.items():
        if value is not None:
            raise UsageError(f"--{option.replace('_', '-')} is for serving over HTTP: add --http.")
