"""Anthropic's Messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats.parsing import tool_calls
from ahvn_tools.formats.parsing.raw_call import (
    CallAccumulator,
    RawCall,
    filter_objects,
    get_index,
    get_object,
    get_objects,
    unread_fields,
)
from ahvn_tools.formats.parsing.stream import StreamParser
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.names import CHOICE_MODES, index_by_wire_name, resolve_choice, wire_name
from ahvn_tools.formats.rendering.tool import export_tool, filter_example_inputs, set_provider_options
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialects.anthropic_strict import to_anthropic_strict
from ahvn_tools.schema.dialects.dialect import ANTHROPIC
from ahvn_tools.schema.refs import iter_schemas

_MAX_STRICT_TOTALS = {"tools": 20, "optional": 24, "unions": 16}
"""What all strict tools of one request may have together."""
_MODES = dict(zip(CHOICE_MODES, ("auto", "none", "any"), strict=True))
_TRUNCATION_REASONS = ("max_tokens", "model_context_window_exceeded")


def export(
    definitions: Iterable[ToolDefinition],
    *,
    strict: bool = False,
    examples: bool = True,
    defer_loading: bool | Collection[str] = False,
    allowed_callers: Sequence[str] | None = None,
    cache_control: JsonObject | None = None,
) -> list[JsonObject]:
    """Return the tools for a request's `tools`.

    - The root of a schema is one object: choices at the top are merged, and told in the description.
    - `strict`: objects are closed, optional arguments stay optional, and what a strict grammar does not enforce is told
      in the description. A schema that would change its meaning so goes out as it is, with `"strict": False`; so do
      the tools for which a request has no room (20 strict tools, 24 optional parameters and 16 unions in all).
    - `examples`: the inputs of a tool's examples that fit its schema are its `input_examples`.
    - `defer_loading`: all tools, or those of these names, are found by Anthropic's tool search and not shown before.
    - `allowed_callers`, such as `["direct"]`, is set on every tool.
    - `cache_control`, such as `{"type": "ephemeral"}`, is set on the last tool that is not deferred: everything up to
      it is cached. Raises ToolSpecError when all are deferred.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping")])
    [{'name': 'ping', 'input_schema': {'type': 'object', 'properties': {}, 'additionalProperties': False}}]
    """
    known = index_by_wire_name(definitions)
    tools = [definition.memoize(_to_tool, strict, examples) for definition in known.values()]
    if strict:
        tools = _apply_strict_limits(tools, list(known.values()), examples=examples)
    set_provider_options(tools, known, defer_loading, allowed_callers)
    if tools and cache_control is not None:
        _find_last_not_deferred(tools)["cache_control"] = dict(cache_control)
    return tools


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in a message, or in its `content`: SDK object, dict, list, JSON text or bytes.

    Tools that run at the provider's are left out. A message that reached its length limit may have lost arguments of
    its last call without a sign, so that call has an `error`.

    >>> calls([{"type": "tool_use", "id": "t1", "name": "ping", "input": {}}])[0].name
    'ping'
    """
    return tool_calls.parse_calls(response, _extract_calls, definitions, EventReader)


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    """Return the one user message that answers all calls of a message; errors are flagged, images included.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="t1", name="add"), ToolResult(3))])
    [{'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 't1', 'content': '3'}]}]
    """
    blocks = [_to_block(call, result) for call, result in pairs]
    return [{"role": "user", "content": blocks}] if blocks else []


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return `tool_choice` as a field of a request.

    A name, or a list of one, forces that tool. Raises ToolSpecError for several names, which Anthropic cannot be asked
    for. With `definitions`, an unknown name is a ToolLookupError.

    >>> choice("required", parallel=False)
    {'tool_choice': {'type': 'any', 'disable_parallel_tool_use': True}}
    """
    if isinstance(tools, str) and tools in CHOICE_MODES:
        made: JsonObject = {"type": _MODES[tools]}
    else:
        names = resolve_choice(tools, definitions)
        if len(names) > 1:
            raise ToolSpecError(
                f"Anthropic forces one tool, not one of {names!r}. Export these alone, with 'required'."
            )
        made = {"type": "tool", "name": names[0]}
    if parallel is not None and tools != "none":
        made["disable_parallel_tool_use"] = not parallel
    return {"tool_choice": made}


def _to_tool(definition: ToolDefinition, strict: bool, examples: bool) -> JsonObject:
    tool = export_tool(definition, ANTHROPIC, to_anthropic_strict if strict else None)
    made: JsonObject = {"name": wire_name(definition.name)}
    if tool.description:
        made["description"] = tool.description
    made["input_schema"] = tool.schema
    if strict:
        made["strict"] = tool.is_strict
    inputs = filter_example_inputs(definition, tool.schema) if examples else []
    return {**made, "input_examples": inputs} if inputs else made


def _apply_strict_limits(
    tools: list[JsonObject], definitions: list[ToolDefinition], *, examples: bool
) -> list[JsonObject]:
    """Return tools of which no more are strict than a request takes."""
    left = Counter(_MAX_STRICT_TOTALS)
    made = []
    for tool, definition in zip(tools, definitions, strict=True):
        cost = _count_strict_cost(tool["input_schema"]) if tool["strict"] else Counter()
        if cost <= left:
            left -= cost
            made.append(tool)
        else:
            made.append({**definition.memoize(_to_tool, False, examples), "strict": False})
    return made


def _count_strict_cost(schema: JsonObject) -> Counter[str]:
    """Return what a strict schema takes of a request's limits; definitions do not count."""
    cost = Counter(tools=1)
    for node in iter_schemas({key: value for key, value in schema.items() if key != "$defs"}):
        cost["optional"] += len(node.get("properties", {}).keys() - set(node.get("required", ())))
        cost["unions"] += "anyOf" in node or isinstance(node.get("type"), list)
    return cost


def _find_last_not_deferred(tools: list[JsonObject]) -> JsonObject:
    for tool in reversed(tools):
        if "defer_loading" not in tool:
            return tool
    raise ToolSpecError("No tool can carry `cache_control`: all are deferred. Leave one out of `defer_loading`.")


def _to_block(call: ToolCall, result: ToolResult) -> JsonObject:
    found = content.to_parts(result)
    made: JsonObject = {"type": "tool_result", "tool_use_id": call.id, "content": _to_content(found)}
    return {**made, "is_error": True} if result.is_error else made


def _to_content(parts: list[str | content.ImagePart]) -> str | list[JsonObject]:
    if not any(content.iter_images(parts)):
        return "\n".join(content.iter_texts(parts))
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}
        for part in parts
    ]


def _extract_calls(data: Any) -> Iterator[RawCall]:
    blocks = filter_objects(data) or get_objects(data, "content")
    was_cut = isinstance(data, dict) and data.get("stop_reason") in _TRUNCATION_REASONS
    for block in blocks:
        if block.get("type") == "tool_use":
            yield RawCall(
                id=block.get("id"),
                name=block.get("name"),
                arguments=block.get("input"),
                provider=unread_fields(block, "type", "id", "name", "input"),
                is_truncated=was_cut and block is blocks[-1],
            )


class EventReader:
    """Gathers blocks: a start with id and name, the input in pieces of text, a stop.

    A block without any input may be a call without arguments, or one that the length limit cut short: it waits until
    the next block or the reason for stopping tells.
    """

    def __init__(self) -> None:
        """Begin with no block."""
        self._open: dict[int | str | None, CallAccumulator] = {}
        self._stopped: list[CallAccumulator] = []

    def feed(self, event: Any) -> Iterator[RawCall]:
        """Take an event."""
        kind = event.get("type") if isinstance(event, dict) else None
        if kind == "content_block_start":
            yield from self._emit_stopped()
            block = get_object(event, "content_block")
            if block.get("type") == "tool_use":
                self._open[get_index(event, "index")] = self._start_block(block)
        elif kind == "content_block_delta" and (pieces := self._open.get(get_index(event, "index"))):
            pieces.add(get_object(event, "delta").get("partial_json"))
        elif kind == "content_block_stop" and (pieces := self._open.pop(get_index(event, "index"), None)):
            self._stopped.append(pieces)
            if pieces.is_complete():
                yield from self._emit_stopped()
        elif kind == "message_delta":
            yield from self._emit_stopped(
                is_truncated=get_object(event, "delta").get("stop_reason") in _TRUNCATION_REASONS
            )
        elif kind == "message_stop":
            yield from self._emit_stopped()

    def end(self) -> Iterator[RawCall]:
        """Give what the stream broke off in."""
        self._stopped += self._open.values()
        yield from self._emit_stopped(is_truncated=True)

    def _start_block(self, block: JsonObject) -> CallAccumulator:
        pieces = CallAccumulator(
            id=block.get("id"), name=block.get("name"), provider=unread_fields(block, "type", "id", "name", "input")
        )
        pieces.add(block.get("input") or None)
        return pieces

    def _emit_stopped(self, *, is_truncated: bool = False) -> Iterator[RawCall]:
        stopped, self._stopped = self._stopped, []
        for pieces in stopped:
            yield pieces.to_raw_call(is_truncated=is_truncated)


stream = StreamParser(EventReader)
"""Read the events of a stream: `for call in stream(events)`, or `async for`."""
