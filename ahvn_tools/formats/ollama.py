"""Ollama's own chat API, `/api/chat`. For its `/v1` API use the format `openai`, which accepts whole schemas."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats import openai
from ahvn_tools.formats.json_data import filter_objects, get_object, get_objects, to_objects
from ahvn_tools.formats.parsing.tool_calls import RawCall, Reader, StreamParser, parse_calls
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.calls import clean_text, get_wire_name, to_writable
from ahvn_tools.formats.rendering.names import CHOICE_MODES, resolve_choice, wire_name
from ahvn_tools.formats.rendering.tool_exporter import ToolExporter, export_all
from ahvn_tools.formats.turn import Model, Turn, Usage, client_function, merge_deltas, read_answer
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialects.dialect import OLLAMA

FORMAT = "ollama"
SDK_MODULES = ("ollama",)

_EXPORTER = ToolExporter(OLLAMA)
findings = _EXPORTER.findings

_ALTERNATIVES = {
    "none": "Leave the tools out of the request.",
    "required": "Say in the prompt that a tool must be called.",
}
_IMAGE_SIGNATURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF")
"""The first bytes of PNG, JPEG, GIF and WebP."""


def export(definitions: Iterable[ToolDefinition], *, strict: bool = False) -> list[JsonObject]:  # noqa: ARG001  # as all formats
    """Return the tools for a request's `tools`.

    - The root of a schema is one plain object: alternatives are merged, and the description states the rule.
    - Ollama's SDK silently deletes most keywords of a schema. The descriptions state what it deletes.
    - `strict` has no effect: Ollama has no strict tools.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping", description="Is it there?")])[0]["function"]["name"]
    'ping'
    """
    return export_all(definitions, _to_tool)


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in a response, its message or its `tool_calls`: SDK object, dict, list, JSON text or bytes.

    The chunks of a complete stream are accepted too; `stream` yields calls while they arrive. Ollama's SDK drops the
    ids that the server sends; such calls get new ids, which the server does not know.

    >>> calls({"message": {"tool_calls": [{"function": {"name": "ping", "arguments": {}}}]}})[0].name
    'ping'
    """
    return parse_calls(response, definitions, stream)


def message(calls: Iterable[ToolCall], *, text: str | None = None) -> list[JsonObject]:
    """Return the model's message with this text and these calls; the inverse of `calls`. Ollama's SDK drops the ids.

    >>> from ahvn_tools import ToolCall
    >>> message([ToolCall(id="c1", name="add", arguments={"a": 1})])[0]["tool_calls"]
    [{'id': 'c1', 'function': {'name': 'add', 'arguments': {'a': 1}}}]
    """
    written, text = to_writable(calls, FORMAT), clean_text(text)
    if not written and text is None:
        return []
    fields: JsonObject = {"role": "assistant", "content": text or ""}
    return [{**fields, "tool_calls": list(map(_to_item, written))} if written else fields]


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    """Return one `tool` message for each call, in the order of the calls: order and name identify the call.

    - The text of an error begins with "Error", because there is no flag for it.
    - Images are in the message of their result, in base64.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="c1", name="add"), ToolResult(3))])
    [{'role': 'tool', 'tool_name': 'add', 'content': '3'}]
    """
    return [
        _to_message(call, content.to_parts_with_error_prefix(result)) for call, result in content.to_readable(pairs)
    ]


def turn(response: Any, calls: Sequence[ToolCall] = ()) -> Turn:
    """Return the model's turn of a response, its message, or all chunks of a stream. `calls` are those in it.

    >>> turn({"message": {"role": "assistant", "content": "Hello!"}, "done": True}).messages
    [{'role': 'assistant', 'content': 'Hello!'}]
    """
    data, events = read_answer(response)
    fields = merge_deltas([get_object(event, "message") for event in events], "tool_calls")
    if not events:
        fields = get_object(data, "message") or data
    usage = Usage.read(events[-1] if events else data, inputs=["prompt_eval_count"], outputs=["eval_count"])
    return openai.to_turn({**fields, "content": fields.get("content") or ""}, message(calls), usage)


def model(
    client: Any, *, model: str, stream: bool = False, export: Mapping[str, Any] | None = None, **options: Any
) -> Model:
    """Return the model behind a Client or AsyncClient, for `Toolkit.converse`.

    `options` are those of `client.chat`; its `tools` are sent beside those of the toolkit. `export` are the options of
    `export`.
    """
    options = {"model": model, "stream": stream, **options}
    return Model.of_client(FORMAT, client_function(client, "chat"), options, export=export)


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return no fields for `"auto"`. Raises ToolSpecError for any other choice, because Ollama has no option for it.

    With `definitions`, an unknown name is a ToolLookupError.

    >>> choice("auto")
    {}
    """
    if parallel is False:
        raise ToolSpecError("Ollama has no option for one call at a time. Leave `parallel` out.")
    if tools == "auto":
        return {}
    if isinstance(tools, str) and tools in CHOICE_MODES:
        raise ToolSpecError(f"Ollama has no choice {tools!r}. {_ALTERNATIVES[tools]}")
    names = " or ".join(map(repr, resolve_choice(tools, definitions)))
    raise ToolSpecError(f"Ollama has no option that forces {names}. Export only that tool.")


def looks_like(data: Any) -> bool:
    """Return whether JSON data looks like a response, its message or its `tool_calls`, or the chunks of a stream.

    The arguments of calls are objects.

    >>> looks_like({"model": "qwen3", "message": {"role": "assistant", "content": "Hello!"}, "done": True})
    True
    """
    return any(map(_is_answer, to_objects(data)))


def _is_answer(item: JsonObject) -> bool:
    message = get_object(item, "message") if "done" in item else item
    return openai.is_message(message, dict) or openai.has_arguments(message, dict)


def _to_tool(definition: ToolDefinition) -> JsonObject:
    tool = _EXPORTER.export(definition)
    function: JsonObject = {"name": wire_name(definition.name)}
    if description := " ".join(filter(None, [tool.description, tool.schema.pop("description", "")])):
        function["description"] = description
    return {"type": "function", "function": {**function, "parameters": tool.schema}}


def _to_item(call: ToolCall) -> JsonObject:
    return {**call.provider, "id": call.id, "function": {"name": call.name, "arguments": call.arguments}}


def _to_message(call: ToolCall, parts: list[str | content.ImagePart]) -> JsonObject:
    texts: list[str] = []
    images: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif data := _normalize_image_base64(part.data):
            images.append(data)
        else:
            texts.append(part.note)
    message: JsonObject = {"role": "tool", "tool_name": get_wire_name(call), "content": "\n".join(texts)}
    return {**message, "images": images} if images else message


def _normalize_image_base64(data: str) -> str | None:
    """Return an image's base64 in canonical form, or None if the data is no image.

    Ollama's SDK reads a file if a text is the name of one: a remote tool must not choose which file is read.
    """
    image = base64.b64decode(data)
    return base64.b64encode(image).decode() if image.startswith(_IMAGE_SIGNATURES) else None


class ResponseReader(Reader):
    """Reads responses and the chunks of streams, which contain complete calls."""

    def extract(self, data: Any) -> Iterator[RawCall]:
        """Yield the calls in a response, its message or its `tool_calls`."""
        message = get_object(data, "message") or data
        for item in filter_objects(message) or get_objects(message, "tool_calls"):
            if "function" in item:
                yield openai.to_raw_call(item)


stream = StreamParser(ResponseReader, format=FORMAT)
"""Parse the chunks of a stream: `for call in stream(chunks)`, or `async for`."""
