"""Google's SDK: generateContent, with a model of the second and one of the third generation."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager, contextmanager

import pytest

pytest.importorskip("google.genai", reason='needs the SDK: pip install "ahvn-tools[gemini]"')

from google.genai import Client, types

from ahvn_tools import ToolCall, formats
from tests.formats.sdks.cases import forecast, spec_of
from tests.formats.sdks.contexts import awaited_stream
from tests.formats.sdks.contract import OSLO, ROME, AsyncContract, Contract, calls_of
from tests.formats.sdks.conversing import MalformedConversing
from tests.formats.sdks.type_checks import fits_model


def snake(name: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def declared(tool, spelled):
    """Return a declaration with its members spelled; only the older form of a schema is Google's own."""
    return {
        spelled(word): schema(value, spelled) if word in {"parameters", "response"} else value
        for word, value in tool.items()
    }


def schema(value, spelled):
    """Return a schema in the older form with its members spelled, and types in capitals."""
    inner = {
        "properties": lambda members: {name: schema(member, spelled) for name, member in members.items()},
        "anyOf": lambda branches: [schema(branch, spelled) for branch in branches],
        "items": lambda item: schema(item, spelled),
        "type": str.upper,
    }
    return {spelled(word): inner.get(word, lambda told: told)(said) for word, said in value.items()}


class TestGenerateContent(Contract, AsyncContract, MalformedConversing):
    """The third generation numbers and signs its calls, and sees images in responses."""

    FORMAT = "gemini"
    SERVICE = "gemini_generate"
    TOKENS = 4
    WITH_OWN_TOOL = {"config": {"tools": [{"functionDeclarations": [{"name": "own"}]}], "temperature": 0}}
    MODEL = "gemini-3-pro"
    OPTIONS = [{}, {"form": "parameters"}, {"output_schema": True}, {"output_schema": True, "form": "parameters"}]
    QUESTION = {"role": "user", "parts": [{"text": "How will it be?"}]}
    REFUSED = {"one"}
    RESULTS = {"inline_images": True}

    @contextmanager
    def connected(self, url):
        with Client(api_key="none", http_options={"base_url": url}) as client:
            yield client

    @asynccontextmanager
    async def connect_async(self, url):
        with self.connected(url) as client:
            async with client.aio as later:
                yield later

    def request(self, messages, tools, choice):
        offered = {"tools": [{"functionDeclarations": tools}]} if tools else {}
        config = {**offered, **choice, "automatic_function_calling": {"disable": True}}
        return {"model": self.MODEL, "contents": messages, "config": config}

    def model(self, client, **options):
        return formats.gemini.model(client, model=self.MODEL, **options)

    def ask(self, client, request):
        return client.models.generate_content(**request)

    @contextmanager
    def events(self, client, request):
        yield client.models.generate_content_stream(**request)

    async def ask_async(self, client, request):
        return await client.models.generate_content(**request)

    def events_async(self, client, request):
        return awaited_stream(client.models.generate_content_stream(**request))

    def turn(self, answer):
        return [answer.candidates[0].content]

    def results(self, calls, spec):
        pairs = [(call, spec.exec(**call.arguments)) for call in calls]
        return formats.get(self.FORMAT).results(pairs, **self.RESULTS)

    def text(self, answer):
        return answer.text

    def received(self, body):
        (tool,) = body["tools"]
        return tool["functionDeclarations"]

    def without_dropped_fields(self, tools):
        """Return what the SDK sends: all, with names as Python spells them and types in capitals."""
        return [declared(tool, snake) for tool in tools]

    def check_tools(self, tools):
        expected = [declared(tool, str) for tool in tools]
        fits_model(types.Tool, {"functionDeclarations": tools}, {"functionDeclarations": expected})

    def check_results(self, messages):
        for message in messages:
            fits_model(types.Content, message)

    def check_choice(self, fields):
        fits_model(types.GenerateContentConfig, fields)

    def test_a_call_that_gemini_has_not_made_is_accepted_if_asked(self, server, client):
        spec = spec_of(forecast)
        calls = [ToolCall(id="c1", name=spec.name, arguments=OSLO), ToolCall(id="c2", name=spec.name, arguments=ROME)]
        written = formats.get(self.FORMAT).message(calls, skip_signature_check=True)
        self.check_message(written)
        messages = [self.QUESTION, *written, *self.results(calls, spec)]
        text = self.text(self.ask(client, self.request(messages, self.export([spec.definition]), {})))
        assert "Ann: 2 days of rain in Oslo" in text
        assert calls_of(formats.get(self.FORMAT).calls(written, [spec.definition])) == calls_of(calls)

    def seen_error(self, message):
        return f"an error, {message}"


class TestOlderModel(TestGenerateContent):
    """The second generation sends no ids, and accepts images in a separate content."""

    MODEL = "gemini-2.5-flash"
    RESULTS = {}
