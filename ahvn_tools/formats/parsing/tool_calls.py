"""Answers of a provider, read into calls, however a model has broken its arguments."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.formats.parsing import payload
from ahvn_tools.formats.parsing.raw_call import RawCall, Reader
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.names import index_by_wire_name
from ahvn_tools.results import ToolCall

TRUNCATED_CALL = "The call was cut off: the answer reached its length limit. Send it again, shorter."
INVALID_RESPONSE = "The answer is not JSON, so its calls cannot be read. Send it again."
MISSING_NAME = "The call names no tool. Send it again with the tool's name."
ARGUMENTS_NOT_OBJECT = "The arguments are not a JSON object. Send one object with the arguments by name."


def parse_calls(
    response: Any,
    extract_calls: Callable[[Any], Iterable[RawCall]],
    definitions: Iterable[ToolDefinition],
    make_reader: Callable[[], Reader],
) -> list[ToolCall]:
    """Return the calls that `find` sees in the answer's JSON. What cannot be read becomes a call with an `error`.

    The events of a whole stream (a list or an iterator of them, or their text) go through a `reader`. Raises TypeError
    for a `response` that is none of all this.
    """
    known = index_by_wire_name(definitions)
    try:
        data = payload.parse_payload(response)
    except (ValueError, RecursionError):
        return [ToolCall(id=make_call_id(), name="", error=INVALID_RESPONSE)]
    found = list(extract_calls(data))
    if not found and isinstance(data, list):
        found = _read_events(data, make_reader())
    return [to_tool_call(sent, known) for sent in found]


def to_tool_call(raw_call: RawCall, known: dict[str, ToolDefinition]) -> ToolCall:
    """Return the call as a value, under the tool's own name where it is among the `known`, by wire name.

    What its answer repeats can be sent: half a character is replaced.
    """
    wire = content.replace_surrogates(raw_call.name) if isinstance(raw_call.name, str) else ""
    arguments, error = ({}, raw_call.error) if raw_call.error else _parse_arguments(raw_call)
    return ToolCall(
        id=content.replace_surrogates(raw_call.id) if isinstance(raw_call.id, str) and raw_call.id else make_call_id(),
        name=known[wire].name if wire in known else wire,
        arguments=arguments,
        provider=content.to_json_data(raw_call.provider),
        error=error if wire else MISSING_NAME,
        wire_name=wire,
    )


def make_call_id() -> str:
    """Return an id for a call that came without one."""
    return f"call_{uuid.uuid4().hex[:24]}"


def _read_events(events: list[Any], reader: Reader) -> list[RawCall]:
    found = [sent for event in events for sent in reader.feed(event)]
    return [*found, *reader.end()]


def _parse_arguments(raw_call: RawCall) -> tuple[JsonObject, str | None]:
    """Return the arguments and no error, or none and what is wrong with them, without a word of what they hold."""
    value = raw_call.arguments
    if raw_call.is_truncated and not (isinstance(value, str) and value.strip()):
        return {}, TRUNCATED_CALL  # text shows whether it is whole; an object does not
    try:
        for _ in range(2):  # some models send the JSON text of a JSON text
            if isinstance(value, str):
                value = json.loads(value, strict=False) if value.strip() else None
    except (ValueError, RecursionError) as error:
        return {}, TRUNCATED_CALL if raw_call.is_truncated else _describe_json_error(error)
    if value is None:
        return {}, None
    return (value, None) if isinstance(value, dict) else ({}, ARGUMENTS_NOT_OBJECT)


def _describe_json_error(error: Exception) -> str:
    where = f" from character {error.pos + 1} on" if isinstance(error, json.JSONDecodeError) else ""
    return f"The arguments are not JSON{where}. Send one complete JSON object."
