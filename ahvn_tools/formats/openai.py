"""OpenAI's Chat Completions, as OpenAI and the many hosts that speak like it take them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.formats import answer, content
from ahvn_tools.formats.names import CHOICES, by_wire_name, chosen, wire_name
from ahvn_tools.formats.sent import Pieces, Sent, extras, member, members, place
from ahvn_tools.formats.stream import Stream
from ahvn_tools.formats.tool import shown
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialect import OPENAI
from ahvn_tools.schema.strict import strict as strict_schema

_CUT = ("length", "model_length")
"""Why an answer ended for want of room; the second is Mistral's, for the room of the model itself."""


def export(definitions: Iterable[ToolDefinition], *, strict: bool = False) -> list[JsonObject]:
    """Return the tools for a request's `tools`.

    - The root of a schema is one object: choices at the top are merged, and told in the description.
    - `strict`: optional arguments become nullable and required, objects are closed. A schema that would change its
      meaning so goes out as it is, with `"strict": False`.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping", description="Is it there?")])[0]["function"]["name"]
    'ping'
    """
    return [definition.kept(_tool, strict) for definition in by_wire_name(definitions).values()]


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in an answer, its message or its `tool_calls`: SDK object, dict, list, JSON text or bytes.

    The chunks of a whole stream will do, too; `stream` gives calls while they arrive. Of several choices, the first
    that holds calls counts. Calls of custom tools are not ours and left out.

    >>> calls({"tool_calls": [{"id": "c1", "function": {"name": "ping", "arguments": ""}}]})[0].name
    'ping'
    """
    return answer.calls(response, found, definitions, ChunkReader)


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


def _tool(definition: ToolDefinition, strict: bool) -> JsonObject:
    tool = shown(definition, OPENAI, strict_schema if strict else None)
    function: JsonObject = {"name": wire_name(definition.name)}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.schema
    if strict:
        function["strict"] = tool.is_strict
    return {"type": "function", "function": function}


def found(data: Any) -> Iterator[Sent]:
    """Yield the calls as they stand in an answer, its message or its `tool_calls`."""
    message = {"tool_calls": data} if isinstance(data, list) else data
    for choice in [*members(data, "choices"), {"message": message}]:
        items = members(choice.get("message"), "tool_calls")
        if not items:
            continue
        for item in items:
            if _is_ours(item):
                is_cut = choice.get("finish_reason") in _CUT and item is items[-1]
                yield _item(item, is_cut=is_cut)
        return


def _is_ours(item: JsonObject) -> bool:
    """Tell whether an item calls a function; some hosts leave the type out."""
    kind = item.get("type")
    return kind == "function" or (not kind and "function" in item)


def _item(item: JsonObject, *, is_cut: bool) -> Sent:
    function = member(item, "function")
    return Sent(
        id=item.get("id"),
        name=function.get("name"),
        arguments=function.get("arguments"),
        provider=extras(item, "id", "type", "index", "function"),
        is_cut=is_cut,
    )


class ChunkReader:
    """Gathers the deltas of a stream's first choice that calls: id and name come first, arguments in pieces.

    A call is whole when the next one begins and its arguments are, or when the choice is finished.
    """

    def __init__(self) -> None:
        """Begin with no call."""
        self._begun: dict[int | str | None, Pieces] = {}
        self._open: dict[Pieces, None] = {}
        self._last: Pieces | None = None
        self._choice: Any = None

    def feed(self, event: Any) -> Iterator[Sent]:
        """Take a chunk, or an event of the SDK's helper, which has the chunk inside."""
        for choice in members(member(event, "chunk") or event, "choices"):
            deltas = members(choice.get("delta"), "tool_calls")
            if deltas and self._choice is None:
                self._choice = choice.get("index", 0)
            if choice.get("index", 0) != self._choice:
                continue
            for delta in deltas:
                yield from self._take(delta)
            if choice.get("finish_reason"):
                yield from self._finish(is_cut=choice["finish_reason"] in _CUT)

    def end(self) -> Iterator[Sent]:
        """Give what the stream broke off in."""
        yield from self._finish(is_cut=True)

    def _take(self, delta: JsonObject) -> Iterator[Sent]:
        index = place({"index": 0, **delta}, "index")
        pieces = self._begun.get(index)
        if pieces is None or _is_another(pieces, delta):
            if not _is_ours(delta):
                return
            yield from self._whole()
            pieces = self._begun[index] = Pieces(id=None, name=None)
            self._open[pieces] = None
        if pieces in self._open:  # else it was given, and a host says part of it again
            _add(pieces, delta)
            self._last = pieces

    def _whole(self) -> Iterator[Sent]:
        """Give the call that the last delta was for, when it is whole."""
        if self._last in self._open and self._last.is_whole():
            del self._open[self._last]
            yield self._last.sent()

    def _finish(self, *, is_cut: bool) -> Iterator[Sent]:
        calls, self._open = list(self._open), {}
        for pieces in calls:
            yield pieces.sent(is_cut=is_cut and pieces is calls[-1])


def _is_another(pieces: Pieces, delta: JsonObject) -> bool:
    """Tell whether a host begins a second call under the index of one that has its name."""
    function = member(delta, "function")
    if not function.get("name") or not pieces.name:
        return False
    if delta.get("id"):
        return bool(delta["id"] != pieces.id)
    return bool(function.get("arguments")) and pieces.is_whole()


def _add(pieces: Pieces, delta: JsonObject) -> None:
    function = member(delta, "function")
    pieces.id = pieces.id or delta.get("id")
    pieces.name = pieces.name or function.get("name")
    pieces.provider |= extras(delta, "id", "type", "index", "function")
    pieces.add(function.get("arguments"))


stream = Stream(ChunkReader)
"""Read the chunks of a stream: `for call in stream(chunks)`, or `async for`."""
