"""Two servers with the same tools, resources and prompts for the conformance suite: plain FastMCP, and a toolkit.

python -m tests.mcp.conformance.servers toolkit
"""

from __future__ import annotations

import asyncio
import sys

from fastmcp import Context, FastMCP
from fastmcp.prompts import Message
from fastmcp.server.event_store import EventStore
from fastmcp.tools import FunctionTool
from mcp_types import EmbeddedResource, ImageContent, InputRequiredResult, TextResourceContents

from ahvn_tools.mcp.server.run import run_server
from tests.mcp.conformance import tools
from tests.mcp.conformance.input_required import elicit


def make_fastmcp() -> FastMCP:
    """Return a FastMCP server whose tools are the functions of the toolkit, registered with FastMCP."""
    server = FastMCP("fastmcp", dereference_schemas=False)
    for spec in tools.kit:
        function = FASTMCP_FUNCTIONS.get(spec.name, spec.function)
        tool = FunctionTool.from_function(function, name=spec.name)
        if spec.name == "json_schema_2020_12_tool":
            tool = tool.model_copy(update={"parameters": tools.SCHEMA_2020_12})
        server.add_tool(tool)

    @server.tool
    def test_trigger_tool_change() -> str:
        """Change the list of tools."""
        server.tool(lambda: "", name="added")
        return "done"

    return server


def make_toolkit() -> FastMCP:
    """Return the server of the toolkit."""
    return tools.kit.to_fastmcp_server()


async def report_progress(context: Context) -> str:
    """Report progress three times."""
    for progress in (0, 50, 100):
        await context.report_progress(progress, 100)
        await asyncio.sleep(0.05)
    return "done"


FASTMCP_FUNCTIONS = {"test_tool_with_progress": report_progress}
"""Functions in place of those that need this package."""


def add_resources(server: FastMCP) -> None:
    """Add what the suite requires of a server's resources."""
    server.resource("test://static-text", mime_type="text/plain")(lambda: "This is the content of the text resource.")
    server.resource("test://static-binary", mime_type="image/png")(tools.pixel)
    server.resource("test://watched-resource")(lambda: "watched")

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def read_data(id: str) -> dict[str, object]:
        return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


def add_prompts(server: FastMCP) -> None:
    """Add what the suite requires of a server's prompts."""

    @server.prompt
    def test_simple_prompt() -> str:
        """Return a text."""
        return "This is a simple prompt for testing."

    @server.prompt
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """Return the arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:
        """Return a resource."""
        contents = TextResourceContents(uri=resourceUri, mime_type="text/plain", text="Embedded resource content.")
        embedded = EmbeddedResource(type="resource", resource=contents)
        return [Message(embedded), Message("Please process the embedded resource above.")]

    @server.prompt
    def test_prompt_with_image() -> list[Message]:
        """Return an image."""
        image = ImageContent(type="image", data=tools.pixel_in_base64(), mime_type="image/png")
        return [Message(image), Message("Please analyze the image above.")]

    @server.prompt
    async def test_input_required_result_prompt(context: Context) -> str | InputRequiredResult:
        """Ask for the context."""
        if context.input_responses:
            return "done"
        return InputRequiredResult(input_requests={"user_context": elicit("What is the context?", "context")})


SERVERS = {"fastmcp": make_fastmcp, "toolkit": make_toolkit}

if __name__ == "__main__":
    name, *options = sys.argv[1:]
    server = SERVERS[name]()
    add_resources(server)
    add_prompts(server)
    http = {"event_store": EventStore()} if "events" in options else {}
    asyncio.run(run_server(server, "http", port=0, http=http))
