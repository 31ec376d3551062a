"""Amazon Bedrock's Converse."""

from __future__ import annotations

import json
from typing import Any

from tests.formats.providers import Calls, as_input, halves

CALL_DATA = {"extra": [1]}

CHOICES: dict[str, Any] = {"auto": {"toolChoice": {"auto": {}}}, "none": None, "required": {"toolChoice": {"any": {}}}}


def response(calls: Calls) -> dict[str, Any]:
    blocks = [{"toolUse": {"toolUseId": i, "name": n, "input": as_input(a)}} for i, n, a in calls]
    message = {"role": "assistant", "content": [{"text": "Let me see."}, *blocks]}
    return {"output": {"message": message}, "stopReason": "tool_use", "usage": {"totalTokens": 9}, "metrics": {}}


def events(calls: Calls) -> list[dict[str, Any]]:
    chunks: list[dict[str, Any]] = [{"messageStart": {"role": "assistant"}}]
    for index, (call_id, name, arguments) in enumerate(calls):
        place = {"contentBlockIndex": index}
        chunks.append({"contentBlockStart": {"start": {"toolUse": {"toolUseId": call_id, "name": name}}, **place}})
        chunks += [
            {"contentBlockDelta": {"delta": {"toolUse": {"input": piece}}, **place}} for piece in halves(arguments)
        ]
        chunks.append({"contentBlockStop": place})
    return [*chunks, {"messageStop": {"stopReason": "tool_use"}}, {"metadata": {"usage": {"totalTokens": 9}}}]


def exported(tools: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(tool["toolSpec"]["name"], tool["toolSpec"]["inputSchema"]["json"]) for tool in tools]


def result_ids(messages: list[dict[str, Any]]) -> list[str]:
    return [block["toolResult"]["toolUseId"] for message in messages for block in message["content"]]


def result_texts(messages: list[dict[str, Any]]) -> list[Any]:
    results = [block["toolResult"] for message in messages for block in message["content"]]
    return ["\n".join(part["text"] for part in result["content"]) for result in results]


def forced_names(fields: dict[str, Any]) -> list[str]:
    return [fields["toolChoice"]["tool"]["name"]]


def is_ours(row: dict[str, Any]) -> bool:
    return row["host"].startswith("bedrock-runtime.")


def recorded_calls(response: dict[str, Any]) -> list[tuple[Any, Any, Any]]:
    uses = [block["toolUse"] for block in response["output"]["message"]["content"] if "toolUse" in block]
    return [(use["toolUseId"], use["name"], use["input"]) for use in uses]


def recorded_stream_calls(events: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    found: dict[int, tuple[str, list[str]]] = {}
    for event in events:
        begun = event.get("contentBlockStart", {})
        if "toolUse" in begun.get("start", {}):
            found[begun["contentBlockIndex"]] = (begun["start"]["toolUse"]["name"], [])
        piece = event.get("contentBlockDelta", {})
        if "toolUse" in piece.get("delta", {}):
            found[piece["contentBlockIndex"]][1].append(piece["delta"]["toolUse"]["input"])
    return [(name, json.loads("".join(pieces) or "{}")) for name, pieces in found.values()]
