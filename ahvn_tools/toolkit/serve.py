"""Serve a toolkit, a registry or tools as an MCP server until it is stopped."""

from __future__ import annotations

from typing import Any, Literal, Unpack

from ahvn_tools.errors import DefinitionError, SyncCallError
from ahvn_tools.execution.background_loop import running_loop
from ahvn_tools.mcp.client import server_process
from ahvn_tools.mcp.server import run, signals
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit.entry_options import refuse_unknown_options
from ahvn_tools.toolkit.mcp_server import ToolkitServerOptions
from ahvn_tools.toolkit.toolkit import Toolkit
from ahvn_tools.toolkit.visibility import StoreView

Transport = Literal["stdio", "http"]


class ServeOptions(ToolkitServerOptions, run.ServerRunOptions, total=False):
    """The options of `serve`: those of the server, and those of running it."""

    code_mode: bool
    """Whether clients call the tools in programs."""


def serve(thing: Any, transport: Transport = "stdio", **options: Unpack[ServeOptions]) -> None:
    """Serve a Toolkit, an instance of a ToolRegistry, a tool or a list of tools over MCP, until it is stopped.

    `transport` is `"stdio"`, or `"http"` with `host`, `port`, `path`, `allowed_hosts` and `allowed_origins`. The other
    options are those of `Toolkit.to_fastmcp_server`. With `code_mode=True` clients call the tools in programs: the
    toolkit gets the tools of `add_code_mode`, unless it has them, and a selection contains them. Over stdio the output
    of `print` in tools goes to stderr. SIGTERM and Ctrl-C end it within a few seconds, also while tools run. Raises
    SyncCallError in a running event loop: use `aserve` there.
    """
    if running_loop() is not None:
        raise SyncCallError("`serve` would block the running event loop; use `await aserve(…)`.")
    signals.run_until_signal(
        aserve(thing, transport, **options), server_process.kill_all_groups, server_process.exit_by_signal
    )


async def aserve(thing: Any, transport: Transport = "stdio", **options: Unpack[ServeOptions]) -> None:
    """Serve from async code, as `serve` does, until it is stopped or this is cancelled."""
    refuse_unknown_options(options, ServeOptions)
    code_mode = options.pop("code_mode", False)
    run_options: Any = {name: value for name, value in options.items() if name in run.ServerRunOptions.__annotations__}
    server_options: Any = {name: value for name, value in options.items() if name not in run_options}
    kit = to_toolkit(thing)
    if code_mode:
        kit = with_code_mode(kit)
    server = kit.to_fastmcp_server(**server_options)
    await run.run_server(server, transport, **run_options)


def with_code_mode(kit: Toolkit) -> Toolkit:
    """Return a toolkit, session or selection with the tools of code mode; the toolkit gets them, unless it has them."""
    from ahvn_tools.toolkit.code_mode import is_code_tool  # slow, and few toolkits have it

    view = kit._view  # noqa: SLF001  # of this package
    if not any(is_code_tool(entry.spec) for entry in view.store.entries.values()):
        kit._with_view(StoreView(view.store, view.session_states[-1:])).add_code_mode()  # noqa: SLF001  # as above
    listing = view.store.search_listing
    return kit if listing is None else kit._with_view(view.including(listing.search_tool_names))  # noqa: SLF001  # as above


def to_toolkit(thing: Any) -> Toolkit:
    """Return a toolkit unchanged, or a new one with what can be served.

    Raises DefinitionError for what cannot be served, and when there is no tool.
    """
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
    if len(kit) == 0:
        raise DefinitionError("There is no tool to serve: pass a tool, or a Toolkit, which may get its tools later.")
    return kit
