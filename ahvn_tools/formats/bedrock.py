"""Amazon Bedrock's Converse."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats import anthropic
from ahvn_tools.formats.parsing import tool_calls
from ahvn_tools.formats.parsing.raw_call import RawCall, filter_objects, get_object, get_objects, unread_fields
from ahvn_tools.formats.parsing.stream import StreamParser
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.names import CHOICE_MODES, index_by_wire_name, resolve_choice, wire_name
from ahvn_tools.formats.rendering.tool import export_tool
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialects.anthropic_strict import to_anthropic_strict
from ahvn_tools.schema.dialects.dialect import BEDROCK

_MODES = {"auto": "auto", "required": "any"}
_TRUNCATION_REASONS = ("max_tokens", "model_context_window_exceeded")
_MALFORMED_REASON = "malformed_tool_use"
_NOT_STREAMS = (str, bytes, dict)
_MALFORMED_MESSAGE = "The call was not well-formed. Send it again, with its arguments as one JSON object."


def export(
    definitions: Iterable[ToolDefinition], *, strict: bool = False, cache_point: JsonObject | None = None
) -> list[JsonObject]:
    """Return the tools for a request's `toolConfig`, as its `tools`; with none, leave `toolConfig` out.

    - The root of a schema is one object: choices at the top are merged, and told in the description.
    - `strict`: as in the format `anthropic`; not every model on Bedrock takes it.
    - `cache_point`, such as `{"type": "default"}`, follows the last tool: everything up to it is cached.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping", description="Is it there?")])[0]["toolSpec"]["name"]
    'ping'
    """
    tools = [definition.memoize(_to_tool, strict) for definition in index_by_wire_name(definitions).values()]
    if tools and cache_point is not None:
        tools.append({"cachePoint": dict(cache_point)})
    return tools


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in an answer, its message or its `content`; of `converse_stream`'s answer, when all has come.

    - To have calls while they arrive, pass the answer's `"stream"` to `stream`.
    - Tools that run at the provider's are left out.
    - The last call of a message that reached its length limit, or that Bedrock calls malformed, has an `error`. A
      malformed call may be missing altogether: then `stopReason` alone tells.

    >>> calls([{"toolUse": {"toolUseId": "t1", "name": "ping", "input": {}}}])[0].name
    'ping'
    """
    return tool_calls.parse_calls(_unwrap_stream(response), _extract_calls, definitions, EventReader)


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    """Return the one user message that answers all calls of a message.

    - An error has a status, and says in its text that it is one: only Claude and Nova read the status.
    - Images are raw bytes, as boto3 wants them; it writes them in base64.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="t1", name="add"), ToolResult(3))])
    [{'role': 'user', 'content': [{'toolResult': {'toolUseId': 't1', 'content': [{'text': '3'}]}}]}]
    """
    blocks = [{"toolResult": _to_result(call, result)} for call, result in pairs]
    return [{"role": "user", "content": blocks}] if blocks else []


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return `toolChoice` as a field of `toolConfig`, beside its `tools`.

    A name, or a list of one, forces that tool. Raises ToolSpecError for what Converse cannot be asked for: `"none"`,
    one of several names, and calls one at a time. With `definitions`, an unknown name is a ToolLookupError.

    >>> choice("required")
    {'toolChoice': {'any': {}}}
    """
    if parallel is False:
        raise ToolSpecError("Converse cannot be asked for one call at a time. Leave `parallel` out.")
    if tools == "none":
        raise ToolSpecError(
            "Converse has no choice 'none'. Leave the tools out; while the messages hold calls, which Bedrock refuses "
            "without tools, choose 'auto'."
        )
    if isinstance(tools, str) and tools in CHOICE_MODES:
        return {"toolChoice": {_MODES[tools]: {}}}
    names = resolve_choice(tools, definitions)
    if len(names) > 1:
        raise ToolSpecError(f"Converse forces one tool, not one of {names!r}. Export these alone, with 'required'.")
    return {"toolChoice": {"tool": {"name": names[0]}}}


def _to_tool(definition: ToolDefinition, strict: bool) -> JsonObject:
    tool = export_tool(definition, BEDROCK, to_anthropic_strict if strict else None)
    said = {"description": tool.description} if tool.description else {}
    marked = {"strict": tool.is_strict} if strict else {}
    return {"toolSpec": {"name": wire_name(definition.name), **said, "inputSchema": {"json": tool.schema}, **marked}}


def _to_result(call: ToolCall, result: ToolResult) -> JsonObject:
    parts = [_to_block(part) for part in content.to_parts_with_error_prefix(result) if not content.is_blank(part)]
    made: JsonObject = {"toolUseId": call.id, "content": parts}
    return {**made, "status": "error"} if result.is_error else made


def _to_block(part: str | content.ImagePart) -> JsonObject:
    if isinstance(part, str):
        return {"text": part}
    data = base64.b64decode(part.data)
    return {"image": {"format": part.media_type.removeprefix("image/"), "source": {"bytes": data}}}


def _unwrap_stream(response: Any) -> Any:
    """Return the events in an answer of `converse_stream`; another answer as it is."""
    events = response.get("stream") if isinstance(response, dict) else None
    return events if isinstance(events, Iterable | AsyncIterable) and not isinstance(events, _NOT_STREAMS) else response


def _extract_calls(data: Any) -> Iterator[RawCall]:
    reason = data.get("stopReason") if isinstance(data, dict) else None
    blocks = filter_objects(data) or get_objects(get_object(data, "output", "message") or data, "content")
    for block in blocks:
        use = get_object(block, "toolUse")
        if "toolUse" in block and _is_client_tool_use(use):
            is_last = block is blocks[-1]
            yield RawCall(
                id=use.get("toolUseId"),
                name=use.get("name"),
                arguments=use.get("input"),
                provider=unread_fields(use, "type", "toolUseId", "name", "input"),
                is_truncated=is_last and reason in _TRUNCATION_REASONS,
                error=_MALFORMED_MESSAGE if is_last and reason == _MALFORMED_REASON else None,
            )


def _is_client_tool_use(use: JsonObject) -> bool:
    """Tell whether a call is to be run here, and not one that runs at the provider's."""
    return use.get("type") != "server_tool_use"


class EventReader:
    """Reads events as Anthropic's, which come in the same order and say the same under other names."""

    def __init__(self) -> None:
        """Begin with no block."""
        self._anthropic_reader = anthropic.EventReader()

    def feed(self, event: Any) -> Iterator[RawCall]:
        """Take an event."""
        is_malformed = get_object(event, "messageStop").get("stopReason") == _MALFORMED_REASON
        for sent in self._anthropic_reader.feed(_to_anthropic_event(event)):
            # What waits for the reason of the stop has no whole arguments: it is the call that the reason is about.
            yield replace(sent, error=_MALFORMED_MESSAGE) if is_malformed else sent

    def end(self) -> Iterator[RawCall]:
        """Give what the stream broke off in."""
        yield from self._anthropic_reader.end()


def _to_anthropic_event(event: Any) -> JsonObject:
    """Return an event as the one of Anthropic's that says the same."""
    if begun := get_object(event, "contentBlockStart"):
        use = get_object(begun, "start", "toolUse")
        block = {"type": "tool_use", "id": use.get("toolUseId"), **unread_fields(use, "type", "toolUseId")}
        if not use or not _is_client_tool_use(use):
            block = {"type": "other"}
        return {"type": "content_block_start", "index": begun.get("contentBlockIndex"), "content_block": block}
    if piece := get_object(event, "contentBlockDelta"):
        delta = {"partial_json": get_object(piece, "delta", "toolUse").get("input")}
        return {"type": "content_block_delta", "index": piece.get("contentBlockIndex"), "delta": delta}
    if stopped := get_object(event, "contentBlockStop"):
        return {"type": "content_block_stop", "index": stopped.get("contentBlockIndex")}
    if over := get_object(event, "messageStop"):
        return {"type": "message_delta", "delta": {"stop_reason": over.get("stopReason")}}
    return {}


stream = StreamParser(EventReader)
"""Read the events of a stream: `for call in stream(response["stream"])`, or `async for`."""
