"""Ollama's SDK: its own chat, which keeps little of a schema."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager

import pytest

pytest.importorskip("ollama", reason='needs the SDK: pip install "ahvn-tools[ollama]"')

from ollama import AsyncClient, Client, Image, Message, Tool

from ahvn_tools import formats
from tests.formats.sdks.cases import DEFINITIONS, PIXEL
from tests.formats.sdks.contexts import awaited_stream
from tests.formats.sdks.contract import AsyncContract, Contract
from tests.formats.sdks.type_checks import fits_model

AT_THE_ROOT = {"type", "properties", "required", "items", "$defs"}
OF_A_PROPERTY = {"type", "description", "items", "enum"}
"""What the SDK keeps of a schema."""


class TestChat(Contract, AsyncContract):
    FORMAT = "ollama"
    SERVICE = "ollama_chat"
    TOKENS = 4
    WITH_OWN_TOOL = {
        "tools": [{"type": "function", "function": {"name": "own", "parameters": {"type": "object", "properties": {}}}}]
    }
    OPTIONS = [{}]
    REFUSED = {"none", "required", "name", "one"}

    @contextmanager
    def connected(self, url):
        client = Client(host=url)
        try:
            yield client
        finally:
            client.close()

    @asynccontextmanager
    async def connect_async(self, url):
        client = AsyncClient(host=url)
        try:
            yield client
        finally:
            await client.close()

    def ask(self, client, request):
        return client.chat(**request)

    @contextmanager
    def events(self, client, request):
        yield client.chat(**request, stream=True)

    async def ask_async(self, client, request):
        return await client.chat(**request)

    def events_async(self, client, request):
        return awaited_stream(client.chat(**request, stream=True))

    def turn(self, answer):
        return [answer.message]

    def text(self, answer):
        return answer.message.content

    def check_tools(self, tools):
        for tool in tools:
            fits_model(Tool, tool)

    def check_results(self, messages):
        for message in messages:
            images = [Image(value=image) for image in message.get("images", ())]
            fits_model(Message, {**message, "images": images} if images else message, message)

    def check_message(self, messages):
        """The SDK drops the ids of calls."""
        (message,) = messages
        calls = [{"function": item["function"]} for item in message["tool_calls"]]
        fits_model(Message, message, {**message, "tool_calls": calls})

    def check_choice(self, fields):
        assert fields == {}

    def seen_image(self):
        return f"[image, {len(PIXEL)} characters]"

    @pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.name)
    def test_the_description_states_what_the_sdk_deletes(self, server, client, definition):
        (tool,) = formats.get("openai").export([definition])
        self.ask(client, self.request([self.QUESTION], [tool], {}))
        schema = tool["function"]["parameters"]
        kept = {word: value for word, value in schema.items() if word in AT_THE_ROOT}
        kept["properties"] = {
            name: {word: value for word, value in member.items() if word in OF_A_PROPERTY}
            for name, member in schema["properties"].items()
        }
        assert self.received(server.requests[0])[0]["function"]["parameters"] == kept
        assert kept != schema
