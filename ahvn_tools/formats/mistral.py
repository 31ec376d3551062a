"""Mistral's Chat Completions: OpenAI's, with other ids and another order of messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats import openai
from ahvn_tools.formats.json_data import get_object, get_objects, to_objects
from ahvn_tools.formats.parsing.tool_calls import RawCall, StreamParser, parse_calls
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.calls import get_wire_name, hash_to_id, to_writable
from ahvn_tools.formats.rendering.names import CHOICE_MODES, resolve_single_choice
from ahvn_tools.formats.turn import Model, Turn, client_function, merge_deltas, read_answer
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolCall, ToolResult

export = openai.export
"""Return the tools for a request's `tools`, as the format `openai` does."""

findings = openai.findings

FORMAT = "mistral"
SDK_MODULES = ("mistralai",)

_MODES = dict(zip(CHOICE_MODES, ("auto", "none", "any"), strict=True))
_MISSING_IDS = ("", "null")
"""Texts that mean that there is no id; the second is the default of Mistral's SDK."""
_ID = re.compile("[A-Za-z0-9]{9}")
_BRIDGE = "I have received the results. Next, I will look at their images."


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in a response, its message or its `tool_calls`: SDK object, dict, list, JSON text or bytes.

    A call without an id gets one that Mistral accepts: 9 letters and digits. The events of a complete stream are
    accepted too; `stream` yields calls while they arrive.

    >>> calls({"tool_calls": [{"id": "FI5qQGzDE", "function": {"name": "ping", "arguments": {}}}]})[0].id
    'FI5qQGzDE'
    """
    return parse_calls(response, definitions, stream)


def message(calls: Iterable[ToolCall], *, text: str | None = None) -> list[JsonObject]:
    """Return the model's message with this text and these calls; the inverse of `calls`.

    An id of another provider becomes one that Mistral accepts, in `results` as well, and always the same.

    >>> from ahvn_tools import ToolCall
    >>> message([ToolCall(id="FI5qQGzDE", name="add", arguments={"a": 1})])[0]["tool_calls"]
    [{'id': 'FI5qQGzDE', 'type': 'function', 'function': {'name': 'add', 'arguments': '{"a": 1}'}}]
    """
    written = [replace(_with_valid_id(call), format=None) for call in to_writable(calls, FORMAT)]
    return openai.message(written, text=text)


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    """Return one `tool` message for each call; append them after the model's message.

    - The text of an error begins with "Error", because there is no flag for it.
    - A tool message accepts only text. Images follow in one user message, each after the id of its call. Mistral
      refuses a user message directly after a tool message, so a short message of the model comes between them.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="FI5qQGzDE", name="add"), ToolResult(3))])
    [{'role': 'tool', 'tool_call_id': 'FI5qQGzDE', 'name': 'add', 'content': '3'}]
    """
    known = content.to_readable(pairs)
    pairs = [(replace(_with_valid_id(call), format=None, provider={}), result) for call, result in known]
    messages = openai.results(pairs)
    tool_messages, image_messages = messages[: len(pairs)], messages[len(pairs) :]
    named = [
        {"role": "tool", "tool_call_id": call.id, "name": get_wire_name(call), **message}
        for message, (call, _) in zip(tool_messages, pairs, strict=True)
    ]
    if not image_messages:
        return named
    parts = [_to_part(part) for part in image_messages[0]["content"]]
    return [*named, {"role": "assistant", "content": _BRIDGE}, {"role": "user", "content": parts}]


def turn(response: Any, calls: Sequence[ToolCall] = ()) -> Turn:
    """Return the model's turn of a response, its message, or all events of a stream. `calls` are those in it.

    >>> turn({"role": "assistant", "content": "Hello!"}).messages
    [{'role': 'assistant', 'content': 'Hello!'}]
    """
    data, events = read_answer(response)
    chunks = [get_object(event, "data") or event for event in events]
    choices = [choice for item in [data, *chunks] for choice in get_objects(item, "choices") if not choice.get("index")]
    fields = merge_deltas([get_object(choice, "delta") for choice in choices], "tool_calls")
    if not events:
        fields = get_object(choices[0], "message") if choices else data
        items = [{**item, "id": _get_id(item.get("id"))} for item in get_objects(fields, "tool_calls")]
        fields = {**fields, "tool_calls": items or None}
    return openai.to_turn(fields, message(calls), openai.read_usage([data, *chunks]))


def model(
    client: Any, *, model: str, stream: bool = False, export: Mapping[str, Any] | None = None, **options: Any
) -> Model:
    """Return the model behind a Mistral client, for `Toolkit.converse` and `aconverse`.

    `options` are those of `client.chat.complete`; its `tools` are sent beside those of the toolkit. `export` are the
    options of `export`, such as `{"strict": True}`.
    """
    name = "chat.stream" if stream else "chat.complete"
    send, asend = client_function(client, name), client_function(client, f"{name}_async")
    return Model.of_client(FORMAT, send, {"model": model, **options}, export=export, asend=asend)


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return `tool_choice`, and `parallel_tool_calls` unless `parallel` is None, as fields of a request.

    A name, or a list with one name, forces that tool. Raises ToolSpecError for several names, for which Mistral has no
    option. With `definitions`, an unknown name is a ToolLookupError.

    >>> choice("required", parallel=False)
    {'tool_choice': 'any', 'parallel_tool_calls': False}
    """
    extra = {} if parallel is None else {"parallel_tool_calls": parallel}
    if isinstance(tools, str) and tools in CHOICE_MODES:
        return {"tool_choice": _MODES[tools], **extra}
    name = resolve_single_choice("Mistral", tools, definitions)
    return {"tool_choice": {"type": "function", "function": {"name": name}}, **extra}


def looks_like(data: Any) -> bool:
    """Return whether JSON data looks like a response, its message or its `tool_calls`, or the events of a stream.

    The ids of calls have 9 letters and digits, or are missing.

    >>> looks_like({"tool_calls": [{"id": "FI5qQGzDE", "function": {"name": "ping", "arguments": "{}"}}]})
    True
    """
    is_answer = any(_is_answer(get_object(item, "data") or item) for item in to_objects(data))
    return is_answer and all(_ID.fullmatch(call.id) for call in calls(data))


def _is_answer(item: JsonObject) -> bool:
    if "choices" in item or (item.get("role") == "assistant" and isinstance(item.get("content"), list)):
        return True
    return openai.is_message(item, (str, dict)) or openai.has_arguments(item, (str, dict))


def _to_part(part: JsonObject) -> JsonObject:
    """Return a part of a message as Mistral writes it: the URL of an image is no object."""
    return {**part, "image_url": part["image_url"]["url"]} if "image_url" in part else part


def _with_valid_id(call: ToolCall) -> ToolCall:
    """Return the call with an id that Mistral accepts. An id that a host has sent stays: the host accepts it."""
    return call if call.format == FORMAT or _ID.fullmatch(call.id) else replace(call, id=hash_to_id(call.id))


def _get_id(value: Any) -> str | None:
    """Return the id of a call; None for one that is missing: such a call gets an id that Mistral accepts."""
    return value if isinstance(value, str) and value not in _MISSING_IDS else None


class ResponseReader(openai.ResponseReader):
    """Collects calls as OpenAI's reader does, from the SDK's events (a chunk under `data`) or from plain chunks.

    Mistral sends each call complete: each delta is a call.
    """

    sends_whole_calls = True

    def get_items(self, message: Any) -> list[JsonObject]:
        """Return the items of `tool_calls` in a message or a delta."""
        return get_objects(message, "tool_calls")

    def extract(self, data: Any) -> Iterator[RawCall]:
        """Yield the calls in a response, its message or its `tool_calls`."""
        for raw_call in super().extract(data):
            yield replace(raw_call, id=_get_id(raw_call.id))

    def feed(self, event: Any) -> Iterator[RawCall]:
        """Read an event, or a chunk."""
        chunk = get_object(event, "data") or event
        return super().feed({"choices": get_objects(chunk, "choices")})

    def add_delta(self, delta: JsonObject) -> Iterator[RawCall]:
        """Add a delta, which is a complete call."""
        return super().add_delta({**delta, "id": _get_id(delta.get("id"))})


stream = StreamParser(ResponseReader, needs_definitions=True, format=FORMAT, make_id=hash_to_id)
"""Parse the events of a stream: `for call in stream(events)`, or `async for`."""
