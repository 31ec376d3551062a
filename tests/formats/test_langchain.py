"""What is special about LangChain's messages; what all formats share is in test_contract.py."""

from __future__ import annotations

import pytest
from mcp_types import ImageContent, TextContent

from ahvn_tools import ToolCall, ToolResult, formats
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats import detection
from tests.formats.providers import provider
from tests.formats.test_detection import of_sdk

langchain = formats.get("langchain")
CALL = {"type": "tool_call", "id": "c1", "name": "ping", "args": {"a": 1}}
MESSAGE = {"type": "ai", "content": "", "tool_calls": [CALL]}


def read(response):
    return [(call.id, call.name, call.arguments, call.error) for call in langchain.calls(response)]


PING = [("c1", "ping", {"a": 1}, None)]


@pytest.mark.parametrize(
    "response",
    [
        MESSAGE,
        {"type": "ai", "data": MESSAGE},
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"], "kwargs": MESSAGE},
        [{"type": "human", "content": "x"}, {**MESSAGE, "tool_calls": [{**CALL, "id": "old"}]}, MESSAGE],
        [CALL],
        CALL,
        {"type": "ai", "content": [{"type": "text", "text": "x"}, CALL]},
        {"type": "AIMessageChunk", "content": "", "tool_calls": [CALL]},
    ],
)
def test_a_message_is_read_in_every_form(response):
    assert read(response) == PING
    assert langchain.looks_like(response)


def test_a_history_that_ends_in_results_has_no_calls():
    history = [MESSAGE, {"type": "tool", "tool_call_id": "c1", "content": "x"}]
    assert read(history) == []
    assert not langchain.looks_like(history)


def test_calls_are_in_the_order_of_the_content():
    second = {"type": "invalid_tool_call", "id": "c2", "name": "ping", "args": "{", "error": "no JSON"}
    message = {"type": "ai", "content": [second, CALL], "tool_calls": [CALL], "invalid_tool_calls": [second]}
    assert [call_id for call_id, *_ in read(message)] == ["c2", "c1"]


def test_the_text_of_a_chunk_counts_because_langchain_completes_what_was_cut_off():
    fragment = {"id": "c1", "name": "ping", "args": '{"path": "/a', "index": 0}
    chunk = {"type": "AIMessageChunk", "content": "", "tool_calls": [CALL], "tool_call_chunks": [fragment]}
    ((_, _, arguments, error),) = read(chunk)
    assert (arguments, error.partition(" (")[0]) == ({}, "The arguments are not valid JSON")


@pytest.mark.parametrize(("key", "reason"), [("finish_reason", "length"), ("stop_reason", "max_tokens")])
def test_the_last_call_of_a_truncated_message_is_not_run(key, reason):
    message = {**MESSAGE, "tool_calls": [{**CALL, "id": "c0"}, CALL], "response_metadata": {key: reason}}
    first, last = langchain.calls(message)
    assert (first.error, last.error[:21]) == (None, "The call was cut off ")


def test_calls_of_chunks_without_an_index_are_told_apart_by_their_ids():
    chunks = [
        {"type": "AIMessageChunk", "content": "", "tool_call_chunks": [{**CALL, "id": call_id, "args": "{}"}]}
        for call_id in ("c1", "c2")
    ]
    assert [call.id for call in langchain.stream(chunks)] == ["c1", "c2"]


def test_a_value_that_is_no_text_is_the_artifact():
    call = ToolCall(id="c1", name="notes.add")
    image = ImageContent(type="image", data="iVBORw0KGgo=", mime_type="image/png")
    blocks = (TextContent(type="text", text="Here:"), image)
    results = [ToolResult({"rows": [1]}), ToolResult(3), ToolResult("x"), ToolResult(None), ToolResult(blocks=blocks)]
    messages = langchain.results([(call, result) for result in results])
    assert [message.get("artifact") for message in messages] == [{"rows": [1]}, 3, None, None, None]
    assert messages[-1]["content"] == [
        {"type": "text", "text": "Here:"},
        {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"},
    ]
    assert {message["name"] for message in messages} == {"notes_add_e1253ccd"}


def test_one_of_several_tools_cannot_be_forced():
    assert langchain.choice(["ping"], parallel=False) == {"tool_choice": "ping", "parallel_tool_calls": False}
    with pytest.raises(ToolSpecError, match="LangChain can force one tool"):
        langchain.choice(["ping", "pong"])


@pytest.mark.parametrize("name", ["openai", "anthropic", "mistral"])
def test_another_format_refuses_an_object_of_langchain_and_names_the_format(name):
    message = of_sdk("langchain_core.messages.ai", **MESSAGE)
    assert detection.matching_formats(message) == ["langchain"]
    for answer in (message, [message]):
        with pytest.raises(
            TypeError, match=rf"is no answer in the format '{name}'. Read it with the format 'langchain'"
        ):
            formats.get(name).calls(answer)
    with pytest.raises(TypeError, match="Read it with the format 'langchain'"):
        list(formats.get(name).stream([message]))


def test_an_object_of_another_sdk_with_the_same_api_is_read():
    response = provider("mistral").response([])
    assert formats.get("openai").calls(of_sdk("mistralai.client.models.response", **response)) == []
    with pytest.raises(TypeError, match="Read it with the format 'anthropic'"):
        formats.get("gemini").calls(of_sdk("anthropic.types.message", role="assistant", content=[]))
