"""OpenAI's Responses: what differs from other formats."""

from __future__ import annotations

import pytest

from ahvn_tools import ToolCall, ToolDefinition, ToolResult
from ahvn_tools.formats import openai_responses as responses


def look(place: str, zoom: int | None = None) -> str:
    """Look at a place."""
    return place


ANSWER = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "tool_search_call", "call_id": "ts_1", "arguments": {"paths": ["maps"]}, "status": "completed"},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "look",
            "arguments": '{"place":"Rome"}',
            "status": "completed",
            "namespace": "maps",
            "caller": {"type": "program", "caller_id": "p_1"},
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "…"}]},
    ],
}


def promised(schema: dict | None) -> dict | None:
    (tool,) = responses.export([ToolDefinition(name="a", output_schema=schema)], output_schema=True)
    assert "output_schema" not in responses.export([ToolDefinition(name="a", output_schema=schema)])[0]
    return tool.get("output_schema")


def test_an_output_schema_describes_the_json_of_the_output():
    wrapped = {
        "type": "object",
        "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/P"}}},
        "$defs": {"P": {"type": "integer"}},
        "x-fastmcp-wrap-result": True,
    }
    assert promised(wrapped) == {
        "type": "array", "items": {"$ref": "#/$defs/P"}, "$defs": {"P": {"type": "integer"}},
    }  # fmt: skip
    two = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
    assert promised(two) == two
    one = {"type": "object", "properties": {"result": {"type": "string"}}}
    assert promised(one) == one


@pytest.mark.parametrize("node", [{"type": "string"}, {"type": ["string", "null"]}, {}, {"$ref": "#"}])
def test_an_output_that_may_be_plain_text_has_no_schema(node):
    wrapped = {"type": "object", "properties": {"result": node}, "x-fastmcp-wrap-result": True}
    assert promised(wrapped) is None
    assert promised(None) is None


def test_tools_are_deferred_by_name_and_callers_are_set_on_all():
    tools = [ToolDefinition(name="a.a"), ToolDefinition(name="b")]
    exported = responses.export(tools, defer_loading=["a.a"], allowed_callers=["direct", "programmatic"])
    assert [tool.get("defer_loading") for tool in exported] == [True, None]
    assert [tool["allowed_callers"] for tool in exported] == [["direct", "programmatic"]] * 2


def test_a_call_has_the_id_that_its_output_needs():
    (call,) = responses.calls(ANSWER)
    assert call == ToolCall(
        id="call_1",
        name="look",
        arguments={"place": "Rome"},
        provider={
            "id": "fc_1",
            "status": "completed",
            "namespace": "maps",
            "caller": {"type": "program", "caller_id": "p_1"},
        },
        wire_name="look",
    )
    assert responses.calls(ANSWER["output"]) == [call]


def test_caller_and_namespace_are_echoed():
    (call,) = responses.calls(ANSWER)
    assert responses.results([(call, ToolResult("seen"))]) == [
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": "seen",
            "caller": {"type": "program", "caller_id": "p_1"},
            "namespace": "maps",
        }
    ]


def test_an_incomplete_call_is_truncated():
    item = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"pla', "status": "incomplete"}
    assert responses.calls([item])[0].error.startswith("The call was cut off")


def test_choices():
    assert responses.choice("required", parallel=False) == {"tool_choice": "required", "parallel_tool_calls": False}
    assert responses.choice("look") == {"tool_choice": {"type": "function", "name": "look"}}
    assert responses.choice(["look"]) == {
        "tool_choice": {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "look"}],
        }
    }


def test_a_single_name_or_caller_can_be_a_string():
    (tool,) = responses.export([ToolDefinition(name="look")], defer_loading="look", allowed_callers="direct")
    assert (tool["defer_loading"], tool["allowed_callers"]) == (True, ["direct"])
