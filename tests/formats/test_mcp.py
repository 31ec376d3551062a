"""The Model Context Protocol: what differs from other formats."""

from __future__ import annotations

import json
from typing import Any

import pytest
from inline_snapshot import snapshot
from mcp_types import (
    Annotations,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ImageContent,
    JSONRPCRequest,
    JSONRPCResponse,
    TextContent,
    Tool,
)

from ahvn_tools import ToolCall, ToolDefinition, ToolResult, ToolSpec
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats import mcp

ADD = ToolDefinition(
    name="notes.add",
    title="Add a note",
    description="Add it.",
    input_schema={
        "type": "object",
        "properties": {"text": {"type": "string"}, "from": {"type": "string"}},
        "anyOf": [{"required": ["text"]}, {"required": ["from"]}],
    },
    output_schema={"type": "object", "properties": {"id": {"type": "integer"}}},
    annotations={"readOnlyHint": False, "idempotentHint": True},
    icons=[{"src": "https://example.org/note.png", "mimeType": "image/png"}],
    meta={"example.org/owner": "me", "fastmcp": {"unchanged": True}},
    tags=frozenset({"write", "notes"}),
    version="1.2",
)

CALL = ToolCall(id="7", name="look", provider={"id": 7})


def dumped(model: Any) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def answered(result: ToolResult) -> dict[str, Any]:
    (message,) = mcp.results([(CALL, result)])
    return message["result"]


# export


def test_a_tool_is_listed_with_all_fields_of_mcp():
    assert mcp.export([ADD]) == snapshot(
        [
            {
                "name": "notes_add_e1253ccd",
                "title": "Add a note",
                "description": """\
Add it.

Pass at least one of these combinations of arguments: `text`; `from`.\
""",
                "inputSchema": {
                    "type": "object",
                    "properties": {"text": {"type": "string"}, "from": {"type": "string"}},
                },
                "outputSchema": {"type": "object", "properties": {"id": {"type": "integer"}}},
                "annotations": {"readOnlyHint": False, "idempotentHint": True},
                "icons": [{"src": "https://example.org/note.png", "mimeType": "image/png"}],
                "_meta": {
                    "example.org/owner": "me",
                    "fastmcp": {"unchanged": True, "tags": ["notes", "write"], "version": "1.2"},
                },
            }
        ]
    )


@pytest.mark.parametrize("definition", [ADD, ToolDefinition(name="ping"), ToolDefinition(name="ping", annotations={})])
def test_a_listed_tool_equals_the_sdks(definition):
    (tool,) = mcp.export([definition])
    assert dumped(Tool.model_validate(tool)) == tool


def test_a_served_tool_has_its_own_name_and_unchanged_schema():
    spec = ToolSpec.from_mcp(Tool.model_validate(mcp.to_listed_tool(ADD)))
    served, (exported,) = dumped(spec.to_mcp()), mcp.export([spec.definition])
    assert (served.pop("name"), exported.pop("name")) == ("notes.add", "notes_add_e1253ccd")
    assert served.pop("inputSchema")["anyOf"] == [{"required": ["text"]}, {"required": ["from"]}]
    assert exported.pop("inputSchema")["type"] == "object"
    assert exported.pop("description").startswith(served.pop("description"))
    assert exported == served


# calls


def request(**said: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "look", "arguments": {"a": 1}},
        **said,
    }


def test_the_id_of_a_request_is_repeated_unchanged():
    for given, as_text in [(7, "7"), ("7", "7"), (0, "0"), ("a-b", "a-b"), (1.5, "1.5")]:
        (call,) = mcp.calls(request(id=given))
        assert call.id == as_text
        assert mcp.results([(call, ToolResult(1))])[0]["id"] == given


def test_an_empty_id_is_sent_back_and_the_call_gets_a_new_one():
    (call,) = mcp.calls(request(id=""))
    assert call.id
    assert mcp.results([(call, ToolResult(1))])[0]["id"] == ""


def test_other_params_are_provider_data():
    params = {"name": "look", "_meta": {"progressToken": "p1"}, "task": None}
    (call,) = mcp.calls(request(params=params))
    assert (call.arguments, call.provider) == ({}, {"_meta": {"progressToken": "p1"}, "id": 7})


def test_a_request_its_params_and_sdk_objects_contain_the_same_call():
    params = CallToolRequestParams(name="look", arguments={"a": 1})
    forms = [
        request(),
        request()["params"],
        [request()],
        params,
        CallToolRequest(params=params),
        JSONRPCRequest.model_validate(request()),
        json.dumps(request()),
    ]
    for form in forms:
        (call,) = mcp.calls(form)
        assert (call.name, call.arguments, call.error) == ("look", {"a": 1}, None)
        assert mcp.results([(call, ToolResult(1))])[0]["id"] == call.provider.get("id", call.id)


@pytest.mark.parametrize(
    "message",
    [
        request(method="tools/list"),
        {"jsonrpc": "2.0", "id": 7, "result": {"tools": [{"name": "look"}]}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"name": "look"}},
        {"name": "look", "inputSchema": {"type": "object"}},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"a": 1}},
    ],
)
def test_other_messages_contain_no_calls(message):
    assert mcp.calls(message) == mcp.calls([message]) == list(mcp.stream([message])) == []


def test_a_request_that_names_no_tool_is_an_error_with_its_id():
    for params in ({}, None, {"name": 3}):
        (call,) = mcp.calls(request(params=params))
        assert (call.id, call.provider, call.error[:29]) == ("7", {"id": 7}, "The call does not name a tool")


# results


def test_a_response_contains_text_and_structured_content():
    (message,) = mcp.results([(CALL, ToolResult(3, {"result": 3}, meta={"duration": 0.5, "attempts": 2}))])
    assert message == snapshot(
        {
            "jsonrpc": "2.0",
            "id": 7,
            "result": {
                "content": [{"type": "text", "text": "3"}],
                "structuredContent": {"result": 3},
                "_meta": {"attempts": 2},
                "resultType": "complete",
            },
        }
    )
    assert JSONRPCResponse.model_validate(message).id == 7


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(3, {"result": 3}),
        ToolResult(None),
        ToolResult("", meta={"attempts": 2}),
        ToolResult(error=ErrorDetail(code="tool_error", message="disk full")),
        ToolResult(
            blocks=(
                TextContent(type="text", text="Rome", annotations=Annotations(audience=["user"])),
                ImageContent(type="image", data="cG5n", mime_type="image/png"),
            )
        ),
        ToolResult([], blocks=()),
    ],
)
def test_a_response_equals_a_servers(result):
    said = answered(result)
    assert CallToolResult.model_validate(said) == result.to_mcp()
    assert {"isError": False, **said} == dumped(result.to_mcp())


def test_an_error_has_its_text_its_images_and_a_flag():
    picture = ImageContent(type="image", data="cG5n", mime_type="image/png")
    result = ToolResult(error=ErrorDetail(code="tool_error", message="disk full"), blocks=(picture,))
    assert answered(result) == {
        "content": [
            {"type": "text", "text": "disk full"}, {"type": "image", "data": "cG5n", "mimeType": "image/png"},
        ],
        "isError": True, "resultType": "complete",
    }  # fmt: skip


def test_a_lone_surrogate_is_replaced_at_any_depth():
    block = TextContent(type="text", text="a\ud800")
    said = answered(
        ToolResult(1, {"k\ud800": ["\ud800"]}, meta={"note": "\ud800", "object": object()}, blocks=(block,))
    )
    assert said == {
        "content": [{"type": "text", "text": "a\ufffd"}],
        "structuredContent": {"k\ufffd": ["\ufffd"]},
        "_meta": {"note": "\ufffd", "object": "<object>"},
        "resultType": "complete",
    }


# choice


def test_a_choice_by_name_is_refused_with_a_fix():
    with pytest.raises(ToolSpecError, match=r"by name: 'look', 'ping'\. Export only that tool and choose"):
        mcp.choice(["look", "ping"])


def test_one_call_at_a_time_is_refused():
    with pytest.raises(ToolSpecError, match="Leave `parallel` out"):
        mcp.choice("auto", parallel=False)
    assert mcp.choice("auto", parallel=True) == {"toolChoice": {"mode": "auto"}}


# message


def test_a_call_is_written_as_a_request_of_mcp():
    (request,) = mcp.message([ToolCall(id="7", name="look", arguments={"a": 1}, provider={"id": 7, "_meta": {"x": 1}})])
    assert dumped(JSONRPCRequest.model_validate(request)) == request
    params = {"name": "look", "arguments": {"a": 1}, "_meta": {"x": 1}}
    assert request == {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    assert CallToolRequestParams.model_validate(request["params"]).arguments == {"a": 1}


def test_the_id_of_a_request_that_is_a_text_is_that_of_the_call():
    (call,) = mcp.calls({"jsonrpc": "2.0", "id": "r7", "method": "tools/call", "params": {"name": "look"}})
    assert (call.id, call.provider) == ("r7", {})
    assert mcp.results([(call, ToolResult(1))])[0]["id"] == "r7"
