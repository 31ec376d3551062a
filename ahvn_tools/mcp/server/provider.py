"""Provider: a catalog of tools as a FastMCP server asks for it: what is listed, one tool by its name, and its calls."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.providers import Provider
from fastmcp.tools import Tool
from fastmcp.utilities.versions import VersionSpec
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution import failure
from ahvn_tools.execution.deadline import cancel_and_wait, outcome_of
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.formats.rendering.content import replace_surrogates
from ahvn_tools.mcp.server.request import Request
from ahvn_tools.mcp.server.tool import SpecTool, to_fastmcp_tool
from ahvn_tools.results import ErrorDetail, ToolResult

log = logging.getLogger(__name__)


class ServedTools(Protocol):
    """What a server asks of what it serves."""

    async def definitions(self, request: Request) -> Sequence[ToolDefinition]:
        """Return what is listed to whoever asks."""

    async def find(self, name: str, request: Request) -> ToolDefinition | None:
        """Return the tool of that name, listed or not; None for one that is not there for whoever asks."""

    def find_for_any_client(self, name: str) -> ToolDefinition | None:
        """Return the tool of that name, whoever asks. It is for what every client is told alike."""

    def get_revision(self) -> Any:
        """Return what is another whenever what is listed may be another."""

    async def call_tool(self, name: str, arguments: dict[str, Any], request: Request) -> ToolResult:
        """Run a call. Errors of all kinds are results."""


class ServedToolsProvider(Provider):
    """Asks a catalog anew for each request, and by name: what has changed in it is served with the next request."""

    def __init__(self, served_tools: ServedTools) -> None:
        """Take what is served."""
        super().__init__()
        self._served_tools = served_tools
        self._tools: weakref.WeakKeyDictionary[ToolDefinition, SpecTool] = weakref.WeakKeyDictionary()

    async def _list_tools(self) -> Sequence[Tool]:
        listed = await capture_outcome(self._served_tools.definitions, Request.current())
        if listed.error is not None:  # the host's own functions may raise anything
            raise MCPError(INTERNAL_ERROR, _to_client_message(listed.error, "The tools cannot be listed.")) from None
        return [self._to_fastmcp_tool(definition) for definition in listed.value]

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        found = await capture_outcome(self._served_tools.find, name, Request.current())
        if found.error is not None:
            raise ToolError(_to_client_message(found.error, f"Error calling tool {name!r}")) from None
        definition: ToolDefinition | None = found.value
        if definition is None or not (version is None or version.matches(definition.version)):
            return None
        return self._to_fastmcp_tool(definition)

    async def get_tasks(self) -> Sequence[Tool]:
        """Return none: no call of ours is a task of FastMCP's, and nobody asks when this is asked."""
        return []

    def get_input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the input schema of a tool."""
        definition = self._served_tools.find_for_any_client(name)
        return None if definition is None else self._to_fastmcp_tool(definition).parameters

    def _to_fastmcp_tool(self, definition: ToolDefinition) -> SpecTool:
        """Return the FastMCP tool of a definition, made once: definitions that are equal share it."""
        tool = self._tools.get(definition)
        if tool is None:
            name = definition.name

            async def run(arguments: dict[str, Any]) -> ToolResult:
                return await self._call_tool(name, arguments)

            tool = self._tools[definition] = to_fastmcp_tool(definition, run)
        return tool

    async def _call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Run a call in a task of its own: whatever it does with a cancellation, the server is not held up."""
        done = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._run_call(done, name, arguments))
        task.add_done_callback(lambda _: _set_done(done))  # for one that was cancelled before it began
        try:
            await done
        finally:
            await cancel_and_wait(task)
        outcome = outcome_of(task)
        if outcome.error is None:
            served: ToolResult = outcome.value
            return served
        code = getattr(outcome.error, "code", "tool_error")
        message = _to_client_message(outcome.error, f"Error calling tool {name!r}")
        return ToolResult(error=ErrorDetail(code=code, message=message))

    async def _run_call(self, done: asyncio.Future[None], name: str, arguments: dict[str, Any]) -> Outcome:
        try:
            return await capture_outcome(self._served_tools.call_tool, name, arguments, Request.current())
        finally:
            _set_done(done)  # a turn of the loop earlier than the task could tell it


def _set_done(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _to_client_message(error: BaseException, message: str) -> str:
    """Return what a client is told of a request that could not be served: an error of ours, or the message."""
    if isinstance(error, ToolCallError):
        return replace_surrogates(error.message)
    log.error("%s: %s.", message.rstrip("."), failure.summarize_exception(error))
    return message


def install_schema_lookup(server: FastMCP, provider: ServedToolsProvider) -> None:
    """Let mcp look up the schema of a called tool by its name.

    On the 2026-07-28 wire over HTTP mcp compares headers with it before each call, and lists all tools to find it where
    nobody gives it this function. FastMCP 4 has no public way to do so; without the attribute it is slow, not wrong.
    """
    inner: Any = getattr(server, "_mcp_server", None)
    if hasattr(inner, "get_tool_input_schema"):
        inner.get_tool_input_schema = provider.get_input_schema
