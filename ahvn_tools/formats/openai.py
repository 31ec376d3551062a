"""OpenAI's Chat Completions, also as the many hosts with that API accept them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats.json_data import get_index, get_object, get_objects, to_objects, unread_fields
from ahvn_tools.formats.parsing.tool_calls import CallAccumulator, RawCall, Reader, StreamParser, parse_calls
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.names import CHOICE_MODES, resolve_choice
from ahvn_tools.formats.rendering.tool import MAX_DESCRIPTION_CHARS, ToolExporter, export_all
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialects.dialect import OPENAI
from ahvn_tools.schema.dialects.strict import to_strict

SDK_MODULES = ("openai.types.chat", "openai.lib.streaming.chat")

EXPORTER = ToolExporter(OPENAI, to_strict, MAX_DESCRIPTION_CHARS)
findings = EXPORTER.findings

_TRUNCATION_REASONS = ("length", "model_length")
"""Why a response is truncated; the second is Mistral's, for the context length of the model."""


def export(definitions: Iterable[ToolDefinition], *, strict: bool = False) -> list[JsonObject]:
    """Return the tools for a request's `tools`.

    - The root of a schema is one plain object: alternatives are merged, and the description states the rule.
    - `strict`: optional arguments become nullable and required, objects are closed. A schema whose meaning that would
      change is exported unchanged, with `"strict": False`.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping", description="Is it there?")])[0]["function"]["name"]
    'ping'
    """
    return export_all(definitions, _to_tool, strict)


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in a response, its message or its `tool_calls`: SDK object, dict, list, JSON text or bytes.

    The chunks of a complete stream are accepted too; `stream` yields calls while they arrive. Of several choices, the
    first with calls counts. Calls of custom tools are left out.

    >>> calls({"tool_calls": [{"id": "c1", "function": {"name": "ping", "arguments": ""}}]})[0].name
    'ping'
    """
    return parse_calls(response, definitions, stream)


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    """Return one `tool` message for each call; append them after the model's message.

    - The text of an error begins with "Error", because there is no flag for it.
    - A tool message accepts only text. Images follow in one user message, each after the id of its call.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="c1", name="add"), ToolResult(3))])
    [{'role': 'tool', 'tool_call_id': 'c1', 'content': '3'}]
    """
    messages: list[JsonObject] = []
    image_parts: list[JsonObject] = []
    for call, result in content.to_readable(pairs):
        parts = content.to_parts_with_error_prefix(result)
        if images := content.get_images(parts):
            parts.append(content.IMAGES_FOLLOW_NOTE)
            image_parts.append({"type": "text", "text": f"Images of the result of call {call.id}:"})
            image_parts += [{"type": "image_url", "image_url": {"url": image.url}} for image in images]
        messages.append({"role": "tool", "tool_call_id": call.id, "content": content.join_texts(parts)})
    return [*messages, {"role": "user", "content": image_parts}] if image_parts else messages


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return `tool_choice`, and `parallel_tool_calls` unless `parallel` is None, as fields of a request.

    A name forces that tool; a list of names, one of these. With `definitions`, an unknown name is a ToolLookupError.

    >>> choice("add", parallel=False)
    {'tool_choice': {'type': 'function', 'function': {'name': 'add'}}, 'parallel_tool_calls': False}
    """
    extra = {} if parallel is None else {"parallel_tool_calls": parallel}
    if isinstance(tools, str) and tools in CHOICE_MODES:
        return {"tool_choice": tools, **extra}
    forced = [{"type": "function", "function": {"name": name}} for name in resolve_choice(tools, definitions)]
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": forced}}
    return {"tool_choice": forced[0] if isinstance(tools, str) else allowed, **extra}


def looks_like(data: Any) -> bool:
    """Return whether JSON data looks like a response, its message or its `tool_calls`, or the chunks of a stream.

    The arguments of calls are text.

    >>> looks_like({"choices": [{"message": {"role": "assistant", "content": "Hello!"}}]})
    True
    """
    return any(map(_is_answer, to_objects(data)))


def _is_answer(item: JsonObject) -> bool:
    is_response = "choices" in item or "choices" in get_object(item, "chunk")
    return is_response or is_message(item, str) or has_arguments(item, str)


def is_message(item: JsonObject, arguments: type | tuple[type, ...]) -> bool:
    """Return whether an object is a model's message with text, or with calls whose arguments are of this type."""
    if calls := get_objects(item, "tool_calls"):
        return all(has_arguments(call, arguments) for call in calls)
    return item.get("role") == "assistant" and isinstance(item.get("content", 0), str | None)


def has_arguments(item: JsonObject, arguments: type | tuple[type, ...]) -> bool:
    """Return whether an object is a call with arguments of this type, or a call of a custom tool."""
    return isinstance(get_object(item, "function").get("arguments"), arguments) or "custom" in item


def _to_tool(definition: ToolDefinition, strict: bool) -> JsonObject:
    return {"type": "function", "function": EXPORTER.to_fields(definition, "parameters", strict=strict)}


def _is_function_call(item: JsonObject) -> bool:
    """Return whether an item calls a function; some hosts omit the type."""
    kind = item.get("type")
    return kind == "function" or (not kind and "function" in item)


def to_raw_call(item: JsonObject, *, is_truncated: bool = False) -> RawCall:
    """Return the call that an item of `tool_calls` is."""
    function = get_object(item, "function")
    return RawCall(
        id=item.get("id"),
        name=function.get("name"),
        arguments=function.get("arguments"),
        provider=unread_fields(item, "id", "type", "index", "function"),
        is_truncated=is_truncated,
    )


class ResponseReader(Reader):
    """Collects the deltas of a stream's first choice with calls: id and name come first, arguments in fragments.

    A call is complete when its arguments are and the next call begins, or when the choice is finished.
    """

    def __init__(self) -> None:
        self._accumulators: dict[int | str | None, CallAccumulator] = {}
        self._open: dict[CallAccumulator, None] = {}
        self._last: CallAccumulator | None = None
        self._choice_index: Any = None

    def extract(self, data: Any) -> Iterator[RawCall]:
        """Yield the calls in a response, its message or its `tool_calls`."""
        message = {"tool_calls": data} if isinstance(data, list) else data
        for choice in [*get_objects(data, "choices"), {"message": message}]:
            items = get_objects(choice.get("message"), "tool_calls")
            for item in filter(_is_function_call, items):
                is_truncated = choice.get("finish_reason") in _TRUNCATION_REASONS and item is items[-1]
                yield to_raw_call(item, is_truncated=is_truncated)
            if items:
                return

    def feed(self, event: Any) -> Iterator[RawCall]:
        """Read a chunk, or an event of the SDK's helper, which contains the chunk."""
        for choice in get_objects(get_object(event, "chunk") or event, "choices"):
            deltas = get_objects(choice.get("delta"), "tool_calls")
            if deltas and self._choice_index is None:
                self._choice_index = choice.get("index", 0)
            if choice.get("index", 0) != self._choice_index:
                continue
            for delta in deltas:
                yield from self.add_delta(delta)
            if choice.get("finish_reason"):
                yield from self._finish(is_truncated=choice["finish_reason"] in _TRUNCATION_REASONS)

    def end(self) -> Iterator[RawCall]:
        """Yield the calls that were incomplete when the stream ended."""
        yield from self._finish(is_truncated=True)

    def add_delta(self, delta: JsonObject) -> Iterator[RawCall]:
        """Add a delta to its call, and yield the call before it if that is complete."""
        index = get_index({"index": 0, **delta}, "index")
        call = self._accumulators.get(index)
        if call is None or _is_new_call(call, delta):
            if not _is_function_call(delta):
                return
            if self._last in self._open and self._last.is_complete():
                del self._open[self._last]
                yield self._last.to_raw_call()
            call = self._accumulators[index] = CallAccumulator()
            self._open[call] = None
        if call in self._open:  # otherwise the call was emitted, and a host repeats part of it
            call.merge(to_raw_call(delta))
            self._last = call

    def _finish(self, *, is_truncated: bool) -> Iterator[RawCall]:
        calls, self._open = list(self._open), {}
        for call in calls:
            yield call.to_raw_call(is_truncated=is_truncated and call is calls[-1])


def _is_new_call(call: CallAccumulator, delta: JsonObject) -> bool:
    """Return whether a host begins a second call under the index of a call that has a name."""
    function = get_object(delta, "function")
    if not function.get("name") or not call.name:
        return False
    if delta.get("id"):
        return bool(delta["id"] != call.id)
    return bool(function.get("arguments")) and call.is_complete()


stream = StreamParser(ResponseReader)
"""Parse the chunks of a stream: `for call in stream(chunks)`, or `async for`."""
