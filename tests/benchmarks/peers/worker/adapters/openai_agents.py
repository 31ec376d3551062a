"""OpenAI Agents: `function_tool` and `on_invoke_tool`, whose arguments are JSON text."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from agents import Agent, FunctionTool, Model, ModelResponse, RunConfig, RunContextWrapper, Runner, Usage, function_tool
from agents.models.chatcmpl_converter import Converter
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from tests.benchmarks.peers.worker.adapter import Call, PackageAdapter
from tests.benchmarks.peers.worker.subjects import add_later


async def add_for(context: RunContextWrapper[dict], left: int, right: int) -> int:
    """Add two numbers for a user."""
    return left + right if context.context["user"] else 0


class InstantModel(Model):  # type: ignore[misc]  # the package is not installed here
    """Calls a tool in each of its first answers."""

    def __init__(self, count: int) -> None:
        self._count = count

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        turn = 0 if isinstance(input, str) else len(input) // 2
        text = ResponseOutputText(type="output_text", text="done", annotations=[])
        output: Any = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[text]
        )
        if turn < self._count:
            output = ResponseFunctionToolCall(
                type="function_call", call_id=f"call_{turn}", name="add_later", arguments='{"left": 1, "right": 2}'
            )
        return ModelResponse([output], Usage(), None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


class Adapter(PackageAdapter):
    """A call takes its own context, as the tools of a run do."""

    lacks = {
        "sync_call": "has no sync call of a tool",
        "dispatch": "has no collection of tools outside of an agent's run",
        "server": "does not serve tools over MCP",
    }
    first_call = '''
import asyncio
from agents import function_tool
from agents.tool_context import ToolContext

@function_tool
def add(left: int, right: int = 2) -> int:
    """Add two numbers."""
    return left + right

arguments = '{"left": 1, "right": 2}'
context = ToolContext(context=None, tool_name="add", tool_call_id="1", tool_arguments=arguments)
assert asyncio.run(add.on_invoke_tool(context, arguments)) == 3
'''

    def create(self, function: Callable[..., Any]) -> FunctionTool:
        return function_tool(function)

    def async_call(self, tool: FunctionTool) -> Call:
        name, user = tool.name, {"user": "ann"}

        def call(arguments: dict[str, Any]) -> Awaitable[Any]:
            text = json.dumps(arguments)
            context = ToolContext(context=user, tool_name=name, tool_call_id="1", tool_arguments=text)
            return tool.on_invoke_tool(context, text)

        return call

    def context_call(self) -> Call:
        return self.async_call(function_tool(add_for))

    def context(self, number: int) -> RunContextWrapper[dict]:
        return RunContextWrapper({"user": f"user {number}"})

    def conversation(self, count: int) -> Callable[[Any], Any]:
        agent = Agent("adder", model=InstantModel(count), tools=[function_tool(add_later)])
        config = RunConfig(tracing_disabled=True)

        async def converse(_: Any) -> None:
            result = await Runner.run(agent, "Add.", max_turns=count + 1, run_config=config)
            assert (result.final_output, len(result.raw_responses)) == ("done", count + 1)

        return converse

    def exporter(self, tool: FunctionTool) -> Callable[[], Any]:
        return lambda: Converter.tool_to_openai(tool)
