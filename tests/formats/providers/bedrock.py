"""Amazon Bedrock's Converse."""

from __future__ import annotations

import json
from typing import Any

from tests.formats.providers import Sent, as_input, halves

CHOICES = {"auto": {"toolChoice": {"auto": {}}}, "none": None, "required": {"toolChoice": {"any": {}}}}


def answer(sent: Sent) -> dict[str, Any]:
    blocks = [{"toolUse": {"toolUseId": i, "name": n, "input": as_input(a)}} for i, n, a in sent]
    message = {"role": "assistant", "content": [{"text": "Let me see."}, *blocks]}
    return {"output": {"message": message}, "stopReason": "tool_use", "usage": {"totalTokens": 9}, "metrics": {}}


def events(sent: Sent) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"messageStart": {"role": "assistant"}}]
    for index, (call_id, name, arguments) in enumerate(sent):
        place = {"contentBlockIndex": index}
        made.append({"contentBlockStart": {"start": {"toolUse": {"toolUseId": call_id, "name": name}}, **place}})
        made += [
            {"contentBlockDelta": {"delta": {"toolUse": {"input": piece}}, **place}} for piece in halves(arguments)
        ]
        made.append({"contentBlockStop": place})
    return [*made, {"messageStop": {"stopReason": "tool_use"}}, {"metadata": {"usage": {"totalTokens": 9}}}]


def exported(tools: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(tool["toolSpec"]["name"], tool["toolSpec"]["inputSchema"]["json"]) for tool in tools]


def answered_ids(messages: list[dict[str, Any]]) -> list[str]:
    return [block["toolResult"]["toolUseId"] for message in messages for block in message["content"]]


def said(messages: list[dict[str, Any]]) -> list[Any]:
    results = [block["toolResult"] for message in messages for block in message["content"]]
    return ["\n".join(part["text"] for part in result["content"]) for result in results]


def forced(fields: dict[str, Any]) -> list[str]:
    return [fields["toolChoice"]["tool"]["name"]]


def is_ours(row: dict[str, Any]) -> bool:
    return row["host"].startswith("bedrock-runtime.")


def held(answer: dict[str, Any]) -> list[tuple[Any, Any, Any]]:
    uses = [block["toolUse"] for block in answer["output"]["message"]["content"] if "toolUse" in block]
    return [(use["toolUseId"], use["name"], use["input"]) for use in uses]


def held_in_stream(events: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    found: dict[int, tuple[str, list[str]]] = {}
    for event in events:
        begun = event.get("contentBlockStart", {})
        if "toolUse" in begun.get("start", {}):
            found[begun["contentBlockIndex"]] = (begun["start"]["toolUse"]["name"], [])
        piece = event.get("contentBlockDelta", {})
        if "toolUse" in piece.get("delta", {}):
            found[piece["contentBlockIndex"]][1].append(piece["delta"]["toolUse"]["input"])
    return [(name, json.loads("".join(pieces) or "{}")) for name, pieces in found.values()]
