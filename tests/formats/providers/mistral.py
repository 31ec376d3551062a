"""Mistral's Chat Completions."""

from __future__ import annotations

import json
from typing import Any

from tests.formats.providers import Calls, openai

CALL_DATA = {"extra": "é"}

CHOICES = {"auto": {"tool_choice": "auto"}, "none": {"tool_choice": "none"}, "required": {"tool_choice": "any"}}

exported = openai.exported
result_ids = openai.result_ids
result_texts = openai.result_texts


def response(calls: Calls) -> dict[str, Any]:
    message = {"role": "assistant", "content": "", "tool_calls": [_call(*call) for call in enumerate(calls)]}
    return {"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}


def events(calls: Calls) -> list[dict[str, Any]]:
    """Return one chunk with each complete call, as Mistral sends them."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"tool_calls": [_call(*call)]} for call in enumerate(calls)]
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices[-1]["finish_reason"] = "tool_calls"
    return [{"data": {"object": "chat.completion.chunk", "choices": [choice]}} for choice in choices]


def _call(index: int, call: tuple[str, str, str]) -> dict[str, Any]:
    call_id, name, arguments = call
    return {"id": call_id, "function": {"name": name, "arguments": arguments}, "index": index}


def forced_names(fields: dict[str, Any]) -> list[str]:
    return [fields["tool_choice"]["function"]["name"]]


def is_ours(row: dict[str, Any]) -> bool:
    return row["host"] == "api.mistral.ai"


def recorded_calls(response: dict[str, Any]) -> list[tuple[Any, Any, Any]]:
    items = [call for choice in response["choices"] for call in choice["message"]["tool_calls"] or []]
    return [(i["id"], i["function"]["name"], json.loads(i["function"]["arguments"])) for i in items]
