"""AgentScope's own ReActAgent runs on the toolkit of this facade, with a scripted model.

It needs `pip install agentscope==1.0.21 greenlet tqdm`; the two others are missing in AgentScope's own requirements.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import warnings
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import mcp.client.streamable_http
import pytest
from pydantic import BaseModel

from ahvn_tools.compat.agentscope.tool import Toolkit, view_text_file
from tests.compat.agentscope_calls import INTERRUPTION, sums_client

try:
    version = importlib.metadata.version("agentscope")
except importlib.metadata.PackageNotFoundError:
    version = "none"
if not version.startswith("1."):
    pytest.skip(f"AgentScope 1 is not installed, but {version}", allow_module_level=True)

with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
    warnings.simplefilter("ignore")
    patch.setattr(mcp.client.streamable_http, "streamablehttp_client", None, raising=False)  # a name of mcp 1
    from agentscope.agent import ReActAgent
    from agentscope.formatter import DashScopeChatFormatter
    from agentscope.message import Msg, TextBlock, ToolUseBlock
    from agentscope.model import ChatModelBase, ChatResponse
    from agentscope.plan import PlanNotebook
    from agentscope.session import JSONSession
    from agentscope.tool import ToolResponse


class ScriptedModel(ChatModelBase):
    """Answers with one of these after the other, and keeps the names of the tools that it is shown."""

    def __init__(self, *answers: list[Any]) -> None:
        super().__init__("scripted", stream=False)
        self.answers = list(answers)
        self.system = ""
        self.shown: list[list[str]] = []

    async def __call__(self, messages: Any, tools: Any = None, tool_choice: Any = None) -> ChatResponse:
        self.system = str(messages[0]["content"])
        self.shown.append([tool["function"]["name"] for tool in tools])
        return ChatResponse(content=self.answers.pop(0))


def calls(**arguments: dict[str, Any]) -> list[ToolUseBlock]:
    return [ToolUseBlock(type="tool_use", id=name, name=name, input=each) for name, each in arguments.items()]


def says(text: str) -> list[TextBlock]:
    return [TextBlock(type="text", text=text)]


def response(text: str, **fields: Any) -> ToolResponse:
    return ToolResponse(content=says(text), **fields)


async def price(currency: str, service: str) -> ToolResponse:
    """Return the price of tea."""
    return response(f"3 {currency} from {service}")


def weight(kind: str) -> ToolResponse:
    """Return the weight of tea."""
    return response(f"1 g of {kind}")


async def count(until: int) -> AsyncGenerator[ToolResponse, None]:
    """Count."""
    for number in range(until):
        yield response(str(number), is_last=number == until - 1)


def make_agent(toolkit: Toolkit, *answers: list[Any], **options: Any) -> ReActAgent:
    agent = ReActAgent("Friday", "Be kind.", ScriptedModel(*answers), DashScopeChatFormatter(), toolkit, **options)
    agent.set_console_output_enabled(False)
    return agent


async def outputs_of(agent: ReActAgent) -> list[str]:
    """Return the texts of all results of tools that the agent has read."""
    results = [
        block for message in await agent.memory.get_memory() for block in message.get_content_blocks("tool_result")
    ]
    return ["\n".join(part["text"] for part in result["output"]) for result in results]


QUESTION = Msg("user", "How much is tea?", "user")


@pytest.mark.parametrize("parallel", [False, True])
async def test_an_agent_calls_tools_and_switches_groups(parallel):
    toolkit = Toolkit()
    toolkit.register_tool_function(price, preset_kwargs={"service": "the shop"})
    toolkit.register_tool_function(count)
    toolkit.create_tool_group("scales", "Weights.", notes="In grams.")
    toolkit.register_tool_function(weight, "scales")
    agent = make_agent(
        toolkit,
        calls(price={"currency": "EUR"}, count={"until": 3}, weight={"kind": "tea"}),
        calls(reset_equipped_tools={"scales": True}),
        calls(weight={"kind": "tea"}, price={"currency": "EUR", "service": "me"}, sell={}),
        says("3 EUR"),
        enable_meta_tool=True,
        parallel_tool_calls=parallel,
    )
    answer = await agent(QUESTION)
    assert answer.get_text_content() == "3 EUR"
    assert agent.model.shown[1] == ["price", "count", "reset_equipped_tools"]
    assert agent.model.shown[2] == ["price", "count", "weight", "reset_equipped_tools"]
    outputs = await outputs_of(agent)  # of parallel calls in the order in which they end
    assert {*outputs} >= {
        "3 EUR from the shop",
        "2",
        "1 g of tea",
        "FunctionNotFoundError: Cannot find the function named sell",
    }
    assert any(each.startswith("FunctionInactiveError: The function 'weight' is in the inactive") for each in outputs)
    assert any(each.startswith("Now tool groups 'scales' are activated.") for each in outputs)
    assert any("unknown argument 'service'" in each for each in outputs)
    assert len(outputs) == 7


async def test_an_agent_returns_structured_output():
    class Total(BaseModel):
        total: int

    agent = make_agent(
        Toolkit(),
        calls(generate_response={"total": "much"}),
        calls(generate_response={"total": 3}),
        says("3 EUR"),
        says("hi"),
    )
    answer = await agent(QUESTION, structured_model=Total)
    assert (answer.metadata, answer.get_text_content()) == ({"total": 3}, "3 EUR")
    invalid, valid = await outputs_of(agent)
    assert invalid.startswith("Arguments Validation Error: ")
    assert valid == "Successfully generated response."
    await agent(QUESTION)
    assert agent.model.shown[-1] == []


async def test_an_agent_is_interrupted_while_a_tool_runs():
    started = asyncio.Event()

    async def sleep() -> ToolResponse:
        """Sleep."""
        started.set()
        await asyncio.sleep(60)
        return response("awake")

    toolkit = Toolkit()
    toolkit.register_tool_function(sleep)
    agent = make_agent(toolkit, calls(sleep={}))
    replying = asyncio.create_task(agent(QUESTION))
    await started.wait()
    await agent.interrupt()
    answer = await asyncio.wait_for(replying, 30)
    assert answer.metadata == {"_is_interrupted": True}
    assert await outputs_of(agent) == [INTERRUPTION]


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    (tmp_path / "SKILL.md").write_text("---\nname: Tea\ndescription: Brews tea.\n---\nBoil.\n", "utf-8")
    return tmp_path


async def test_an_agent_reads_skills_and_uses_mcp_servers(skill):
    toolkit = Toolkit()
    toolkit.register_agent_skill(str(skill))
    toolkit.register_tool_function(view_text_file)
    async with sums_client() as client:
        await toolkit.register_mcp_client(mcp_client=client, enable_funcs=["plus"])
        agent = make_agent(
            toolkit, calls(view_text_file={"file_path": f"{skill}/SKILL.md"}, plus={"a": 1, "b": 2}), says("done")
        )
        await agent(QUESTION)
    assert "## Tea\nBrews tea." in agent.model.system
    file, total = await outputs_of(agent)
    assert "Boil." in file
    assert total == "3"


async def test_an_agent_has_a_plan():
    subtask = {"name": "Ask", "description": "Ask the shop.", "expected_outcome": "The price."}
    plan = {"name": "Tea", "description": "Buy tea.", "expected_outcome": "Tea.", "subtasks": [subtask]}
    agent = make_agent(
        Toolkit(),
        calls(create_plan=plan),
        calls(update_subtask_state={"subtask_idx": 0, "state": "in_progress"}),
        calls(finish_subtask={"subtask_idx": 0, "subtask_outcome": "3 EUR"}),
        says("done"),
        plan_notebook=PlanNotebook(),
    )
    await agent(QUESTION)
    assert agent.plan_notebook.current_plan.subtasks[0].state == "done", await outputs_of(agent)


async def test_a_session_keeps_the_groups_of_the_toolkit(tmp_path):
    def make() -> tuple[ReActAgent, Toolkit]:
        toolkit = Toolkit()
        toolkit.create_tool_group("scales", "Weights.")
        return make_agent(toolkit, says("hi")), toolkit

    session = JSONSession(save_dir=str(tmp_path))
    (agent, toolkit), (again, restored) = make(), make()
    toolkit.update_tool_groups("scales", True)
    await agent(QUESTION)
    await session.save_session_state("1", agent=agent, toolkit=toolkit)
    await session.load_session_state("1", agent=again, toolkit=restored)
    assert restored.groups["scales"].active
    assert len(await again.memory.get_memory()) == 2
