"""`ahvn-tools ui`: see and try tools in a browser on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from ahvn_tools.cli.arguments import read_state
from ahvn_tools.cli.output import CommandError, print_message
from ahvn_tools.cli.sources import Names, SourceParameters, Sources, open_toolkit
from ahvn_tools.errors import ToolSpecError

HOST = "127.0.0.1"
"""Only programs on this machine can connect."""

SHUTDOWN_SECONDS = 2
"""How long calls that do not end when they are cancelled may run on after Ctrl-C."""

LOOK_SECONDS = 20
"""How often processes are made to go on writing their calls, for the page Watch."""


def ui(
    *sources: Sources,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 0,
    state: Path | None = None,
    set: Names = None,  # noqa: A002  # the option --set
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
    """
    values = read_state(state, set or ())
    import uvicorn  # slow, as the pages are

    try:
        from ahvn_tools.middleware import watch
        from ahvn_tools.middleware.watched_calls import WatchedCalls
        from ahvn_tools.ui import app
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

    with contextlib.ExitStack() as stack:
        kit = stack.enter_context(open_toolkit(sources, options))
        try:
            listener = stack.enter_context(socket.create_server((HOST, port)))
        except OSError as error:
            raise CommandError(f"Cannot listen at {HOST}:{port}: {error}.") from error
        token = secrets.token_urlsafe(24)
        if values:
            kit.use(watch())
            kit = kit.session(values, audience=None)
        pages = app(kit, token=token)
        config = uvicorn.Config(
            pages,
            log_level="warning",
            lifespan="off",
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            ws="none",
            callback_notify=look,
            timeout_notify=LOOK_SECONDS,
        )
        print_message(f"http://{HOST}:{listener.getsockname()[1]}/?token={token}")
        with contextlib.suppress(KeyboardInterrupt):
            Server(config).run(sockets=[listener])
