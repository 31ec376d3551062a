"""OpenAI's Responses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from ahvn_tools.definition import JsonObject, ToolDefinition
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
from ahvn_tools.formats.rendering.tool import export_tool, set_provider_options
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialects.dialect import OPENAI
from ahvn_tools.schema.dialects.strict import to_strict as strict_schema

ECHOED_FIELDS = ("caller", "namespace")
"""What an answer wants to see again of its call."""

_FINAL_EVENTS = ("response.completed", "response.incomplete")


def export(
    definitions: Iterable[ToolDefinition],
    *,
    strict: bool = False,
    output_schema: bool = False,
    defer_loading: bool | Collection[str] = False,
    allowed_callers: Sequence[str] | None = None,
) -> list[JsonObject]:
    """Return the tools for a request's `tools`.

    - Flat, and `strict` always said: left out, the service tries to be strict by itself.
    - The root of a schema is one object: choices at the top are merged, and told in the description.
    - `strict`: optional arguments become nullable and required, objects are closed. A schema that would change its
      meaning so goes out as it is, with `"strict": False`.
    - `output_schema`: what the output holds as JSON, where the tool promises it; not for outputs that are plain text.
    - `defer_loading`: all tools, or those of these names, are found by OpenAI's tool search and not shown before.
    - `allowed_callers`, such as `["direct", "programmatic"]`, is set on every tool.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping", description="Is it there?")])[0]["strict"]
    False
    """
    known = index_by_wire_name(definitions)
    tools = [definition.memoize(_to_tool, strict, output_schema) for definition in known.values()]
    set_provider_options(tools, known, defer_loading, allowed_callers)
    return tools


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in an answer, or in its `output`: SDK object, dict, list, JSON text or bytes.

    A call's `id` is the `call_id` that its answer needs. Namespace and caller are in `provider`. Calls of custom and
    hosted tools are not ours and left out.

    >>> calls([{"type": "function_call", "call_id": "c1", "name": "ping", "arguments": "{}"}])[0].id
    'c1'
    """
    return tool_calls.parse_calls(response, _extract_calls, definitions, EventReader)


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    """Return one `function_call_output` item for each call; they follow the model's items as they are.

    An error's text says that it is one: there is no flag. Images are part of the output.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="c1", name="add"), ToolResult(3))])
    [{'type': 'function_call_output', 'call_id': 'c1', 'output': '3'}]
    """
    return [
        {
            "type": "function_call_output",
            "call_id": call.id,
            "output": _to_output(content.to_parts_with_error_prefix(result)),
            **{key: call.provider[key] for key in ECHOED_FIELDS if key in call.provider},
        }
        for call, result in pairs
    ]


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return `tool_choice`, and `parallel_tool_calls` where it is given, as fields of a request.

    A name forces that tool; a list of names, one of these. With `definitions`, an unknown name is a ToolLookupError.

    >>> choice("add")
    {'tool_choice': {'type': 'function', 'name': 'add'}}
    """
    extra = {} if parallel is None else {"parallel_tool_calls": parallel}
    if isinstance(tools, str) and tools in CHOICE_MODES:
        return {"tool_choice": tools, **extra}
    named = [{"type": "function", "name": name} for name in resolve_choice(tools, definitions)]
    allowed = {"type": "allowed_tools", "mode": "required", "tools": named}
    return {"tool_choice": named[0] if isinstance(tools, str) else allowed, **extra}


def _to_tool(definition: ToolDefinition, strict: bool, output_schema: bool) -> JsonObject:
    tool = export_tool(definition, OPENAI, strict_schema if strict else None)
    made: JsonObject = {"type": "function", "name": wire_name(definition.name)}
    if tool.description:
        made["description"] = tool.description
    made |= {"parameters": tool.schema, "strict": tool.is_strict}
    promised = _get_json_output_schema(definition) if output_schema else None
    return made if promised is None else {**made, "output_schema": promised}


def _get_json_output_schema(definition: ToolDefinition) -> JsonObject | None:
    """Return the schema of the JSON that an output holds; None where it is plain text, or may be.

    An output holds a result's value: the one member of an output schema that has exactly one, else all of it.
    """
    schema = definition.output_schema or {}
    members = schema.get("properties", {})
    if len(members) == 1:
        (member,) = members.values()
        shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
        schema = {**member, **shared}
    types = schema.get("type", "string")
    return None if "string" in ([types] if isinstance(types, str) else types) else schema


def _to_output(parts: list[str | content.ImagePart]) -> str | list[JsonObject]:
    """Return texts as one text, and a list of parts where images are among them."""
    if any(content.iter_images(parts)):
        return [
            {"type": "input_text", "text": part}
            if isinstance(part, str)
            else {"type": "input_image", "image_url": part.url, "detail": "auto"}
            for part in parts
        ]
    return "\n".join(content.iter_texts(parts))


def _extract_calls(data: Any) -> Iterator[RawCall]:
    for item in (
        filter_objects(data) or get_objects(data, "output") or get_objects(get_object(data, "response"), "output")
    ):
        if item.get("type") == "function_call":
            yield _to_raw_call(item)


def _to_raw_call(item: JsonObject) -> RawCall:
    return RawCall(
        id=item.get("call_id"),
        name=item.get("name"),
        arguments=item.get("arguments"),
        provider=_get_provider_data(item),
        is_truncated=item.get("status") == "incomplete",
    )


def _get_provider_data(item: JsonObject) -> JsonObject:
    return unread_fields(item, "type", "call_id", "name", "arguments")


class EventReader:
    """Takes each call from the event that says that it is done; what was only begun is kept for the end.

    Of a host that tells of no single call, the calls are in the response with which the stream is over.
    """

    def __init__(self) -> None:
        """Begin with no call."""
        self._accumulators: dict[int | str | None, CallAccumulator] = {}
        self._has_emitted = False

    def feed(self, event: Any) -> Iterator[RawCall]:
        """Take an event."""
        if not isinstance(event, dict):
            return
        item, index = get_object(event, "item"), get_index(event, "output_index")
        is_call = item.get("type") == "function_call"
        if event.get("type") == "response.function_call_arguments.delta" and index in self._accumulators:
            self._accumulators[index].add(event.get("delta"))
        elif event.get("type") == "response.output_item.added" and is_call:
            self._accumulators[index] = CallAccumulator(
                id=item.get("call_id"), name=item.get("name"), provider=_get_provider_data(item)
            )
        elif event.get("type") == "response.output_item.done" and is_call:
            self._accumulators.pop(index, None)
            self._has_emitted = True
            yield _to_raw_call(item)
        elif event.get("type") in _FINAL_EVENTS and not self._has_emitted:
            yield from self._use_final_calls(list(_extract_calls(event)))

    def end(self) -> Iterator[RawCall]:
        """Give what the stream broke off in."""
        for pieces in self._accumulators.values():
            yield pieces.to_raw_call(is_truncated=True)

    def _use_final_calls(self, raw_calls: list[RawCall]) -> list[RawCall]:
        if raw_calls:
            self._accumulators.clear()
        return raw_calls


stream = StreamParser(EventReader)
"""Read the events of a stream: `for call in stream(events)`, or `async for`."""
