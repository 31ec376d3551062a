"""Ollama's own chat, `/api/chat`. Its `/v1` speaks the format `openai`, and takes schemas whole."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats.parsing import tool_calls
from ahvn_tools.formats.parsing.raw_call import RawCall, filter_objects, get_object, get_objects, unread_fields
from ahvn_tools.formats.parsing.stream import StreamParser
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.names import CHOICE_MODES, index_by_wire_name, resolve_choice, wire_name
from ahvn_tools.formats.rendering.tool import export_tool
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialects.dialect import OLLAMA

_ALTERNATIVES = {
    "none": "Leave the tools out of the request.",
    "required": "Say in the prompt that a tool must be called.",
}
_IMAGE_SIGNATURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF")
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
    return [definition.memoize(_to_tool) for definition in index_by_wire_name(definitions).values()]


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in an answer, its message or its `tool_calls`: SDK object, dict, list, JSON text or bytes.

    The chunks of a whole stream will do, too; `stream` gives calls while they arrive. Ollama's SDK drops the ids that
    the server sends; such calls get ids of their own, for you alone.

    >>> calls({"message": {"tool_calls": [{"function": {"name": "ping", "arguments": {}}}]}})[0].name
    'ping'
    """
    return tool_calls.parse_calls(response, _extract_calls, definitions, ChunkReader)


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    """Return one `tool` message for each call, in the order of the calls: that and the name tell whose it is.

    - An error's text says that it is one: there is no flag.
    - Images are in their message, in base64.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="c1", name="add"), ToolResult(3))])
    [{'role': 'tool', 'tool_name': 'add', 'content': '3'}]
    """
    return [_to_message(call, content.to_parts_with_error_prefix(result)) for call, result in pairs]


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
    if isinstance(tools, str) and tools in CHOICE_MODES:
        raise ToolSpecError(f"Ollama has no choice {tools!r}. {_ALTERNATIVES[tools]}")
    names = resolve_choice(tools, definitions)
    raise ToolSpecError(f"Ollama cannot be asked for {' or '.join(map(repr, names))}. Export that alone.")


def _to_tool(definition: ToolDefinition) -> JsonObject:
    tool = export_tool(definition, OLLAMA)
    description = " ".join(filter(None, [tool.description, tool.schema.pop("description", "")]))
    said = {"description": description} if description else {}
    return {"type": "function", "function": {"name": wire_name(definition.name), **said, "parameters": tool.schema}}


def _to_message(call: ToolCall, parts: list[str | content.ImagePart]) -> JsonObject:
    said: list[str] = []
    images: list[str] = []
    for part in parts:
        if isinstance(part, str):
            said.append(part)
        elif data := _normalize_image_base64(part.data):
            images.append(data)
        else:
            said.append(f"[image ({part.media_type}), not shown]")
    name = call.wire_name or wire_name(call.name)
    made: JsonObject = {"role": "tool", "tool_name": name, "content": "\n".join(said)}
    return {**made, "images": images} if images else made


def _normalize_image_base64(data: str) -> str | None:
    """Return an image's base64 in its one form, or None for what is no image.

    Ollama's SDK takes text that names a file for that file: a remote tool must not choose what is read from the disk.
    """
    image = base64.b64decode(data)
    return base64.b64encode(image).decode() if image.startswith(_IMAGE_SIGNATURES) else None


def _extract_calls(data: Any) -> Iterator[RawCall]:
    message = get_object(data, "message") or data
    for item in filter_objects(message) or get_objects(message, "tool_calls"):
        if "function" in item:
            function = get_object(item, "function")
            yield RawCall(
                id=item.get("id"),
                name=function.get("name"),
                arguments=function.get("arguments"),
                provider=unread_fields(item, "id", "type", "function"),
            )


class ChunkReader:
    """Takes each call from the chunk that holds it: Ollama sends calls whole."""

    def feed(self, event: Any) -> Iterator[RawCall]:
        """Take a chunk."""
        if isinstance(event, dict):
            yield from _extract_calls(event)

    def end(self) -> Iterator[RawCall]:
        """Give nothing: no call waits."""
        yield from ()


stream = StreamParser(ChunkReader)
"""Read the chunks of a stream: `for call in stream(chunks)`, or `async for`."""
