"""Ollama's own chat, `/api/chat`. Its `/v1` speaks the format `openai`, and takes schemas whole."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats import answer, content
from ahvn_tools.formats.names import CHOICES, by_wire_name, chosen, wire_name
from ahvn_tools.formats.sent import Sent, extras, member, members, objects
from ahvn_tools.formats.stream import Stream
from ahvn_tools.formats.tool import shown
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialect import OLLAMA

_INSTEAD = {
    "none": "Leave the tools out of the request.",
    "required": "Say in the prompt that a tool must be called.",
}
_BEGINNINGS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF")
"""How the images that providers read begin: PNG, JPEG, GIF, WebP."""


def export(definitions: Iterable[ToolDefinition], *, strict: bool = False) -> list[JsonObject]:  # noqa: ARG001  # the room's
    """Return the tools for a request's `tools`.

    - The root of a schema is one object: choices at the top are merged, and told in the description.
    - Ollama's SDK deletes most of a schema without a word. What it would delete is told in the descriptions.
    - `strict` changes nothing: Ollama has no strict tools.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping", description="Is it there?")])[0]["function"]["name"]
    'ping'
    """
    return [definition.kept(_tool) for definition in by_wire_name(definitions).values()]


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in an answer, its message or its `tool_calls`: SDK object, dict, list, JSON text or bytes.

    The chunks of a whole stream will do, too; `stream` gives calls while they arrive. Ollama's SDK drops the ids that
    the server sends; such calls get ids of their own, for you alone.

    >>> calls({"message": {"tool_calls": [{"function": {"name": "ping", "arguments": {}}}]}})[0].name
    'ping'
    """
    return answer.calls(response, _sent, definitions, ChunkReader)


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    """Return one `tool` message for each call, in the order of the calls: that and the name tell whose it is.

    - An error's text says that it is one: there is no flag.
    - Images are in their message, in base64.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="c1", name="add"), ToolResult(3))])
    [{'role': 'tool', 'tool_name': 'add', 'content': '3'}]
    """
    return [_message(call, content.marked(result)) for call, result in pairs]


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return no fields for `"auto"`. Raises ToolSpecError for all else: Ollama cannot be asked for it.

    With `definitions`, an unknown name is a ToolLookupError.

    >>> choice("auto")
    {}
    """
    if parallel is False:
        raise ToolSpecError("Ollama cannot be asked for one call at a time. Leave `parallel` out.")
    if tools == "auto":
        return {}
    if isinstance(tools, str) and tools in CHOICES:
        raise ToolSpecError(f"Ollama has no choice {tools!r}. {_INSTEAD[tools]}")
    names = chosen(tools, definitions)
    raise ToolSpecError(f"Ollama cannot be asked for {' or '.join(map(repr, names))}. Export that alone.")


def _tool(definition: ToolDefinition) -> JsonObject:
    tool = shown(definition, OLLAMA)
    description = " ".join(filter(None, [tool.description, tool.schema.pop("description", "")]))
    said = {"description": description} if description else {}
    return {"type": "function", "function": {"name": wire_name(definition.name), **said, "parameters": tool.schema}}


def _message(call: ToolCall, found: list[str | content.Image]) -> JsonObject:
    said: list[str] = []
    images: list[str] = []
    for part in found:
        if isinstance(part, str):
            said.append(part)
        elif data := _canonical(part.data):
            images.append(data)
        else:
            said.append(f"[image ({part.media_type}), not shown]")
    name = call.wire_name or wire_name(call.name)
    made: JsonObject = {"role": "tool", "tool_name": name, "content": "\n".join(said)}
    return {**made, "images": images} if images else made


def _canonical(data: str) -> str | None:
    """Return an image's base64 in its one form, or None for what is no image.

    Ollama's SDK takes text that names a file for that file: a remote tool must not choose what is read from the disk.
    """
    image = base64.b64decode(data)
    return base64.b64encode(image).decode() if image.startswith(_BEGINNINGS) else None


def _sent(data: Any) -> Iterator[Sent]:
    message = member(data, "message") or data
    for item in objects(message) or members(message, "tool_calls"):
        if "function" in item:
            function = member(item, "function")
            yield Sent(
                id=item.get("id"),
                name=function.get("name"),
                arguments=function.get("arguments"),
                provider=extras(item, "id", "type", "function"),
            )


class ChunkReader:
    """Takes each call from the chunk that holds it: Ollama sends calls whole."""

    def feed(self, event: Any) -> Iterator[Sent]:
        """Take a chunk."""
        if isinstance(event, dict):
            yield from _sent(event)

    def end(self) -> Iterator[Sent]:
        """Give nothing: no call waits."""
        yield from ()


stream = Stream(ChunkReader)
"""Read the chunks of a stream: `for call in stream(chunks)`, or `async for`."""
