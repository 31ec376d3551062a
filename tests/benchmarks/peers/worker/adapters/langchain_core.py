"""LangChain: `StructuredTool.from_function`, `invoke`, `ainvoke`."""

from collections.abc import Callable
from typing import Annotated, Any

from langchain_core.tools import InjectedToolArg, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from tests.benchmarks.peers.worker.adapter import Call, PackageAdapter
from tests.benchmarks.peers.worker.subjects import is_async


async def add_for(left: int, right: int, user: Annotated[str, InjectedToolArg]) -> int:
    """Add two numbers for a user."""
    return left + right if user else 0


class Adapter(PackageAdapter):
    """The docstring's parameters are read, as every other package does that can."""

    lacks = {
        "context": "has no sessions: the application passes the value with each call",
        "dispatch": "has no collection of tools",
        "server": "does not serve tools over MCP",
    }
    first_call = '''
from langchain_core.tools import tool

@tool
def add(left: int, right: int = 2) -> int:
    """Add two numbers."""
    return left + right

assert add.invoke({"left": 1, "right": 2}) == 3
'''

    def create(self, function: Callable[..., Any]) -> StructuredTool:
        if is_async(function):
            return StructuredTool.from_function(coroutine=function, parse_docstring=True)
        return StructuredTool.from_function(function, parse_docstring=True)

    def sync_call(self, tool: StructuredTool) -> Call:
        return tool.invoke

    def async_call(self, tool: StructuredTool) -> Call:
        return tool.ainvoke

    def context_call(self) -> Call:
        tool = StructuredTool.from_function(coroutine=add_for)
        return lambda arguments: tool.ainvoke({**arguments, "user": "ann"})

    def exporter(self, tool: StructuredTool) -> Callable[[], Any]:
        return lambda: convert_to_openai_tool(tool)
