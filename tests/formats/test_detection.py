"""Which format an answer looks like: from SDK objects for sure, from data where only one format fits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest

from ahvn_tools import formats
from ahvn_tools.formats import detection
from tests.formats.providers import provider
from tests.formats.test_contract import CORPORA, each_format, recorded

CALLS = [("call_Zx81", "ping", '{"a": 1}')]
"""A call with an id that is none of Mistral's."""

AMBIGUOUS = {"mistral": ["mistral", "openai"]}
"""Formats whose data, with calls, fits another format, too."""

native = pytest.mark.parametrize("name", [name for name in formats.BUILT_IN if name != "prompt"])


def expected(name: str) -> list[str]:
    return AMBIGUOUS.get(name, [name])


def calls_of(name: str) -> list[tuple[str, str, str]]:
    return [("FI5qQGzDE", "ping", '{"a": 1}')] if name == "mistral" else CALLS


@native
def test_an_answer_with_calls_is_recognized_as_data_text_and_stream(name):
    response, events = provider(name).response(calls_of(name)), provider(name).events(calls_of(name))
    for form in (response, json.dumps(response), json.dumps(response).encode()):
        assert detection.matching_formats(form) == expected(name)
    assert detection.matching_formats(events) == [name]


@native
def test_every_recorded_answer_is_recognized(name):
    if not CORPORA.exists():
        pytest.skip("the recordings are not here")
    for row in recorded(name, "provider_tool_call_responses.jsonl"):
        assert name in detection.matching_formats(row["response"])
    for row in recorded(name, "provider_tool_call_streams.jsonl"):
        assert name in detection.matching_formats(row["sse"])


@native
def test_an_answer_of_one_format_is_none_of_another(name):
    response = provider(name).response(calls_of(name))
    for other in formats.BUILT_IN:
        fits = other == name or other in expected(name)
        assert detection.fits_without_calls(other, response) is fits


@each_format
def test_a_text_without_calls_fits_its_format(name):
    for answer in (provider(name).response([]), provider(name).events([])):
        assert detection.fits_without_calls(name, answer)


def test_a_short_message_without_calls_fits_every_format_that_writes_it_so():
    message = {"role": "assistant", "content": "Hello!"}
    assert detection.matching_formats(message) == ["anthropic", "mistral", "ollama", "openai"]


def test_a_message_of_openai_with_calls_is_no_message_of_ollama():
    function = {"name": "ping", "arguments": "{}"}
    assert detection.matching_formats({"tool_calls": [{"id": "call_1", "function": function}]}) == ["openai"]
    assert detection.matching_formats([{"id": "call_1", "type": "function", "function": function}]) == ["openai"]
    message = {"tool_calls": [{"function": {"name": "ping", "arguments": {}}}]}
    assert detection.matching_formats(message) == ["mistral", "ollama"]


@pytest.mark.parametrize("answer", [{}, {"text": "x", "n": 1}, "Hello!", "", b"\xff\xfe\xff", 3, "3", {"foo": []}])
def test_other_data_is_in_no_format(answer):
    assert detection.matching_formats(answer) == []


def of_sdk(module: str, **fields: Any) -> Any:
    """Return an object as an SDK returns it: a pydantic model of one of its modules."""
    return pydantic.create_model("Answer", __module__=module, **dict.fromkeys(fields, (Any, ...)))(**fields)


def test_the_class_of_an_sdk_says_the_format():
    """Its data fits two formats."""
    response = provider("mistral").response(calls_of("mistral"))
    assert detection.matching_formats(response) == ["mistral", "openai"]
    assert detection.matching_formats(of_sdk("openai.types.chat.chat_completion", **response)) == ["openai"]
    assert detection.matching_formats(of_sdk("mistralai.client.models.response", **response)) == ["mistral"]
    assert detection.matching_formats([of_sdk("openai.types.chat.message", **response)]) == ["openai"]
    assert detection.matching_formats(of_sdk("openai_like.types", **response)) == ["mistral", "openai"]


def test_a_stream_is_read_once():
    def events() -> Iterator[dict[str, Any]]:
        yield from provider("openai").events(CALLS)

    read = detection.read_events(events())
    assert detection.matching_formats(read) == ["openai"]
    assert len(formats.get("openai").calls(read)) == 1


def test_the_stream_in_a_response_of_bedrock_is_read_once():
    response = {"ResponseMetadata": {}, "stream": iter(provider("bedrock").events(CALLS))}
    read = detection.read_events(response)
    assert detection.matching_formats(read) == ["bedrock"]
    assert len(formats.get("bedrock").calls(read)) == 1


def test_a_response_is_not_taken_apart():
    for answer in ("text", b"text", {"a": 1}, [1], of_sdk("openai.types.chat", choices=[])):
        assert detection.read_events(answer) == answer
