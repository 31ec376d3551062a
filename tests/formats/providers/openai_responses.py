"""OpenAI's Responses."""

from __future__ import annotations

import json
from typing import Any

from tests.formats.providers import Sent, halves

CHOICES = {
    "auto": {"tool_choice": "auto"},
    "none": {"tool_choice": "none"},
    "required": {"tool_choice": "required"},
}


def answer(sent: Sent) -> dict[str, Any]:
    items = [_item(*call) for call in sent]
    return {"object": "response", "output": [{"type": "reasoning", "id": "rs_1", "summary": []}, *items]}


def events(sent: Sent) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"type": "response.created", "response": {"output": []}}]
    for index, call in enumerate(sent):
        item = _item(*call)
        place = {"output_index": index, "item_id": item["id"]}
        begun = {**item, "arguments": "", "status": "in_progress"}
        made.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        made += [
            {"type": "response.function_call_arguments.delta", **place, "delta": piece} for piece in halves(call[2])
        ]
        made.append({"type": "response.function_call_arguments.done", **place, "arguments": call[2]})
        made.append({"type": "response.output_item.done", "output_index": index, "item": item})
    return [*made, {"type": "response.completed", "response": answer(sent)}]


def _item(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    said = {"call_id": call_id, "name": name, "arguments": arguments}
    return {"type": "function_call", "id": f"fc_{call_id}", **said, "status": "completed"}


def exported(tools: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(tool["name"], tool["parameters"]) for tool in tools]


def answered_ids(messages: list[dict[str, Any]]) -> list[str]:
    return [item["call_id"] for item in messages]


def said(messages: list[dict[str, Any]]) -> list[Any]:
    return [item["output"] for item in messages]


def forced(fields: dict[str, Any]) -> list[str]:
    choice = fields["tool_choice"]
    return [tool["name"] for tool in (choice["tools"] if choice["type"] == "allowed_tools" else [choice])]


def is_ours(row: dict[str, Any]) -> bool:
    return "/v1/responses" in row["path"]


def held(answer: dict[str, Any]) -> list[tuple[Any, Any, Any]]:
    items = [item for item in answer["output"] if item["type"] == "function_call"]
    return [(i["call_id"], i["name"], json.loads(i["arguments"])) for i in items]


def held_in_stream(events: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    (last,) = [event for event in events if event["type"] == "response.completed"]
    return [call[1:] for call in held(last["response"])]
