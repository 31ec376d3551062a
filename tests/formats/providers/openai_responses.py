"""OpenAI's Responses."""

from __future__ import annotations

import json
from typing import Any

from tests.formats.providers import Calls, halves

CALL_DATA = {"id": "fc_1", "status": "completed", "caller": {"type": "direct"}, "namespace": "notes"}

CHOICES = {
    "auto": {"tool_choice": "auto"},
    "none": {"tool_choice": "none"},
    "required": {"tool_choice": "required"},
}


def response(calls: Calls) -> dict[str, Any]:
    items = [_item(*call) for call in calls]
    return {"object": "response", "output": [{"type": "reasoning", "id": "rs_1", "summary": []}, *items]}


def events(calls: Calls) -> list[dict[str, Any]]:
    chunks: list[dict[str, Any]] = [{"type": "response.created", "response": {"output": []}}]
    for index, call in enumerate(calls):
        item = _item(*call)
        place = {"output_index": index, "item_id": item["id"]}
        begun = {**item, "arguments": "", "status": "in_progress"}
        chunks.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        chunks += [
            {"type": "response.function_call_arguments.delta", **place, "delta": piece} for piece in halves(call[2])
        ]
        chunks.append({"type": "response.function_call_arguments.done", **place, "arguments": call[2]})
        chunks.append({"type": "response.output_item.done", "output_index": index, "item": item})
    return [*chunks, {"type": "response.completed", "response": response(calls)}]


def _item(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    result_texts = {"call_id": call_id, "name": name, "arguments": arguments}
    return {"type": "function_call", "id": f"fc_{call_id}", **result_texts, "status": "completed"}


def exported(tools: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(tool["name"], tool["parameters"]) for tool in tools]


def result_ids(messages: list[dict[str, Any]]) -> list[str]:
    return [item["call_id"] for item in messages]


def result_texts(messages: list[dict[str, Any]]) -> list[Any]:
    return [item["output"] for item in messages]


def forced_names(fields: dict[str, Any]) -> list[str]:
    choice = fields["tool_choice"]
    return [tool["name"] for tool in (choice["tools"] if choice["type"] == "allowed_tools" else [choice])]


def is_ours(row: dict[str, Any]) -> bool:
    return "/v1/responses" in row["path"]


def recorded_calls(response: dict[str, Any]) -> list[tuple[Any, Any, Any]]:
    items = [item for item in response["output"] if item["type"] == "function_call"]
    return [(i["call_id"], i["name"], json.loads(i["arguments"])) for i in items]


def recorded_stream_calls(events: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    (last,) = [event for event in events if event["type"] == "response.completed"]
    return [call[1:] for call in recorded_calls(last["response"])]
