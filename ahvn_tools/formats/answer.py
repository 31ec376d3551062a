"""Answers of a provider, read into calls, however a model has broken its arguments."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.formats import content, received
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
        data = received.data(response)
    except (ValueError, RecursionError):
        return [ToolCall(id=made_id(), name="", error=NO_ANSWER)]
    found = list(find(data))
    if not found and isinstance(data, list):
        found = _from_events(data, reader())
    return [call(sent, known) for sent in found]


def call(sent: Sent, known: dict[str, ToolDefinition]) -> ToolCall:
    """Return the call as a value, under the tool's own name where it is among the `known`, by wire name.

    What its answer repeats can be sent: half a character is replaced.
    """
    wire = content.whole(sent.name) if isinstance(sent.name, str) else ""
    arguments, error = ({}, sent.error) if sent.error else _arguments(sent)
    return ToolCall(
        id=content.whole(sent.id) if isinstance(sent.id, str) and sent.id else made_id(),
        name=known[wire].name if wire in known else wire,
        arguments=arguments,
        provider=content.data(sent.provider),
        error=error if wire else NO_NAME,
        wire_name=wire,
    )


def made_id() -> str:
    """Return an id for a call that came without one."""
    return f"call_{uuid.uuid4().hex[:24]}"


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
