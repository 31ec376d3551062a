"""Messages, agent skills, and responses of AgentScope's own class."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest

from ahvn_tools.compat import agentscope
from ahvn_tools.compat.agentscope.message import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from ahvn_tools.compat.agentscope.tool import Toolkit, ToolResponse
from ahvn_tools.compat.agentscope.types import JSONPrimitive, JSONSerializableObject, ToolFunction
from tests.compat.agentscope_calls import INTERRUPTION, responses_of, texts_of


@pytest.fixture
def toolkit() -> Toolkit:
    return Toolkit()


class TestMessages:
    blocks = (
        ThinkingBlock(type="thinking", thinking="Tea."),
        TextBlock(type="text", text="A price"),
        ToolUseBlock(type="tool_use", id="1", name="price", input={}),
        ToolResultBlock(type="tool_result", id="1", name="price", output="3"),
        TextBlock(type="text", text="is 3."),
    )

    def test_the_blocks_of_a_message_by_their_type(self):
        message = Msg("Friday", [*self.blocks], "assistant")
        assert message.get_content_blocks() == [*self.blocks]
        assert message.get_content_blocks("tool_use") == [self.blocks[2]]
        assert message.get_content_blocks(["tool_use", "tool_result"]) == [*self.blocks[2:4]]
        assert message.has_content_blocks("thinking")
        assert not message.has_content_blocks("image")
        assert message.get_text_content() == "A price\nis 3."
        assert message.get_text_content(separator=" ") == "A price is 3."

    def test_a_text_is_one_block(self):
        message = Msg("user", "Tea?", "user")
        assert message.get_content_blocks("text") == [{"type": "text", "text": "Tea?"}]
        assert message.get_text_content() == "Tea?"

    def test_a_message_without_texts(self):
        assert Msg("Friday", [], "assistant").get_text_content() is None
        assert not Msg("Friday", [], "assistant").has_content_blocks()

    def test_a_message_is_json_data_and_comes_back(self):
        message = Msg("Friday", [*self.blocks], "assistant", metadata={"total": 3})
        again = Msg.from_dict(json.loads(json.dumps(message.to_dict())))
        assert again.to_dict() == message.to_dict()
        assert again.id == message.id != Msg("a", "", "user").id

    def test_what_is_not_given_is_filled_in(self):
        message = Msg("user", "Tea?", "user", None, None, "request-1")
        assert (message.metadata, message.invocation_id) == ({}, "request-1")
        assert message.timestamp
        assert Msg("user", "Tea?", "user", timestamp="2026-01-01").timestamp == "2026-01-01"


def test_the_package_has_the_names_of_its_modules():
    for name in ("Msg", "ThinkingBlock", "ToolResultBlock", "ToolFunction", "Toolkit", "trace_toolkit"):
        assert name in agentscope.__all__
        assert hasattr(agentscope, name)
    assert set(get_args(JSONPrimitive)) <= set(get_args(JSONSerializableObject))
    assert get_args(ToolFunction)[0] is Ellipsis


class TestSkills:
    def make(self, folder: Path, text: str) -> str:
        folder.mkdir(exist_ok=True)
        (folder / "SKILL.md").write_text(text, "utf-8")
        return str(folder)

    def test_without_skills_there_is_no_text(self, toolkit):
        assert toolkit.get_agent_skill_prompt() is None

    def test_the_text_has_each_skill_with_its_folder(self, toolkit, tmp_path):
        tea = self.make(
            tmp_path / "tea", "---\nname: Tea\ndescription: 'Brews: tea.'\n---\n# How\n---\nname: No\n---\n"
        )
        coffee = self.make(tmp_path / "coffee", "\ufeff---\r\nname: Coffee\r\ndescription: Brews coffee.\r\n---")
        toolkit.register_agent_skill(tea)
        toolkit.register_agent_skill(coffee)
        prompt = toolkit.get_agent_skill_prompt()
        assert prompt.startswith("# Agent Skills\n")
        assert f'## Tea\nBrews: tea.\nThe instructions are in "{tea}/SKILL.md".' in prompt
        assert prompt.endswith(f'## Coffee\nBrews coffee.\nThe instructions are in "{coffee}/SKILL.md".')
        assert toolkit.skills["Tea"] == {"name": "Tea", "description": "Brews: tea.", "dir": tea}
        toolkit.remove_agent_skill("Tea")
        toolkit.remove_agent_skill("Tea")
        assert list(toolkit.skills) == ["Coffee"]

    def test_texts_of_its_own(self, tmp_path):
        toolkit = Toolkit(agent_skill_instruction="Skills:", agent_skill_template="{name} in {dir}: {description}")
        toolkit.register_agent_skill(self.make(tmp_path / "tea", "---\nname: Tea\ndescription: Brews.\n---\n"))
        assert toolkit.get_agent_skill_prompt() == f"Skills:\nTea in {tmp_path / 'tea'}: Brews."

    def test_a_name_that_is_taken(self, toolkit, tmp_path):
        folder = self.make(tmp_path / "tea", "---\nname: Tea\ndescription: Brews.\n---\n")
        toolkit.register_agent_skill(folder)
        with pytest.raises(ValueError, match="is already registered"):
            toolkit.register_agent_skill(folder)

    @pytest.mark.parametrize(
        "text", ["", "# Tea", "---\nname: Tea\n---\n", "---\n- Tea\n---\n", "---\nname: Tea\ndescription: Brews."]
    )
    def test_a_folder_without_name_and_description(self, toolkit, tmp_path, text):
        with pytest.raises(ValueError, match="`name` and `description`"):
            toolkit.register_agent_skill(self.make(tmp_path / "tea", text))
        assert toolkit.skills == {}

    def test_a_folder_without_the_file(self, toolkit, tmp_path):
        with pytest.raises(ValueError, match=r"has no SKILL\.md file"):
            toolkit.register_agent_skill(str(tmp_path))


@dataclass
class ForeignResponse:
    """A response with the fields of AgentScope's class, which is not ours."""

    content: list[dict[str, Any]]
    metadata: dict[str, Any] | None = None
    stream: bool = False
    is_last: bool = True
    is_interrupted: bool = False
    id: str = "1"


class TestForeignResponses:
    """A tool may return the ToolResponse of AgentScope itself."""

    async def test_of_a_function(self, toolkit):
        async def price() -> ForeignResponse:
            return ForeignResponse([{"type": "text", "text": "3"}], metadata={"success": True})

        def sync_price() -> ForeignResponse:
            return ForeignResponse([{"type": "text", "text": "4"}])

        toolkit.register_tool_function(price)
        toolkit.register_tool_function(sync_price)
        (response,) = await responses_of(toolkit, "price")
        assert (type(response), texts_of(response), response.metadata) == (ForeignResponse, ["3"], {"success": True})
        assert [texts_of(each) for each in await responses_of(toolkit, "sync_price")] == [["4"]]

    async def test_of_a_generator_that_is_interrupted(self, toolkit):
        async def count() -> AsyncGenerator[ForeignResponse, None]:
            yield ForeignResponse([{"type": "text", "text": "1"}], is_last=False)
            raise asyncio.CancelledError

        toolkit.register_tool_function(count)
        first, last = await responses_of(toolkit, "count")
        assert (texts_of(first), texts_of(last), last.is_interrupted) == (["1"], ["1", INTERRUPTION], True)

    async def test_the_last_one_of_a_generator_says_so(self, toolkit):
        async def count() -> AsyncGenerator[ForeignResponse, None]:
            yield ForeignResponse([{"type": "text", "text": "1"}], is_last=False)

        toolkit.register_tool_function(count)
        assert [each.is_last for each in await responses_of(toolkit, "count")] == [False, True]

    async def test_postprocessing_may_return_one(self, toolkit):
        async def price() -> ToolResponse:
            return ToolResponse([TextBlock(type="text", text="3")])

        toolkit.register_tool_function(
            price, postprocess_func=lambda _, response: ForeignResponse([*response.content, *response.content])
        )
        assert [texts_of(each) for each in await responses_of(toolkit, "price")] == [["3", "3"]]

    async def test_another_class_is_refused(self, toolkit):
        @dataclass
        class Answer:
            content: str

        async def price() -> Answer:
            return Answer("3")

        toolkit.register_tool_function(price)
        with pytest.raises(TypeError, match="must return a ToolResponse"):
            await responses_of(toolkit, "price")
