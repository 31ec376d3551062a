"""Amazon Bedrock's Converse."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats import anthropic
from ahvn_tools.formats.anthropic import load_object, to_cut_off
from ahvn_tools.formats.continuation import MALFORMED_CALL, Continuation, read_problem
from ahvn_tools.formats.json_data import filter_objects, get_object, get_objects, unread_fields
from ahvn_tools.formats.parsing.payload import is_stream, read_field, read_items
from ahvn_tools.formats.parsing.tool_calls import RawCall, StreamParser, parse_calls
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.calls import clean_text, to_writable
from ahvn_tools.formats.rendering.names import CHOICE_MODES, resolve_single_choice
from ahvn_tools.formats.rendering.tool_exporter import ToolExporter, export_all
from ahvn_tools.formats.turn import Model, Turn, Usage, client_function, read_answer, read_text
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialects.dialect import BEDROCK
from ahvn_tools.schema.dialects.strict import to_anthropic_strict

FORMAT = "bedrock"

_EXPORTER = ToolExporter(BEDROCK, to_anthropic_strict)
findings = _EXPORTER.findings
_BLOCKS = frozenset({"text", "toolUse", "toolResult", "reasoningContent", "citationsContent", "image"})
_EVENTS = ("messageSt", "contentBlock")
"""How the keys of events begin."""
_INPUTS = ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
_MODES = {"auto": "auto", "required": "any"}
_PROVIDER_CALL = "server_tool_use"
"""The type of a call that the provider runs itself."""
_MALFORMED_REASONS = ("malformed_tool_use", "malformed_model_output")


def export(
    definitions: Iterable[ToolDefinition], *, strict: bool = False, cache_point: JsonObject | None = None
) -> list[JsonObject]:
    """Return the tools for the `tools` of a request's `toolConfig`; without tools, leave `toolConfig` out.

    - The root of a schema is one plain object: alternatives are merged, and the description states the rule.
    - `strict`: as in the format `anthropic`; not every model on Bedrock accepts it.
    - `cache_point`, such as `{"type": "default"}`, follows the last tool: Bedrock caches everything up to it.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping", description="Is it there?")])[0]["toolSpec"]["name"]
    'ping'
    """
    tools = export_all(definitions, _to_tool, strict)
    if tools and cache_point is not None:
        tools.append({"cachePoint": dict(cache_point)})
    return tools


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in a response, its message or its `content`; for `converse_stream`, after its last event.

    - To get calls while they arrive, pass the response's `"stream"` to `stream`.
    - Calls that the provider runs itself are left out.
    - When a message reaches its length limit, or Bedrock reports a malformed call, the last call has an `error`. A
      malformed call may be missing from the message: then only `continuation` reports it.

    >>> calls([{"toolUse": {"toolUseId": "t1", "name": "ping", "input": {}}}])[0].name
    'ping'
    """
    events = response.get("stream") if isinstance(response, dict) else None
    return parse_calls(events if is_stream(events) else response, definitions, stream)


def continuation(response: Any) -> Continuation:
    """Return whether Bedrock has discarded what the model has written, as the reason for stopping says.

    Events of a stream are read, too.

    >>> continuation({"stopReason": "malformed_tool_use"}).problem
    'The call was malformed. Send it again with its arguments as one JSON object.'
    """
    events = read_field(response, "stream")
    items = read_items(response if events is None else events)
    sources = [source for item in items for source in (item, read_field(item, "messageStop"))]
    return Continuation(problem=read_problem(read_field(source, "stopReason") for source in sources))


def message(calls: Iterable[ToolCall], *, text: str | None = None) -> list[JsonObject]:
    """Return the model's message with this text and these calls; the inverse of `calls`.

    >>> from ahvn_tools import ToolCall
    >>> message([ToolCall(id="t1", name="add", arguments={"a": 1})])
    [{'role': 'assistant', 'content': [{'toolUse': {'toolUseId': 't1', 'name': 'add', 'input': {'a': 1}}}]}]
    """
    text = clean_text(text)
    blocks: list[JsonObject] = [] if text is None else [{"text": text}]
    blocks += [
        {"toolUse": {**call.provider, "toolUseId": call.id, "name": call.name, "input": call.arguments}}
        for call in to_writable(calls, FORMAT)
    ]
    return [{"role": "assistant", "content": blocks}] if blocks else []


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    """Return one user message with the results of all calls of a message.

    - An error has a status, and its text begins with "Error": only Claude and Nova read the status.
    - Images are raw bytes, as boto3 requires; it encodes them in base64.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="t1", name="add"), ToolResult(3))])
    [{'role': 'user', 'content': [{'toolResult': {'toolUseId': 't1', 'content': [{'text': '3'}]}}]}]
    """
    blocks = [{"toolResult": _to_result(call, result)} for call, result in content.to_readable(pairs, FORMAT)]
    return [{"role": "user", "content": blocks}] if blocks else []


def turn(response: Any, calls: Sequence[ToolCall] = ()) -> Turn:  # noqa: ARG001  # as all formats
    """Return the model's turn of a response, its message, or all events of a stream.

    All blocks are kept, with their signatures; blank texts are not, because Bedrock refuses them.

    >>> turn({"output": {"message": {"role": "assistant", "content": [{"text": "Hello!"}]}}}).text
    'Hello!'
    """
    data, events = read_answer(response)
    message = get_object(data, "output", "message") or data
    blocks = _collect_blocks(events) if events else get_objects(message, "content")
    blocks = [block for block in blocks if "text" not in block or block["text"].strip()]
    found = [
        usage
        for item in [data, *events]
        for usage in (get_object(item, "usage"), get_object(item, "metadata", "usage"))
    ]
    usage = Usage.read(
        next(filter(None, found), None), inputs=_INPUTS, outputs=["outputTokens"], cached=["cacheReadInputTokens"]
    )
    messages: list[JsonObject] = [{"role": "assistant", "content": blocks}] if blocks else []
    return Turn(messages=messages, text=read_text(blocks), usage=usage)


def _collect_blocks(events: Iterable[Any]) -> list[JsonObject]:
    """Return the whole blocks of a stream."""
    blocks: dict[Any, JsonObject] = {}
    inputs: dict[Any, str] = {}
    for event in events:
        if start := get_object(event, "contentBlockStart"):
            blocks[start.get("contentBlockIndex")] = {
                key: {**value} for key, value in get_object(start, "start").items()
            }
        piece = get_object(event, "contentBlockDelta")
        index, delta = piece.get("contentBlockIndex"), get_object(piece, "delta")
        block = blocks.setdefault(index, {}) if piece else {}
        if "toolUse" in delta:
            inputs[index] = inputs.get(index, "") + str(get_object(delta, "toolUse").get("input") or "")
        elif "reasoningContent" in delta:
            _add_reasoning(block.setdefault("reasoningContent", {}), get_object(delta, "reasoningContent"))
        elif "text" in delta:
            block["text"] = block.get("text", "") + delta["text"]
    for index, block in blocks.items():
        if "toolUse" in block:
            block["toolUse"]["input"] = load_object(inputs.get(index, ""))
    return [block for _, block in sorted(blocks.items()) if block]


def _add_reasoning(content: JsonObject, delta: JsonObject) -> None:
    for key, value in delta.items():
        part = content if key == "redactedContent" else content.setdefault("reasoningText", {})
        part[key] = part[key] + value if key in part else value


def add_user_text(messages: Sequence[Any], text: str) -> list[Any]:
    """Return the messages with a text of the user at the end, in the last one if it is the user's: roles alternate."""
    last = messages[-1] if messages else {}
    if last.get("role") != "user":
        return [*messages, {"role": "user", "content": [{"text": text}]}]
    return [*messages[:-1], {**last, "content": [*last["content"], {"text": text}]}]


def model(
    client: Any, *, model: str, stream: bool = False, export: Mapping[str, Any] | None = None, **options: Any
) -> Model:
    """Return the model behind boto3's client of `bedrock-runtime`, for `Toolkit.converse`.

    `options` are those of `client.converse`; its `toolConfig`, such as `choice` returns, is sent with the tools of the
    toolkit. `export` are the options of `export`, such as `{"strict": True}`.
    """
    config = options.pop("toolConfig", {})

    def request(messages: list[Any], tools: Sequence[JsonObject]) -> JsonObject:
        declared = [*tools, *config.get("tools", ())]
        return {"messages": messages, **({"toolConfig": {**config, "tools": declared}} if declared else {})}

    return Model(
        format=FORMAT,
        send=client_function(client, "converse_stream" if stream else "converse"),
        request=request,
        options={"modelId": model, **options},
        export=export or {},
    )


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return `toolChoice` as a field of `toolConfig`, next to its `tools`.

    A name, or a list with one name, forces that tool. Raises ToolSpecError for choices without an option in Converse:
    `"none"`, one of several names, and one call at a time. With `definitions`, an unknown name is a ToolLookupError.

    >>> choice("required")
    {'toolChoice': {'any': {}}}
    """
    if parallel is False:
        raise ToolSpecError("Converse has no option for one call at a time. Leave `parallel` out.")
    if tools == "none":
        raise ToolSpecError(
            "Converse has no choice 'none'. Leave the tools out. If the messages contain calls, Bedrock refuses a "
            "request without tools: then choose 'auto'."
        )
    if isinstance(tools, str) and tools in CHOICE_MODES:
        return {"toolChoice": {_MODES[tools]: {}}}
    return {"toolChoice": {"tool": {"name": resolve_single_choice("Converse", tools, definitions)}}}


def looks_like(data: Any) -> bool:
    """Return whether JSON data looks like a response, its message or its `content`, messages, or events of a stream.

    >>> looks_like({"output": {"message": {"role": "assistant", "content": [{"text": "Hello!"}]}}})
    True
    """
    if not isinstance(data, list):
        message = get_object(data, "output", "message") or data
        return isinstance(data, dict) and ("stream" in data or _is_message(message))
    items = filter_objects(data)
    return any(map(_is_block, items)) or (bool(items) and all(map(_is_message, items)))


def _is_message(item: JsonObject) -> bool:
    blocks = item.get("content")
    is_message = item.get("role") == "assistant" and isinstance(blocks, list)
    return is_message and all(map(_is_block, filter_objects(blocks)))


def _is_block(item: JsonObject) -> bool:
    """Return whether an object is a block of a message, or an event."""
    return "type" not in item and any(key in _BLOCKS or key.startswith(_EVENTS) for key in item)


def _to_tool(definition: ToolDefinition, strict: bool) -> JsonObject:
    tool = _EXPORTER.to_fields(definition, "inputSchema", strict=strict)
    return {"toolSpec": {**tool, "inputSchema": {"json": tool["inputSchema"]}}}


def _to_result(call: ToolCall, result: ToolResult) -> JsonObject:
    parts = content.to_program_parts(result) if result.is_error else content.to_parts(result)
    blocks = [_to_block(part) for part in parts if not content.is_blank(part)]
    tool_result: JsonObject = {"toolUseId": call.id, "content": blocks}
    return {**tool_result, "status": "error"} if result.is_error else tool_result


def _to_block(part: str | content.ImagePart) -> JsonObject:
    if isinstance(part, str):
        return {"text": part}
    data = base64.b64decode(part.data)
    return {"image": {"format": part.media_type.removeprefix("image/"), "source": {"bytes": data}}}


class ResponseReader(anthropic.ResponseReader):
    """Translates events into Anthropic's, which have the same order and content under other names."""

    def extract(self, data: Any) -> Iterator[RawCall]:
        """Yield the calls in a response, its message or its content."""
        reason = data.get("stopReason") if isinstance(data, dict) else None
        blocks = filter_objects(data) or get_objects(get_object(data, "output", "message") or data, "content")
        for block in blocks:
            use = get_object(block, "toolUse")
            if "toolUse" in block and use.get("type") != _PROVIDER_CALL:
                is_last = block is blocks[-1]
                yield RawCall(
                    id=use.get("toolUseId"),
                    name=use.get("name"),
                    arguments=use.get("input"),
                    provider=unread_fields(use, "type", "toolUseId", "name", "input"),
                    cut_off=to_cut_off(reason) if is_last else None,
                    error=MALFORMED_CALL if is_last and reason in _MALFORMED_REASONS else None,
                )

    def feed(self, event: Any) -> Iterator[RawCall]:
        """Read an event."""
        is_malformed = get_object(event, "messageStop").get("stopReason") in _MALFORMED_REASONS
        for raw_call in super().feed(_to_anthropic_event(event)):
            # Only a call without complete arguments waits for the stop reason, so the reason refers to that call.
            yield replace(raw_call, error=MALFORMED_CALL) if is_malformed else raw_call


def _to_anthropic_event(event: Any) -> JsonObject:
    if start := get_object(event, "contentBlockStart"):
        use = get_object(start, "start", "toolUse")
        block = {"type": "tool_use", "id": use.get("toolUseId"), **unread_fields(use, "type", "toolUseId")}
        if not use or use.get("type") == _PROVIDER_CALL:
            block = {"type": "other"}
        return {"type": "content_block_start", "index": start.get("contentBlockIndex"), "content_block": block}
    if fragment := get_object(event, "contentBlockDelta"):
        delta = {"partial_json": get_object(fragment, "delta", "toolUse").get("input")}
        return {"type": "content_block_delta", "index": fragment.get("contentBlockIndex"), "delta": delta}
    if stop := get_object(event, "contentBlockStop"):
        return {"type": "content_block_stop", "index": stop.get("contentBlockIndex")}
    if message_stop := get_object(event, "messageStop"):
        return {"type": "message_delta", "delta": {"stop_reason": message_stop.get("stopReason")}}
    return {}


stream = StreamParser(ResponseReader, format=FORMAT)
"""Parse the events of a stream: `for call in stream(response["stream"])`, or `async for`."""
