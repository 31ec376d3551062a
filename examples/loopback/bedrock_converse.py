"""Amazon Bedrock's Converse."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

from . import frames
from .rules import check_closed, check_name, check_root, check_unique, new_id, refuse

ROUTE = re.compile(r"model/(?P<model>.+)/converse(?P<stream>-stream)?")
CONTENT_TYPE = frames.EVENT_STREAM
CALL_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")


def tool_names(request: dict[str, Any]) -> list[str]:
    """Return the names of the tools; other entries of the list are cache points."""
    entries = request.get("toolConfig", {}).get("tools", ())
    tools = [entry["toolSpec"] for entry in entries if "toolSpec" in entry]
    for tool in tools:
        check_name(tool.get("name"))
        check_root(tool["inputSchema"]["json"])
        if tool.get("strict"):
            check_closed(tool["inputSchema"]["json"], all_required=False)
    return check_unique([tool["name"] for tool in tools])


def required_tool(request: dict[str, Any]) -> str | None:
    """Return the tool that `toolChoice` names; there is no way to forbid calls."""
    choice = request.get("toolConfig", {}).get("toolChoice", {})
    return choice["tool"]["name"] if "tool" in choice else None


def results(request: dict[str, Any]) -> list[str]:
    """Return the results; the next message answers all calls of a message, and the tools stay in the request."""
    waiting: list[str] = []
    texts: list[str] = []
    roles = [message["role"] for message in request["messages"]]
    refuse(
        any(first == second for first, second in itertools.pairwise(roles)),
        "A conversation must alternate between user and assistant roles. Make sure the conversation alternates.",
    )
    for number, message in enumerate(request["messages"]):
        found = [block["toolResult"] for block in message["content"] if "toolResult" in block]
        calls = [block["toolUse"] for block in message["content"] if "toolUse" in block]
        refuse(
            (found or calls) and "toolConfig" not in request,
            "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        )
        answered_ids = [result["toolUseId"] for result in found]
        refuse(
            sorted(answered_ids) != sorted(waiting),
            f"Expected toolResult blocks at messages.{number}.content for the following Ids: {', '.join(waiting)}",
        )
        waiting = [call["toolUseId"] for call in calls]
        refuse(not all(CALL_ID.fullmatch(call_id) for call_id in waiting), "Invalid toolUseId.")
        texts = [_text(result) for result in found]
    refuse(waiting, f"Expected toolResult blocks for the following Ids: {', '.join(waiting)}")
    return texts


def _text(result: dict[str, Any]) -> str:
    refuse(result.get("status", "success") not in {"success", "error"}, "Invalid status of a toolResult.")
    text = " ".join(_part(part) for part in result["content"])
    return f"an error, {text}" if result.get("status") == "error" else text


def _part(part: dict[str, Any]) -> str:
    if "image" in part:
        return f"[{part['image']['format']}, {len(part['image']['source']['bytes'])} characters]"
    return part["text"] if "text" in part else json.dumps(part["json"])


def answer(calls: list[tuple[str, dict[str, Any]]], text: str, request: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001  # as its siblings
    """Return a message: a block for each call, or a text."""
    blocks: list[dict[str, Any]] = [
        {"toolUse": {"toolUseId": new_id("tooluse_", 22), "name": name, "input": arguments}}
        for name, arguments in calls
    ]
    return {
        "output": {"message": {"role": "assistant", "content": blocks or [{"text": text}]}},
        "stopReason": "tool_use" if blocks else "end_turn",
        "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        "metrics": {"latencyMs": 1},
    }


def malformed_answer(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer whose call was discarded."""
    return {**answer, "output": {"message": {"role": "assistant", "content": []}}, "stopReason": "malformed_tool_use"}


def events(answer: dict[str, Any]) -> Iterator[bytes]:
    """Yield the message's frames."""
    yield frames.event_stream("messageStart", {"role": "assistant"})
    for index, block in enumerate(answer["output"]["message"]["content"]):
        at = {"contentBlockIndex": index}
        call = block.get("toolUse")
        if call:
            start = {"toolUse": {"toolUseId": call["toolUseId"], "name": call["name"]}}
            yield frames.event_stream("contentBlockStart", {**at, "start": start})
        for half in frames.halves(json.dumps(call["input"]) if call else block["text"]):
            delta = {"toolUse": {"input": half}} if call else {"text": half}
            yield frames.event_stream("contentBlockDelta", {**at, "delta": delta})
        yield frames.event_stream("contentBlockStop", at)
    yield frames.event_stream("messageStop", {"stopReason": answer["stopReason"]})
    yield frames.event_stream("metadata", {"usage": answer["usage"], "metrics": answer["metrics"]})


def error_body(message: str) -> dict[str, Any]:
    """Return an error."""
    return {"__type": "ValidationException", "message": message}
