"""ToolkitServers: the MCP servers whose tools a toolkit has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Self, Unpack

from ahvn_tools.toolkit.store import ToolStore
from ahvn_tools.toolkit.toolkit_view import ToolkitView

if TYPE_CHECKING:  # slow, and few toolkits have a server
    from ahvn_tools.mcp.client.remote_server import RemoteServer
    from ahvn_tools.mcp.trust.changes import Changes
    from ahvn_tools.toolkit.imported_server import ImportOptions
    from ahvn_tools.toolkit.mcp_imports import MCPImports


class ToolkitServers(ToolkitView):
    """Base class of Toolkit: adds, removes and refreshes MCP servers."""

    __slots__ = ()

    def _store_for(self, action: str) -> ToolStore:
        """Return the store to change it. Raises ToolkitError on a session or a selection."""
        self._view.refuse_change(action)
        return self._view.store

    def add_mcp(
        self, server: Any, *, name: str | None = None, timeout: float | None = 30, **options: Unpack[ImportOptions]
    ) -> Self:
        """Add the tools of an MCP server, or of all servers of an `mcp.json`; `servers` describes each.

        `server` is a URL, a command as a string or as a list of words, an `mcp.json` (its path or its data), the path
        of a script, a FastMCP server, client or transport, or what `mcp.connect` returned. `name` is for `remove_mcp`
        and messages; `timeout`, in seconds, applies to each call. A tool whose name is taken is refused, unless
        `on_duplicate` is `"rename"` (`find` to `server_find`) or `"replace"`. `binds` names the parameters that secret
        bindings may fill, and any binding in later tools.

        Raises ToolConnectionError when no server can be reached, ToolkitError, ToolLookupError and BindError for what
        does not fit; nothing is added then.
        """
        imports = self._mcp_imports("add an MCP server")
        _run_async(imports.add, server, name, timeout, options)
        return self

    async def aadd_mcp(
        self, server: Any, *, name: str | None = None, timeout: float | None = 30, **options: Unpack[ImportOptions]
    ) -> Self:
        """Add the tools of an MCP server from async code, as `add_mcp` does."""
        from ahvn_tools.execution import background_loop

        await background_loop.arun(self._mcp_imports("add an MCP server").add, server, name, timeout, options)
        return self

    def remove_mcp(self, name: str | None = None) -> Self:
        """Remove an MCP server, or all of them, with its tools, and close it. Raises ToolLookupError."""
        _run_async(self._mcp_imports("remove an MCP server").remove, name)
        return self

    async def aremove_mcp(self, name: str | None = None) -> Self:
        """Remove an MCP server, or all of them, from async code, as `remove_mcp` does."""
        from ahvn_tools.execution import background_loop

        await background_loop.arun(self._mcp_imports("remove an MCP server").remove, name)
        return self

    def refresh_mcp(self, name: str | None = None) -> dict[str, Changes]:
        """List the tools of an MCP server, or of all of them, again, and return what has changed, by server.

        What is bound here stays bound, what was removed here stays removed. Raises ToolLookupError, and for a server
        that is named ToolConnectionError.
        """
        changes: dict[str, Changes] = _run_async(self._mcp_imports().refresh, name)
        return changes

    async def arefresh_mcp(self, name: str | None = None) -> dict[str, Changes]:
        """List the tools of an MCP server, or of all of them, again from async code, as `refresh_mcp` does."""
        from ahvn_tools.execution import background_loop

        return await background_loop.arun(self._mcp_imports().refresh, name)

    @property
    def servers(self) -> dict[str, RemoteServer]:
        """The MCP servers by name: the tools of each, which of them wait to be accepted, and what it receives."""
        return {name: imported.server for name, imported in self._view.store.imported_servers.items()}

    def _mcp_imports(self, action: str | None = None) -> MCPImports:
        """Return the MCP servers, for an action that only the toolkit itself allows."""
        from ahvn_tools.toolkit.mcp_imports import MCPImports  # few toolkits have a server

        store = self._view.store if action is None else self._store_for(action)
        toolkit_state = self._view.session_states[-1]
        return MCPImports(store, lambda: toolkit_state.state, self._view.roots)


def _run_async(function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """Run an async function on the background loop and return its value."""
    from ahvn_tools.execution import background_loop
    from ahvn_tools.execution.runner import capture_outcome

    return background_loop.run(capture_outcome, function, *arguments).get()
