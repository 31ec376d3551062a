"""Ollama's own /api/chat: calls have no ids, and results follow in the order of the calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from . import frames
from .rules import check_name, check_unique, refuse

ROUTE = re.compile(r"api/chat")
CONTENT_TYPE = frames.LINES
END = {"done": True, "done_reason": "stop", "prompt_eval_count": 1, "eval_count": 1}


def tool_names(request: dict[str, Any]) -> list[str]:
    """Return the names of the tools."""
    functions = [tool["function"] for tool in request.get("tools") or ()]
    for function in functions:
        check_name(function.get("name"))
        refuse(function["parameters"].get("type") != "object", "invalid tool: parameters are no object")
    return check_unique([function["name"] for function in functions])


def required_tool(request: dict[str, Any]) -> str | None:  # noqa: ARG001  # as its siblings
    """Return None: there is no choice to be made."""
    return None


def results(request: dict[str, Any]) -> list[str]:
    """Return the results; each names its tool, and there is one for each call."""
    waiting: list[str] = []
    texts: list[str] = []
    for message in request["messages"]:
        if message["role"] == "tool":
            refuse(message.get("tool_name") not in waiting, f"unexpected result of {message.get('tool_name')!r}")
            waiting.remove(message["tool_name"])
            images = [f"[image, {len(image)} characters]" for image in message.get("images") or ()]
            texts.append(" ".join(filter(None, [message.get("content"), *images])))
            continue
        refuse(waiting, f"missing results of {', '.join(waiting)}")
        texts = []
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        refuse(
            not all(isinstance(call["arguments"], dict) for call in calls),
            "json: cannot unmarshal string into Go struct field .messages.tool_calls.function.arguments",
        )
        waiting = [call["name"] for call in calls]
    refuse(waiting, f"missing results of {', '.join(waiting)}")
    return texts


def answer(calls: list[tuple[str, dict[str, Any]]], text: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return an answer; it ends in "stop" either way."""
    items = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    message = {"role": "assistant", "content": text, **({"tool_calls": items} if items else {})}
    made = {"model": request["model"], "created_at": "2026-01-01T00:00:00Z", "message": message}
    return {**made, **END}


def events(answer: dict[str, Any]) -> Iterator[bytes]:
    """Yield a line for each call or half of the text, and one that ends it."""
    message = answer["message"]
    pieces: list[dict[str, Any]] = [{"content": "", "tool_calls": [call]} for call in message.get("tool_calls", ())]
    pieces += [{"content": half} for half in frames.halves(message["content"])]
    for piece in pieces:
        begun = {key: value for key, value in answer.items() if key not in END}
        begun |= {"done": False, "message": {"role": "assistant", **piece}}
        yield frames.line(begun)
    yield frames.line({**answer, "message": {"role": "assistant", "content": ""}})


def error_body(message: str) -> dict[str, Any]:
    """Return an error."""
    return {"error": message}
