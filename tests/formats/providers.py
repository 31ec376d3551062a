"""Answers as the providers of each format send them, made from plain calls; the contract test speaks through these."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Sent = list[tuple[str, str, str]]
"""Calls as (id, name, arguments as text)."""


def openai(sent: Sent) -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in sent]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return {"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}


def openai_responses(sent: Sent) -> dict[str, Any]:
    calls = [
        {"type": "function_call", "id": f"fc_{i}", "call_id": i, "name": n, "arguments": a, "status": "completed"}
        for i, n, a in sent
    ]
    return {"object": "response", "output": [{"type": "reasoning", "id": "rs_1", "summary": []}, *calls]}


def anthropic(sent: Sent) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "id": i, "name": n, "input": as_input(a)} for i, n, a in sent]
    text = {"type": "text", "text": "Let me see."}
    return {"type": "message", "role": "assistant", "content": [text, *blocks], "stop_reason": "tool_use"}


def as_input(text: str) -> Any:
    """Give the object, as Anthropic does; hosts that imitate it pass a model's broken text on."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


ANSWERS: dict[str, Callable[[Sent], dict[str, Any]]] = {
    "openai": openai,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
}


def answered_ids(format_name: str, messages: list[dict[str, Any]]) -> list[str]:
    """Return the ids of the calls that messages answer, in their order."""
    if format_name == "openai":
        return [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    if format_name == "openai-responses":
        return [item["call_id"] for item in messages]
    return [block["tool_use_id"] for message in messages for block in message["content"]]


def exported_name(tool: dict[str, Any]) -> str:
    return tool.get("function", tool)["name"]


def exported_schema(tool: dict[str, Any]) -> dict[str, Any]:
    flat = tool.get("function", tool)
    return flat["parameters"] if "parameters" in flat else flat["input_schema"]
