"""OpenAI's Responses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.formats import answer, content
from ahvn_tools.formats.names import CHOICES, by_wire_name, chosen, wire_name
from ahvn_tools.formats.sent import Pieces, Sent, extras, member, members, objects, place
from ahvn_tools.formats.stream import Stream
from ahvn_tools.formats.tool import mark, shown
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialect import OPENAI
from ahvn_tools.schema.strict import strict as strict_schema

ECHOED = ("caller", "namespace")
"""What an answer wants to see again of its call."""

_OVER = ("response.completed", "response.incomplete")


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
    known = by_wire_name(definitions)
    tools = [definition.kept(_tool, strict, output_schema) for definition in known.values()]
    mark(tools, known, defer_loading, allowed_callers)
    return tools


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in an answer, or in its `output`: SDK object, dict, list, JSON text or bytes.

    A call's `id` is the `call_id` that its answer needs. Namespace and caller are in `provider`. Calls of custom and
    hosted tools are not ours and left out.

    >>> calls([{"type": "function_call", "call_id": "c1", "name": "ping", "arguments": "{}"}])[0].id
    'c1'
    """
    return answer.calls(response, _sent, definitions, EventReader)


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
            "output": _output(content.marked(result)),
            **{key: call.provider[key] for key in ECHOED if key in call.provider},
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
    if isinstance(tools, str) and tools in CHOICES:
        return {"tool_choice": tools, **extra}
    named = [{"type": "function", "name": name} for name in chosen(tools, definitions)]
    allowed = {"type": "allowed_tools", "mode": "required", "tools": named}
    return {"tool_choice": named[0] if isinstance(tools, str) else allowed, **extra}


def _tool(definition: ToolDefinition, strict: bool, output_schema: bool) -> JsonObject:
    tool = shown(definition, OPENAI, strict_schema if strict else None)
    made: JsonObject = {"type": "function", "name": wire_name(definition.name)}
    if tool.description:
        made["description"] = tool.description
    made |= {"parameters": tool.schema, "strict": tool.is_strict}
    promised = _promised(definition) if output_schema else None
    return made if promised is None else {**made, "output_schema": promised}


def _promised(definition: ToolDefinition) -> JsonObject | None:
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


def _output(found: list[str | content.Image]) -> str | list[JsonObject]:
    """Return texts as one text, and a list of parts where images are among them."""
    if any(content.images(found)):
        return [
            {"type": "input_text", "text": part}
            if isinstance(part, str)
            else {"type": "input_image", "image_url": part.url, "detail": "auto"}
            for part in found
        ]
    return "\n".join(content.texts(found))


def _sent(data: Any) -> Iterator[Sent]:
    for item in objects(data) or members(data, "output") or members(member(data, "response"), "output"):
        if item.get("type") == "function_call":
            yield _item(item)


def _item(item: JsonObject) -> Sent:
    return Sent(
        id=item.get("call_id"),
        name=item.get("name"),
        arguments=item.get("arguments"),
        provider=_besides(item),
        is_cut=item.get("status") == "incomplete",
    )


def _besides(item: JsonObject) -> JsonObject:
    return extras(item, "type", "call_id", "name", "arguments")


class EventReader:
    """Takes each call from the event that says that it is done; what was only begun is kept for the end.

    Of a host that tells of no single call, the calls are in the response with which the stream is over.
    """

    def __init__(self) -> None:
        """Begin with no call."""
        self._begun: dict[int | str | None, Pieces] = {}
        self._has_given = False

    def feed(self, event: Any) -> Iterator[Sent]:
        """Take an event."""
        if not isinstance(event, dict):
            return
        item, index = member(event, "item"), place(event, "output_index")
        is_call = item.get("type") == "function_call"
        if event.get("type") == "response.function_call_arguments.delta" and index in self._begun:
            self._begun[index].add(event.get("delta"))
        elif event.get("type") == "response.output_item.added" and is_call:
            self._begun[index] = Pieces(id=item.get("call_id"), name=item.get("name"), provider=_besides(item))
        elif event.get("type") == "response.output_item.done" and is_call:
            self._begun.pop(index, None)
            self._has_given = True
            yield _item(item)
        elif event.get("type") in _OVER and not self._has_given:
            yield from self._of_all(list(_sent(event)))

    def end(self) -> Iterator[Sent]:
        """Give what the stream broke off in."""
        for pieces in self._begun.values():
            yield pieces.sent(is_cut=True)

    def _of_all(self, found: list[Sent]) -> list[Sent]:
        if found:
            self._begun.clear()
        return found


stream = Stream(EventReader)
"""Read the events of a stream: `for call in stream(events)`, or `async for`."""
