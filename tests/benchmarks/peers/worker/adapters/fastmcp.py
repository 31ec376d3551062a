"""FastMCP: `Tool.from_function` and `run`; a server calls tools by name."""

from collections.abc import Callable
from typing import Any

from fastmcp import FastMCP
from fastmcp.tools import Tool
from fastmcp.tools.tool_transform import ArgTransform

from tests.benchmarks.peers.worker.adapter import Call, NamedCall, PackageAdapter
from tests.benchmarks.peers.worker.subjects import add_later


async def add_for(left: int, right: int, user: str) -> int:
    """Add two numbers for a user."""
    return left + right if user else 0


class Adapter(PackageAdapter):
    """Calls of one tool are those of `Tool.run`; a transformed tool hides an argument."""

    export_form = "MCP"
    lacks = {
        "sync_call": "has no sync call",
        "context": "has no sessions outside of a served connection",
    }
    first_call = '''
import asyncio
from fastmcp.tools import Tool

def add(left: int, right: int = 2) -> int:
    """Add two numbers."""
    return left + right

result = asyncio.run(Tool.from_function(add).run({"left": 1, "right": 2}))
assert result.structured_content == {"result": 3}
'''

    def create(self, function: Callable[..., Any]) -> Tool:
        return Tool.from_function(function)

    def async_call(self, tool: Tool) -> Call:
        return tool.run

    def context_call(self) -> Call:
        state = {"user": "ann"}
        hidden = ArgTransform(hide=True, default_factory=lambda: state["user"])
        return Tool.from_tool(Tool.from_function(add_for), transform_args={"user": hidden}).run

    def dispatch(self, count: int) -> NamedCall:
        server: FastMCP = FastMCP("many")
        for number in range(count):
            server.add_tool(Tool.from_function(add_later, name=f"add_{number}"))
        return server.call_tool

    def exporter(self, tool: Tool) -> Callable[[], Any]:
        return tool.to_mcp_tool

    def server(self) -> Any:
        server: FastMCP = FastMCP("served")
        server.add_tool(Tool.from_function(add_later))
        return server
