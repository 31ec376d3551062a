"""The tool by which a model reads the resources of one server. The server does not list it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # slow
    from mcp_types import CallToolResult, ReadResourceResult, Tool

MAX_URI_CHARS: Final = 2_000
"""The maximum length of a URI."""


def make_resource_tool(name: str, server_name: str) -> Tool:
    """Return the definition of the tool."""
    from mcp_types import Tool, ToolAnnotations

    uri = {"type": "string", "maxLength": MAX_URI_CHARS, "description": "The URI, as a result of a tool has it."}
    return Tool(
        name=name,
        description=f"Read a resource of the MCP server {server_name!r} that a result of one of its tools refers to.",
        input_schema={"type": "object", "properties": {"uri": uri}, "required": ["uri"], "additionalProperties": False},
        annotations=ToolAnnotations(read_only_hint=True),
    )


def to_tool_result(read: ReadResourceResult) -> CallToolResult:
    """Return the contents of a resource as blocks of a result."""
    from mcp_types import CallToolResult, EmbeddedResource

    return CallToolResult(content=[EmbeddedResource(resource=content) for content in read.contents])
