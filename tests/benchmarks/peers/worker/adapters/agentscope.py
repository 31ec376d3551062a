"""AgentScope: a `FunctionTool` in a `Toolkit`, which calls by name with JSON text."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from agentscope.message import ToolCallBlock
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit

from tests.benchmarks.peers.worker.adapter import Call, NamedCall, PackageAdapter
from tests.benchmarks.peers.worker.subjects import add_later


async def add_for(left: int, right: int, _agent_state: AgentState) -> int:
    """Add two numbers for a user."""
    return left + right if _agent_state.session_id else 0


async def last(toolkit: Toolkit, name: str, arguments: dict[str, Any], state: AgentState) -> Any:
    """Call a tool, and return the text of its last response."""
    async for response in toolkit.call_tool(ToolCallBlock(id="1", name=name, input=json.dumps(arguments)), state):
        final = response
    return final.content[0].text


class Adapter(PackageAdapter):
    """All calls are those of a toolkit, which repairs arguments and makes errors results."""

    lacks = {
        "sync_call": "has no sync call",
        "server": "does not serve tools over MCP",
    }
    first_call = '''
import asyncio
from agentscope.message import ToolCallBlock
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit

def add(left: int, right: int = 2) -> int:
    """Add two numbers."""
    return left + right

async def main():
    toolkit = Toolkit(tools=[FunctionTool(add)])
    call = ToolCallBlock(id="1", name="add", input='{"left": 1, "right": 2}')
    async for response in toolkit.call_tool(call, AgentState()):
        pass
    assert response.content[0].text == "3"

asyncio.run(main())
'''

    def create(self, function: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(function)

    def async_call(self, tool: FunctionTool) -> Call:
        toolkit, state = Toolkit(tools=[tool]), AgentState()
        return lambda arguments: last(toolkit, tool.name, arguments, state)

    def context_call(self) -> Call:
        schema = FunctionTool(add_later).input_schema
        return self.async_call(FunctionTool(add_for, input_schema=schema, is_state_injected=True))

    def context(self, number: int) -> AgentState:
        return AgentState(session_id=f"user {number}")

    def dispatch(self, count: int) -> NamedCall:
        toolkit = Toolkit(tools=[FunctionTool(add_later, name=f"add_{number}") for number in range(count)])
        state = AgentState()

        def call(name: str, arguments: dict[str, Any]) -> Awaitable[Any]:
            return last(toolkit, name, arguments, state)

        return call

    def exporter(self, tool: FunctionTool) -> Callable[[], Any]:
        return Toolkit(tools=[tool]).get_tool_schemas
