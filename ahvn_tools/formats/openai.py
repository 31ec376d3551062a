"""OpenAI's Chat Completions, also as the many hosts with that API accept them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats.json_data import get_index, get_object, get_objects, to_objects, unread_fields
from ahvn_tools.formats.parsing.tool_calls import CallAccumulator, RawCall, Reader, StreamParser, parse_calls
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.calls import clean_text, get_provider_data, get_wire_name, to_json_text, to_writable
from ahvn_tools.formats.rendering.names import CHOICE_MODES, resolve_choice
from ahvn_tools.formats.rendering.tool import MAX_DESCRIPTION_CHARS, ToolExporter, export_all
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialects.dialect import OPENAI
from ahvn_tools.schema.dialects.strict import to_strict

FORMAT = "openai"
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
    first with calls counts. Calls of custom tools are left out. A call in the older field `function_call` has no id
    there, and `{"legacy": True}` in its `provider`: `message` and `results` write it in the older form again.

    >>> calls({"tool_calls": [{"id": "c1", "function": {"name": "ping", "arguments": ""}}]})[0].name
    'ping'
    """
    return parse_calls(response, definitions, stream)


def message(calls: Iterable[ToolCall], *, text: str | None = None, legacy: bool = False) -> list[JsonObject]:
    """Return the model's message with this text and these calls; the inverse of `calls`.

    - `legacy`: write the call into the older field `function_call`, without an id. A call that was read from that field
      is always written so. Raises ToolSpecError for several calls in one message.

    >>> from ahvn_tools import ToolCall
    >>> message([ToolCall(id="c1", name="add", arguments={"a": 1})])[0]["tool_calls"]
    [{'id': 'c1', 'type': 'function', 'function': {'name': 'add', 'arguments': '{"a": 1}'}}]
    """
    written, text = to_writable(calls, FORMAT), clean_text(text)
    if not written and text is None:
        return []
    fields: JsonObject = {"role": "assistant", "content": text}
    if not any(legacy or _is_legacy(call) for call in written):
        return [{**fields, "tool_calls": list(map(_to_item, written))} if written else fields]
    if len(written) > 1:
        raise ToolSpecError("The field `function_call` contains one call. Write a message for each call.")
    return [{**fields, "function_call": _to_function(written[0])}]


def results(pairs: Iterable[tuple[ToolCall, ToolResult]], *, legacy: bool = False) -> list[JsonObject]:
    """Return one `tool` message for each call; append them after the model's message.

    - The text of an error begins with "Error", because there is no flag for it.
    - A tool message accepts only text. Images follow in one user message, each after the id of its call.
    - `legacy`: return `function` messages, which answer calls in the older field `function_call`. A call that was read
      from that field is always answered by one.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="c1", name="add"), ToolResult(3))])
    [{'role': 'tool', 'tool_call_id': 'c1', 'content': '3'}]
    """
    messages: list[JsonObject] = []
    image_parts: list[JsonObject] = []
    for call, result in content.to_readable(pairs, FORMAT):
        parts = content.to_parts_with_error_prefix(result)
        name = get_wire_name(call) if legacy or _is_legacy(call) else None
        if images := content.get_images(parts):
            parts.append(content.IMAGES_FOLLOW_NOTE)
            image_parts.append({"type": "text", "text": f"Images of the result of call {name or call.id}:"})
            image_parts += [{"type": "image_url", "image_url": {"url": image.url}} for image in images]
        header = {"role": "tool", "tool_call_id": call.id} if name is None else {"role": "function", "name": name}
        messages.append({**header, "content": content.join_texts(parts)})
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
    return is_response or bool(_to_legacy_items(item)) or is_message(item, str) or has_arguments(item, str)


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


def _to_item(call: ToolCall) -> JsonObject:
    return {**call.provider, "id": call.id, "type": "function", "function": _to_function(call)}


def _to_function(call: ToolCall) -> JsonObject:
    return {"name": call.name, "arguments": to_json_text(call.arguments)}


def _is_legacy(call: ToolCall) -> bool:
    return get_provider_data(call, FORMAT).get("legacy") is True


def _to_legacy_items(message: Any) -> list[JsonObject]:
    """Return the call in the field `function_call` of a message or a delta as an item of `tool_calls`.

    Some hosts send that field with empty texts when there is no call.
    """
    function = get_object(message, "function_call")
    return [{"index": "function_call", "function": function, "legacy": True}] if any(function.values()) else []


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

    def get_items(self, message: Any) -> list[JsonObject]:
        """Return the items of `tool_calls` in a message or a delta, else its `function_call` as such an item."""
        return get_objects(message, "tool_calls") or _to_legacy_items(message)

    def extract(self, data: Any) -> Iterator[RawCall]:
        """Yield the calls in a response, its message or its `tool_calls`."""
        message = {"tool_calls": data} if isinstance(data, list) else data
        for choice in [*get_objects(data, "choices"), {"message": message}]:
            items = self.get_items(choice.get("message"))
            for item in filter(_is_function_call, items):
                is_truncated = choice.get("finish_reason") in _TRUNCATION_REASONS and item is items[-1]
                yield to_raw_call(item, is_truncated=is_truncated)
            if items:
                return

    def feed(self, event: Any) -> Iterator[RawCall]:
        """Read a chunk, or an event of the SDK's helper, which contains the chunk."""
        for choice in get_objects(get_object(event, "chunk") or event, "choices"):
            deltas = self.get_items(choice.get("delta"))
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


stream = StreamParser(ResponseReader, format=FORMAT)
"""Parse the chunks of a stream: `for call in stream(chunks)`, or `async for`."""
