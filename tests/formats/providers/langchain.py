"""LangChain's messages, with the calls in the order of the content blocks."""

from __future__ import annotations

from typing import Any

from tests.formats.providers import Calls, as_input, halves, openai

CHOICES = {"auto": {"tool_choice": "auto"}, "none": {"tool_choice": "none"}, "required": {"tool_choice": "any"}}

exported = openai.exported


def response(calls: Calls) -> dict[str, Any]:
    items = [_call(*call) for call in calls]
    return {
        "type": "ai",
        "content": [dict(item) for item in items],
        "tool_calls": [dict(item) for item in items if item["type"] == "tool_call"],
        "invalid_tool_calls": [dict(item) for item in items if item["type"] == "invalid_tool_call"],
        "response_metadata": {"finish_reason": "tool_calls"},
    }


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    value = as_input(arguments)
    if isinstance(value, dict):
        return {"type": "tool_call", "id": call_id, "name": name, "args": value}
    return {"type": "invalid_tool_call", "id": call_id, "name": name, "args": arguments, "error": "no JSON object"}


def events(calls: Calls) -> list[dict[str, Any]]:
    fragments: list[dict[str, Any]] = []
    for index, (call_id, name, arguments) in enumerate(calls):
        fragments.append({"index": index, "id": call_id, "name": name, "args": ""})
        fragments += [{"index": index, "id": None, "name": None, "args": piece} for piece in halves(arguments)]
    chunks = [_chunk(tool_call_chunks=[{**fragment, "type": "tool_call_chunk"}]) for fragment in fragments]
    return [_chunk(), *chunks, _chunk(response_metadata={"finish_reason": "tool_calls"}, chunk_position="last")]


def _chunk(**fields: Any) -> dict[str, Any]:
    return {"type": "AIMessageChunk", "content": "", "tool_call_chunks": [], "response_metadata": {}, **fields}


def result_ids(messages: list[dict[str, Any]]) -> list[str]:
    return [message["tool_call_id"] for message in messages]


def result_texts(messages: list[dict[str, Any]]) -> list[Any]:
    return [message["content"] for message in messages]


def read(messages: list[dict[str, Any]]) -> list[Any]:
    return result_texts(messages)


def forced_names(fields: dict[str, Any]) -> list[str]:
    return [fields["tool_choice"]]


def is_ours(row: dict[str, Any]) -> bool:  # nothing was recorded
    return False
