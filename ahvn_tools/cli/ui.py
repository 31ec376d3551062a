"""`ahvn-tools ui`: see and try tools in a browser on this machine, and decide what waits for a person."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from ahvn_tools.cli.arguments import read_state
from ahvn_tools.cli.output import CommandError, print_message
from ahvn_tools.cli.sources import Flag, LoadingOptions, Names, SourceParameters, Sources, open_toolkit
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.mcp.client.server_process import ending_signals, kill_all_groups

if TYPE_CHECKING:
    from ahvn_tools.middleware.inbox import Inbox
    from ahvn_tools.toolkit import Toolkit

HOST = "127.0.0.1"
"""Only programs on this machine can connect."""

INBOX_KEY = "AHVN_TOOLS_INBOX_KEY"
"""The variable with the secret_key of the inbox."""

SHUTDOWN_SECONDS = 2
"""How long calls that do not end when they are cancelled may run on after Ctrl-C."""

LOOK_SECONDS = 20
"""How often processes are made to go on writing their calls, for the page Watch."""


def ui(
    *sources: Sources,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 0,
    state: Path | None = None,
    set: Names = None,  # noqa: A002  # the option --set
    inbox: Path | None = None,
    read_only: Flag = False,
    show_state: Flag = False,
    options: SourceParameters = None,
) -> None:
    """Show tools in a browser, and try them. The address is printed; it works on this machine alone, until Ctrl-C.

    Parameters
    ----------
    sources
        What to show: Python files (FILE or FILE:NAME), modules, folders, manifests, MCP servers, OpenAPI documents.
    port
        The port to listen on; by default a free one.
    state
        A JSON or YAML file with the state from which bound parameters are filled.
    set
        KEY=VALUE or KEY:=JSON: a value of the state, in addition to those of the file. Can be repeated.
    inbox
        The file of an Inbox, in which calls of other processes wait. AHVN_TOOLS_INBOX_KEY has its secret_key.
    read_only
        Only show: nothing is run, decided or connected.
    show_state
        Show the values of bound parameters that are not secret.
    """
    values = read_state(state, set or ())
    import uvicorn  # slow, as the pages are

    try:
        from starlette.applications import Starlette
        from starlette.routing import Mount

        from ahvn_tools.middleware import watch
        from ahvn_tools.middleware.watched_calls import WatchedCalls
        from ahvn_tools.ui import app
        from ahvn_tools.ui.snippets import setup_code
    except ModuleNotFoundError as error:
        raise CommandError(f"{error}.") from error

    class Server(uvicorn.Server):
        """Ends event streams when it stops: their pages would hold it up."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """Close the connections, then stop as usual."""
            for connection in list(self.server_state.connections):
                connection.transport.close()
            await super().shutdown(sockets)

    async def look() -> None:
        with contextlib.suppress(ToolSpecError):  # the page says so
            await asyncio.to_thread(WatchedCalls().look)

    with _closing_at_signals(), contextlib.ExitStack() as stack:
        loaded: list[Toolkit] = []
        kit = stack.enter_context(open_toolkit(sources, options, prepare=loaded.append))
        try:
            listener = stack.enter_context(socket.create_server((HOST, port)))
        except OSError as error:
            raise CommandError(f"Cannot listen at {HOST}:{port}: {error}.") from error
        token = secrets.token_urlsafe(24)
        found = _open_inbox(kit, inbox, stack)
        view = kit._view  # noqa: SLF001  # as in _open_inbox
        if values or not view.is_toolkit:  # `app` adds the middleware to a toolkit alone
            view.store.use(watch())
        if values:
            kit = kit.session(values, audience=None)
        loading = options or LoadingOptions()
        how = {"profile": loading.profile, "audience": loading.audience, "trust": loading.trust, "roots": loading.root}
        # A cookie is sent to all ports of a host: a path that nobody knows keeps it from other users' servers.
        path = secrets.token_urlsafe(12)
        pages = app(
            kit,
            token=token,
            inbox=found,
            connect_to=loaded[0] if loaded[0]._view.is_toolkit else None,  # noqa: SLF001  # as above
            read_only=read_only,
            show_state=show_state,
            edit_state=True,
            setup=setup_code(map(str, sources), how, values, loading.group or ()),
        )
        config = uvicorn.Config(
            Starlette(routes=[Mount(f"/{path}", pages)]),
            log_level="warning",
            lifespan="off",
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            ws="none",
            callback_notify=look,
            timeout_notify=LOOK_SECONDS,
        )
        print_message(f"http://{HOST}:{listener.getsockname()[1]}/{path}/?token={token}")
        with contextlib.suppress(KeyboardInterrupt):
            Server(config).run(sockets=[listener])


@contextlib.contextmanager
def _closing_at_signals() -> Generator[None]:
    """Let SIGTERM and SIGHUP act like Ctrl-C, so that what was opened is closed; then they end the process."""
    received: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        received.append(number)
        if len(received) == 1:  # others must not break the closing off
            signal.raise_signal(signal.SIGINT)

    try:
        with ending_signals(interrupt):
            yield
    finally:
        if received:
            kill_all_groups()  # servers that were still being connected
            signal.raise_signal(received[0])


def _open_inbox(kit: Toolkit, file: Path | None, stack: contextlib.ExitStack) -> Inbox:
    """Return the inbox of the file or of the toolkit, or one of this process alone; calls that are tried wait there."""
    from ahvn_tools.middleware.inbox import Inbox

    store = kit._view.store  # noqa: SLF001  # a toolkit that is loaded has no setter: only its host may change this
    if file is None and isinstance(store.approver, Inbox):
        return store.approver
    if file is not None and INBOX_KEY not in os.environ:
        raise CommandError(
            f"Set the variable {INBOX_KEY} to the secret_key of the Inbox, the same as in its processes."
        )
    folder = "" if file is not None else stack.enter_context(tempfile.TemporaryDirectory())
    key = secrets.token_hex(32) if file is None else os.environ[INBOX_KEY]
    inbox = Inbox(file or Path(folder, "inbox.db"), secret_key=key)
    if store.approver is None:
        store.approver = inbox
    return inbox
