"""The tools with which a model finds other tools and calls them.

Each acts on the toolkit as its caller sees it: with the caller's session, selection, audience and middleware.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import Field

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.execution.scope import CallScope
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit.entry import DELEGATES


def search_tools(
    query: str, context: ToolContext, limit: Annotated[int, Field(ge=1, le=20)] = 5
) -> list[dict[str, Any]]:
    """Find tools that are not listed to you. Call a tool that you find with `call_tool`.

    Args:
        query: What the tool should do, in a few words.
        limit: The maximum number of tools to return.

    Returns:
        The best matching tools, each with its name, description and the JSON Schema of its arguments. If the list is
        empty, try other words.
    """
    specs = require_toolkit(context).search(query, limit + len(SEARCH_TOOLS))
    matches = [spec.definition for spec in specs if spec.function not in SEARCH_TOOLS][:limit]
    return [{"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in matches]


async def call_tool(name: str, context: ToolContext, arguments: dict[str, Any] | None = None) -> ToolResult:
    """Call a tool that `search_tools` has found.

    Args:
        name: The name of the tool.
        arguments: The tool's arguments; they must match its input schema.
    """
    if name == context.tool:
        raise ToolError(f"{name!r} does not call itself: pass the name of the tool that you want.")
    view = require_toolkit(context)._view  # noqa: SLF001  # of this package
    # the same id: an approval of this call answers the one that the model made
    options = calls.CallOptions(
        id=context.call_id,
        run_id=context.run_id,
        scope=CallScope(),
        is_served=context.is_served,
        shows_errors=context.shows_errors,
        report=context.report_progress,
    )
    return await calls.aexecute(view, name, arguments, options)


setattr(call_tool, DELEGATES, True)

SEARCH_TOOLS: Final = (search_tools, call_tool)
"""The functions with which a model finds and calls tools."""


def inner_call(call: ToolCall) -> ToolCall | None:
    """Return the call that a call of `call_tool` asks for, with the same id; None when its arguments are invalid."""
    name, arguments = call.arguments.get("name"), call.arguments.get("arguments") or {}
    try:
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return None
    if not (isinstance(name, str) and isinstance(arguments, dict)):
        return None
    return replace(call, name=name, arguments=arguments)


def require_toolkit(context: ToolContext) -> Any:
    """Return the toolkit of a call. Raises ToolError for a tool that is called outside a toolkit."""
    if context.toolkit is None:
        raise ToolError(f"{context.tool or 'This tool'!r} works in a toolkit only.")
    return context.toolkit
