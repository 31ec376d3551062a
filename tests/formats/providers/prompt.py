"""Plain text: calls as JSON in what the model says, carried here by OpenAI's Chat Completions."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.formats.providers import Calls, as_input, halves

IS_TEXT = True

CHOICES = {
    "auto": {"messages": []},
    "none": {"messages": [{"role": "system", "content": "Do not call a tool now. Reply in plain text."}]},
    "required": {"messages": [{"role": "system", "content": "Now call at least one tool. Reply with the JSON only."}]},
}


def text(calls: Calls) -> str:
    return json.dumps([{"name": name, "parameters": as_input(arguments)} for _, name, arguments in calls])


def response(calls: Calls) -> dict[str, Any]:
    message = {"role": "assistant", "content": text(calls)}
    return {"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}


def events(calls: Calls) -> list[dict[str, Any]]:
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for half in halves(text(calls)) for piece in halves(half)]
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
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


def result_ids(messages: list[dict[str, Any]]) -> list[str]:
    return [name for name, _ in _results(messages)]


def result_texts(messages: list[dict[str, Any]]) -> list[Any]:
    return [result for _, result in _results(messages)]


def read(messages: list[dict[str, Any]]) -> list[Any]:
    return result_texts(messages)


def forced_names(fields: dict[str, Any]) -> list[str]:
    return re.findall(r"`(.+?)`", fields["messages"][0]["content"])


def is_ours(row: dict[str, Any]) -> bool:  # no recording was chunks of a model without function calling
    return False
