"""Ollama's own chat."""

from __future__ import annotations

from typing import Any

from tests.formats.providers import Sent, as_input, openai

CHOICES = {"auto": {}, "none": None, "required": None}
forced = None

exported = openai.exported
said = openai.said


def answer(sent: Sent) -> dict[str, Any]:
    """Give the server's answer; its SDK drops the ids."""
    message = {"role": "assistant", "content": "", "tool_calls": [_call(*call) for call in enumerate(sent)]}
    return {"model": "qwen3", "message": message, "done_reason": "stop", "done": True}


def events(sent: Sent) -> list[dict[str, Any]]:
    """Give each call whole, as Ollama does."""
    messages = [{"role": "assistant", "content": "", "tool_calls": [_call(*call)]} for call in enumerate(sent)]
    made = [{"model": "qwen3", "message": message, "done": False} for message in messages]
    last = {"role": "assistant", "content": ""}
    return [*made, {"model": "qwen3", "message": last, "done_reason": "stop", "done": True}]


def _call(index: int, sent: tuple[str, str, str]) -> dict[str, Any]:
    call_id, name, arguments = sent
    return {"id": call_id, "function": {"index": index, "name": name, "arguments": as_input(arguments)}}


def answered_ids(messages: list[dict[str, Any]]) -> list[str]:
    return [message["tool_name"] for message in messages]


def is_ours(row: dict[str, Any]) -> bool:
    return row["path"].endswith("/api/chat")
