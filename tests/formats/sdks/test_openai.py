"""OpenAI's SDK: Chat Completions and Responses."""

from __future__ import annotations

import pytest

pytest.importorskip("openai", reason='needs the SDK: pip install "ahvn-tools[openai]"')

from openai import AsyncOpenAI, OpenAI
from openai.types.chat import (
    ChatCompletionFunctionToolParam,
    ChatCompletionMessage,
    ChatCompletionMessageParam,
    ChatCompletionToolChoiceOptionParam,
)
from openai.types.responses import FunctionToolParam, ResponseInputItemParam, response_create_params

from ahvn_tools import ToolCall, ToolResult
from ahvn_tools.formats import openai
from tests.formats.sdks.cases import forecast, spec_of
from tests.formats.sdks.contexts import awaited_stream
from tests.formats.sdks.contract import OSLO, ROME, AsyncContract, Contract, calls_of
from tests.formats.sdks.conversing import ReasoningConversing
from tests.formats.sdks.type_checks import fits


class OpenAIContract(Contract, AsyncContract):
    """Both of OpenAI's services have the same clients."""

    def connected(self, url):
        return OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    def connect_async(self, url):
        return AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


class TestChat(OpenAIContract):
    FORMAT = "openai"
    SERVICE = "openai_chat"
    TOKENS = 4
    WITH_OWN_TOOL = {
        "export": {"strict": True},
        "tools": [
            {"type": "function", "function": {"name": "own", "parameters": {"type": "object", "properties": {}}}}
        ],
    }

    def ask(self, client, request):
        return client.chat.completions.create(**request)

    def events(self, client, request):
        return client.chat.completions.create(**request, stream=True)

    async def ask_async(self, client, request):
        return await client.chat.completions.create(**request)

    def events_async(self, client, request):
        return awaited_stream(client.chat.completions.create(**request, stream=True))

    def turn(self, answer):
        return [answer.choices[0].message]

    def text(self, answer):
        return answer.choices[0].message.content

    def check_tools(self, tools):
        fits(list[ChatCompletionFunctionToolParam], tools)

    def check_results(self, messages):
        fits(list[ChatCompletionMessageParam], messages)

    def check_choice(self, fields):
        fits(ChatCompletionToolChoiceOptionParam, fields["tool_choice"])
        assert fields.keys() <= {"tool_choice", "parallel_tool_calls"}

    async def test_the_streams_of_the_helper_are_read(self, server, client):
        """Its events are its own, with the chunks inside."""
        spec = spec_of(forecast)
        server.arguments = [OSLO, ROME]
        request = self.request([self.QUESTION], self.export([spec.definition]), {})
        expected = [(spec.name, OSLO, None), (spec.name, ROME, None)]
        with client.chat.completions.stream(**request) as events:
            assert calls_of(openai.stream(events, [spec.definition])) == expected
        async with (
            self.connect_async(server.url(self.SERVICE)) as later,
            later.chat.completions.stream(**request) as events,
        ):
            assert calls_of([call async for call in openai.stream(events, [spec.definition])]) == expected

    def test_a_call_in_the_older_field_fits_the_sdks_types(self):
        answer = openai.message([ToolCall(id="", name="ping", arguments={"a": 1})], text="Hm.", legacy=True)
        fits(list[ChatCompletionMessageParam], answer)
        (call,) = openai.calls(ChatCompletionMessage.model_validate(answer[0]))
        assert calls_of([call]) == [("ping", {"a": 1}, None)]
        fits(list[ChatCompletionMessageParam], openai.results([(call, ToolResult("pong"))]))


class TestResponses(OpenAIContract, ReasoningConversing):
    FORMAT = "openai-responses"
    SERVICE = "openai_responses"
    REASONING = {"include": ["reasoning.encrypted_content"], "store": False}
    TOKENS = 4
    WITH_OWN_TOOL = {"tools": [{"type": "function", "name": "own", "parameters": {"type": "object"}, "strict": False}]}
    OPTIONS = [
        {},
        {"strict": True},
        {"output_schema": True},
        {"defer_loading": True, "allowed_callers": ["direct", "programmatic"]},
    ]

    def request(self, messages, tools, choice):
        return {"model": "m", "input": messages, "tools": tools, **choice}

    def ask(self, client, request):
        return client.responses.create(**request)

    def events(self, client, request):
        return client.responses.stream(**request)

    async def ask_async(self, client, request):
        return await client.responses.create(**request)

    def events_async(self, client, request):
        return client.responses.stream(**request)

    def turn(self, answer):
        return answer.output

    def text(self, answer):
        return answer.output_text

    def check_tools(self, tools):
        fits(list[FunctionToolParam], tools)

    def check_results(self, messages):
        fits(list[ResponseInputItemParam], messages)

    def check_choice(self, fields):
        fits(response_create_params.ToolChoice, fields["tool_choice"])
        assert fields.keys() <= {"tool_choice", "parallel_tool_calls"}
