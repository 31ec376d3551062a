"""smolagents: `tool`, and an agent that validates and calls."""

from collections.abc import Callable
from typing import Any

from smolagents import Model, Tool, ToolCallingAgent, tool
from smolagents.models import get_tool_json_schema

from tests.benchmarks.peers.worker.adapter import Call, NamedCall, NotOfferedError, PackageAdapter
from tests.benchmarks.peers.worker.subjects import add, is_async


def agent_of(tools: list[Tool]) -> ToolCallingAgent:
    """Make an agent that is never run."""
    return ToolCallingAgent(tools=tools, model=Model(), verbosity_level=0)


class Adapter(PackageAdapter):
    """`ToolCallingAgent.execute_tool_call` validates; a bare call of a tool does not."""

    lacks = {
        "async_call": "has no async calls",
        "context_call": "does not inject values",
        "context": "has no sessions",
        "server": "does not serve tools over MCP",
    }
    first_call = '''
from smolagents import tool

@tool
def add(left: int, right: int = 2) -> int:
    """Add two numbers.

    Args:
        left: The first number.
        right: The second number.
    """
    return left + right

assert add(left=1, right=2) == 3
'''

    def create(self, function: Callable[..., Any]) -> Tool:
        if is_async(function):
            raise NotOfferedError("has no async calls")
        return tool(function)

    def sync_call(self, tool: Tool) -> Call:
        execute, name = agent_of([tool]).execute_tool_call, tool.name
        return lambda arguments: execute(name, arguments)

    def result_call(self, tool: Tool) -> Call:
        return self.sync_call(tool)

    def dispatch(self, count: int) -> NamedCall:
        tools = []
        for number in range(count):
            made = tool(add)
            made.name = f"add_{number}"
            tools.append(made)
        return agent_of(tools).execute_tool_call

    def exporter(self, tool: Tool) -> Callable[[], Any]:
        return lambda: get_tool_json_schema(tool)
