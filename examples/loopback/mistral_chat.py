"""Mistral's chat: as OpenAI's, but for its ids, the order of its messages, and calls that are streamed whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from . import frames, openai_chat
from .rules import check_unique, describe, new_id, refuse

ROUTE = re.compile(r"v1/chat/completions")
CONTENT_TYPE = frames.SERVER_SENT
CALL_ID = re.compile(r"[a-zA-Z0-9]{9}")
AFTER_TOOL = {"tool", "assistant"}


def tool_names(request: dict[str, Any]) -> list[str]:
    """Return the names of the tools; each has parameters, if only an empty object."""
    functions = [tool["function"] for tool in request.get("tools") or ()]
    for function in functions:
        refuse("parameters" not in function, "parameters: Field required")
        openai_chat.check_function(function)
    return check_unique([function["name"] for function in functions])


def required_tool(request: dict[str, Any]) -> str | None:
    """Return the tool that `tool_choice` names."""
    choice = request.get("tool_choice")
    return choice["function"]["name"] if isinstance(choice, dict) else choice


def results(request: dict[str, Any]) -> list[str]:
    """Return the results; the next message after them must be the model's. Images may follow that message."""
    waiting: list[str] = []
    texts: list[str] = []
    before: list[str] = []
    previous = ""
    for message in request["messages"]:
        role = message["role"]
        refuse(previous == "tool" and role not in AFTER_TOOL, f"Unexpected role '{role}' after role 'tool'")
        if role == "tool":
            texts.append(_result(message, waiting))
        else:
            refuse(waiting, "Not the same number of function calls and responses")
        if role == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
            texts, before = [], texts
        elif role == "user" and isinstance(message["content"], list):
            images = [_describe(part["image_url"]) for part in message["content"] if part["type"] == "image_url"]
            texts = [*before, *images] if images else []
        previous = role
    refuse(waiting, "Not the same number of function calls and responses")
    refuse(previous == "assistant", "Expected last role User or Tool for serving but got assistant")
    return texts


def _result(message: dict[str, Any], waiting: list[str]) -> str:
    call_id = message["tool_call_id"]
    refuse(
        not CALL_ID.fullmatch(call_id),
        f"Tool call id was {call_id} but must be a-z, A-Z, 0-9, with a length of 9.",
    )
    refuse(call_id not in waiting, "Unexpected tool call id in tool results")
    waiting.remove(call_id)
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return " ".join(part["text"] if part["type"] == "text" else _describe(part["image_url"]) for part in parts)


def _describe(image: Any) -> str:
    return describe(image["url"] if isinstance(image, dict) else image)


def answer(calls: list[tuple[str, dict[str, Any]]], text: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return a completion; without text, its content is empty."""
    made = openai_chat.answer(calls, text, request)
    message = made["choices"][0]["message"]
    message["content"] = text
    for index, call in enumerate(message.get("tool_calls", ())):
        call.update(id=new_id(length=9), index=index)
    return made


def events(answer: dict[str, Any]) -> Iterator[bytes]:
    """Yield chunks: the text in pieces, all calls in one."""
    (choice,) = answer["choices"]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": half} for half in frames.halves(message["content"])]
    deltas.append({key: message[key] for key in ("content", "tool_calls") if key in message and not message["content"]})
    for number, delta in enumerate(deltas, start=1):
        finish = choice["finish_reason"] if number == len(deltas) else None
        chunk = {"index": 0, "delta": delta, "finish_reason": finish}
        yield frames.server_sent(openai_chat.completion("chat.completion.chunk", answer["model"], chunk))
    yield frames.server_sent("[DONE]")


def error_body(message: str) -> dict[str, Any]:
    """Return an error."""
    return {"object": "error", "message": message, "type": "invalid_request_message_order", "code": 3230}
