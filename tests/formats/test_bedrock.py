"""Amazon Bedrock's Converse: what differs from other formats."""

from __future__ import annotations

from typing import Annotated

import pydantic
import pytest
from mcp_types import ImageContent

from ahvn_tools import ToolCall, ToolDefinition, ToolResult, ToolSpec
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats import bedrock

CUT_OFF = "The call was cut off because the response reached its length limit. Send a shorter call."
NOT_WELL_FORMED = "The call was malformed. Send it again with its arguments as one JSON object."


def look(place: str, zoom: Annotated[int, pydantic.Field(ge=1)] = 2) -> str:
    """Look at a place."""
    return place


LOOK = ToolSpec.from_function(look).definition


def use(call_id: str, **fields) -> dict:
    return {"toolUse": {"toolUseId": call_id, "name": "look", "input": {}, **fields}}


def answer(*blocks: dict, reason: str = "tool_use") -> dict:
    return {"output": {"message": {"role": "assistant", "content": list(blocks)}}, "stopReason": reason}


# export


def test_strict_exports_no_keyword_that_bedrock_refuses():
    kinds = {
        "number": {"type": "number", "minimum": 0, "maximum": 9, "multipleOf": 3},
        "open": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9},
        "list": {"type": "array", "items": {"type": "string", "pattern": "(?=a)b"}, "minItems": 2, "maxItems": 4},
    }
    schema = {"type": "object", "properties": kinds, "required": list(kinds), "additionalProperties": False}
    (tool,) = bedrock.export([ToolDefinition(name="count", input_schema=schema)], strict=True)
    assert tool["toolSpec"]["strict"] is True
    made = tool["toolSpec"]["inputSchema"]["json"]["properties"]
    assert [member.keys() for member in made.values()] == [
        {"type", "description"}, {"type", "description"}, {"type", "items", "description"},
    ]  # fmt: skip
    assert made["list"]["items"].keys() == {"type", "description"}


def test_a_cache_point_follows_the_last_tool():
    point = {"type": "default", "ttl": "1h"}
    *tools, last = bedrock.export([LOOK, ToolDefinition(name="ping")], cache_point=point)
    assert [tool["toolSpec"]["name"] for tool in tools] == ["look", "ping"]
    assert last == {"cachePoint": point}
    assert last["cachePoint"] is not point
    assert bedrock.export([], cache_point=point) == []


# calls


def test_a_response_its_message_and_its_content_contain_the_same_calls():
    reasoning = {"reasoningContent": {"redactedContent": b"\x00\xff"}}
    whole = answer(reasoning, {"text": "I look."}, use("t1", input={"place": "Rome"}), use("t2"))
    first, second = bedrock.calls(whole)
    assert (first.id, first.name, first.arguments, first.provider) == ("t1", "look", {"place": "Rome"}, {})
    assert (second.id, second.arguments, second.error) == ("t2", {}, None)
    message = whole["output"]["message"]
    assert bedrock.calls(message) == bedrock.calls(message["content"]) == [first, second]


def test_server_tools_are_left_out():
    (call,) = bedrock.calls(answer(use("t1", type="server_tool_use"), use("t2", type="tool_use")))
    assert (call.id, call.provider) == ("t2", {})


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_the_last_call_at_the_length_limit_is_truncated(reason):
    first, last = bedrock.calls(answer(use("t1"), use("t2"), reason=reason))
    assert (first.error, last.error) == (None, CUT_OFF)


def test_the_last_call_of_a_malformed_message_is_an_error():
    first, last = bedrock.calls(answer(use("t1"), use("t2", input={"place": "Ro"}), reason="malformed_tool_use"))
    assert first.error is None
    assert (last.arguments, last.error) == ({}, NOT_WELL_FORMED)
    assert bedrock.calls(answer({"text": "Hm."}, reason="malformed_tool_use")) == []
    (last,) = bedrock.calls(answer(use("t1", input={"place": "Ro"}), reason="malformed_model_output"))
    assert last.error == NOT_WELL_FORMED


# streams


def begun(index: int, **fields) -> dict:
    start = {"toolUse": {"toolUseId": f"t{index}", "name": "look", **fields}}
    return {"contentBlockStart": {"start": start, "contentBlockIndex": index}}


def piece(index: int, text: str) -> dict:
    return {"contentBlockDelta": {"delta": {"toolUse": {"input": text}}, "contentBlockIndex": index}}


def stopped(index: int) -> dict:
    return {"contentBlockStop": {"contentBlockIndex": index}}


def over(reason: str) -> dict:
    return {"messageStop": {"stopReason": reason}}


def test_the_response_of_converse_stream_contains_its_events():
    events = [begun(0), piece(0, '{"place": '), piece(0, '"Rome"}'), stopped(0), over("tool_use")]
    assert bedrock.calls({"ResponseMetadata": {}, "stream": iter(events)}) == list(bedrock.stream(events))
    assert bedrock.calls({"stream": events})[0].arguments == {"place": "Rome"}


@pytest.mark.parametrize("stream", [None, 3, "text", b"text", {"a": 1}])
def test_an_invalid_stream_in_a_response_contains_no_calls(stream):
    assert bedrock.calls({"stream": stream}) == []


def test_an_asynchronous_stream_in_a_response_is_refused():
    async def arriving():
        yield over("tool_use")

    with pytest.raises(TypeError, match="async for"):
        bedrock.calls({"stream": arriving()})


def test_a_complete_call_is_emitted_before_the_message_ends():
    calls = bedrock.stream([begun(0), piece(0, "{}"), stopped(0), *[over("malformed_tool_use")]])
    assert next(calls).error is None
    assert list(calls) == []


def test_text_and_server_tools_are_ignored_in_a_stream():
    text = {"contentBlockDelta": {"delta": {"text": "I look."}, "contentBlockIndex": 0}}
    image = {"contentBlockStart": {"start": {"image": {"format": "png"}}, "contentBlockIndex": 1}}
    remote = [begun(2, type="server_tool_use"), piece(2, "{}"), stopped(2)]
    events = [text, stopped(0), image, stopped(1), *remote, begun(3, type="tool_use"), piece(3, "{}"), stopped(3)]
    assert [(call.id, call.provider, call.error) for call in bedrock.stream(events)] == [("t3", {}, None)]


@pytest.mark.parametrize(
    ("text", "reason", "error"),
    [
        ("", "tool_use", None),
        ("", "max_tokens", CUT_OFF),
        ('{"place": "Ro', "max_tokens", CUT_OFF),
        ('{"place": "Ro', "malformed_tool_use", NOT_WELL_FORMED),
        ("", "malformed_tool_use", NOT_WELL_FORMED),
    ],
)
def test_an_incomplete_call_waits_for_the_stop_reason(text, reason, error):
    (call,) = bedrock.stream([begun(0), piece(0, text), stopped(0), over(reason)])
    assert (call.id, call.arguments, call.error) == ("t0", {}, error)


# results


@pytest.mark.parametrize("nothing", [ToolResult(""), ToolResult(" \n"), ToolResult(blocks=())])
def test_an_empty_result_has_no_blank_text(nothing):
    (message,) = bedrock.results([(ToolCall(id="t1", name="look"), nothing)])
    assert message["content"] == [{"toolResult": {"toolUseId": "t1", "content": []}}]


def test_an_image_without_valid_base64_becomes_a_note():
    image = ImageContent(type="image", data="a", mime_type="image/png")
    (message,) = bedrock.results([(ToolCall(id="t1", name="look"), ToolResult(blocks=(image,)))])
    assert message["content"][0]["toolResult"]["content"] == [{"text": "[image (image/png), not shown]"}]


# choice


def test_choices_are_fields_of_the_tool_configuration():
    one = {"toolChoice": {"tool": {"name": "look"}}}
    assert bedrock.choice("look") == bedrock.choice(["look"], parallel=True) == one
    assert bedrock.choice("auto", parallel=True) == {"toolChoice": {"auto": {}}}


def test_choices_that_converse_lacks_are_refused_with_a_fix():
    with pytest.raises(ToolSpecError, match=r"no choice 'none'\. Leave the tools out"):
        bedrock.choice("none")
    with pytest.raises(ToolSpecError, match=r"not one of \['look', 'ping'\]\. Export only these"):
        bedrock.choice(["look", "ping"])
    with pytest.raises(ToolSpecError, match="Leave `parallel` out"):
        bedrock.choice("auto", parallel=False)
