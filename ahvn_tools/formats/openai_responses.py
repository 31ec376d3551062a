"""OpenAI's Responses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats.continuation import NO_CONTINUATION, UNKNOWN_CALL, Continuation
from ahvn_tools.formats.json_data import filter_objects, get_index, get_object, get_objects, unread_fields
from ahvn_tools.formats.openai import EXPORTER
from ahvn_tools.formats.parsing.payload import read_field, read_items
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
from ahvn_tools.formats.rendering.callers import AllowedCallers, resolve_callers
from ahvn_tools.formats.rendering.calls import clean_text, get_provider_data, to_json_text, to_writable
from ahvn_tools.formats.rendering.names import CHOICE_MODES, resolve_choice
from ahvn_tools.formats.rendering.tool_exporter import export_all, set_provider_options, split_value_schema
from ahvn_tools.formats.turn import Model, Turn, Usage, client_function, read_answer, read_text, without_nulls
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolCall, ToolResult

FORMAT = "openai-responses"
SDK_MODULES = ("openai.types.responses", "openai.lib.streaming.responses")

findings = EXPORTER.findings

_ECHOED_FIELDS = ("caller", "namespace")
"""The fields of a call that its output repeats."""
_SDK_FIELD = "parsed_arguments"
"""A field that the SDK's helpers add to a call, and the service refuses."""
_CALLERS: Final = {"direct": "direct", "programmatic": "programmatic"}
_PROGRAM_ITEMS: Final = ("program", "program_output")
_HOST_ITEMS: Final = (
    "function_call", "custom_tool_call", "shell_call", "local_shell_call", "apply_patch_call", "computer_call",
    "mcp_approval_request",
)  # fmt: skip
"""The items that wait for the host's answer, unless the response has their output: OpenAI can run a shell itself."""
_FINAL_EVENTS = ("response.completed", "response.incomplete")


def export(
    definitions: Iterable[ToolDefinition],
    *,
    strict: bool = False,
    output_schema: bool = False,
    defer_loading: bool | Collection[str] = False,
    allowed_callers: AllowedCallers = None,
    programmatic_tool_calling: bool = False,
) -> list[JsonObject]:
    """Return the tools for a request's `tools`.

    - Tools are flat objects. `strict` is always set, because without it the service makes tools strict by itself.
    - The root of a schema is one plain object: alternatives are merged, and the description states the rule.
    - `strict`: optional arguments become nullable and required, objects are closed. A schema whose meaning that would
      change is exported unchanged, with `"strict": False`.
    - `output_schema`: describe the JSON of the output, if the tool has an output schema and its output is not text.
    - `defer_loading`: all tools, or the tools with these names, are only found by OpenAI's tool search.
    - `allowed_callers`, such as `["direct", "programmatic"]`, is set on every tool; or by name,
      `{"find": ["programmatic"]}`.
    - `programmatic_tool_calling` adds OpenAI's own tool that runs the model's programs, as the last. Programs call the
      tools that allow it.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping", description="Is it there?")])[0]["strict"]
    False
    """
    known = list(definitions)
    tools = export_all(known, _to_tool, strict, output_schema)
    callers = resolve_callers(allowed_callers, known, _CALLERS)
    set_provider_options(tools, known, defer_loading, callers)
    return [*tools, {"type": "programmatic_tool_calling"}] if programmatic_tool_calling else tools


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in a response, or in its `output`: SDK object, dict, list, JSON text or bytes.

    A call's `id` is the `call_id` that its output needs. Namespace and caller are in `provider`. Calls of custom and
    hosted tools are left out.

    >>> calls([{"type": "function_call", "call_id": "c1", "name": "ping", "arguments": "{}"}])[0].id
    'c1'
    """
    return parse_calls(response, definitions, stream)


def continuation(response: Any) -> Continuation:
    """Return whether a response ends with a program that goes on: no item waits for the host, and no message follows.

    A commentary is no such message. A call of a custom tool is a problem: a toolkit has no such tools. Events of a
    stream are read, too.

    >>> continuation({"status": "completed", "output": [{"type": "program_output"}]}).is_paused
    True
    """
    items = read_items(response)
    final = [read_field(event, "response") for event in items if read_field(event, "type") in _FINAL_EVENTS]
    whole = (final or items or [None])[0]
    output = read_field(whole, "output")
    if output is not None and read_field(whole, "status") not in (None, "completed"):
        return NO_CONTINUATION
    items = items if output is None else read_items(output)
    answered = {_get_call_id(item) for item in items if str(read_field(item, "type")).endswith("_output")} - {""}
    last = None
    for item in items:
        kind = read_field(item, "type")
        if _is_for_host(item) and _get_call_id(item) not in answered:
            return Continuation(problem=UNKNOWN_CALL) if kind == "custom_tool_call" else NO_CONTINUATION
        if kind in _PROGRAM_ITEMS or (kind == "message" and read_field(item, "phase") != "commentary"):
            last = kind
    return Continuation(is_paused=last in _PROGRAM_ITEMS)


def message(calls: Iterable[ToolCall], *, text: str | None = None) -> list[JsonObject]:
    """Return one `function_call` item for each call, after a message with the text; the inverse of `calls`.

    >>> from ahvn_tools import ToolCall
    >>> message([ToolCall(id="c1", name="add", arguments={"a": 1})])
    [{'type': 'function_call', 'call_id': 'c1', 'name': 'add', 'arguments': '{"a": 1}'}]
    """
    text = clean_text(text)
    messages: list[JsonObject] = [] if text is None else [{"role": "assistant", "content": text}]
    return [*messages, *map(_to_item, to_writable(calls, FORMAT))]


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    """Return one `function_call_output` item for each call; append them after the model's items.

    The text of an error begins with "Error", because there is no flag for it. Images are part of the output.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="c1", name="add"), ToolResult(3))])
    [{'type': 'function_call_output', 'call_id': 'c1', 'output': '3'}]
    """
    return [
        {
            "type": "function_call_output",
            "call_id": call.id,
            "output": _to_output(content.to_parts_with_error_prefix(result)),
            **{key: value for key, value in get_provider_data(call, FORMAT).items() if key in _ECHOED_FIELDS},
        }
        for call, result in content.to_readable(pairs, FORMAT)
    ]


def turn(response: Any, calls: Sequence[ToolCall] = ()) -> Turn:  # noqa: ARG001  # as all formats
    """Return the model's turn of a response, its `output`, or all events of a stream: all items, with the reasoning.

    >>> turn({"output": [{"type": "reasoning", "id": "rs_1", "summary": [], "status": None}]}).messages
    [{'type': 'reasoning', 'id': 'rs_1', 'summary': []}]
    """
    data, events = read_answer(response)
    final = next((get_object(event, "response") for event in events if event.get("type") in _FINAL_EVENTS), data)
    done = [get_object(event, "item") for event in events if event.get("type") == "response.output_item.done"]
    items = get_objects(final, "output") or done or [event for event in events if _is_item(event)]
    usage = Usage.read(
        final.get("usage"),
        inputs=["input_tokens"],
        outputs=["output_tokens"],
        cached=["input_tokens_details", "cached_tokens"],
    )
    return Turn(messages=list(map(_to_sent, items)), text=read_text({"output": items}), usage=usage)


def _to_sent(item: JsonObject) -> JsonObject:
    """Return an item as it is sent back."""
    sent = without_nulls(item, _SDK_FIELD)
    if isinstance(sent.get("content"), list):
        sent["content"] = [without_nulls(part, "parsed") for part in filter_objects(sent["content"])]
    return sent


def model(
    client: Any, *, model: str, stream: bool = False, export: Mapping[str, Any] | None = None, **options: Any
) -> Model:
    """Return the model behind an OpenAI or AsyncOpenAI client, for `Toolkit.converse`.

    `options` are those of `client.responses.create`; its `tools` are sent beside those of the toolkit. `export` are the
    options of `export`, such as `{"strict": True}`.
    """
    options |= {"model": model, **({"stream": True} if stream else {})}
    return Model.of_client(
        FORMAT, client_function(client, "responses.create"), options, messages="input", export=export
    )


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return `tool_choice`, and `parallel_tool_calls` unless `parallel` is None, as fields of a request.

    A name forces that tool; a list of names, one of these. With `definitions`, an unknown name is a ToolLookupError.

    >>> choice("add")
    {'tool_choice': {'type': 'function', 'name': 'add'}}
    """
    extra = {} if parallel is None else {"parallel_tool_calls": parallel}
    if isinstance(tools, str) and tools in CHOICE_MODES:
        return {"tool_choice": tools, **extra}
    forced = [{"type": "function", "name": name} for name in resolve_choice(tools, definitions)]
    allowed = {"type": "allowed_tools", "mode": "required", "tools": forced}
    return {"tool_choice": forced[0] if isinstance(tools, str) else allowed, **extra}


def looks_like(data: Any) -> bool:
    """Return whether JSON data looks like a response or its `output`, or the events of a stream.

    >>> looks_like({"object": "response", "output": [{"type": "message", "content": []}]})
    True
    """
    if isinstance(data, list):
        return any(_is_item(item) or str(item.get("type")).startswith("response.") for item in filter_objects(data))
    output = data.get("output") if isinstance(data, dict) else None
    return isinstance(output, list) and all("type" in item for item in filter_objects(output))


def _is_for_host(item: Any) -> bool:
    kind = read_field(item, "type")
    return kind in _HOST_ITEMS or (kind == "tool_search_call" and read_field(item, "execution") == "client")


def _get_call_id(item: Any) -> str:
    return str(read_field(item, "call_id") or "")


def _is_item(item: JsonObject) -> bool:
    kind = str(item.get("type"))
    return kind in ("message", "reasoning", "program") or kind.endswith(("_call", "_output"))


def _to_tool(definition: ToolDefinition, strict: bool, output_schema: bool) -> JsonObject:
    fields = EXPORTER.to_fields(definition, "parameters", strict=strict)
    tool = {"type": "function", **fields, "strict": fields.get("strict", False)}
    json_schema = _get_json_output_schema(definition) if output_schema else None
    return tool if json_schema is None else {**tool, "output_schema": json_schema}


def _get_json_output_schema(definition: ToolDefinition) -> JsonObject | None:
    """Return the schema of the JSON in an output; None where the output is or may be plain text."""
    schema, shared = split_value_schema(definition.output_schema or {})
    types = schema.get("type", "string")
    return None if "string" in ([types] if isinstance(types, str) else types) else {**schema, **shared}


def _to_output(parts: list[str | content.ImagePart]) -> str | list[JsonObject]:
    """Return texts as one text, or a list of parts if there are images."""
    if not content.get_images(parts):
        return content.join_texts(parts)
    return [
        {"type": "input_text", "text": part}
        if isinstance(part, str)
        else {"type": "input_image", "image_url": part.url, "detail": "auto"}
        for part in parts
    ]


def _to_item(call: ToolCall) -> JsonObject:
    fields = {"call_id": call.id, "name": call.name, "arguments": to_json_text(call.arguments)}
    return {**call.provider, "type": "function_call", **fields}


def _to_raw_call(item: JsonObject) -> RawCall:
    return RawCall(
        id=item.get("call_id"),
        name=item.get("name"),
        arguments=item.get("arguments"),
        provider=unread_fields(item, "type", "call_id", "name", "arguments", _SDK_FIELD),
        cut_off=TRUNCATED_CALL if item.get("status") == "incomplete" else None,
    )


class ResponseReader(Reader):
    """Takes each call from the event that completes it; a call without such an event comes at the end.

    Some hosts send no events for single calls: their calls are in the response of the final event.
    """

    def __init__(self) -> None:
        self._accumulators: dict[int | str | None, CallAccumulator] = {}
        self._has_emitted = False

    def extract(self, data: Any) -> Iterator[RawCall]:
        """Yield the calls in a response, or in its output."""
        response = get_object(data, "response")
        for item in filter_objects(data) or get_objects(data, "output") or get_objects(response, "output"):
            if item.get("type") == "function_call":
                yield _to_raw_call(item)

    def feed(self, event: Any) -> Iterator[RawCall]:
        """Read an event."""
        if not isinstance(event, dict):
            return
        kind, item, index = event.get("type"), get_object(event, "item"), get_index(event, "output_index")
        is_call = item.get("type") == "function_call"
        if kind == "response.function_call_arguments.delta" and index in self._accumulators:
            self._accumulators[index].add(event.get("delta"))
        elif kind == "response.function_call_arguments.done" and index in self._accumulators:
            self._accumulators[index].add(event.get("arguments"))
        elif kind == "response.output_item.added" and is_call:
            start, call = _to_raw_call(item), self._accumulators.get(index)
            self._accumulators[index] = (call if call and call.begins_again(start) else CallAccumulator()).merge(start)
        elif kind == "response.output_item.done" and is_call:
            self._accumulators.pop(index, None)
            self._has_emitted = True
            yield _to_raw_call(item)
        elif kind in _FINAL_EVENTS and not self._has_emitted:
            for raw_call in self.extract(event):
                self._accumulators.clear()
                yield raw_call

    def end(self) -> Iterator[RawCall]:
        """Yield the calls that were incomplete when the stream ended."""
        for call in self._accumulators.values():
            yield call.to_raw_call(cut_off=INTERRUPTED_CALL)


stream = StreamParser(ResponseReader, format=FORMAT)
"""Parse the events of a stream: `for call in stream(events)`, or `async for`."""
