"""The tools that a server lists, finds and calls, as a FastMCP provider."""

from __future__ import annotations

import asyncio
import functools
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
from ahvn_tools.execution import convert
from ahvn_tools.execution.deadline import cancel_and_wait, outcome_of
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.formats.json_data import replace_surrogates
from ahvn_tools.mcp.server.request import Request
from ahvn_tools.mcp.server.tool import SpecTool, to_fastmcp_tool
from ahvn_tools.results import ErrorDetail, ToolResult

log = logging.getLogger(__name__)


class ServedTools(Protocol):
    """What a server needs of the tools that it serves."""

    async def definitions(self, request: Request) -> Sequence[ToolDefinition]:
        """Return the definitions to list to the client of a request."""

    async def find(self, name: str, request: Request) -> ToolDefinition | None:
        """Return the tool of that name, listed or not; None if there is none for the client of the request."""

    def find_for_any_client(self, name: str) -> ToolDefinition | None:
        """Return the tool of that name without a request, for answers that are the same for all clients."""

    def get_revision(self) -> Any:
        """Return a value that differs whenever the list of tools may have changed."""

    async def call_tool(self, name: str, arguments: dict[str, Any], request: Request) -> ToolResult:
        """Run a call. Errors of all kinds are results."""


class ServedToolsProvider(Provider):
    """Looks tools up for each request, so that a change is served with the next request."""

    def __init__(self, served_tools: ServedTools) -> None:
        """Provide these tools."""
        super().__init__()
        self._served_tools = served_tools
        self._tools: weakref.WeakKeyDictionary[ToolDefinition, SpecTool] = weakref.WeakKeyDictionary()

    async def _list_tools(self) -> Sequence[Tool]:
        outcome = await capture_outcome(self._served_tools.definitions, Request.current())
        if outcome.error is not None:  # the host's own functions may raise anything
            raise MCPError(INTERNAL_ERROR, _to_client_message(outcome.error, "The tools cannot be listed.")) from None
        return [self._to_fastmcp_tool(definition) for definition in outcome.value]

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        outcome = await capture_outcome(self._served_tools.find, name, Request.current())
        if outcome.error is not None:
            raise ToolError(_to_client_message(outcome.error, f"Error calling tool {name!r}")) from None
        definition: ToolDefinition | None = outcome.value
        if definition is None or not (version is None or version.matches(definition.version)):
            return None
        return self._to_fastmcp_tool(definition)

    async def get_tasks(self) -> Sequence[Tool]:
        """Return none: FastMCP asks this outside of any request, and no call of ours is one of its tasks."""
        return []

    def get_input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the input schema of a tool."""
        definition = self._served_tools.find_for_any_client(name)
        return None if definition is None else self._to_fastmcp_tool(definition).parameters

    def _to_fastmcp_tool(self, definition: ToolDefinition) -> SpecTool:
        """Return the FastMCP tool of a definition, created once for equal definitions."""
        tool = self._tools.get(definition)
        if tool is None:
            run = functools.partial(self._call_tool, definition.name)
            tool = self._tools[definition] = to_fastmcp_tool(definition, run)
        return tool

    async def _call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Run a call in its own task, so that a call which ignores its cancellation does not block the server."""
        done = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._run_call(done, name, arguments))
        task.add_done_callback(lambda _: _set_done(done))  # for a task that was cancelled before it started
        try:
            await done
        finally:
            await cancel_and_wait(task)
        outcome = outcome_of(task)
        if outcome.error is None:
            result: ToolResult = outcome.value
            return result
        code = getattr(outcome.error, "code", "tool_error")
        message = _to_client_message(outcome.error, f"Error calling tool {name!r}")
        return ToolResult(error=ErrorDetail(code=code, message=message))

    async def _run_call(self, done: asyncio.Future[None], name: str, arguments: dict[str, Any]) -> Outcome:
        try:
            return await capture_outcome(self._served_tools.call_tool, name, arguments, Request.current())
        finally:
            _set_done(done)  # one turn of the loop earlier than the task's done callback


def _set_done(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _to_client_message(error: BaseException, message: str) -> str:
    """Return the text of an error of ours; of another error, `message`, and log the error."""
    if isinstance(error, ToolCallError):
        return replace_surrogates(error.message)
    log.error("%s: %s.", message.rstrip("."), convert.summarize_exception(error))
    return message


def install_schema_lookup(server: FastMCP, provider: ServedToolsProvider) -> None:
    """Let mcp look up the schema of a called tool by its name.

    With protocol 2026-07-28 over HTTP, mcp compares headers with the schema before each call and lists all tools to
    find it, unless it has this function. FastMCP 4 has no public API for this; without the private attribute a call is
    slow, not wrong.
    """
    mcp_server: Any = getattr(server, "_mcp_server", None)
    if hasattr(mcp_server, "get_tool_input_schema"):
        mcp_server.get_tool_input_schema = provider.get_input_schema
