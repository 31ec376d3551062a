"""Ours."""

from collections.abc import Callable
from typing import Any

from ahvn_tools import Toolkit, ToolSpec
from tests.benchmarks.peers.worker.adapter import Call, NamedCall, PackageAdapter
from tests.benchmarks.peers.worker.subjects import add_later


async def add_for(left: int, right: int, user: str) -> int:
    """Add two numbers for a user."""
    return left + right if user else 0


class Adapter(PackageAdapter):
    """`ToolSpec` for one tool, `Toolkit` for many."""

    first_call = '''
from ahvn_tools import ToolSpec

def add(left: int, right: int = 2) -> int:
    """Add two numbers."""
    return left + right

assert ToolSpec.from_function(add)(left=1, right=2) == 3
'''

    def __init__(self) -> None:
        self._users = Toolkit("users").add(add_for).bind("user")

    def create(self, function: Callable[..., Any]) -> ToolSpec:
        return ToolSpec.from_function(function)

    def sync_call(self, tool: ToolSpec) -> Call:
        return lambda arguments: tool.call(**arguments)

    def async_call(self, tool: ToolSpec) -> Call:
        return lambda arguments: tool.acall(**arguments)

    def result_call(self, tool: ToolSpec) -> Call:
        return lambda arguments: tool.aexec(**arguments)

    def context_call(self) -> Call:
        spec = ToolSpec.from_function(add_for).bind("user", "session.user")
        spec.state = {"session": {"user": "ann"}}
        return lambda arguments: spec.acall(**arguments)

    def context(self, number: int) -> Toolkit:
        return self._users.session(user=f"user {number}")

    def dispatch(self, count: int) -> NamedCall:
        kit, spec = Toolkit("many"), ToolSpec.from_function(add_later)
        for number in range(count):
            kit.add(spec, rename=f"add_{number}")
        return kit.acall

    def exporter(self, tool: ToolSpec) -> Callable[[], Any]:
        return lambda: tool.to("openai")

    def shared_exporter(self, tool: ToolSpec) -> Callable[[], Any]:
        return lambda: tool.to("openai", read_only=True)

    def conversation(self, count: int) -> Callable[[Any], Any]:
        kit = Toolkit("sums").add(add_later)
        function = {"name": "add_later", "arguments": '{"left": 1, "right": 2}'}

        async def model(messages: list[Any], tools: Any) -> dict[str, Any]:
            turn = len(messages) // 2
            if turn == count:
                return {"role": "assistant", "content": "done"}
            call = {"id": f"call_{turn}", "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [call]}

        async def converse(_: Any) -> None:
            conversation = await kit.aconverse(model, "Add.", format="openai", max_turns=count + 1)
            assert (conversation.text, conversation.turns) == ("done", count + 1)

        return converse

    def server(self) -> Any:
        return Toolkit("served").add(add_later).to_fastmcp_server()
