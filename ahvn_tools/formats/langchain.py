"""LangChain's messages: the calls of an AIMessage, results as ToolMessages, and tools as `bind_tools` takes them.

A message is LangChain's object, its fields as a dict, or what `message_to_dict` makes of it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats import anthropic, openai
from ahvn_tools.formats.continuation import Continuation, read_problem
from ahvn_tools.formats.json_data import filter_objects, get_object, get_objects, to_json_data
from ahvn_tools.formats.parsing.payload import read_field, read_items
from ahvn_tools.formats.parsing.tool_calls import TRUNCATED_CALL, RawCall, StreamParser, parse_calls
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.calls import clean_text, get_wire_name, to_writable
from ahvn_tools.formats.rendering.names import CHOICE_MODES, resolve_single_choice
from ahvn_tools.formats.turn import Model, Turn, Usage, client_function, read_answer, read_text
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import DIRECT, ToolCall, ToolResult

export = openai.export
"""Return the tools for a model's `bind_tools`, as the format `openai` does: LangChain converts them for each model."""

findings = openai.findings

FORMAT = "langchain"
SDK_MODULES = ("langchain_core.messages",)

_MODES = dict(zip(CHOICE_MODES, ("auto", "none", "any"), strict=True))
_SENT_FIELDS = ("id", "additional_kwargs", "response_metadata", "tool_calls", "invalid_tool_calls")
_CHUNK = "AIMessageChunk"
_MESSAGE_TYPES = ("ai", _CHUNK)
_CALL_TYPES = ("tool_call", "invalid_tool_call")
_REASON_KEYS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
_TRUNCATION_REASONS = ("length", "max_tokens", "model_length")
"""Why a response is truncated, in the words of the providers behind LangChain, in lower case."""


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in an AIMessage, or in its `tool_calls`: LangChain's object, dict, list, JSON text or bytes.

    - Of several messages, the last counts. The chunks of a complete stream are one message; `stream` yields calls while
      they arrive.
    - Invalid tool calls are read as well: one whose arguments are no JSON object has an `error`.

    >>> calls({"type": "ai", "content": "", "tool_calls": [{"id": "c1", "name": "ping", "args": {}}]})[0].name
    'ping'
    """
    return parse_calls(response, definitions, stream)


def continuation(response: Any) -> Continuation:
    """Return the container of Anthropic's message, whether Anthropic has paused, and whether calls were discarded.

    Of several messages, the last counts. The chunks of a stream are one message.

    >>> fields = {"type": "ai", "content": "", "response_metadata": {"stop_reason": "pause_turn"}}
    >>> continuation(fields).is_paused
    True
    """
    items = [_unwrap(item) if isinstance(item, dict) else item for item in read_items(response)]
    chunks = [item for item in items if read_field(item, "type") == _CHUNK]
    metadata = [read_field(item, "response_metadata") for item in chunks or items[-1:]]
    problem = read_problem(read_field(fields, key) for fields in metadata for key in _REASON_KEYS)
    return replace(anthropic.read_continuation(metadata), problem=problem)


def message(calls: Iterable[ToolCall], *, text: str | None = None) -> list[JsonObject]:
    """Return the fields of an AIMessage with this text and these calls; the inverse of `calls`.

    >>> from ahvn_tools import ToolCall
    >>> message([ToolCall(id="c1", name="add", arguments={"a": 1})])[0]["tool_calls"]
    [{'type': 'tool_call', 'id': 'c1', 'name': 'add', 'args': {'a': 1}}]
    """
    written, text = to_writable(calls, FORMAT), clean_text(text)
    if not written and text is None:
        return []
    items = [{"type": "tool_call", "id": call.id, "name": call.name, "args": call.arguments} for call in written]
    return [{"type": "ai", "content": text or "", "tool_calls": items}]


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    """Return the fields of one ToolMessage for each call, which LangChain and LangGraph accept in place of messages.

    - An error has the status "error".
    - Images are content blocks in their message. A program reads only text: a note replaces an image in the result of
      its call, and an error begins with "Error".
    - A value that is no text is the artifact, too: it is for programs, and LangChain sends it to no model.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="c1", name="add"), ToolResult("three"))])
    [{'type': 'tool', 'tool_call_id': 'c1', 'name': 'add', 'content': 'three', 'status': 'success'}]
    """
    return [_to_message(call, result) for call, result in content.to_readable(pairs)]


def turn(response: Any, calls: Sequence[ToolCall] = ()) -> Turn:  # noqa: ARG001  # as all formats
    """Return the model's turn of an AIMessage, LangChain's object or its fields, or of all chunks of a stream.

    >>> turn({"type": "ai", "content": "Hello!"}).messages
    [{'type': 'ai', 'content': 'Hello!'}]
    """
    if isinstance(response, list) and response:
        response = functools.reduce(operator.add, response)  # chunks make one message together
    fields = _unwrap(read_answer(response)[0])
    sent = {key: value for key, value in fields.items() if key in _SENT_FIELDS and value}
    usage = Usage.read(
        fields.get("usage_metadata"),
        inputs=["input_tokens"],
        outputs=["output_tokens"],
        cached=["input_token_details", "cache_read"],
    )
    message = {**sent, "type": "ai", "content": fields.get("content") or ""}
    return Turn(messages=[message], text=read_text(message), usage=usage)


def add_user_text(messages: Sequence[Any], text: str) -> list[Any]:
    """Return the messages with a text of the user at the end."""
    return [*messages, {"type": "human", "content": text}]


def model(chat_model: Any, *, stream: bool = False, export: Mapping[str, Any] | None = None, **options: Any) -> Model:
    """Return a chat model of LangChain, for `Toolkit.converse` and `aconverse`.

    `options` are those of its `bind_tools`, `export` those of `export`.
    """
    client_function(chat_model, "invoke")

    def bind(tools: Sequence[JsonObject]) -> Any:
        return chat_model.bind_tools(tools, **options) if tools else chat_model

    def send(messages: list[Any], tools: Sequence[JsonObject]) -> Any:
        return bind(tools).stream(messages) if stream else bind(tools).invoke(messages)

    async def asend(messages: list[Any], tools: Sequence[JsonObject]) -> Any:
        return bind(tools).astream(messages) if stream else await bind(tools).ainvoke(messages)

    return Model(
        format=FORMAT,
        send=send,
        asend=asend,
        request=lambda messages, tools: {"messages": messages, "tools": tools},
        export=export or {},
    )


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return `tool_choice`, and `parallel_tool_calls` unless `parallel` is None, as arguments of `bind_tools`.

    A name, or a list with one name, forces that tool. Raises ToolSpecError for several names, for which LangChain has
    no option. With `definitions`, an unknown name is a ToolLookupError.

    >>> choice("required")
    {'tool_choice': 'any'}
    """
    extra = {} if parallel is None else {"parallel_tool_calls": parallel}
    if isinstance(tools, str) and tools in CHOICE_MODES:
        return {"tool_choice": _MODES[tools], **extra}
    return {"tool_choice": resolve_single_choice("LangChain", tools, definitions), **extra}


def looks_like(data: Any) -> bool:
    """Return whether JSON data looks like an AIMessage, a list of messages that ends in one, or the chunks of a stream.

    >>> looks_like({"type": "ai", "content": "Hello!"})
    True
    """
    if not isinstance(data, list):
        return isinstance(data, dict) and (_is_message(_unwrap(data)) or _is_call(data))
    items = filter_objects(data)
    return bool(items) and (any(map(_is_chunk, items)) or looks_like(items[-1]))


def to_content(result: ToolResult) -> str | list[JsonObject]:
    """Return what a model reads of a result: a text, or LangChain's content blocks if there are images."""
    return _to_content(content.to_parts(result))


def _to_content(parts: list[str | content.ImagePart]) -> str | list[JsonObject]:
    return list(map(_to_block, parts)) if content.get_images(parts) else content.join_texts(parts)


def _to_message(call: ToolCall, result: ToolResult) -> JsonObject:
    parts = content.to_parts(result) if call.caller == DIRECT else content.to_program_parts(result)
    fields: JsonObject = {
        "type": "tool",
        "tool_call_id": call.id,
        "name": get_wire_name(call),
        "content": _to_content(parts),
        "status": "error" if result.is_error else "success",
    }
    return {**fields, "artifact": to_json_data(result.value)} if _has_artifact(result) else fields


def _has_artifact(result: ToolResult) -> bool:
    """Return whether the value is JSON data that is more than the text or the blocks of the content."""
    if result.is_raw:  # what `render` hides is not for programs of other processes
        return False
    is_content = result.blocks is not None and result.structured_content is None
    return isinstance(result.value, dict | list | int | float) and not is_content and not result.is_error


def _to_block(part: str | content.ImagePart) -> JsonObject:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image", "base64": part.data, "mime_type": part.media_type}


def _unwrap(item: JsonObject) -> JsonObject:
    """Return the fields of a message that LangChain has serialized in either of its ways; others unchanged."""
    return get_object(item, "kwargs") if item.get("type") == "constructor" else get_object(item, "data") or item


def _is_message(fields: JsonObject) -> bool:
    return fields.get("type") in _MESSAGE_TYPES and "content" in fields


def _is_chunk(item: JsonObject) -> bool:
    return _unwrap(item).get("type") == _CHUNK


def _is_call(item: JsonObject) -> bool:
    return item.get("type") in _CALL_TYPES and "args" in item


def _get_calls(fields: JsonObject) -> list[JsonObject]:
    """Return the calls of a message in the order of its content, which the two lists of calls do not keep."""
    blocks = get_objects(fields, "content")
    items = [*get_objects(fields, "tool_calls"), *get_objects(fields, "invalid_tool_calls")]
    order = [block["id"] for block in blocks if isinstance(block.get("id"), str)]
    found = [item for item in items if "args" in item] or list(filter(_is_call, blocks))
    return sorted(found, key=lambda item: order.index(item["id"]) if item.get("id") in order else len(order))


def _finish_reason(fields: JsonObject) -> str | None:
    """Return "length" for a truncated message, "stop" for another complete one, None for a chunk before the end."""
    metadata = get_object(fields, "response_metadata")
    reasons = [str(metadata[key]).lower() for key in _REASON_KEYS if metadata.get(key)]
    if any(reason in _TRUNCATION_REASONS for reason in reasons):
        return "length"
    return "stop" if reasons or fields.get("chunk_position") == "last" else None


def _to_delta(item: JsonObject, provider: JsonObject) -> JsonObject:
    """Return a fragment of a call as OpenAI writes it."""
    function = {"name": item.get("name"), "arguments": item.get("args")}
    return {**provider, "index": item.get("index"), "id": item.get("id"), "type": "function", "function": function}


def _get_callers(fields: JsonObject) -> dict[str, JsonObject]:
    """Return the caller of each call, by its id, as provider data: only the blocks of the content have it."""
    found: dict[str, JsonObject] = {}
    for block in [*get_objects(fields, "content"), *get_objects(fields, "tool_calls")]:
        caller = block["caller"] if block.get("caller") is not None else get_object(block, "extras").get("caller")
        if caller is not None:
            found |= {str(block[key]): {"caller": caller} for key in ("id", "call_id") if block.get(key) is not None}
    return found


class MessageReader(openai.ResponseReader):
    """Reads messages, and collects the calls in the chunks of a stream as OpenAI's reader does."""

    def extract(self, data: Any) -> Iterator[RawCall]:
        """Yield the calls in a message, in the last of several, or in `tool_calls`; none in the chunks of a stream."""
        if isinstance(data, list):
            items = filter_objects(data)
            if not items or (len(items) > 1 and any(map(_is_chunk, items))):
                return
            data = {"tool_calls": items} if all(map(_is_call, items)) else items[-1]
        fields = _unwrap(data) if isinstance(data, dict) else {}
        if _is_call(fields):
            fields = {"tool_calls": [fields]}
        # the text of a chunk's calls shows whether they are complete: its `tool_calls` are completed by LangChain
        found, callers = get_objects(fields, "tool_call_chunks") or _get_calls(fields), _get_callers(fields)
        for item in found:
            provider = callers.get(str(item.get("id")), {})
            is_truncated = item is found[-1] and _finish_reason(fields) == "length"
            yield _to_raw_call(item, provider, cut_off=TRUNCATED_CALL if is_truncated else None)

    def feed(self, event: Any) -> Iterator[RawCall]:
        """Read a chunk. Other messages in a list are earlier ones, whose calls have been answered."""
        fields = _unwrap(event) if isinstance(event, dict) else {}
        if fields.get("type") != _CHUNK:
            return
        items, callers = get_objects(fields, "tool_call_chunks"), _get_callers(fields)
        deltas = [_to_delta(item, callers.get(str(item.get("id")), {})) for item in items]
        choice = {"delta": {"tool_calls": deltas}, "finish_reason": _finish_reason(fields)}
        yield from super().feed({"choices": [choice]})


def _to_raw_call(item: JsonObject, provider: JsonObject, *, cut_off: str | None) -> RawCall:
    return RawCall(
        id=item.get("id"),
        name=item.get("name"),
        arguments=item.get("args"),
        provider=provider,
        cut_off=cut_off,
    )


stream = StreamParser(MessageReader, needs_definitions=True, format=FORMAT)
"""Parse the chunks of a stream: `for call in stream(model.stream(…))`, or `async for`."""
