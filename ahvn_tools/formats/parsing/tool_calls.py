"""Tool calls from a provider's response, checked: broken arguments become an error that the model can act on."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats.json_data import replace_surrogates, to_json_data
from ahvn_tools.formats.parsing.payload import parse_payload
from ahvn_tools.formats.parsing.raw_call import RawCall, Reader
from ahvn_tools.formats.rendering.names import index_by_wire_name
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolCall

TRUNCATED_CALL = "The call was cut off because the response reached its length limit. Send a shorter call."
INVALID_RESPONSE = "The response is not valid JSON, so its calls cannot be read. Send it again."
MISSING_NAME = "The call does not name a tool. Send it again with the name of the tool."
ARGUMENTS_NOT_OBJECT = "The arguments are not a JSON object. Send one JSON object with the arguments by name."


def parse_calls(
    response: Any,
    extract_calls: Callable[[Any], Iterable[RawCall]],
    definitions: Iterable[ToolDefinition],
    make_reader: Callable[[], Reader],
) -> list[ToolCall]:
    """Return the calls that `extract_calls` finds in the JSON of a response; unreadable calls have an `error`.

    A list in which it finds none is read as the events of a stream. Raises TypeError for a `response` that is no
    response, text or stream.
    """
    known = index_by_wire_name(definitions)
    try:
        data = parse_payload(response)
    except (ValueError, RecursionError):
        return [ToolCall(id=_make_call_id(), name="", error=INVALID_RESPONSE)]
    raw_calls = list(extract_calls(data))
    if not raw_calls and isinstance(data, list):
        reader = make_reader()
        raw_calls = [raw_call for event in data for raw_call in reader.feed(event)]
        raw_calls += reader.end()
    return [to_tool_call(raw_call, known) for raw_call in raw_calls]


def to_tool_call(raw_call: RawCall, known: dict[str, ToolDefinition]) -> ToolCall:
    """Return the checked call, under the tool's own name if the tool is among `known`, by wire name.

    Its id, name and provider data can be sent back: lone surrogates are replaced.
    """
    wire = replace_surrogates(raw_call.name) if isinstance(raw_call.name, str) else ""
    arguments, error = ({}, raw_call.error) if raw_call.error else _parse_arguments(raw_call)
    return ToolCall(
        id=replace_surrogates(raw_call.id) if isinstance(raw_call.id, str) and raw_call.id else _make_call_id(),
        name=known[wire].name if wire in known else wire,
        arguments=arguments,
        provider=to_json_data(raw_call.provider),
        error=error if wire else MISSING_NAME,
        wire_name=wire,
    )


def _make_call_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


def _parse_arguments(raw_call: RawCall) -> tuple[JsonObject, str | None]:
    """Return the arguments and None, or an empty object and an error that quotes none of them."""
    value = raw_call.arguments
    if raw_call.is_truncated and not (isinstance(value, str) and value.strip()):
        return {}, TRUNCATED_CALL  # text shows whether it is complete; an object does not
    try:
        for _ in range(2):  # some models encode the JSON text as JSON again
            if isinstance(value, str):
                value = json.loads(value, strict=False) if value.strip() else None
    except (ValueError, RecursionError) as error:
        return {}, TRUNCATED_CALL if raw_call.is_truncated else _describe_json_error(error)
    if value is None:
        return {}, None
    return (value, None) if isinstance(value, dict) else ({}, ARGUMENTS_NOT_OBJECT)


def _describe_json_error(error: Exception) -> str:
    position = f" (error at character {error.pos + 1})" if isinstance(error, json.JSONDecodeError) else ""
    return f"The arguments are not valid JSON{position}. Send one complete JSON object."
