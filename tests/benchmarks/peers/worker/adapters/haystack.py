"""Haystack: `create_tool_from_function`, `invoke`, `invoke_async`."""

from collections.abc import Callable
from typing import Any

from haystack.tools import Tool, create_tool_from_function

from tests.benchmarks.peers.worker.adapter import Call, PackageAdapter


class Adapter(PackageAdapter):
    """Outside of an agent's run, `Tool` is all there is."""

    export_form = "its own tool_spec"
    lacks = {
        "context_call": "injects values only inside an agent's run",
        "context": "has no sessions outside of an agent's run",
        "dispatch": "calls by name only inside an agent's run",
        "server": "serves MCP by another package only",
    }
    first_call = '''
from haystack.tools import create_tool_from_function

def add(left: int, right: int = 2) -> int:
    """Add two numbers."""
    return left + right

assert create_tool_from_function(add).invoke(left=1, right=2) == 3
'''

    def create(self, function: Callable[..., Any]) -> Tool:
        return create_tool_from_function(function)

    def sync_call(self, tool: Tool) -> Call:
        return lambda arguments: tool.invoke(**arguments)

    def async_call(self, tool: Tool) -> Call:
        return lambda arguments: tool.invoke_async(**arguments)

    def exporter(self, tool: Tool) -> Callable[[], Any]:
        return lambda: tool.tool_spec
