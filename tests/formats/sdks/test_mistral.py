"""Mistral's SDK: chat."""

from __future__ import annotations

import pytest

pytest.importorskip("mistralai.client", reason='needs the SDK: pip install "ahvn-tools[mistral]"')

from mistralai.client import Mistral, models

from tests.formats.sdks.contexts import awaited_stream
from tests.formats.sdks.contract import AsyncContract, Contract
from tests.formats.sdks.type_checks import fits_model


class TestChat(Contract, AsyncContract):
    FORMAT = "mistral"
    SERVICE = "mistral_chat"
    TOKENS = 4
    WITH_OWN_TOOL = {
        "tools": [{"type": "function", "function": {"name": "own", "parameters": {"type": "object", "properties": {}}}}]
    }

    def connected(self, url):
        return Mistral(api_key="none", server_url=url)

    def connect_async(self, url):
        return Mistral(api_key="none", server_url=url)

    def ask(self, client, request):
        return client.chat.complete(**request)

    def events(self, client, request):
        return client.chat.stream(**request)

    async def ask_async(self, client, request):
        return await client.chat.complete_async(**request)

    def events_async(self, client, request):
        return awaited_stream(client.chat.stream_async(**request))

    def turn(self, answer):
        return [answer.choices[0].message]

    def text(self, answer):
        return answer.choices[0].message.content

    def check_tools(self, tools):
        for tool in tools:
            fits_model(models.Tool, tool)

    def check_results(self, messages):
        kinds = {"tool": models.ToolMessage, "assistant": models.AssistantMessage, "user": models.UserMessage}
        for message in messages:
            fits_model(kinds[message["role"]], message)

    def check_choice(self, fields):
        request = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], **fields}
        fits_model(models.ChatCompletionRequest, request)
