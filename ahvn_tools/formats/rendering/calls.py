"""Calls as a provider's messages contain them: with wire names, ids, and arguments as JSON data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ahvn_tools.encoders.json_form import to_json_form
from ahvn_tools.errors import InvalidResultError, ToolSpecError
from ahvn_tools.formats.json_data import replace_surrogates, to_json_data
from ahvn_tools.formats.rendering.names import wire_name
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolCall

GENERATED_ID_LENGTH = 9
"""The only length of an id that Mistral accepts; the others accept it as well."""


def to_writable(calls: Iterable[Any], format_name: str) -> list[ToolCall]:
    """Return copies of the calls as a message contains them: `name` is the wire name, `arguments` are JSON data.

    Each has an id, and no provider data of another format. Raises TypeError for an object that is no ToolCall, and
    ToolSpecError for arguments without a JSON form.
    """
    known = list(calls)
    for call in known:
        if not isinstance(call, ToolCall):
            kind = type(call).__name__
            raise TypeError(f"A message contains ToolCalls, not a {kind}. Pass `[ToolCall(id=…, name=…)]`.")
    return [
        replace(
            call,
            id=replace_surrogates(call.id),
            name=get_wire_name(call),
            arguments=_to_json_arguments(call),
            provider=to_json_data(get_provider_data(call, format_name)),
        )
        for call in with_ids(known)
    ]


def with_ids(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """Return the calls, each with an id: a missing one is made from the call and its position, always the same."""
    return [call if call.id else replace(call, id=_make_id(call, position)) for position, call in enumerate(calls)]


def get_wire_name(call: ToolCall) -> str:
    """Return the name by which the provider knows the tool of a call."""
    return call.wire_name or wire_name(call.name)


def get_provider_data(call: ToolCall, format_name: str) -> JsonObject:
    """Return the provider data of a call; an empty object if another format has read the call."""
    return call.provider if call.format in {None, format_name} else {}


def to_json_text(arguments: JsonObject) -> str:
    """Return arguments as JSON text."""
    return json.dumps(arguments, ensure_ascii=False)


def hash_to_id(text: str) -> str:
    """Return an id that every provider accepts, always the same for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:GENERATED_ID_LENGTH]


def clean_text(text: str | None) -> str | None:
    """Return a text that can be sent; None for a blank one, which some providers refuse."""
    return replace_surrogates(text) if text and not text.isspace() else None


def _make_id(call: ToolCall, position: int) -> str:
    return hash_to_id(f"{position} {get_wire_name(call)} {json.dumps(to_json_data(call.arguments), sort_keys=True)}")


def _to_json_arguments(call: ToolCall) -> JsonObject:
    try:
        arguments: JsonObject = to_json_data(to_json_form(call.arguments))
    except InvalidResultError:
        raise ToolSpecError(
            f"The arguments of a call of {call.name!r} have no JSON form. Pass JSON data, as a model sends it."
        ) from None
    return arguments
