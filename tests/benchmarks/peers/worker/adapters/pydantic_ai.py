"""Pydantic AI: a tool in a `FunctionToolset`, validated and called as the toolset's interface says."""

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_ai import Agent, FunctionToolset, RunContext, Tool
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.usage import RunUsage

from tests.benchmarks.peers.worker.adapter import Call, NamedCall, PackageAdapter, run
from tests.benchmarks.peers.worker.subjects import add_later


async def add_for(context: RunContext[dict], left: int, right: int) -> int:
    """Add two numbers for a user."""
    return left + right if context.deps["user"] else 0


def context_of(user: str) -> RunContext[dict]:
    """Make the context of a run for a user."""
    return RunContext(deps={"user": user}, model=TestModel(), usage=RunUsage(), max_retries=1)


class Adapter(PackageAdapter):
    """The prepared tools of one step of a run are kept, as an agent keeps them during the step."""

    export_form = "its own ToolDefinition"
    lacks = {
        "sync_call": "has no sync call of a tool",
        "server": "does not serve tools over MCP",
    }
    first_call = '''
import asyncio
from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

def add(left: int, right: int = 2) -> int:
    """Add two numbers."""
    return left + right

async def main():
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage(), max_retries=1)
    toolset = FunctionToolset([add])
    tool = (await toolset.get_tools(context))["add"]
    arguments = tool.args_validator.validate_python({"left": 1, "right": 2})
    assert await toolset.call_tool("add", arguments, context, tool) == 3

asyncio.run(main())
'''

    def create(self, function: Callable[..., Any]) -> Tool:
        return Tool(function)

    def async_call(self, tool: Tool) -> Call:
        toolset, context = FunctionToolset([tool]), context_of("ann")
        prepared = run(toolset.get_tools(context))[tool.name]
        validate = prepared.args_validator.validate_python

        def call(arguments: dict[str, Any]) -> Awaitable[Any]:
            return toolset.call_tool(tool.name, validate(arguments), context, prepared)

        return call

    def context_call(self) -> Call:
        return self.async_call(Tool(add_for))

    def context(self, number: int) -> RunContext[dict]:
        return context_of(f"user {number}")

    def dispatch(self, count: int) -> NamedCall:
        toolset = FunctionToolset([Tool(add_later, name=f"add_{number}") for number in range(count)])
        manager = run(ToolManager(toolset).for_run_step(context_of("ann")))

        def call(name: str, arguments: dict[str, Any]) -> Awaitable[Any]:
            return manager.handle_call(ToolCallPart(name, arguments))

        return call

    def conversation(self, count: int) -> Callable[[Any], Any]:
        async def answer(messages: list[Any], info: Any) -> ModelResponse:
            turn = len(messages) // 2
            if turn == count:
                return ModelResponse([TextPart("done")])
            return ModelResponse([ToolCallPart("add_later", '{"left": 1, "right": 2}', f"call_{turn}")])

        agent = Agent(FunctionModel(answer), tools=[Tool(add_later)])

        async def converse(_: Any) -> None:
            result = await agent.run("Add.")
            assert (result.output, len(result.all_messages())) == ("done", 2 * count + 2)

        return converse

    def exporter(self, tool: Tool) -> Callable[[], Any]:
        return lambda: tool.tool_def
