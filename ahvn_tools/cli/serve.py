"""`ahvn-tools serve`: serve tools to MCP clients, and again after each change of their files."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from ahvn_tools.cli.arguments import describe_unbound, read_state
from ahvn_tools.cli.output import CommandError, UsageError, print_message
from ahvn_tools.cli.sources import Flag, LoadingOptions, Names, SourceOptions, Sources, open_toolkit
from ahvn_tools.errors import UnboundStateError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.mcp.client.server_process import killed_by_signals

if TYPE_CHECKING:  # the command line is parsed without pydantic and multiprocessing
    import socket
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from ahvn_tools.toolkit import Toolkit


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ListenOptions:
    """Where and to whom a server listens."""

    host: str = "127.0.0.1"
    """The address to listen on."""
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 8000
    """The port to listen on; 0 takes a free port and prints it to stderr."""
    path: str = "/mcp"
    """The path of the server."""
    allowed_host: Names = None
    """A host name, in addition to localhost and HOST, that clients may use for the server. Can be repeated."""
    allowed_origin: Names = None
    """A web page that may call the server, such as https://app.example. Can be repeated."""
    auth_token_env: str | None = None
    """The environment variable that contains the token that clients must send."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """What a server of tools does."""

    name: str | None = None
    """The name of the server, by default that of the toolkit."""
    audience: Names = None
    """The audience to serve; without it, only tools for everyone are served. Can be repeated."""
    group: Names = None
    """Serve only the tools of this group, and activate it. Can be repeated."""
    tasks: str | None = None
    """Let clients call tools with the option task as MCP tasks. memory:// keeps them in memory. To keep them in Redis,
    pass its URL, or the name of an environment variable that contains it."""
    code: Flag = False
    """Let clients call the tools in programs that run in a sandbox: only search_tools, describe_tools and run_code are
    listed. It needs the extra code."""
    mode: Literal["read_only", "ask", "accept_edits", "allow"] | None = None
    """What happens to calls for which the rules of a manifest say nothing: only tools that read run (read_only), those
    that change something need an approval (ask), except for edits (accept_edits), or all run (allow)."""
    watch: Flag = False
    """Let the page Watch of `ahvn-tools ui` show the calls of this server while someone looks."""
    log_level: Literal["critical", "error", "warning", "info", "debug"] | None = None
    """What is written to stderr; by default each call that the middleware `log` sees, and warnings."""


@dataclass(frozen=True, kw_only=True)
class ServeRequest:
    """What to serve, and how; a process that is started for it receives it as it is."""

    sources: tuple[str, ...]
    loading: LoadingOptions
    server: ServerOptions
    state: JsonObject = field(repr=False)
    """The state that all clients share, in addition to that of the toolkit."""
    http: ListenOptions | None
    """None: over stdio."""


def run(
    request: ServeRequest,
    *,
    sockets: Sequence[socket.socket] | None = None,
    on_loaded: Callable[[Toolkit], None] = lambda _kit: None,
) -> None:
    """Load the sources and serve them until the server is stopped; on `sockets`, if they are open already."""
    auth = None if request.http is None else _create_verifier(request.http.auth_token_env)
    server = request.server
    tasks = server.tasks
    if tasks is not None and "://" not in tasks:
        tasks = _read_environment(tasks, "URL")
    if sockets is None:  # a source such as `fastmcp.py` would hide a part of the server
        importlib.import_module("ahvn_tools.toolkit.serve")

    def prepare(whole: Toolkit) -> None:
        if server.watch:
            from ahvn_tools.middleware import watch  # few servers are watched

            whole.use(watch())

    with killed_by_signals(), open_toolkit(request.sources, request.loading, prepare=prepare) as loaded:
        if server.mode is not None:
            loaded.approval_mode = server.mode
        kit = loaded.session(request.state, audience=None) if request.state else loaded
        kit = _select_groups(kit, server.group or ())
        options: dict[str, Any] = {
            "name": server.name or kit.name,
            "audience": server.audience,
            "log_level": server.log_level,
            "tasks": tasks,
            "code_mode": server.code,
        }
        on_loaded(loaded)
        _report_unbound(kit)
        from ahvn_tools.toolkit.serve import serve as serve_toolkit  # slow: refusals do not need it

        if request.http is None:
            serve_toolkit(kit, "stdio", **options)
            return
        http = request.http
        options |= {"path": http.path, "allowed_hosts": http.allowed_host or (), "auth": auth}
        if http.allowed_origin:
            options["allowed_origins"] = http.allowed_origin
        if sockets is not None:
            options["sockets"] = sockets
        try:
            serve_toolkit(kit, "http", host=http.host, port=http.port, **options)
        except OSError as error:
            raise cannot_listen(http, error) from error


def cannot_listen(http: ListenOptions, error: OSError) -> CommandError:
    """Return the error of an address that is not available."""
    return CommandError(f"Cannot serve at {http.host}:{http.port}: {error}.")


def _create_verifier(variable: str | None) -> Any:
    if variable is None:
        return None
    token = _read_environment(variable, "token")
    from fastmcp.server.auth import AccessToken, TokenVerifier  # slow, and few servers need it

    digest = _hash_token(token)

    class SharedTokenVerifier(TokenVerifier):
        """Accepts one token, of which a digest is stored. The comparison takes the same time for every wrong token."""

        async def verify_token(self, token: str) -> AccessToken | None:
            """Return the access of the shared token; None for another token."""
            is_right = hmac.compare_digest(digest, _hash_token(token))
            return AccessToken(token=token, client_id="shared", scopes=[]) if is_right else None

    return SharedTokenVerifier()


def _hash_token(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _read_environment(variable: str, what: str) -> str:
    if value := os.environ.get(variable, "").strip():
        return value
    raise CommandError(f"The environment variable {variable!r} contains no {what}: set it, or omit the option.")


def _report_unbound(kit: Toolkit) -> None:
    """Print which bound parameters have no value: calls of their tools will fail."""
    from ahvn_tools.toolkit.calls import state_scopes

    texts: dict[str, None] = {}
    view = kit._view  # noqa: SLF001  # of this package
    for spec in kit:
        try:
            spec.compiled.plan.check_bound_values(state_scopes(view, view.store.entries[spec.name]))
        except UnboundStateError as error:
            texts[describe_unbound(error, spec.binds)] = None
    for text in texts:
        print_message(f"warning: {text}")


def _select_groups(kit: Toolkit, groups: Sequence[str]) -> Toolkit:
    """Return the tools of some groups, active here and unchanged in the toolkit itself; all tools without groups."""
    return kit.session(audience=None).activate(*groups).select(groups=list(groups)) if groups else kit


_STDIO_RELOAD = (
    "--reload needs --http: over stdio the server is a child process of its client, and a restart would end the "
    "connection. Let the client restart the server."
)


def serve(
    *sources: Sources,
    http: Flag = False,
    listen: Annotated[ListenOptions | None, Parameter(name="*")] = None,
    reload: Flag = False,
    server: Annotated[ServerOptions | None, Parameter(name="*")] = None,
    state: Path | None = None,
    set: Names = None,  # noqa: A002  # the option --set
    options: Annotated[SourceOptions | None, Parameter(name="*")] = None,
) -> None:
    """Serve tools to MCP clients: over stdin and stdout to the client that starts it, or over HTTP.

    Parameters
    ----------
    sources
        What to serve: Python files (FILE or FILE:NAME), modules, folders, manifests, MCP servers, OpenAPI documents.
    http
        Serve over HTTP, at the path /mcp.
    reload
        With --http: start the server again when a Python or YAML file of the tools has changed.
    state
        A JSON or YAML file with the state that all clients share, from which bound parameters are filled.
    set
        KEY=VALUE or KEY:=JSON: a value of the state, in addition to those of the file. Can be repeated.
    """
    if not sources:
        raise UsageError("A SOURCE is missing: a Python file, a folder, a manifest, an MCP server, …")
    if reload and not http:
        raise UsageError(_STDIO_RELOAD)
    if listen is not None and not http:
        names = ", ".join(f"--{one.name.replace('_', '-')}" for one in fields(listen))
        raise UsageError(f"These options are for serving over HTTP: {names}. Add --http.")
    request = ServeRequest(
        sources=tuple(map(str, sources)),
        loading=LoadingOptions(**vars(options or SourceOptions())),
        server=server or ServerOptions(),
        state=read_state(state, set or ()),
        http=listen or ListenOptions() if http else None,
    )
    if reload:
        serve_with_reload(request)
    else:
        run(request)


SUFFIXES: Final = frozenset({".py", ".yaml", ".yml"})
"""Files with these suffixes cause a restart: data that tools write beside their code must not."""

STOP_SECONDS: Final = 8.0
"""Seconds that a server has to end, which is more than it allows itself."""

POLL_MILLISECONDS: Final = 500
"""How often it is checked whether this process should end, and whether the server has ended by itself."""

_SKIPPED_FOLDERS: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


def serve_with_reload(request: ServeRequest) -> None:
    """Serve until this process is stopped, with a new server process after each change."""
    assert request.http is not None  # noqa: S101  # checked by the command
    with _open_listener(request.http) as listener, _stop_signal() as stop:
        server = _Server(request, listener)
        changes = _watch(request, server, stop)
        next(changes, None)  # a change while the tools are loaded counts, too
        try:
            server.start(stop)
            for changed in changes:
                if not changed:
                    server.check()
                    continue
                print_message(f"Changed: {', '.join(sorted(path.name for path in changed))}. Loading again.")
                server.replace(stop)
        finally:
            server.stop()


class _Server:
    """The process that serves now. Another one replaces it only when that one has loaded its tools."""

    def __init__(self, request: ServeRequest, listener: socket.socket) -> None:
        self._request, self._listener = request, listener
        self._process: BaseProcess | None = None
        self.folders: frozenset[Path] = frozenset()
        """The folders of the modules that it has loaded."""
        self._skipped: frozenset[str] = frozenset()
        """The files that it could not load, and serves the others without."""

    def start(self, stop: threading.Event) -> None:
        """Start a server, and wait until it has loaded its tools or has failed to."""
        self._process = self._launch(stop)
        if self._process is None and not stop.is_set():
            print_message("Nothing is served. Waiting for a change.")

    def replace(self, stop: threading.Event) -> None:
        """Start another server, and end the former one."""
        started = self._launch(stop)
        if started is not None:
            self.stop()
            self._process = started
        elif not stop.is_set():
            is_alive = self._process is not None and self._process.is_alive()
            former = "The former server goes on." if is_alive else "Nothing is served."
            print_message(f"{former} Waiting for a change.")

    def check(self) -> None:
        """Say so if the server has ended by itself."""
        if self._process is not None and not self._process.is_alive():
            self._process = None
            print_message("The server process has ended. Waiting for a change.")

    def stop(self) -> None:
        """End the server."""
        if self._process is not None:
            _end(self._process)
            self._process = None

    def _launch(self, stop: threading.Event) -> BaseProcess | None:
        """Return a process that has loaded its tools; None if it cannot."""
        import multiprocessing  # slow, and most servers are one process

        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        is_replaced = self._process is not None and self._process.is_alive()
        arguments = (self._request, self._listener, sender, self._skipped if is_replaced else None)
        process = context.Process(target=_serve, args=arguments)
        process.start()
        sender.close()
        try:
            with receiver:
                while not receiver.poll(POLL_MILLISECONDS / 1000):
                    if stop.is_set():
                        _end(process)
                        return None
                self.folders, self._skipped = receiver.recv()
        except EOFError:  # it has reported its error on stderr
            process.join(STOP_SECONDS)
            return None
        except KeyboardInterrupt:
            _end(process)
            raise
        return process


def _end(process: BaseProcess) -> None:
    process.terminate()
    process.join(STOP_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()


def _watch(request: ServeRequest, server: _Server, stop: threading.Event) -> Iterator[set[Path]]:
    """Yield the files of each change, and nothing from time to time, until this process should end."""
    import watchfiles  # few servers need it

    named = frozenset(path.resolve() for source in request.sources if (path := _find_path(source)) is not None)

    def is_watched(_change: Any, path: str) -> bool:
        return Path(path).suffix in SUFFIXES or Path(path) in named

    while not stop.is_set():
        watched = _source_folders(request.sources) | server.folders
        changes_of_folders = watchfiles.watch(
            *watched,
            watch_filter=is_watched,
            stop_event=stop,
            rust_timeout=POLL_MILLISECONDS,
            yield_on_timeout=True,
            recursive=False,
            ignore_permission_denied=True,
        )
        loaded = server.folders
        for changes in changes_of_folders:
            yield {Path(path) for _, path in changes}
            if not changes and not watched >= server.folders:
                break  # all changes of the folders so far were seen
            if changes or loaded != server.folders:
                loaded = server.folders
                if not watched >= _source_folders(request.sources):
                    break


def _find_path(source: str) -> Path | None:
    """Return the file or folder that a source names, with or without a prefix or the name of an object in it."""
    start, _, end = source.partition(":")
    return next((Path(text) for text in (source, start, end) if text and Path(text).exists()), None)


def _source_folders(sources: Iterable[str]) -> frozenset[Path]:
    """Return the folders of the files, and all folders in the folders, among some sources."""
    folders: set[Path] = set()
    for path in map(_find_path, sources):
        if path is not None:
            folders.update(_walk(path.resolve()) if path.is_dir() else [path.resolve().parent])
    return frozenset(folders or {Path.cwd()})


def _walk(folder: Path) -> Generator[Path]:
    for root, names, _ in os.walk(folder):
        names[:] = [name for name in names if name not in _SKIPPED_FOLDERS and not name.startswith(".")]
        yield Path(root)


@contextlib.contextmanager
def _open_listener(http: ListenOptions) -> Generator[socket.socket]:
    import socket

    family = socket.AF_INET6 if ":" in http.host else socket.AF_INET
    try:
        listener = socket.create_server((http.host, http.port), family=family)
    except OSError as error:
        raise cannot_listen(http, error) from error
    with listener:
        yield listener


@contextlib.contextmanager
def _stop_signal() -> Generator[threading.Event]:
    """Yield an event that SIGTERM sets."""
    stop = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)


# in the process that serves


def _serve(
    request: ServeRequest, listener: socket.socket, ready: Connection, skipped_before: frozenset[str] | None
) -> None:
    """Load the tools, report the folders of their modules and the files that were skipped, and serve.

    `skipped_before` are the files that the server which this one replaces has skipped; None if it replaces none.
    """
    from ahvn_tools.cli.app import run_command

    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # Ctrl-C in the terminal is for the process that watches, which ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def report(kit: Toolkit) -> None:
        skipped = frozenset(error.file or str(error) for error in kit.load_errors)
        if skipped_before is not None and (lost := sorted(skipped - skipped_before)):
            raise CommandError(f"{', '.join(lost)}: cannot be loaded any more.")
        with ready:
            ready.send((frozenset(_module_folders()), skipped))

    sys.exit(run_command(lambda: run(request, sockets=[listener], on_loaded=report)))


def _end_with_parent() -> None:
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        signal.raise_signal(signal.SIGTERM)


def _module_folders() -> set[Path]:
    """Return the folders of the loaded modules that are not installed."""
    installed = (Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[1])
    files = [
        file for module in list(sys.modules.values()) if isinstance(file := getattr(module, "__file__", None), str)
    ]
    folders = {Path(file).resolve().parent for file in files}
    return {folder for folder in folders if not any(folder.is_relative_to(prefix) for prefix in installed)}
