"""OpenAI's Responses."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator
from typing import Any

from . import frames
from .openai_chat import MAX_TOOLS, check_function, error_body
from .rules import check_unique, describe, new_id, refuse

__all__ = ("CONTENT_TYPE", "ROUTE", "answer", "error_body", "events", "required_tool", "results", "tool_names")

ROUTE = re.compile(r"v1/responses")
CONTENT_TYPE = frames.SERVER_SENT
MAX_ID = 64
REASONING = "reasoning.encrypted_content"
ENCRYPTED = "ZW5jcnlwdGVkIGJ5IHRoZSBsb29wYmFjayBzZXJ2ZXI="


def tool_names(request: dict[str, Any]) -> list[str]:
    """Return the names of the tools. A tool without `strict` is refused: the service would make it strict."""
    tools = request.get("tools", [])
    refuse(len(tools) > MAX_TOOLS, "Invalid 'tools': array too long. Expected an array with maximum length 128.")
    for tool in tools:
        refuse("strict" not in tool or "parameters" not in tool, "Missing required parameter of a function tool.")
        check_function(tool)
    return check_unique([tool["name"] for tool in tools])


def required_tool(request: dict[str, Any]) -> str | None:
    """Return the tool that `tool_choice` names; of several, the first."""
    choice = request.get("tool_choice")
    if not isinstance(choice, dict):
        return choice
    tool = choice["tools"][0] if choice["type"] == "allowed_tools" else choice
    return str(tool["name"])


def results(request: dict[str, Any]) -> list[str]:
    """Return the results; every call has an output, and every output a call before it."""
    waiting: list[str] = []
    texts: list[str] = []
    reasoning = ENCRYPTED if REASONING in request.get("include", ()) else None
    found: str | None = None
    for item in [] if isinstance(request["input"], str) else request["input"]:
        if item.get("type") == "reasoning":
            found = item.get("encrypted_content")
        elif item.get("type") == "function_call":
            refuse(found != reasoning, "A 'function_call' was provided without its required 'reasoning' item.")
            refuse(len(item["call_id"]) > MAX_ID, "Invalid 'call_id': string too long.")
            waiting.append(item["call_id"])
            texts = []
        elif item.get("type") == "function_call_output":
            call_id = item["call_id"]
            refuse(call_id not in waiting, f"No tool call found for function call output with call_id {call_id}.")
            waiting.remove(call_id)
            texts.append(text_of(item["output"]))
        elif item.get("role") == "assistant":
            texts = []
    refuse(waiting, f"No tool output found for function call {', '.join(waiting)}.")
    return texts


def text_of(output: Any) -> str:
    """Return the texts of an output; an image becomes a short description."""
    if isinstance(output, str):
        return output
    return " ".join(part["text"] if part["type"] == "input_text" else describe(part["image_url"]) for part in output)


def answer(calls: list[tuple[str, dict[str, Any]]], text: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return a response: an item for each call, or a message."""
    items: list[dict[str, Any]] = [
        {
            "type": "function_call",
            "id": new_id("fc_"),
            "call_id": new_id("call_"),
            "name": name,
            "arguments": json.dumps(arguments),
            "status": "completed",
        }
        for name, arguments in calls
    ]
    if REASONING in request.get("include", ()) and items:
        items.insert(0, {"type": "reasoning", "id": new_id("rs_"), "summary": [], "encrypted_content": ENCRYPTED})
    if text:
        part = {"type": "output_text", "text": text, "annotations": []}
        items = [
            {"type": "message", "id": new_id("msg_"), "role": "assistant", "status": "completed", "content": [part]}
        ]
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": int(time.time()),
        "model": request["model"],
        "status": "completed",
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    }


def events(answer: dict[str, Any]) -> Iterator[bytes]:
    """Yield the response's events, numbered."""
    numbers = itertools.count()
    for event in _events(answer):
        yield frames.server_sent({**event, "sequence_number": next(numbers)}, event["type"])


def _events(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": {**answer, "status": "in_progress", "output": []}}
    for index, item in enumerate(answer["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        empty: dict[str, Any] = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
        empty = {} if item["type"] == "reasoning" else empty
        yield {
            "type": "response.output_item.added",
            "output_index": index,
            "item": {**item, **empty, "status": "in_progress"},
        }
        if item["type"] != "reasoning":
            yield from _call_events(item, at) if item["type"] == "function_call" else _text_events(item, at)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": answer}


def _call_events(item: dict[str, Any], at: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for half in frames.halves(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", **at, "delta": half}
    yield {"type": "response.function_call_arguments.done", **at, "name": item["name"], "arguments": item["arguments"]}


def _text_events(item: dict[str, Any], at: dict[str, Any]) -> Iterator[dict[str, Any]]:
    (part,) = item["content"]
    at = {**at, "content_index": 0}
    yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
    for half in frames.halves(part["text"]):
        yield {"type": "response.output_text.delta", **at, "delta": half, "logprobs": []}
    yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **at, "part": part}
