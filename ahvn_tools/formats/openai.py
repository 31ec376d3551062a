"""OpenAI's Chat Completions, as OpenAI and the many hosts that speak like it take them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.formats.parsing import tool_calls
from ahvn_tools.formats.parsing.raw_call import (
    CallAccumulator,
    RawCall,
    get_index,
    get_object,
    get_objects,
    unread_fields,
)
from ahvn_tools.formats.parsing.stream import StreamParser
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.names import CHOICE_MODES, index_by_wire_name, resolve_choice, wire_name
from ahvn_tools.formats.rendering.tool import export_tool
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialects.dialect import OPENAI
from ahvn_tools.schema.dialects.strict import to_strict as strict_schema

_TRUNCATION_REASONS = ("length", "model_length")
"""Why an answer ended for want of room; the second is Mistral's, for the room of the model itself."""


def export(definitions: Iterable[ToolDefinition], *, strict: bool = False) -> list[JsonObject]:
    """Return the tools for a request's `tools`.

    - The root of a schema is one object: choices at the top are merged, and told in the description.
    - `strict`: optional arguments become nullable and required, objects are closed. A schema that would change its
      meaning so goes out as it is, with `"strict": False`.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping", description="Is it there?")])[0]["function"]["name"]
    'ping'
    """
    return [definition.memoize(_to_tool, strict) for definition in index_by_wire_name(definitions).values()]


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in an answer, its message or its `tool_calls`: SDK object, dict, list, JSON text or bytes.

    The chunks of a whole stream will do, too; `stream` gives calls while they arrive. Of several choices, the first
    that holds calls counts. Calls of custom tools are not ours and left out.

    >>> calls({"tool_calls": [{"id": "c1", "function": {"name": "ping", "arguments": ""}}]})[0].name
    'ping'
    """
    return tool_calls.parse_calls(response, extract_calls, definitions, ChunkReader)


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    """Return one `tool` message for each call; they follow the model's message as they are.

    - An error's text says that it is one: there is no flag.
    - A tool message takes text only. Images follow in one user message, each under the id of its call.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="c1", name="add"), ToolResult(3))])
    [{'role': 'tool', 'tool_call_id': 'c1', 'content': '3'}]
    """
    messages: list[JsonObject] = []
    shown: list[JsonObject] = []
    for call, result in pairs:
        found = content.to_parts_with_error_prefix(result)
        pictures = [{"type": "image_url", "image_url": {"url": image.url}} for image in content.iter_images(found)]
        said = list(content.iter_texts(found))
        if pictures:
            said.append("[The images of this result are in the next user message.]")
            shown += [{"type": "text", "text": f"Images of the result of call {call.id}:"}, *pictures]
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "\n".join(said)})
    return [*messages, {"role": "user", "content": shown}] if shown else messages


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return `tool_choice`, and `parallel_tool_calls` where it is given, as fields of a request.

    A name forces that tool; a list of names, one of these. With `definitions`, an unknown name is a ToolLookupError.

    >>> choice("add", parallel=False)
    {'tool_choice': {'type': 'function', 'function': {'name': 'add'}}, 'parallel_tool_calls': False}
    """
    extra = {} if parallel is None else {"parallel_tool_calls": parallel}
    if isinstance(tools, str) and tools in CHOICE_MODES:
        return {"tool_choice": tools, **extra}
    named = [{"type": "function", "function": {"name": name}} for name in resolve_choice(tools, definitions)]
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": named}}
    return {"tool_choice": named[0] if isinstance(tools, str) else allowed, **extra}


def _to_tool(definition: ToolDefinition, strict: bool) -> JsonObject:
    tool = export_tool(definition, OPENAI, strict_schema if strict else None)
    function: JsonObject = {"name": wire_name(definition.name)}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.schema
    if strict:
        function["strict"] = tool.is_strict
    return {"type": "function", "function": function}


def extract_calls(data: Any) -> Iterator[RawCall]:
    """Yield the calls as they stand in an answer, its message or its `tool_calls`."""
    message = {"tool_calls": data} if isinstance(data, list) else data
    for choice in [*get_objects(data, "choices"), {"message": message}]:
        items = get_objects(choice.get("message"), "tool_calls")
        if not items:
            continue
        for item in items:
            if _is_function_call(item):
                is_cut = choice.get("finish_reason") in _TRUNCATION_REASONS and item is items[-1]
                yield _to_raw_call(item, is_truncated=is_cut)
        return


def _is_function_call(item: JsonObject) -> bool:
    """Tell whether an item calls a function; some hosts leave the type out."""
    kind = item.get("type")
    return kind == "function" or (not kind and "function" in item)


def _to_raw_call(item: JsonObject, *, is_truncated: bool) -> RawCall:
    function = get_object(item, "function")
    return RawCall(
        id=item.get("id"),
        name=function.get("name"),
        arguments=function.get("arguments"),
        provider=unread_fields(item, "id", "type", "index", "function"),
        is_truncated=is_truncated,
    )


class ChunkReader:
    """Gathers the deltas of a stream's first choice that calls: id and name come first, arguments in pieces.

    A call is whole when the next one begins and its arguments are, or when the choice is finished.
    """

    def __init__(self) -> None:
        """Begin with no call."""
        self._accumulators: dict[int | str | None, CallAccumulator] = {}
        self._open: dict[CallAccumulator, None] = {}
        self._last: CallAccumulator | None = None
        self._choice_index: Any = None

    def feed(self, event: Any) -> Iterator[RawCall]:
        """Take a chunk, or an event of the SDK's helper, which has the chunk inside."""
        for choice in get_objects(get_object(event, "chunk") or event, "choices"):
            deltas = get_objects(choice.get("delta"), "tool_calls")
            if deltas and self._choice_index is None:
                self._choice_index = choice.get("index", 0)
            if choice.get("index", 0) != self._choice_index:
                continue
            for delta in deltas:
                yield from self._add_delta(delta)
            if choice.get("finish_reason"):
                yield from self._finish(is_truncated=choice["finish_reason"] in _TRUNCATION_REASONS)

    def end(self) -> Iterator[RawCall]:
        """Give what the stream broke off in."""
        yield from self._finish(is_truncated=True)

    def _add_delta(self, delta: JsonObject) -> Iterator[RawCall]:
        index = get_index({"index": 0, **delta}, "index")
        pieces = self._accumulators.get(index)
        if pieces is None or _is_new_call(pieces, delta):
            if not _is_function_call(delta):
                return
            yield from self._emit_complete()
            pieces = self._accumulators[index] = CallAccumulator(id=None, name=None)
            self._open[pieces] = None
        if pieces in self._open:  # else it was given, and a host says part of it again
            _merge_delta(pieces, delta)
            self._last = pieces

    def _emit_complete(self) -> Iterator[RawCall]:
        """Give the call that the last delta was for, when it is whole."""
        if self._last in self._open and self._last.is_complete():
            del self._open[self._last]
            yield self._last.to_raw_call()

    def _finish(self, *, is_truncated: bool) -> Iterator[RawCall]:
        calls, self._open = list(self._open), {}
        for pieces in calls:
            yield pieces.to_raw_call(is_truncated=is_truncated and pieces is calls[-1])


def _is_new_call(accumulator: CallAccumulator, delta: JsonObject) -> bool:
    """Tell whether a host begins a second call under the index of one that has its name."""
    function = get_object(delta, "function")
    if not function.get("name") or not accumulator.name:
        return False
    if delta.get("id"):
        return bool(delta["id"] != accumulator.id)
    return bool(function.get("arguments")) and accumulator.is_complete()


def _merge_delta(accumulator: CallAccumulator, delta: JsonObject) -> None:
    function = get_object(delta, "function")
    accumulator.id = accumulator.id or delta.get("id")
    accumulator.name = accumulator.name or function.get("name")
    accumulator.provider |= unread_fields(delta, "id", "type", "index", "function")
    accumulator.add(function.get("arguments"))


stream = StreamParser(ChunkReader)
"""Read the chunks of a stream: `for call in stream(chunks)`, or `async for`."""
