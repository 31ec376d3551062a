"""OpenAI's Chat Completions: what differs from other formats."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from inline_snapshot import snapshot
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from ahvn_tools import ToolCall, ToolDefinition, Toolkit, ToolResult, formats
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats import detection, openai
from ahvn_tools.formats.parsing.tool_calls import INTERRUPTED_CALL

IMAGE = ImageContent(type="image", data="cG5n", mime_type="image/png")
CALL = ToolCall(id="c1", name="look")


def look(place: str, zoom: int = 2) -> dict[str, int]:
    """Look at a place."""
    return {place: zoom}


def said(*blocks, **fields) -> str:
    """Return the text of the tool message for a result of these blocks."""
    return openai.results([(CALL, ToolResult(blocks=blocks, **fields))])[0]["content"]


# export


def test_a_schema_that_cannot_be_strict_is_exported_unchanged():
    free = ToolDefinition(
        name="free", input_schema={"type": "object", "properties": {"any": {"type": "object"}}, "required": ["any"]}
    )
    (tool,) = openai.export([free], strict=True)
    assert tool["function"]["strict"] is False
    assert tool["function"]["parameters"]["properties"] == {"any": {"type": "object", "properties": {}}}


def test_a_choice_at_the_root_is_stated_in_the_description():
    definition = ToolDefinition(
        name="find",
        description="Find it.",
        input_schema={
            "type": "object",
            "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
            "oneOf": [{"required": ["id"]}, {"required": ["name"]}],
        },
    )
    function = openai.export([definition], strict=True)[0]["function"]
    assert function["description"] == "Find it.\n\nPass exactly one of these combinations of arguments: `id`; `name`."
    assert function["strict"] is False
    assert "required" not in function["parameters"]


# calls

ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_a",
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"place":"Rome"}'},
                        "extra_content": {"google": {"thought_signature": "c2ln"}},
                        "index": 0,
                        "annotation": None,
                    },
                    {"id": "call_b", "type": "custom", "custom": {"name": "shell", "input": "ls"}},
                    {"id": "call_c", "function": {"name": "look", "arguments": {"place": "Oslo"}}},
                ],
            },
        }
    ],
}


def test_calls_have_the_provider_data():
    first, second = openai.calls(ANSWER)
    assert (first.id, first.arguments, second.id, second.arguments) == (
        "call_a", {"place": "Rome"}, "call_c", {"place": "Oslo"},
    )  # fmt: skip
    assert first.provider == {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    assert second.provider == {}


@pytest.mark.parametrize("kind", [{}, {"type": None}, {"type": "function"}])
def test_a_host_may_leave_the_type_of_a_call_out(kind):
    assert len(openai.calls([{**kind, "id": "c1", "function": {"name": "look"}}])) == 1


def test_a_message_or_its_calls_are_accepted():
    message = ANSWER["choices"][0]["message"]
    assert openai.calls(message) == openai.calls(message["tool_calls"]) == openai.calls(ANSWER)


def test_the_first_choice_with_calls_counts():
    empty = {"index": 0, "finish_reason": "stop", "message": {"content": "Hm."}}
    choices = [empty, *ANSWER["choices"], *ANSWER["choices"]]
    assert len(openai.calls({"choices": choices})) == 2


def test_a_call_without_a_function_is_an_error():
    (call,) = openai.calls([{"id": "c1", "type": "function", "function": None}])
    assert (call.id, call.name) == ("c1", "")
    assert call.error.startswith("The call does not name a tool")


@pytest.mark.parametrize("arguments", ['{"place": "Ro', "", None, {"place": "Oslo"}])
def test_the_last_call_at_the_length_limit_is_truncated_unless_it_is_complete(arguments):
    answer = copy.deepcopy(ANSWER)
    answer["choices"][0]["finish_reason"] = "length"
    answer["choices"][0]["message"]["tool_calls"][-1]["function"]["arguments"] = arguments
    first, last = openai.calls(answer)
    assert first.error is None
    assert (last.arguments, last.error) == (
        {}, "The call was cut off because the response reached its length limit. Send a shorter call.",
    )  # fmt: skip


def test_complete_arguments_at_the_length_limit_are_accepted():
    answer = copy.deepcopy(ANSWER)
    answer["choices"][0]["finish_reason"] = "length"
    answer["choices"][0]["message"]["tool_calls"][-1]["function"]["arguments"] = '{"place": "Oslo"}'
    assert [call.error for call in openai.calls(answer)] == [None, None]


# results


def test_content_that_no_provider_accepts_becomes_a_note():
    assert said(AudioContent(type="audio", data="d2F2", mime_type="audio/wav")) == "[audio (audio/wav), not shown]"
    assert said(ImageContent(type="image", data="PHN2Zz4=", mime_type="image/svg+xml")).startswith("[image (image/svg")
    link = ResourceLink(type="resource_link", uri="file:///a", name="a", description="The letter a.")
    assert said(link) == "[resource 'a' at file:///a: The letter a.]"
    plain = ResourceLink(type="resource_link", uri="file:///a", name="a", mime_type="image/png")
    assert said(plain) == "[resource 'a' (image/png) at file:///a]"


def test_resources_are_read():
    text = EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///a", text="inside"))
    blob = EmbeddedResource(
        type="resource", resource=BlobResourceContents(uri="file:///b", blob="cG5n", mime_type="image/png")
    )
    assert said(text) == "inside"
    assert len(openai.results([(CALL, ToolResult(blocks=(blob,)))])) == 2


def test_json_appears_once():
    text = TextContent(type="text", text='{"a": 1}')
    assert said(text, structured_content={"a": 1}) == '{"a": 1}'
    assert said(IMAGE, structured_content={"a": 1}).startswith('{"a": 1}\n[The images')
    assert said() == ""
    assert said(TextContent(type="text", text="")) == ""


def test_an_error_prefix_is_not_added_twice():
    error = ErrorDetail(code="tool_error", message="Error calling tool 'look'")
    assert openai.results([(CALL, ToolResult(error=error))])[0]["content"] == "Error calling tool 'look'"


# choice


def test_choices():
    assert [openai.choice(word) for word in ("auto", "none", "required")] == [
        {"tool_choice": "auto"}, {"tool_choice": "none"}, {"tool_choice": "required"},
    ]  # fmt: skip
    assert openai.choice("auto", parallel=True) == {"tool_choice": "auto", "parallel_tool_calls": True}
    assert openai.choice("look") == {"tool_choice": {"type": "function", "function": {"name": "look"}}}
    assert openai.choice(["look", "auto"]) == snapshot(
        {
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [
                        {"type": "function", "function": {"name": "look"}},
                        {"type": "function", "function": {"name": "auto"}},
                    ],
                },
            }
        }
    )


# the older field `function_call`


LEGACY = {"role": "assistant", "content": None, "function_call": {"name": "notes_add", "arguments": '{"a": 1}'}}
LEGACY_CALL = ToolCall(id="c1", name="notes_add", arguments={"a": 1}, provider={"legacy": True})


def of_choice(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, **fields}]}


@pytest.mark.parametrize(
    "response", [LEGACY, [LEGACY], of_choice(message=LEGACY, finish_reason="function_call"),
                 {"function_call": LEGACY["function_call"]}, {**LEGACY, "tool_calls": None}],
)  # fmt: skip
def test_a_call_in_the_older_field_is_read_and_answered_by_a_function_message(response):
    (call,) = openai.calls(response)
    assert (call.name, call.arguments, call.error, call.provider) == ("notes_add", {"a": 1}, None, {"legacy": True})
    assert openai.results([(call, ToolResult(3))]) == [{"role": "function", "name": "notes_add", "content": "3"}]
    assert openai.message([call], text="Hm.") == [{**LEGACY, "content": "Hm."}]
    assert detection.matching_formats(response) == ["openai"]


def test_a_call_in_the_older_field_is_read_from_a_stream():
    name, *arguments = [{"name": "notes_add"}, {"arguments": '{"a"'}, {"arguments": ": 1}"}]
    deltas = [{"role": "assistant", "content": None, "function_call": name}]
    deltas += [{"function_call": piece} for piece in arguments]
    chunks = [of_choice(delta=delta, finish_reason=None) for delta in deltas]
    whole = [*chunks, of_choice(delta={}, finish_reason="function_call")]
    (call,) = openai.stream(whole)
    assert (call.name, call.arguments, call.provider) == ("notes_add", {"a": 1}, {"legacy": True})
    assert detection.matching_formats(whole) == ["openai"]
    (broken,) = openai.stream(chunks[:-1])
    assert broken.error == INTERRUPTED_CALL


def test_the_older_field_beside_the_newer_one_is_the_same_call():
    items = [{"id": "c1", "type": "function", "function": LEGACY["function_call"]}]
    (call,) = openai.calls({**LEGACY, "tool_calls": items})
    assert (call.id, call.provider) == ("c1", {})


@pytest.mark.parametrize("field", [None, {}, "x", [], {"name": "", "arguments": ""}])
def test_an_empty_older_field_is_no_call(field):
    assert openai.calls({"role": "assistant", "content": "Hello!", "function_call": field}) == []


def test_calls_are_written_into_the_older_field_if_asked():
    call = ToolCall(id="c1", name="notes_add", arguments={"a": 1})
    assert openai.message([call], legacy=True) == [LEGACY]
    assert openai.results([(call, ToolResult(3))], legacy=True) == [
        {"role": "function", "name": "notes_add", "content": "3"}
    ]
    assert openai.message([], text="Hello!", legacy=True) == [{"role": "assistant", "content": "Hello!"}]


@pytest.mark.parametrize("calls", [[LEGACY_CALL, LEGACY_CALL], [LEGACY_CALL, ToolCall(id="c2", name="ping")]])
def test_the_older_field_contains_one_call(calls):
    with pytest.raises(ToolSpecError, match=r"`function_call` contains one call\. Write a message for each call\."):
        openai.message(calls)


def test_images_of_a_function_message_follow_after_its_name():
    image = ToolResult(blocks=(ImageContent(type="image", data="aGk=", mime_type="image/png"),))
    answer, images = openai.results([(LEGACY_CALL, image)])
    assert answer["role"] == "function"
    assert images["content"][0]["text"] == "Images of the result of call notes_add:"


def test_a_toolkit_runs_a_call_in_the_older_field():
    kit = Toolkit("notes")

    @kit.tool(name="notes_add")
    def add(a: int) -> int:
        """Add it."""
        return a + 1

    run = kit.run(LEGACY)
    assert list(run) == [{"role": "function", "name": "notes_add", "content": "2"}]
    assert list(type(run).from_json(run.to_json())) == list(run)


def test_other_formats_do_not_read_the_older_field():
    for name in ("mistral", "ollama", "openai-responses", "anthropic"):
        assert formats.get(name).calls(LEGACY) == []
