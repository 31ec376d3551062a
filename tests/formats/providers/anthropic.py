"""Anthropic's Messages."""

from __future__ import annotations

import json
from typing import Any

from tests.formats.providers import Calls, as_input, halves

CALL_DATA = {"caller": {"type": "code_execution_20260120", "tool_id": "srv_1"}, "toolset_name": "notes"}

CHOICES = {
    "auto": {"tool_choice": {"type": "auto"}},
    "none": {"tool_choice": {"type": "none"}},
    "required": {"tool_choice": {"type": "any"}},
}


def response(calls: Calls) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "id": i, "name": n, "input": as_input(a)} for i, n, a in calls]
    text = {"type": "text", "text": "Let me see."}
    return {"type": "message", "role": "assistant", "content": [text, *blocks], "stop_reason": "tool_use"}


def events(calls: Calls) -> list[dict[str, Any]]:
    chunks: list[dict[str, Any]] = [{"type": "message_start", "message": {"role": "assistant", "content": []}}]
    for index, (call_id, name, arguments) in enumerate(calls):
        block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        chunks.append({"type": "content_block_start", "index": index, "content_block": block})
        for piece in halves(arguments):
            delta = {"type": "input_json_delta", "partial_json": piece}
            chunks.append({"type": "content_block_delta", "index": index, "delta": delta})
        chunks.append({"type": "content_block_stop", "index": index})
    return [*chunks, {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]


def exported(tools: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(tool["name"], tool["input_schema"]) for tool in tools]


def result_ids(messages: list[dict[str, Any]]) -> list[str]:
    return [block["tool_use_id"] for message in messages for block in message["content"]]


def result_texts(messages: list[dict[str, Any]]) -> list[Any]:
    return [block["content"] for message in messages for block in message["content"]]


def forced_names(fields: dict[str, Any]) -> list[str]:
    return [fields["tool_choice"]["name"]]


def is_ours(row: dict[str, Any]) -> bool:
    return row["path"].endswith("v1/messages")


def recorded_calls(response: dict[str, Any]) -> list[tuple[Any, Any, Any]]:
    return [(b["id"], b["name"], b["input"]) for b in response["content"] if b["type"] == "tool_use"]


def recorded_stream_calls(events: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    found: dict[int, tuple[str, list[str]]] = {}
    for event in events:
        block = event.get("content_block", {})
        if block.get("type") == "tool_use":
            found[event["index"]] = (block["name"], [])
        if event.get("delta", {}).get("type") == "input_json_delta" and event["index"] in found:
            found[event["index"]][1].append(event["delta"]["partial_json"])
    return [(name, json.loads("".join(pieces) or "{}")) for name, pieces in found.values()]
