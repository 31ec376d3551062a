"""Remote: the body of a tool that runs elsewhere, and is called over MCP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Any, Final

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolChangedError
from ahvn_tools.mcp.client.results import ResultParser
from ahvn_tools.results import ToolResult

CallTool = Callable[[str, dict[str, Any], ToolContext], Awaitable[Any]]
"""Calls a tool by its name on the server, with arguments, for a call."""

RESERVED_META_KEYS: Final = frozenset({
    "approval", "attempts", "cached", "changed", "duration", "ends_session", "omitted_chars", "output", "progress",
    "structured",
})  # fmt: skip
"""What `meta` of a result says in our own words: no server speaks in them."""


class RemoteTool:
    """One tool of a server. A connection belongs to a process, so none of it can be pickled."""

    def __init__(
        self,
        name: str,
        context_name: str,
        call_tool: CallTool,
        result_parser: ResultParser,
        get_blocked_names: Callable[[], Collection[str]],
    ) -> None:
        """`context` is the name of the argument that is the ToolContext; `answers` reads what the server says.

        `blocked` gives the names of the tools that are not called until they are accepted.
        """
        self.name = name
        self.context_name = context_name
        self.result_parser = result_parser
        self._call_tool = call_tool
        self._get_blocked_names = get_blocked_names

    @property
    def is_changed(self) -> bool:
        """Whether the server tells something else of the tool than what was accepted."""
        return self.name in self._get_blocked_names()

    async def __call__(self, /, **arguments: Any) -> ToolResult:
        """Call the tool. Raises ToolChangedError, ToolConnectionError, InvalidResultError, ToolError."""
        context = arguments.pop(self.context_name)
        if self.is_changed:
            raise tool_changed_error(self.name)
        made = self.result_parser.parse(await self._call_tool(self.name, arguments, context))
        theirs = {key: value for key, value in made.meta.items() if key not in RESERVED_META_KEYS}
        return made if theirs == made.meta else replace(made, meta=theirs)


def choose_unused_name(taken: Collection[str]) -> str:
    """Return a name for the ToolContext that no parameter of a tool has."""
    name = "context"
    while name in taken:
        name += "_"
    return name


def tool_changed_error(name: str) -> ToolChangedError:
    """Return the error about a tool that is not what it was."""
    return ToolChangedError(f"The tool {name!r} is not what it was: somebody has to accept it first.", tool=name)
