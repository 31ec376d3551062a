"""Plain text: calls as JSON in what the model says, carried here by OpenAI's Chat Completions."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.formats.providers import Sent, as_input, halves

IS_TEXT = True

CHOICES = {
    "auto": {"messages": []},
    "none": {"messages": [{"role": "system", "content": "Call no tool now. Answer in plain text."}]},
    "required": {
        "messages": [{"role": "system", "content": "Now call at least one tool. Answer with the JSON alone."}]
    },
}


def text(sent: Sent) -> str:
    return json.dumps([{"name": name, "parameters": as_input(arguments)} for _, name, arguments in sent])


def answer(sent: Sent) -> dict[str, Any]:
    message = {"role": "assistant", "content": text(sent)}
    return {"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}


def events(sent: Sent) -> list[dict[str, Any]]:
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for half in halves(text(sent)) for piece in halves(half)]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    return [{"object": "chat.completion.chunk", "choices": [choice]} for choice in choices]


def exported(tools: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    found = [
        re.findall(r"^### (\S+)\n(?:(?!###).*\n)*?Parameters \(JSON Schema\): (\{.*\})$", tool["content"], re.MULTILINE)
        for tool in tools
    ]
    return [(name, json.loads(schema)) for tools in found for name, schema in tools]


def _results(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    told = [re.split(r"(?:^|\n\n)Result of call \d+, `(.+)`:\n", message["content"])[1:] for message in messages]
    return [pair for parts in told for pair in zip(parts[::2], parts[1::2], strict=True)]


def answered_ids(messages: list[dict[str, Any]]) -> list[str]:
    return [name for name, _ in _results(messages)]


def said(messages: list[dict[str, Any]]) -> list[Any]:
    return [result for _, result in _results(messages)]


def read(messages: list[dict[str, Any]]) -> list[Any]:
    return said(messages)


def forced(fields: dict[str, Any]) -> list[str]:
    return re.findall(r"`(.+?)`", fields["messages"][0]["content"])


def is_ours(row: dict[str, Any]) -> bool:  # no recording was made of a model without function calling
    return False
