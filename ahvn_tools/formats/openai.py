"""OpenAI's Chat Completions, also as the many hosts with that API accept them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats.continuation import UNKNOWN_CALL, Continuation, read_problem
from ahvn_tools.formats.json_data import get_index, get_object, get_objects, to_objects, unread_fields
from ahvn_tools.formats.parsing.payload import read_field, read_first, read_items
from ahvn_tools.formats.parsing.tool_calls import (
    INTERRUPTED_CALL,
    TRUNCATED_CALL,
    CallAccumulator,
    RawCall,
    Reader,
    StreamParser,
    parse_calls,
)
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.calls import clean_text, get_provider_data, get_wire_name, to_json_text, to_writable
from ahvn_tools.formats.rendering.names import CHOICE_MODES, resolve_choice
from ahvn_tools.formats.rendering.tool_exporter import MAX_DESCRIPTION_CHARS, ToolExporter, export_all
from ahvn_tools.formats.turn import (
    Model,
    Turn,
    Usage,
    client_function,
    merge_deltas,
    read_answer,
    read_text,
    without_nulls,
)
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialects.dialect import OPENAI
from ahvn_tools.schema.dialects.strict import to_strict

FORMAT = "openai"
SDK_MODULES = ("openai.types.chat", "openai.lib.streaming.chat")

EXPORTER = ToolExporter(OPENAI, to_strict, MAX_DESCRIPTION_CHARS)
findings = EXPORTER.findings

_UNSENT_FIELDS = ("annotations", "function_call", "parsed")
"""Fields of an answer that some hosts refuse in a request; `message` writes the older field of a call."""
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


def continuation(response: Any) -> Continuation:
    """Return whether the provider has discarded what the model has written, as Gemini's hosts say it in this format.

    A call of a custom tool is answered in the same way: a toolkit has no such tools. The first choice counts. Chunks of
    a stream are read, too.

    >>> continuation({"choices": [{"finish_reason": "function_call_filter: MALFORMED_FUNCTION_CALL"}]}).problem
    'The call was malformed. Send it again with its arguments as one JSON object.'
    """
    items = [(item, read_first(item, "choices")) for item in read_items(response)]
    problem = read_problem(read_field(choice, "finish_reason") for _, choice in items)
    messages = [found for item, choice in items for found in (item, *(read_field(choice, key) for key in _MESSAGES))]
    is_custom = any(read_field(read_first(message, "tool_calls"), "type") == "custom" for message in messages)
    return Continuation(problem=problem or (UNKNOWN_CALL if is_custom else None))


_MESSAGES: Final = ("message", "delta")


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


def turn(response: Any, calls: Sequence[ToolCall] = ()) -> Turn:
    """Return the model's turn of a response, its message, or all chunks of a stream. `calls` are those in it.

    Fields of other hosts, such as their reasoning, are kept. A call without an id has that of `calls`, and one with
    arguments that cannot be read has none: some hosts refuse all later requests with such arguments.

    >>> turn({"role": "assistant", "content": "Hello!", "refusal": None}).messages
    [{'role': 'assistant', 'content': 'Hello!'}]
    """
    data, events = read_answer(response)
    chunks = [get_object(event, "chunk") or event for event in events]
    choices = [choice for item in [data, *chunks] for choice in get_objects(item, "choices") if not choice.get("index")]
    usage = read_usage([data, *chunks])
    if events:
        deltas = [get_object(choice, "delta") for choice in choices]
        return to_turn(merge_deltas(deltas, "tool_calls", "function_call"), message(calls), usage)
    fields = get_object(choices[0], "message") if choices else data
    is_whole = all(item.get("id") for item in get_objects(fields, "tool_calls")) and not fields.get("function_call")
    is_whole = is_whole and not any(call.error for call in calls)
    return to_turn(fields, [] if is_whole else message(calls), usage)


def to_turn(fields: JsonObject, written: list[JsonObject], usage: Usage) -> Turn:
    """Return the turn of a message with these fields; `written` is the message with its calls, if something lacks."""
    text = read_text(fields)
    own = without_nulls(fields, *_UNSENT_FIELDS)
    if own.get("tool_calls") == []:  # some hosts send an empty list, and OpenAI refuses one
        del own["tool_calls"]
    if "audio" in own:
        own["audio"] = {"id": get_object(own, "audio").get("id")}
    if items := get_objects(own, "tool_calls"):
        own["tool_calls"] = _to_sent(items, get_objects(written[0], "tool_calls") if written else [])
    message = {**(written[0] if written else {}), **own, "role": "assistant", "content": own.get("content")}
    is_empty = not any(value for key, value in message.items() if key != "role")
    return Turn(messages=[] if is_empty else [message], text=text, usage=usage)


def _to_sent(items: list[JsonObject], written: list[JsonObject]) -> list[JsonObject]:
    """Return the calls of a message as it is sent back: each with the id and the arguments that are `written`."""
    calls = iter(written)
    sent = []
    for item in map(without_nulls, items):
        call = next(calls, {}) if _is_function_call(item) else {}
        function = without_nulls({**get_object(item, "function"), **get_object(call, "function")}, "parsed_arguments")
        sent.append({**item, "id": item.get("id") or call.get("id"), **({"function": function} if function else {})})
    return sent


def read_usage(items: Iterable[Any]) -> Usage:
    """Return the usage of a response or of the chunks of a stream; the last one counts."""
    found = [usage for item in items if (usage := get_object(item, "usage"))]
    return Usage.read(
        found[-1] if found else None,
        inputs=["prompt_tokens"],
        outputs=["completion_tokens"],
        cached=["prompt_tokens_details", "cached_tokens"],
    )


def model(
    client: Any, *, model: str, stream: bool = False, export: Mapping[str, Any] | None = None, **options: Any
) -> Model:
    """Return the model behind an OpenAI or AsyncOpenAI client, for `Toolkit.converse`.

    `options` are those of `client.chat.completions.create`; its `tools` are sent beside those of the toolkit. `export`
    are the options of `export`, such as `{"strict": True}`.
    """
    if stream:
        options = {"stream_options": {"include_usage": True}, **options, "stream": True}
    send = client_function(client, "chat.completions.create")
    return Model.of_client(FORMAT, send, {"model": model, **options}, export=export)


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


def to_raw_call(item: JsonObject, *, cut_off: str | None = None) -> RawCall:
    """Return the call that an item of `tool_calls` is."""
    function = get_object(item, "function")
    return RawCall(
        id=item.get("id"),
        name=function.get("name"),
        arguments=function.get("arguments"),
        provider=unread_fields(item, "id", "type", "index", "function"),
        cut_off=cut_off,
    )


class ResponseReader(Reader):
    """Collects the deltas of a stream's first choice with calls: id and name come first, arguments in fragments.

    A call is complete when its arguments are and the next call begins, or when the choice is finished. Empty arguments
    may be a placeholder: they are complete at the end.
    """

    sends_whole_calls: ClassVar[bool] = False
    """Whether two deltas with a name and without ids are always two calls, and never one that is sent again."""

    def __init__(self, known: Mapping[str, ToolDefinition] | None = None) -> None:
        """Start with no calls; `known` are the exported tools by wire name."""
        self._known: Mapping[str, ToolDefinition] = known or {}
        self._accumulators: dict[int | str | None, CallAccumulator] = {}
        self._open: dict[CallAccumulator, None] = {}
        self._repeated: dict[CallAccumulator, CallAccumulator] = {}
        """The calls that may repeat an earlier call, which has the same name and no id either."""
        self._new_calls: set[CallAccumulator] = set()
        """The calls of this chunk: no host sends a call twice in one chunk."""
        self._by_id: dict[str, CallAccumulator] = {}
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
                yield to_raw_call(item, cut_off=TRUNCATED_CALL if is_truncated else None)
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
            self._new_calls.clear()
            for delta in deltas:
                yield from self.add_delta(delta)
            if reason := choice.get("finish_reason"):
                yield from self._finish(TRUNCATED_CALL if reason in _TRUNCATION_REASONS else None)

    def end(self) -> Iterator[RawCall]:
        """Yield the calls that were incomplete when the stream ended."""
        yield from self._finish(INTERRUPTED_CALL)

    def add_delta(self, delta: JsonObject) -> Iterator[RawCall]:
        """Add a delta to its call, and yield the call before it if that is complete."""
        call = self._find_call(delta)
        if call is None or self._is_new_call(call, delta):
            if not _is_function_call(delta):
                return
            earlier, call = call, CallAccumulator(self._known)
            if earlier is not None and earlier not in self._new_calls and self._may_repeat(earlier, delta):
                self._repeated[call] = earlier
            if self._last in self._open and self._last.get_object():
                yield from self._emit(self._last)
            self._accumulators[get_index(delta, "index") or 0] = call
            self._open[call] = None
            self._new_calls.add(call)
        if call in self._open:  # otherwise the call was emitted, and a host repeats part of it
            call.merge(to_raw_call(delta))
            self._last = call
            if isinstance(call.id, str):
                self._by_id[call.id] = call

    def _find_call(self, delta: JsonObject) -> CallAccumulator | None:
        """Return the call at the index of a delta; without an index the call with its id, else the last one."""
        index, call_id = get_index(delta, "index"), delta.get("id")
        if index is not None:
            return self._accumulators.get(index)
        return self._by_id.get(call_id, self._last) if isinstance(call_id, str) else self._last

    def _emit(self, call: CallAccumulator, cut_off: str | None = None) -> Iterator[RawCall]:
        """Yield an open call, unless it repeats another one."""
        del self._open[call]
        repeated = self._repeated.get(call)
        if repeated is None or not call.repeats(repeated):
            yield call.to_raw_call(cut_off=cut_off)

    def _finish(self, cut_off: str | None) -> Iterator[RawCall]:
        for call, repeated in self._repeated.items():
            if repeated in self._open and repeated.get_object() == {} and call.get_object():
                call.absorb(repeated)  # its empty arguments were a placeholder
                del self._open[repeated]
        calls = list(self._open)
        for call in calls:
            yield from self._emit(call, cut_off if call is calls[-1] else None)

    def _is_new_call(self, call: CallAccumulator, delta: JsonObject) -> bool:
        """Return whether a host begins a second call under the index of a call that has a name.

        Different ids are different calls. A host that sends ids sends one with each call, so the same name without an
        id repeats the call. Without any id, a complete call is followed by another one, or by itself again.
        """
        name, call_id = get_object(delta, "function").get("name"), delta.get("id")
        if not name or not call.name:
            return False
        if call_id and call.id and call_id != call.id:
            return True
        is_complete = self.sends_whole_calls or call.get_object() is not None
        return is_complete and not call.id if call.has_name(name) else is_complete or bool(call_id and not call.id)

    def _may_repeat(self, call: CallAccumulator, delta: JsonObject) -> bool:
        """Return whether a delta may send a call again that has no id."""
        is_distinct = self.sends_whole_calls or call.id
        return not is_distinct and call.has_name(get_object(delta, "function").get("name"))


stream = StreamParser(ResponseReader, needs_definitions=True, format=FORMAT)
"""Parse the chunks of a stream: `for call in stream(chunks)`, or `async for`."""
