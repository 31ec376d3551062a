"""Anthropic's Messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from . import frames
from .rules import check_closed, check_name, check_root, check_unique, new_id, refuse

ROUTE = re.compile(r"v1/messages")
CONTENT_TYPE = frames.SERVER_SENT
MAX_STRICT_TOOLS = 20
SIGNATURE = "c2lnbmVkIGJ5IHRoZSBsb29wYmFjayBzZXJ2ZXI="
KEYS = {
    "type",
    "name",
    "description",
    "input_schema",
    "input_examples",
    "strict",
    "cache_control",
    "defer_loading",
    "allowed_callers",
}


def tool_names(request: dict[str, Any]) -> list[str]:
    """Return the names of the tools; `strict` closes objects."""
    tools = request.get("tools", [])
    for tool in tools:
        check_name(tool.get("name"))
        refuse(tool.keys() - KEYS, f"tools.0.custom: Extra inputs are not permitted: {sorted(tool.keys() - KEYS)}")
        check_root(tool.get("input_schema"))
        if tool.get("strict"):
            check_closed(tool["input_schema"], all_required=False)
    refuse(sum(bool(tool.get("strict")) for tool in tools) > MAX_STRICT_TOOLS, "Too many strict tools: 20 are allowed.")
    return check_unique([tool["name"] for tool in tools])


def required_tool(request: dict[str, Any]) -> str | None:
    """Return the tool that `tool_choice` names."""
    choice = request.get("tool_choice", {})
    refuse(choice.get("type") == "none" and len(choice) > 1, "tool_choice.none: Extra inputs are not permitted")
    return "none" if choice.get("type") == "none" else choice.get("name")


def results(request: dict[str, Any]) -> list[str]:
    """Return the results; the next message must begin with one result for each call."""
    refuse("max_tokens" not in request, "max_tokens: Field required")
    waiting: list[str] = []
    texts: list[str] = []
    for number, message in enumerate(request["messages"]):
        blocks = message["content"] if isinstance(message["content"], list) else []
        if message["role"] == "assistant":
            refuse_waiting(waiting, number)
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
            if waiting and "thinking" in request:
                refuse(
                    blocks[0].get("signature") != SIGNATURE,
                    f"messages.{number}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
                    f"`{blocks[0]['type']}`. When `thinking` is enabled, a final `assistant` message must start with a "
                    "thinking block.",
                )
            refuse(not all(re.fullmatch(r"[a-zA-Z0-9_-]+", call_id) for call_id in waiting), "Invalid tool_use.id.")
            texts = []
            continue
        found = [_result(block, waiting) for block in blocks if block["type"] == "tool_result"]
        refuse_waiting(waiting, number)
        late = any(block["type"] == "tool_result" for block in blocks[len(found) :])
        refuse(late, f"messages.{number}: `tool_result` blocks must come first, before any other content.")
        texts += found
    refuse_waiting(waiting, len(request["messages"]))
    return texts


def refuse_waiting(waiting: list[str], number: int) -> None:
    """Refuse calls without an answer."""
    refuse(
        waiting,
        f"messages.{number - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(waiting)}.",
    )


def _result(block: dict[str, Any], waiting: list[str]) -> str:
    call_id = block["tool_use_id"]
    refuse(call_id not in waiting, f"unexpected `tool_use_id` found in `tool_result` blocks: {call_id}.")
    waiting.remove(call_id)
    content = block.get("content", "")
    parts: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    text = " ".join(part["text"] if part["type"] == "text" else _describe(part["source"]) for part in parts)
    return f"an error, {text}" if block.get("is_error") else text


def _describe(source: dict[str, Any]) -> str:
    refuse(source["type"] != "base64", "This server reads images in base64 only.")
    return f"[{source['media_type']}, {len(source['data'])} characters]"


def answer(calls: list[tuple[str, dict[str, Any]]], text: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return a message: a block for each call, or a text."""
    blocks: list[dict[str, Any]] = [
        {"type": "tool_use", "id": new_id("toolu_"), "name": name, "input": arguments, "caller": {"type": "direct"}}
        for name, arguments in calls
    ]
    if blocks and "thinking" in request:
        blocks.insert(0, {"type": "thinking", "thinking": "A tool knows it.", "signature": SIGNATURE})
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": blocks or [{"type": "text", "text": text}],
        "stop_reason": "tool_use" if blocks else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def events(answer: dict[str, Any]) -> Iterator[bytes]:
    """Yield the message's events."""
    for event in _events(answer):
        yield frames.server_sent(event, event["type"])


def _events(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {**answer, "content": [], "stop_reason": None}}
    for index, block in enumerate(answer["content"]):
        empty: dict[str, Any] = {"input": {}} if block["type"] == "tool_use" else {"text": ""}
        if block["type"] == "thinking":
            empty = {"thinking": "", "signature": ""}
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


def _deltas(block: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a block's pieces; a call without arguments has none."""
    if block["type"] == "text":
        return [{"type": "text_delta", "text": half} for half in frames.halves(block["text"])]
    if block["type"] == "thinking":
        thoughts = [{"type": "thinking_delta", "thinking": half} for half in frames.halves(block["thinking"])]
        return [*thoughts, {"type": "signature_delta", "signature": block["signature"]}]
    text = json.dumps(block["input"]) if block["input"] else ""
    return [{"type": "input_json_delta", "partial_json": half} for half in frames.halves(text)]


def error_body(message: str) -> dict[str, Any]:
    """Return an error."""
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
