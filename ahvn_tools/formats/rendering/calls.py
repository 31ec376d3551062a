"""Calls as a provider's messages contain them: with wire names, ids, and arguments as JSON data."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from ahvn_tools.encoders.registry import to_json_form
from ahvn_tools.errors import InvalidResultError, ToolSpecError
from ahvn_tools.formats.json_data import replace_surrogates, to_json_data
from ahvn_tools.formats.rendering.names import wire_name
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolCall

GENERATED_ID_LENGTH = 9
"""The only length of an id that Mistral accepts; the others accept it as well."""

_VALID_IDS: Final = {
    "anthropic": re.compile(r"[a-zA-Z0-9_-]+"),
    "bedrock": re.compile(r"[a-zA-Z0-9_-]{1,64}"),
    "openai": re.compile(r".{1,40}"),
    "openai-responses": re.compile(r".{1,64}"),
}
"""The ids that a provider accepts, if there is a rule. Mistral's is in its module: it applies to any call."""


def to_writable(calls: Any, format_name: str) -> list[ToolCall]:
    """Return copies of the calls as a message contains them: `name` is the wire name, `arguments` are JSON data.

    Each has an id, and no provider data of another format. Raises TypeError for an object that is no ToolCall, and
    ToolSpecError for arguments that are no dict or have no JSON form.
    """
    known = list(calls) if isinstance(calls, Iterable) else [calls]
    for call in known:
        if not isinstance(call, ToolCall) or call is calls:
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
        for call in (with_id(call, position, format_name) for position, call in enumerate(known))
    ]


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


def clean_text(text: Any) -> str | None:
    """Return a text that can be sent; None for a blank one, which some providers refuse.

    Raises TypeError for anything else.
    """
    if not isinstance(text, str | None):
        raise TypeError(f"The text is a {type(text).__name__}. Pass a str, or None for no text.")
    return replace_surrogates(text) if text and not text.isspace() else None


def with_id(call: ToolCall, position: int, format_name: str | None) -> ToolCall:
    """Return a call with an id, always the same for a call.

    A missing id is made from the call and its position. One of another format that this one's provider would refuse is
    made from itself.
    """
    if not call.id:
        return replace(call, id=_make_id(call, position))
    valid = _VALID_IDS.get(format_name or "")
    if valid is None or call.format in {None, format_name} or valid.fullmatch(call.id):
        return call
    return replace(call, id=hash_to_id(call.id))


def _make_id(call: ToolCall, position: int) -> str:
    return hash_to_id(f"{position} {get_wire_name(call)} {json.dumps(to_json_data(call.arguments), sort_keys=True)}")


def _to_json_arguments(call: ToolCall) -> JsonObject:
    given: Any = call.arguments
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise ToolSpecError(f"The arguments of a call of {call.name!r} are a {kind}. Pass a dict, empty for none.")
    try:
        arguments: JsonObject = to_json_data(to_json_form(given))
    except InvalidResultError:
        raise ToolSpecError(
            f"The arguments of a call of {call.name!r} have no JSON form. Pass JSON data, as a model sends it."
        ) from None
    return arguments
