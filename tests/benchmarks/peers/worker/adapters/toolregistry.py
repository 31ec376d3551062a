"""ToolRegistry: `Tool.from_function`, `run`, `arun`; a registry calls tools by name."""

from collections.abc import Callable
from typing import Any

from toolregistry import Tool, ToolRegistry

from tests.benchmarks.peers.worker.adapter import Call, NamedCall, PackageAdapter
from tests.benchmarks.peers.worker.subjects import add_later


class Adapter(PackageAdapter):
    """Calls of one tool are those of `Tool`; `ToolRegistry.invoke` calls by name."""

    lacks = {
        "context_call": "does not inject values",
        "context": "has no sessions",
        "server": "serves MCP by another package only",
    }
    first_call = '''
from toolregistry import ToolRegistry

registry = ToolRegistry()

@registry.register
def add(left: int, right: int = 2) -> int:
    """Add two numbers."""
    return left + right

assert registry["add"](left=1, right=2) == 3
'''

    def create(self, function: Callable[..., Any]) -> Tool:
        return Tool.from_function(function)

    def sync_call(self, tool: Tool) -> Call:
        return tool.run

    def async_call(self, tool: Tool) -> Call:
        return tool.arun

    def result_call(self, tool: Tool) -> Call:
        registry = ToolRegistry()
        registry.register(tool)
        return lambda arguments: registry.invoke(tool.name, arguments)

    def dispatch(self, count: int) -> NamedCall:
        registry = ToolRegistry()
        for number in range(count):
            registry.register(Tool.from_function(add_later, name=f"add_{number}"))
        return registry.invoke

    def exporter(self, tool: Tool) -> Callable[[], Any]:
        return tool.get_schema
