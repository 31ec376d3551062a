"""Ollama's own chat."""

from __future__ import annotations

from typing import Any

from tests.formats.providers import Calls, as_input, openai

CALL_DATA = {"extra": True}

CHOICES: dict[str, Any] = {"auto": {}, "none": None, "required": None}
forced_names = None

exported = openai.exported
result_texts = openai.result_texts


def response(calls: Calls) -> dict[str, Any]:
    """Return the response of the server; its SDK drops the ids."""
    message = {"role": "assistant", "content": "", "tool_calls": [_call(*call) for call in enumerate(calls)]}
    return {"model": "qwen3", "message": message, "done_reason": "stop", "done": True}


def events(calls: Calls) -> list[dict[str, Any]]:
    """Return one chunk with each complete call, as Ollama sends them."""
    messages = [{"role": "assistant", "content": "", "tool_calls": [_call(*call)]} for call in enumerate(calls)]
    chunks = [{"model": "qwen3", "message": message, "done": False} for message in messages]
    last = {"role": "assistant", "content": ""}
    return [*chunks, {"model": "qwen3", "message": last, "done_reason": "stop", "done": True}]


def _call(index: int, call: tuple[str, str, str]) -> dict[str, Any]:
    call_id, name, arguments = call
    return {"id": call_id, "function": {"index": index, "name": name, "arguments": as_input(arguments)}}


def result_ids(messages: list[dict[str, Any]]) -> list[str]:
    return [message["tool_name"] for message in messages]


def is_ours(row: dict[str, Any]) -> bool:
    return row["path"].endswith("/api/chat")
