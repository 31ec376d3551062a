"""Serve: tools of any kind as an MCP server, run until it is stopped."""

from __future__ import annotations

from typing import Any, Literal, Unpack

from ahvn_tools.errors import SyncCallError
from ahvn_tools.execution.background_loop import running_loop
from ahvn_tools.mcp.server import app, signals
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit.mcp_server import ToolkitServerOptions
from ahvn_tools.toolkit.toolkit import Toolkit

Transport = Literal["stdio", "http"]


class ServeOptions(ToolkitServerOptions, app.ServerRunOptions, total=False):
    """What `serve` takes: what makes the server, and how it runs."""


def serve(thing: Any, transport: Transport = "stdio", **options: Unpack[ServeOptions]) -> None:
    """Serve a Toolkit, an instance of a ToolRegistry, a tool or a list of tools over MCP, until it is stopped.

    `transport` is `"stdio"`, or `"http"` with `host`, `port`, `path`, `allowed_hosts` and `allowed_origins`. The other
    options are those of `Toolkit.to_fastmcp_server`. Over stdio what tools print goes to stderr. SIGTERM and Ctrl-C end
    it within a few seconds, whatever tools do. Raises SyncCallError in a running event loop: use `aserve` there.
    """
    if running_loop() is not None:
        raise SyncCallError("`serve` would block the event loop that runs here; use `await aserve(…)`.")
    signals.run_until_signal(aserve(thing, transport, **options))


async def aserve(thing: Any, transport: Transport = "stdio", **options: Unpack[ServeOptions]) -> None:
    """Serve from async code, as `serve` does, until it is stopped or this is cancelled."""
    running: Any = {name: value for name, value in options.items() if name in app.ServerRunOptions.__annotations__}
    making: Any = {name: value for name, value in options.items() if name not in running}
    server = to_toolkit(thing).to_fastmcp_server(**making)
    await app.run_server(server, transport, **running)


def to_toolkit(thing: Any) -> Toolkit:
    """Return a toolkit as it is, or one made of what else can be served. Raises DefinitionError for what cannot."""
    if isinstance(thing, Toolkit):
        return thing
    if isinstance(thing, ToolSpec):
        name = thing.name
    elif isinstance(thing, ToolRegistry):
        name = type(thing).__name__
    else:
        name = getattr(thing, "__name__", "tools")
    kit = Toolkit(name)
    for part in thing if isinstance(thing, list | tuple) else [thing]:
        kit.add(part)
    return kit
