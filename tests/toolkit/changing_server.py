"""An MCP server in this process whose tools a test adds, replaces and removes. They record what they receive."""

from __future__ import annotations

from typing import Any

from fastmcp import FastMCP
from fastmcp.tools.base import Tool, ToolResult
from pydantic import PrivateAttr


class ChangingServer:
    """A server, and the arguments of every call that reached it."""

    def __init__(self, name: str = "remote", **tools: str) -> None:
        """`tools`: name -> its parameters, separated by spaces; one that ends in `!` is required."""
        self.fastmcp: FastMCP = FastMCP(name)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._names: set[str] = set()
        for tool, parameters in tools.items():
            self.put(tool, parameters)

    def put(self, name: str, parameters: str = "", **schema: Any) -> None:
        """List a tool, in place of the one that has this name. `schema`: more members of its input schema."""
        self.drop(name)
        words = parameters.split()
        required = [word.removesuffix("!") for word in words if word.endswith("!")]
        properties = {word.removesuffix("!"): {"type": "string"} for word in words}
        inputs = {"type": "object", "properties": properties, "required": required, **schema}
        tool = _RecordingTool(name=name, parameters=inputs)
        tool._calls = self.calls
        self.fastmcp.add_tool(tool)
        self._names.add(name)

    def drop(self, name: str) -> None:
        """List the tool no longer."""
        if name in self._names:
            self.fastmcp.local_provider.remove_tool(name)
            self._names.remove(name)


class _RecordingTool(Tool):
    _calls: list[tuple[str, dict[str, Any]]] = PrivateAttr(default_factory=list)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        self._calls.append((self.name, dict(arguments)))
        return ToolResult(content="done")
