"""The exports have the types that the SDKs accept, and go into their calls without a cast."""

from __future__ import annotations

from typing import assert_type

from anthropic import Anthropic
from anthropic.types import ToolParam
from google.genai import Client
from google.genai.types import FunctionDeclarationDict
from mistralai.client import Mistral
from mistralai.client.models import ToolTypedDict
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionToolParam
from openai.types.responses import FunctionToolParam

from ahvn_tools import Toolkit, ToolSpec, tool
from ahvn_tools.formats import sdk_types

kit = Toolkit("desk")


@tool
def find(topic: str) -> str:
    """Find a note."""
    return topic


assert_type(kit.to("openai", strict=True), list[sdk_types.OpenAITool])
assert_type(kit.to("openai-responses"), list[sdk_types.OpenAIResponsesTool])
assert_type(kit.to("anthropic", examples=False), list[sdk_types.AnthropicTool])
assert_type(kit.to("gemini"), list[sdk_types.GeminiTool])
assert_type(kit.to("mistral"), list[sdk_types.MistralTool])

openai_tool: ChatCompletionToolParam = find.to("openai")
openai_responses_tool: FunctionToolParam = ToolSpec.from_code("def f(): ...").to("openai-responses")
anthropic_tool: ToolParam = find.to("anthropic")
gemini_tool: FunctionDeclarationDict = find.to("gemini")
mistral_tool: ToolTypedDict = find.to("mistral")


def ask(openai: OpenAI, anthropic: Anthropic, gemini: Client, mistral: Mistral) -> None:
    """Send the tools."""
    openai.chat.completions.create(model="m", messages=[], tools=kit.to("openai"))
    openai.responses.create(model="m", input="hello", tools=kit.to("openai-responses"))
    anthropic.messages.create(model="m", max_tokens=9, messages=[], tools=kit.to("anthropic"))
    gemini.models.generate_content(
        model="m", contents="hello", config={"tools": [{"function_declarations": kit.to("gemini")}]}
    )
    mistral.chat.complete(model="m", messages=[], tools=kit.to("mistral"))


async def ask_later(openai: AsyncOpenAI) -> None:
    """Send the tools from async code."""
    await openai.chat.completions.create(model="m", messages=[], tools=kit.to("openai"))
