"""Trying a tool: arguments from JSON text, and a call as a stream of events."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse

from ahvn_tools.errors import StateKeyError, ToolCallError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware import Call, Next, record, reporting
from ahvn_tools.results import ToolResult, describe_block
from ahvn_tools.state import StateKey
from ahvn_tools.ui import facts, snippets

if TYPE_CHECKING:
    from ahvn_tools.toolkit import Toolkit

MAX_TEXT_CHARS = 200_000
"""The text of a result is cut to this many characters: a browser becomes slow with more."""

MAX_BYTES = 5_000_000
"""The limit for images, structured content and the record of a call: larger ones are left out."""

MAX_BODY_BYTES = 20_000_000
"""Larger requests are refused."""


async def read_body(request: Request) -> bytes:
    """Return the body of a request. Raises HTTPException for one that is too large, or is cut off."""
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY_BYTES:
                raise HTTPException(413, "The request is too large.")
    except ClientDisconnect:
        raise HTTPException(400, "The request was cut off.") from None
    return bytes(body)


def read_run(body: bytes, *, edit_state: bool) -> tuple[JsonObject, JsonObject | None]:
    """Return what the page sends to run a call: `arguments`, its `state` by dotted keys, the id of its `session`.

    Beside them is the answer to a request that is none of the page, that has a state which it may not set, or whose
    arguments are no JSON.
    """
    match read_arguments(body):
        case {"state": {**state}}, None if state and not edit_state:
            text = "The state of a call cannot be set here. The host allows it with `ui.app(kit, edit_state=True)`."
            return {}, _failure("invalid_state", text)
        case {"arguments": str(text), "state": dict(), "session": str()} as sent, None:
            arguments, problem = read_arguments(text.encode("utf-8", "surrogatepass"))
            return {**sent, "arguments": arguments}, problem
        case _, problem:
            return {}, problem or _failure("invalid_json", "The request is not one of this page. Load it again.")


def read_arguments(body: bytes) -> tuple[Any, JsonObject | None]:
    """Return the arguments in a request, or the answer to one that is no JSON."""
    try:
        return json.loads(body, parse_constant=_refuse_constant), None
    except (ValueError, RecursionError) as error:
        reason = f"{error.msg} in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else str(error)
        return None, _failure("invalid_json", f"The arguments are no JSON: {reason}.")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _failure(code: str, message: str, **fields: Any) -> JsonObject:
    return {"is_error": True, "code": code, "text": message, "problems": [], **fields}


def describe_check(result: ToolResult) -> JsonObject:
    """Return what `validate` found, as JSON."""
    if result.error is None:
        return {"is_error": False, "value": result.value, "changed": result.meta["changed"], "problems": []}
    problems = [{"pointer": problem.pointer, "text": problem.text} for problem in result.error.problems]
    return _failure(result.error.code, result.error.message, problems=problems)


def _describe_result(result: ToolResult) -> JsonObject:
    """Return a result or a chunk as JSON: the text of the content that a model gets, the value apart, and images."""
    sent = result.to_mcp()
    text = result.text if result.blocks is None else "\n".join(map(describe_block, sent.content))
    structured = sent.structured_content if len(result.text) <= MAX_BYTES else None
    images = [f"data:{block.mime_type};base64,{block.data}" for block in sent.content if block.type == "image"]
    described: JsonObject = {
        "text": text[:MAX_TEXT_CHARS],
        "value": result.text[:MAX_TEXT_CHARS] if text != result.text and result.error is None else "",
        "omitted": max(len(text) - MAX_TEXT_CHARS, 0),
        "is_error": sent.is_error,
        "structured": structured,
        "images": images if sum(map(len, images)) <= MAX_BYTES else [],
        "duration": result.meta.get("duration"),
        "progress": json.loads(to_json(result.meta.get("progress"), inf_nan_mode="null")),
    }
    return {**described, **describe_check(result), "text": described["text"]} if result.error else described


def stream(kit: Toolkit, name: str, sent: JsonObject, problem: JsonObject | None, setup: str) -> StreamingResponse:
    """Return the events of a call: `call` with its id, `chunk` for each chunk, and `result`; `problem` alone if any."""

    async def events() -> AsyncIterator[str]:
        if problem is not None:
            yield to_event("result", problem)
            return
        call_id = f"ui_{os.urandom(12).hex()}"
        yield to_event("call", {"id": call_id})
        try:
            async with contextlib.aclosing(_run(kit, name, sent, call_id=call_id, setup=setup)) as results:
                async for kind, described in results:
                    yield to_event(kind, described)
        except StateKeyError:
            yield to_event("result", _failure("invalid_state", "One value of the state is a part of another: set one."))
        except (SystemExit, KeyboardInterrupt) as error:  # of the body: it must not end the server
            yield to_event("result", _failure("tool_error", f"The tool raised {type(error).__name__}."))

    return StreamingResponse(events(), media_type="text/event-stream")


async def _run(
    kit: Toolkit, name: str, sent: JsonObject, *, call_id: str, setup: str
) -> AsyncGenerator[tuple[str, JsonObject]]:
    """Yield the chunks of a call and its result; for the developer, that has a traceback, a record and code.

    Raises StateKeyError for values of the state that exclude each other.
    """
    settable = facts.state_schema(kit[name])["properties"] if name in kit else {}
    own = {key: sent["state"][key] for key in sorted(settable.keys() & sent["state"].keys())}  # "a" before "a.b"
    state: JsonObject = {}
    for key, value in own.items():
        StateKey.parse(key).write(state, value)
    session = kit.session(state, session_id=f"ui_{sent['session']}", audience=None) if state else kit
    secret = {key for key in own if settable[key].get("writeOnly")}
    notes = {"traceback": "", "redacted": ""}

    async def take_notes(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        result, redact = await next(call), reporting.make_redactor(call)
        notes["redacted"], error = redact(result.text), result.exception
        if isinstance(error, ToolCallError) and error.explanation is not None:
            notes["traceback"] = redact(error.explanation)
        elif error is not None and result.error is call.scope.error_detail:
            notes["traceback"] = reporting.redact_traceback(call, error).strip("\n")
        return result

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "calls.jsonl"
        results = session.astream(name, sent["arguments"], call_id=call_id, middleware=[record(file), take_notes])
        async with contextlib.aclosing(results):
            async for result in results:
                described = _describe_result(result)
                if not result.is_last:
                    yield "chunk", described
                    continue
                described["traceback"] = notes["traceback"]
                described["record"] = file.read_text("utf-8") if file.stat().st_size <= MAX_BYTES else ""
                if name in kit and isinstance(sent["arguments"], dict) and len(result.text) <= MAX_TEXT_CHARS:
                    secret |= kit[name].compiled.plan.hidden_names
                    described["snippets"] = snippets.call_snippets(
                        name, sent["arguments"], _expectation(result, notes["redacted"]), own, secret, setup=setup
                    )
                yield "result", described


def _expectation(result: ToolResult, redacted: str) -> str:
    """Return what a copied test expects of a result; no bound value, which is not in the `redacted` text."""
    if result.error is not None:
        return f"assert result.error.code == {result.error.code!r}"
    if redacted != result.text:
        return "assert result.error is None  # its text contains a bound value"
    return f"assert result.text == {result.text!r}"


def to_event(kind: str, data: JsonObject) -> str:
    """Return an event of a stream, with JSON as its data."""
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"
