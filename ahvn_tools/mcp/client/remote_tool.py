"""RemoteTool: the body of a tool that runs on an MCP server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Final

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolChangedError
from ahvn_tools.mcp.client.results import ResultParser
from ahvn_tools.results import ToolResult

RESERVED_META_KEYS: Final = frozenset({
    "approval", "attempts", "cached", "changed", "duration", "ends_session", "omitted_chars", "output", "progress",
    "structured",
})  # fmt: skip
"""Keys of a result's `meta` that this package writes: a server's values of these keys are dropped."""


@dataclass(eq=False)
class RemoteTool:
    """One tool of a server. It cannot be pickled, because a connection belongs to a process."""

    name: str
    context_name: str
    """The argument with the ToolContext."""
    result_parser: ResultParser
    call_tool: Callable[[str, dict[str, Any], ToolContext], Awaitable[Any]]
    """Calls a tool by its name on the server, with arguments and the context of the call."""
    get_blocked_names: Callable[[], Collection[str]]
    """Returns the tools of the server that may not be called."""

    @property
    def is_changed(self) -> bool:
        """Whether the server's definition of the tool is not the accepted one."""
        return self.name in self.get_blocked_names()

    async def __call__(self, /, **arguments: Any) -> ToolResult:
        """Call the tool. Raises ToolChangedError, ToolConnectionError, InvalidResultError, ToolError."""
        context = arguments.pop(self.context_name)
        if self.is_changed:
            raise tool_changed_error(self.name)
        result = self.result_parser.parse(await self.call_tool(self.name, arguments, context))
        return replace(result, meta={key: item for key, item in result.meta.items() if key not in RESERVED_META_KEYS})


def choose_unused_name(taken: Collection[str]) -> str:
    """Return an argument name for the ToolContext that no parameter of a tool has."""
    name = "context"
    while name in taken:
        name += "_"
    return name


def tool_changed_error(name: str) -> ToolChangedError:
    """Return the error about a tool whose new definition is not accepted yet."""
    return ToolChangedError(f"The tool {name!r} has changed and is blocked until the host accepts it.", tool=name)
