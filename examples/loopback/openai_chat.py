"""OpenAI's Chat Completions."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

from . import frames
from .rules import check_closed, check_name, check_root, check_unique, describe, new_id, refuse

ROUTE = re.compile(r"v1/chat/completions")
CONTENT_TYPE = frames.SERVER_SENT
MAX_TOOLS = 128
MAX_ID = 40


def tool_names(request: dict[str, Any]) -> list[str]:
    """Return the names of the tools; `strict` closes objects and leaves nothing optional."""
    functions = [tool["function"] for tool in request.get("tools", ())]
    refuse(len(functions) > MAX_TOOLS, "Invalid 'tools': array too long. Expected an array with maximum length 128.")
    for function in functions:
        check_function(function)
    return check_unique([function["name"] for function in functions])


def check_function(function: dict[str, Any]) -> None:
    """Refuse a definition that is not as it has to be."""
    check_name(function.get("name"))
    check_root(function.get("parameters", {"type": "object"}))
    if function.get("strict"):
        check_closed(function.get("parameters"), all_required=True)


def required_tool(request: dict[str, Any]) -> str | None:
    """Return the tool that `tool_choice` names; of several, the first."""
    choice = request.get("tool_choice")
    if not isinstance(choice, dict):
        return choice
    tool = choice["allowed_tools"]["tools"][0] if choice["type"] == "allowed_tools" else choice
    return str(tool["function"]["name"])


def results(request: dict[str, Any]) -> list[str]:
    """Return the results; every call of a message is answered straight after it, with text alone."""
    waiting: list[str] = []
    texts: list[str] = []
    for message in request["messages"]:
        if message["role"] == "tool":
            refuse(
                message["tool_call_id"] not in waiting,
                "messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
            )
            waiting.remove(message["tool_call_id"])
            texts += parse_texts(message["content"])
            continue
        refuse_waiting(waiting)
        if message["role"] == "assistant":
            waiting, texts = [call["id"] for call in message.get("tool_calls") or ()], []
            refuse(any(len(call_id) > MAX_ID for call_id in waiting), "Invalid 'tool_calls[].id': string too long.")
        elif texts and isinstance(message["content"], list):
            texts += [describe(part["image_url"]["url"]) for part in message["content"] if part["type"] == "image_url"]
    refuse_waiting(waiting)
    return texts


def refuse_waiting(waiting: list[str]) -> None:
    """Refuse calls without an answer."""
    refuse(
        waiting,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"These did not have response messages: {', '.join(waiting)}",
    )


def parse_texts(content: Any) -> list[str]:
    """Return the texts of a tool message; it takes nothing else."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    refuse(any(part["type"] != "text" for part in parts), "Invalid content of a tool message: only text is supported.")
    return [part["text"] for part in parts]


def answer(calls: list[tuple[str, dict[str, Any]]], text: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return a completion; without text, its content is null."""
    items = [
        {"id": new_id("call_"), "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for name, arguments in calls
    ]
    message = {"role": "assistant", "content": text or None, **({"tool_calls": items} if items else {})}
    choice = {"index": 0, "finish_reason": "tool_calls" if items else "stop", "message": message}
    return completion("chat.completion", request["model"], choice)


def completion(kind: str, model: str, choice: dict[str, Any]) -> dict[str, Any]:
    """Return the object that contains a choice."""
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {
        "id": "chatcmpl-1",
        "object": kind,
        "created": int(time.time()),
        "model": model,
        "choices": [choice],
        "usage": usage,
    }


def events(answer: dict[str, Any]) -> Iterator[bytes]:
    """Yield chunks: a call begins with id and name, its arguments come in pieces."""
    (choice,) = answer["choices"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    deltas += [{"content": half} for half in frames.halves(choice["message"]["content"] or "")]
    for index, call in enumerate(choice["message"].get("tool_calls", ())):
        function = call["function"]
        deltas.append({"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]})
        for half in frames.halves(function["arguments"]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": half}}]})
    for delta in [*deltas, {}]:
        finish = choice["finish_reason"] if not delta else None
        chunk = {"index": 0, "delta": delta, "finish_reason": finish}
        yield frames.server_sent(completion("chat.completion.chunk", answer["model"], chunk))
    yield frames.server_sent("[DONE]")


def error_body(message: str) -> dict[str, Any]:
    """Return an error."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}
