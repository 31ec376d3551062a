"""Mistral's Chat Completions: OpenAI's, with ids and an order of messages of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats import openai
from ahvn_tools.formats.parsing import tool_calls
from ahvn_tools.formats.parsing.raw_call import RawCall, get_object, get_objects
from ahvn_tools.formats.parsing.stream import StreamParser
from ahvn_tools.formats.rendering.names import CHOICE_MODES, resolve_choice, wire_name
from ahvn_tools.results import ToolCall, ToolResult

_MODES = dict(zip(CHOICE_MODES, ("auto", "none", "any"), strict=True))
_MISSING_IDS = ("", "null")
"""What stands for a missing id; the second is the default of Mistral's SDK."""


def export(definitions: Iterable[ToolDefinition], *, strict: bool = False) -> list[JsonObject]:
    """Return the tools for a request's `tools`: the same as of the format `openai`.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping", description="Is it there?")])[0]["function"]["name"]
    'ping'
    """
    return openai.export(definitions, strict=strict)


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in an answer, its message or its `tool_calls`: SDK object, dict, list, JSON text or bytes.

    A call without an id gets one as Mistral wants it: 9 letters and digits. The events of a whole stream will do, too;
    `stream` gives calls while they arrive.

    >>> calls({"tool_calls": [{"id": "FI5qQGzDE", "function": {"name": "ping", "arguments": {}}}]})[0].id
    'FI5qQGzDE'
    """
    return tool_calls.parse_calls(response, _extract_calls, definitions, EventReader)


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    """Return one `tool` message for each call; they follow the model's message as they are.

    - An error's text says that it is one: there is no flag.
    - A tool message takes text only. Images follow in one user message, each under the id of its call; as Mistral
      refuses a user message behind a tool message, a short one in the model's name stands between.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="FI5qQGzDE", name="add"), ToolResult(3))])
    [{'role': 'tool', 'tool_call_id': 'FI5qQGzDE', 'name': 'add', 'content': '3'}]
    """
    answered = list(pairs)
    messages = openai.results(answered)
    tools, pictures = messages[: len(answered)], messages[len(answered) :]
    named = [_to_tool_message(message, call) for message, (call, _) in zip(tools, answered, strict=True)]
    if not pictures:
        return named
    shown = [_to_part(part) for part in pictures[0]["content"]]
    bridge = {"role": "assistant", "content": "I have the results, and look at their images next."}
    return [*named, bridge, {"role": "user", "content": shown}]


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return `tool_choice`, and `parallel_tool_calls` where it is given, as fields of a request.

    A name, or a list of one, forces that tool. Raises ToolSpecError for several names, which Mistral cannot be asked
    for. With `definitions`, an unknown name is a ToolLookupError.

    >>> choice("required", parallel=False)
    {'tool_choice': 'any', 'parallel_tool_calls': False}
    """
    extra = {} if parallel is None else {"parallel_tool_calls": parallel}
    if isinstance(tools, str) and tools in CHOICE_MODES:
        return {"tool_choice": _MODES[tools], **extra}
    names = resolve_choice(tools, definitions)
    if len(names) > 1:
        raise ToolSpecError(f"Mistral forces one tool, not one of {names!r}. Export these alone, with 'required'.")
    return {"tool_choice": {"type": "function", "function": {"name": names[0]}}, **extra}


def _to_tool_message(message: JsonObject, call: ToolCall) -> JsonObject:
    name = call.wire_name or wire_name(call.name)
    return {"role": "tool", "tool_call_id": call.id, "name": name, "content": message["content"]}


def _to_part(part: JsonObject) -> JsonObject:
    """Return a part of a message as Mistral writes it: the URL of an image stands bare."""
    return {**part, "image_url": part["image_url"]["url"]} if "image_url" in part else part


def _extract_calls(data: Any) -> Iterator[RawCall]:
    for sent in openai.extract_calls(data):
        yield replace(sent, id=_ensure_id(sent.id))


def _ensure_id(value: Any) -> str:
    return value if isinstance(value, str) and value not in _MISSING_IDS else uuid.uuid4().hex[:9]


class EventReader(openai.ChunkReader):
    """Gathers calls as OpenAI's reader does, from the SDK's events (a chunk under `data`) or from plain chunks.

    Mistral sends each call whole; what has a name begins a call, with an id of its own where it comes without.
    """

    def feed(self, event: Any) -> Iterator[RawCall]:
        """Take an event, or a chunk."""
        chunk = get_object(event, "data") or event
        yield from super().feed({"choices": [_with_ids(choice) for choice in get_objects(chunk, "choices")]})


def _with_ids(choice: JsonObject) -> JsonObject:
    deltas = [{**delta, "id": _ensure_id(delta.get("id"))} for delta in get_objects(choice.get("delta"), "tool_calls")]
    return {**choice, "delta": {"tool_calls": deltas}}


stream = StreamParser(EventReader)
"""Read the events of a stream: `for call in stream(events)`, or `async for`."""
