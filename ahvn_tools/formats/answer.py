"""Answers of a provider, read into calls: whatever they come as, and however a model has broken its arguments."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.formats.names import by_wire_name
from ahvn_tools.formats.sent import Reader, Sent
from ahvn_tools.results import ToolCall

CUT_OFF = "The call was cut off: the answer reached its length limit. Send it again, shorter."
NO_ANSWER = "The answer is not JSON, so its calls cannot be read. Send it again."
NO_NAME = "The call names no tool. Send it again with the tool's name."
NO_OBJECT = "The arguments are not a JSON object. Send one object with the arguments by name."


def calls(
    response: Any,
    find: Callable[[Any], Iterable[Sent]],
    definitions: Iterable[ToolDefinition],
    reader: Callable[[], Reader],
) -> list[ToolCall]:
    """Return the calls that `find` sees in the answer's JSON. What cannot be read becomes a call with an `error`.

    The events of a whole stream (a list or an iterator of them, or their text) go through a `reader`. Raises TypeError
    for a `response` that is none of all this.
    """
    known = by_wire_name(definitions)
    try:
        data = _data(response)
    except (ValueError, RecursionError):
        return [ToolCall(id=made_id(), name="", error=NO_ANSWER)]
    found = list(find(data))
    if not found and isinstance(data, list):
        found = _from_events(data, reader())
    return [call(sent, known) for sent in found]


def call(sent: Sent, known: dict[str, ToolDefinition]) -> ToolCall:
    """Return the call as a value, under the tool's own name where it is among the `known`, by wire name."""
    wire = sent.name if isinstance(sent.name, str) else ""
    arguments, error = ({}, sent.error) if sent.error else _arguments(sent)
    return ToolCall(
        id=sent.id if isinstance(sent.id, str) and sent.id else made_id(),
        name=known[wire].name if wire in known else wire,
        arguments=arguments,
        provider=sent.provider,
        error=error if wire else NO_NAME,
        wire_name=wire,
    )


def plain(value: Any) -> Any:
    """Return a copy as JSON data; an SDK's objects (pydantic models all) are dumped wherever they stand."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, warnings=False)
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def made_id() -> str:
    """Return an id for a call that came without one."""
    return f"call_{uuid.uuid4().hex[:24]}"


def _data(response: Any) -> Any:
    """Return an answer as JSON data; a stream of events as the list of them."""
    if isinstance(response, str | bytes):
        return _parsed(response)
    if response is None or isinstance(response, dict | list | tuple) or hasattr(response, "model_dump"):
        return plain(response)
    if isinstance(response, Iterable):
        return [plain(event) for event in response]
    if isinstance(response, AsyncIterable):
        raise TypeError("An asynchronous stream is read with `async for call in FORMAT.stream(events, definitions)`.")
    raise TypeError(
        f"{type(response).__name__} is no answer. Pass the SDK's response object, its dict, or its JSON text."
    )


def _parsed(text: str | bytes) -> Any:
    """Return what JSON text holds; of server-sent events or of one JSON text a line, the list of them."""
    try:
        return json.loads(text, strict=False)
    except ValueError:
        lines = (text.decode() if isinstance(text, bytes) else text).splitlines()
        events = [line.removeprefix("data:").strip() for line in lines if line.startswith(("data:", "{"))]
        if not events:
            raise
        return [json.loads(event, strict=False) for event in events if event != "[DONE]"]


def _from_events(events: list[Any], reader: Reader) -> list[Sent]:
    found = [sent for event in events for sent in reader.feed(event)]
    return [*found, *reader.end()]


def _arguments(sent: Sent) -> tuple[JsonObject, str | None]:
    """Return the arguments and no error, or none and what is wrong with them, without a word of what they hold."""
    value = sent.arguments
    if sent.is_cut and not (isinstance(value, str) and value.strip()):
        return {}, CUT_OFF  # text shows whether it is whole; an object does not
    try:
        for _ in range(2):  # some models send the JSON text of a JSON text
            if isinstance(value, str):
                value = json.loads(value, strict=False) if value.strip() else None
    except (ValueError, RecursionError) as error:
        return {}, CUT_OFF if sent.is_cut else _unreadable(error)
    if value is None:
        return {}, None
    return (value, None) if isinstance(value, dict) else ({}, NO_OBJECT)


def _unreadable(error: Exception) -> str:
    where = f" from character {error.pos + 1} on" if isinstance(error, json.JSONDecodeError) else ""
    return f"The arguments are not JSON{where}. Send one complete JSON object."
