"""Anthropic's Messages: what differs from other formats."""

from __future__ import annotations

from typing import Annotated

import pydantic
import pytest
from mcp_types import ImageContent, TextContent

from ahvn_tools import ToolCall, ToolDefinition, ToolResult, ToolSpec
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import ToolLookupError, ToolSpecError
from ahvn_tools.formats import anthropic


def look(place: str, zoom: Annotated[int, pydantic.Field(ge=1)] = 2) -> str:
    """Look at a place."""
    return place


LOOK = ToolSpec.from_function(look).definition

ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "stop_reason": "tool_use",
    "content": [
        {"type": "text", "text": "I look."},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "Rome"}},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"place": "Rome"}, "caller": {"type": "direct"}},
        {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}},
    ],
}


def test_a_tool_with_a_rule_at_its_root_is_not_strict():
    member = {"type": "integer", "minimum": 1}
    schema = {"type": "object", "properties": {"a": member, "b": member}, "anyOf": [{"required": ["a"]}, {}]}
    definition = ToolDefinition(name="f", input_schema=schema)
    (tool,), (plain,) = anthropic.export([definition], strict=True), anthropic.export([definition])
    assert tool == {**plain, "strict": False}
    assert tool["input_schema"]["properties"] == {"a": member, "b": member}


def test_a_recursive_schema_cannot_be_strict():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "additionalProperties": False}
    schema = {"type": "object", "properties": {"first": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}
    (tool,) = anthropic.export([ToolDefinition(name="chain", input_schema=schema)], strict=True)
    assert (tool["strict"], tool["input_schema"]) == (False, schema)


def test_the_last_tool_has_the_cache_control():
    control = {"type": "ephemeral", "ttl": "1h"}
    first, last = anthropic.export([LOOK, ToolDefinition(name="ping")], cache_control=control)
    assert "cache_control" not in first
    assert last["cache_control"] == control
    assert last["cache_control"] is not control
    assert anthropic.export([], cache_control=control) == []


def samples(*inputs: dict) -> list[dict]:
    definition = ToolDefinition(
        name="add",
        input_schema={"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        examples=[{"inputs": sample, "note": "N."} for sample in inputs],
    )
    (tool,) = anthropic.export([definition])
    assert "input_examples" not in anthropic.export([definition], examples=False)[0]
    return tool.get("input_examples", [])


def test_only_examples_that_match_the_schema_are_exported():
    assert samples({"a": 1}, {"a": "x"}, {}, {"a": 2, "b": 3}) == [{"a": 1}, {"a": 2, "b": 3}]
    assert samples({"a": "x"}) == []


def test_examples_for_an_unsupported_pattern_are_left_out():
    definition = ToolDefinition(
        name="match",
        input_schema={"type": "object", "properties": {"a": {"type": "string", "pattern": "(?<"}}},
        examples=[{"inputs": {"a": "x"}}],
    )
    assert "input_examples" not in anthropic.export([definition])[0]


THREE = [ToolDefinition(name=name) for name in ("a.a", "b", "c")]


def test_the_last_tool_that_is_not_deferred_has_the_cache_control():
    tools = anthropic.export(THREE, defer_loading={"a.a", "c"}, cache_control={"type": "ephemeral"})
    assert [tool.get("defer_loading") for tool in tools] == [True, None, True]
    assert ["cache_control" in tool for tool in tools] == [False, True, False]
    assert [tool["defer_loading"] for tool in anthropic.export(THREE, defer_loading=True)] == [True] * 3
    assert all("defer_loading" not in tool for tool in anthropic.export(THREE))


def test_a_cache_without_a_tool_to_carry_it_is_refused():
    with pytest.raises(ToolSpecError, match="all are deferred"):
        anthropic.export(THREE, defer_loading=True, cache_control={"type": "ephemeral"})
    assert anthropic.export([], cache_control={"type": "ephemeral"}) == []


def test_deferring_an_unknown_tool_is_refused():
    with pytest.raises(ToolLookupError, match=r"no tool 'a' in this export\. Known: 'a\.a', 'b', 'c'\."):
        anthropic.export(THREE, defer_loading=["a"])


def strictness(count: int, properties: dict) -> list[bool]:
    schema = {"type": "object", "properties": properties}
    definitions = [ToolDefinition(name=f"t{i}", input_schema=schema) for i in range(count)]
    tools = anthropic.export(definitions, strict=True)
    assert all(tool["strict"] is ("additionalProperties" in tool["input_schema"]) for tool in tools)
    return [tool["strict"] for tool in tools]


def test_strict_tools_stay_within_the_limits_of_a_request():
    assert strictness(20, {"a": {"type": "string"}}) == [True] * 20
    assert strictness(22, {"a": {"type": "string"}}) == [True] * 20 + [False] * 2
    assert strictness(2, {f"p{i}": {"type": "string"} for i in range(13)}) == [True, False]
    assert strictness(18, {"a": {"type": ["string", "null"]}}) == [True] * 16 + [False] * 2


def test_server_tools_are_left_out_and_callers_are_provider_data():
    first, second = anthropic.calls(ANSWER)
    assert (first.id, first.name, first.arguments, first.provider) == (
        "toolu_1", "look", {"place": "Rome"}, {"caller": {"type": "direct"}},
    )  # fmt: skip
    assert (second.id, second.arguments, second.provider) == ("toolu_2", {}, {})
    assert anthropic.calls(ANSWER["content"]) == [first, second]


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_the_last_call_at_the_length_limit_is_truncated(reason):
    first, last = anthropic.calls({**ANSWER, "stop_reason": reason})
    assert first.error is None
    assert (last.arguments, last.error) == (
        {}, "The call was cut off because the response reached its length limit. Send a shorter call.",
    )  # fmt: skip


def test_a_call_before_other_content_is_complete():
    content = [*ANSWER["content"], {"type": "text", "text": "And n"}]
    assert [call.error for call in anthropic.calls({"content": content, "stop_reason": "max_tokens"})] == [None, None]


@pytest.mark.parametrize("message", ["", " \n"])
def test_an_error_without_a_message_is_not_empty(message):
    failed = ToolResult(error=ErrorDetail(code="tool_error", message=message))
    (answered,) = anthropic.results([(ToolCall(id="t1", name="look"), failed)])
    assert answered["content"][0]["content"] == "The tool failed without an error message."
    assert answered["content"][0]["is_error"] is True


def test_blank_texts_are_left_out_of_a_list():
    blocks = (TextContent(type="text", text=" \n"), ImageContent(type="image", data="cG5n", mime_type="image/png"))
    (message,) = anthropic.results([(ToolCall(id="t1", name="look"), ToolResult(blocks=blocks))])
    assert [part["type"] for part in message["content"][0]["content"]] == ["image"]


def test_choices():
    assert [anthropic.choice(word)["tool_choice"] for word in ("auto", "none", "required")] == [
        {"type": "auto"}, {"type": "none"}, {"type": "any"},
    ]  # fmt: skip
    one = {"tool_choice": {"type": "tool", "name": "look"}}
    assert anthropic.choice("look") == anthropic.choice(["look"]) == one
    assert anthropic.choice("auto", parallel=False)["tool_choice"]["disable_parallel_tool_use"] is True
    assert anthropic.choice("none", parallel=False) == {"tool_choice": {"type": "none"}}


def test_a_choice_of_several_tools_is_refused():
    with pytest.raises(ToolSpecError, match=r"not one of \['look', 'ping'\]. Export only these"):
        anthropic.choice(["look", "ping"])


def test_a_single_name_or_caller_can_be_a_string():
    (tool,) = anthropic.export([ToolDefinition(name="look")], defer_loading="look", allowed_callers="direct")
    assert (tool["defer_loading"], tool["allowed_callers"]) == (True, ["direct"])
