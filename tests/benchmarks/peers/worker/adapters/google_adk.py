"""Google ADK: `FunctionTool.run_async` in the context of a session."""

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.features import FeatureName, override_feature_enabled
from google.adk.models import LlmRequest
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool, ToolContext

from tests.benchmarks.peers.worker.adapter import Call, PackageAdapter, run

override_feature_enabled(FeatureName.FUNCTION_TOOL_ARG_VALIDATION, True)


async def add_for(left: int, right: int, tool_context: ToolContext) -> int:
    """Add two numbers for a user."""
    return left + right if tool_context.state["user"] else 0


class Adapter(PackageAdapter):
    """Its validation of arguments is an experimental feature, which is switched on."""

    export_form = "Gemini, in a request"
    lacks = {
        "sync_call": "has no sync call of a tool",
        "dispatch": "calls by name only inside an agent's run",
        "server": "does not serve tools over MCP",
    }
    first_call = '''
import asyncio
from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool, ToolContext

def add(left: int, right: int = 2) -> int:
    """Add two numbers."""
    return left + right

async def main():
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="app", user_id="ann")
    invocation = InvocationContext(
        session_service=sessions, invocation_id="1", agent=LlmAgent(name="agent"), session=session
    )
    context = ToolContext(invocation, function_call_id="1")
    assert await FunctionTool(add).run_async(args={"left": 1, "right": 2}, tool_context=context) == 3

asyncio.run(main())
'''

    def __init__(self) -> None:
        self._sessions, self._agent = InMemorySessionService(), LlmAgent(name="agent")

    def create(self, function: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(function)

    def async_call(self, tool: FunctionTool) -> Call:
        context = self.context(0)

        def call(arguments: dict[str, Any]) -> Awaitable[Any]:
            return tool.run_async(args=arguments, tool_context=context)

        return call

    def context_call(self) -> Call:
        return self.async_call(FunctionTool(add_for))

    def context(self, number: int) -> ToolContext:
        user = f"user {number}"
        session = run(self._sessions.create_session(app_name="app", user_id=user, state={"user": user}))
        invocation = InvocationContext(
            session_service=self._sessions, invocation_id=str(uuid.uuid4()), agent=self._agent, session=session
        )
        return ToolContext(invocation, function_call_id="1")

    def exporter(self, tool: FunctionTool) -> Callable[[], Any]:
        def export() -> Any:
            request = LlmRequest()
            request.append_tools([tool])
            return request.config.tools

        return export
