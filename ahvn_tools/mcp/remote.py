"""Remote: the body of a tool that runs elsewhere, and is called over MCP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolChangedError
from ahvn_tools.mcp.answers import Answers
from ahvn_tools.results import ToolResult

Send = Callable[[str, dict[str, Any], ToolContext], Awaitable[Any]]
"""Calls a tool by its name on the server, with arguments, for a call."""


class Remote:
    """One tool of a server. A connection belongs to a process, so none of it can be pickled."""

    def __init__(self, name: str, context: str, send: Send, answers: Answers) -> None:
        """`context` is the name of the argument that is the ToolContext; `answers` reads what the server says."""
        self.name = name
        self.context = context
        self.answers = answers
        self.is_changed = False
        """Whether the server tells something else of the tool than what is pinned."""
        self._send = send

    async def __call__(self, /, **arguments: Any) -> ToolResult:
        """Call the tool. Raises ToolChangedError, ToolConnectionError, InvalidResultError, ToolError."""
        context = arguments.pop(self.context)
        if self.is_changed:
            raise changed(self.name)
        return self.answers.result(await self._send(self.name, arguments, context))


def free_name(taken: Collection[str]) -> str:
    """Return a name for the ToolContext that no parameter of a tool has."""
    name = "context"
    while name in taken:
        name += "_"
    return name


def changed(name: str) -> ToolChangedError:
    """Return the error about a tool that is not what it was."""
    return ToolChangedError(f"The tool {name!r} is not what it was: somebody has to accept it first.", tool=name)
