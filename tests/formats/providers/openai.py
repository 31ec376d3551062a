"""OpenAI's Chat Completions."""

from __future__ import annotations

import json
from typing import Any

from tests.formats.providers import Calls, halves

CALL_DATA = {"extra_content": {"google": {"thought_signature": "c2ln"}}}

CHOICES = {
    "auto": {"tool_choice": "auto"},
    "none": {"tool_choice": "none"},
    "required": {"tool_choice": "required"},
}


def response(calls: Calls) -> dict[str, Any]:
    items = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls]
    message = {"role": "assistant", "content": None, "tool_calls": items}
    return {"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}


def events(calls: Calls) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    for index, (call_id, name, arguments) in enumerate(calls):
        start = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        pieces = [{"index": index, "function": {"arguments": piece}} for piece in halves(arguments)]
        deltas += [{"tool_calls": [delta]} for delta in (start, *pieces)]
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    return [{"object": "chat.completion.chunk", "choices": [choice]} for choice in choices]


def exported(tools: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(tool["function"]["name"], tool["function"]["parameters"]) for tool in tools]


def result_ids(messages: list[dict[str, Any]]) -> list[str]:
    return [message["tool_call_id"] for message in messages if message["role"] == "tool"]


def result_texts(messages: list[dict[str, Any]]) -> list[Any]:
    return [message["content"] for message in messages if message["role"] == "tool"]


def forced_names(fields: dict[str, Any]) -> list[str]:
    choice = fields["tool_choice"]
    tools = choice["allowed_tools"]["tools"] if choice["type"] == "allowed_tools" else [choice]
    return [tool["function"]["name"] for tool in tools]


def is_ours(row: dict[str, Any]) -> bool:
    return row["path"].endswith("chat/completions") and "mistral" not in row["host"]


def recorded_calls(response: dict[str, Any]) -> list[tuple[Any, Any, Any]]:
    items = [call for choice in response["choices"] for call in choice["message"].get("tool_calls") or []]
    return [(i["id"], i["function"]["name"], json.loads(i["function"].get("arguments", "{}"))) for i in items]


def recorded_stream_calls(events: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    found: dict[int, list[str]] = {}
    for event in events:
        for choice in event["choices"]:
            for delta in choice["delta"].get("tool_calls") or []:
                call = found.setdefault(delta["index"], ["", ""])
                call[0] += delta["function"].get("name") or ""
                call[1] += delta["function"].get("arguments") or ""
    return [(name, json.loads(text or "{}")) for name, text in found.values()]
