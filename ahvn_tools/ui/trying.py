"""Trying a tool: arguments from JSON text, and a call as a stream of events."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from starlette.responses import StreamingResponse

from ahvn_tools.json_types import JsonObject

if TYPE_CHECKING:
    from ahvn_tools.results import ToolResult
    from ahvn_tools.toolkit import Toolkit

MAX_TEXT_CHARS = 200_000
"""The text of a result is cut to this many characters: a browser becomes slow with more."""


def read_arguments(body: bytes) -> tuple[Any, JsonObject | None]:
    """Return the arguments in a request, or the answer to one that is no JSON."""
    try:
        return json.loads(body), None
    except (ValueError, RecursionError) as error:
        reason = f"{error.msg} in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "it is not text"
        return None, _failure("invalid_json", f"The arguments are no JSON: {reason}.")


def _failure(code: str, message: str, **fields: Any) -> JsonObject:
    return {"is_error": True, "code": code, "text": message, "problems": [], **fields}


def describe_check(result: ToolResult) -> JsonObject:
    """Return what `validate` found, as JSON."""
    if result.error is None:
        return {"is_error": False, "value": result.value, "changed": result.meta["changed"], "problems": []}
    problems = [{"pointer": problem.pointer, "text": problem.text} for problem in result.error.problems]
    return _failure(result.error.code, result.error.message, problems=problems)


def _describe_result(result: ToolResult) -> JsonObject:
    """Return a result or a chunk as JSON: the text for a model, the structured content, and images."""
    sent = result.to_mcp()
    text = result.text
    described: JsonObject = {
        "text": text[:MAX_TEXT_CHARS],
        "omitted": max(len(text) - MAX_TEXT_CHARS, 0),
        "is_error": sent.is_error,
        "structured": sent.structured_content,
        "images": [f"data:{block.mime_type};base64,{block.data}" for block in sent.content if block.type == "image"],
        "duration": result.meta.get("duration"),
    }
    return {**described, **describe_check(result), "text": described["text"]} if result.error else described


def stream(kit: Toolkit, name: str, arguments: Any, problem: JsonObject | None) -> StreamingResponse:
    """Return the events of a call: `call` with its id, `chunk` for each chunk, and `result`."""

    async def events() -> AsyncIterator[str]:
        if problem is not None:
            yield _event("result", problem)
            return
        call_id = f"ui_{os.urandom(12).hex()}"
        yield _event("call", {"id": call_id})
        async with contextlib.aclosing(kit.astream(name, arguments, call_id=call_id)) as results:
            async for result in results:
                yield _event("result" if result.is_last else "chunk", _describe_result(result))

    return StreamingResponse(events(), media_type="text/event-stream")


def _event(kind: str, data: JsonObject) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"
