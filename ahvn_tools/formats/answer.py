"""Answers of a provider, read into calls: whatever they come as, and however a model has broken its arguments."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.formats.names import by_wire_name
from ahvn_tools.results import ToolCall

CUT_OFF = "The call was cut off: the answer reached its length limit. Send it again, shorter."
NO_ANSWER = "The answer is not JSON, so its calls cannot be read. Send it again."
NO_NAME = "The call names no tool. Send it again with the tool's name."
NO_OBJECT = "The arguments are not a JSON object. Send one object with the arguments by name."


@dataclass(frozen=True, kw_only=True)
class Sent:
    """One call as it stands in an answer."""

    id: Any
    name: Any
    arguments: Any
    """An object, JSON text, or nothing at all."""
    provider: JsonObject = field(default_factory=dict)
    is_cut: bool = False
    """Whether the answer ended in this call for want of room."""


def calls(
    response: Any, find: Callable[[Any], Iterable[Sent]], definitions: Iterable[ToolDefinition]
) -> list[ToolCall]:
    """Return the calls that `find` sees in the answer's JSON. What cannot be read becomes a call with an `error`.

    Raises TypeError for a `response` that is no SDK object, dict, list, text or bytes.
    """
    known = by_wire_name(definitions)
    try:
        answer = _plain(json.loads(response, strict=False) if isinstance(response, str | bytes) else response)
    except (ValueError, RecursionError):
        return [ToolCall(id=_made_id(), name="", error=NO_ANSWER)]
    return [_call(sent, known) for sent in find(answer)]


def members(value: Any, key: str) -> list[JsonObject]:
    """Return the objects in the list under `key`; none when there is no such list."""
    return objects(value.get(key)) if isinstance(value, dict) else []


def objects(value: Any) -> list[JsonObject]:
    """Return the objects in a list; none when it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def extras(item: JsonObject, *read: str) -> JsonObject:
    """Return what an item says besides the members that were read: the provider wants some of it echoed."""
    return {key: value for key, value in item.items() if key not in read and value is not None}


def _plain(value: Any) -> Any:
    """Return a copy as JSON data; an SDK's objects (pydantic models all) are dumped wherever they stand."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, warnings=False)
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{type(value).__name__} is no answer. Pass the SDK's response object, its dict, or its JSON text.")


def _call(sent: Sent, known: dict[str, ToolDefinition]) -> ToolCall:
    wire = sent.name if isinstance(sent.name, str) else ""
    arguments, error = _arguments(sent)
    return ToolCall(
        id=sent.id if isinstance(sent.id, str) and sent.id else _made_id(),
        name=known[wire].name if wire in known else wire,
        arguments=arguments,
        provider=sent.provider,
        error=error if wire else NO_NAME,
        wire_name=wire,
    )


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


def _made_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"
