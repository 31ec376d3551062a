"""OpenAI's Chat Completions, as OpenAI and the many hosts that speak like it take them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.formats import answer, content
from ahvn_tools.formats.names import CHOICES, by_wire_name, chosen
from ahvn_tools.formats.tool import described
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.strict import strict as strict_schema


def export(definitions: Iterable[ToolDefinition], *, strict: bool = False) -> list[JsonObject]:
    """Return the tools for a request's `tools`.

    - The root of a schema is one object: choices at the top are merged, and told in the description.
    - `strict`: optional arguments become nullable and required, objects are closed. A schema that would change its
      meaning so goes out as it is, with `"strict": False`.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping", description="Is it there?")])[0]["function"]["name"]
    'ping'
    """
    return [
        {"type": "function", "function": _function(name, definition, strict)}
        for name, definition in by_wire_name(definitions).items()
    ]


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in an answer, its message or its `tool_calls`: SDK object, dict, list, JSON text or bytes.

    Of several choices, the first that holds calls counts. Calls of custom tools are not ours and left out.

    >>> calls({"tool_calls": [{"id": "c1", "function": {"name": "ping", "arguments": ""}}]})[0].name
    'ping'
    """
    return answer.calls(response, _sent, definitions)


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
        found = content.marked(result)
        pictures = [{"type": "image_url", "image_url": {"url": image.url}} for image in content.images(found)]
        said = list(content.texts(found))
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
    if isinstance(tools, str) and tools in CHOICES:
        return {"tool_choice": tools, **extra}
    named = [{"type": "function", "function": {"name": name}} for name in chosen(tools, definitions)]
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": named}}
    return {"tool_choice": named[0] if isinstance(tools, str) else allowed, **extra}


def _function(name: str, definition: ToolDefinition, strict: bool) -> JsonObject:
    parameters, description, is_strict = described(definition, strict_schema if strict else None)
    function: JsonObject = {"name": name, "description": description, "parameters": parameters}
    if not description:
        del function["description"]
    return {**function, "strict": is_strict} if strict else function


def _sent(data: Any) -> Iterator[answer.Sent]:
    message = {"tool_calls": data} if isinstance(data, list) else data
    for choice in [*answer.members(data, "choices"), {"message": message}]:
        items = answer.members(choice.get("message"), "tool_calls")
        if not items:
            continue
        for item in items:
            if _is_ours(item):
                is_cut = choice.get("finish_reason") == "length" and item is items[-1]
                yield _item(item, is_cut=is_cut)
        return


def _is_ours(item: JsonObject) -> bool:
    """Tell whether an item calls a function; some hosts leave the type out."""
    kind = item.get("type")
    return kind == "function" or (kind is None and "function" in item)


def _item(item: JsonObject, *, is_cut: bool) -> answer.Sent:
    function = item.get("function")
    said = function if isinstance(function, dict) else {}
    return answer.Sent(
        id=item.get("id"),
        name=said.get("name"),
        arguments=said.get("arguments"),
        provider=answer.extras(item, "id", "type", "index", "function"),
        is_cut=is_cut,
    )
