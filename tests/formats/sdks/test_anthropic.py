"""Anthropic's SDK: Messages."""

from __future__ import annotations

import pytest

pytest.importorskip("anthropic", reason='needs the SDK: pip install "ahvn-tools[anthropic]"')

from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import MessageParam, ToolChoiceParam, ToolParam

from tests.formats.sdks.contract import AsyncContract, Contract
from tests.formats.sdks.conversing import ReasoningConversing
from tests.formats.sdks.type_checks import fits


class TestMessages(Contract, AsyncContract, ReasoningConversing):
    FORMAT = "anthropic"
    SERVICE = "anthropic_messages"
    TOKENS = 4
    REASONING = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    REQUEST = {"model": "m", "max_tokens": 100}
    WITH_OWN_TOOL = {"tools": [{"name": "own", "input_schema": {"type": "object"}}], "export": {"strict": True}}
    OPTIONS = [
        {},
        {"strict": True},
        {"examples": False},
        {"cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"defer_loading": True, "allowed_callers": ["direct", "code_execution_20260120"]},
    ]

    def connected(self, url):
        return Anthropic(base_url=url, api_key="none", max_retries=0)

    def connect_async(self, url):
        return AsyncAnthropic(base_url=url, api_key="none", max_retries=0)

    def request(self, messages, tools, choice):
        return {"model": "m", "max_tokens": 100, "messages": messages, "tools": tools, **choice}

    def ask(self, client, request):
        return client.messages.create(**request)

    def events(self, client, request):
        return client.messages.stream(**request)

    async def ask_async(self, client, request):
        return await client.messages.create(**request)

    def events_async(self, client, request):
        return client.messages.stream(**request)

    def turn(self, answer):
        return [{"role": "assistant", "content": answer.content}]

    def text(self, answer):
        return answer.content[0].text

    def check_tools(self, tools):
        fits(list[ToolParam], tools)

    def check_results(self, messages):
        fits(list[MessageParam], messages)

    def check_choice(self, fields):
        fits(ToolChoiceParam, fields["tool_choice"])
        assert fields.keys() == {"tool_choice"}

    def seen_error(self, message):
        return f"an error, {message}"
