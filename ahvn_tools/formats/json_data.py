"""JSON data of any form: access to its fields, and copies that can be sent."""

from __future__ import annotations

import math
from typing import Any

from ahvn_tools.encoders.registry import to_json_form
from ahvn_tools.errors import InvalidResultError
from ahvn_tools.json_types import JsonObject


def get_index(event: JsonObject, key: str) -> int | str | None:
    """Return the index under `key`, which assigns an event to its call; None for any other value."""
    index = event.get(key)
    return index if isinstance(index, int | str) else None


def get_object(value: Any, *keys: str) -> JsonObject:
    """Return the object under a path of keys; an empty object when there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def get_objects(value: Any, key: str) -> list[JsonObject]:
    """Return the objects in the list under `key`; an empty list when there is no such list."""
    return filter_objects(value.get(key)) if isinstance(value, dict) else []


def filter_objects(value: Any) -> list[JsonObject]:
    """Return the objects in a list; an empty list for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def to_objects(answer: Any) -> list[JsonObject]:
    """Return the objects of an answer that is one object, or a list of them."""
    return filter_objects(answer if isinstance(answer, list) else [answer])


def unread_fields(item: JsonObject, *read_keys: str) -> JsonObject:
    """Return the fields that no other code reads: providers expect some of them back with the result."""
    return {key: value for key, value in item.items() if key not in read_keys and value is not None}


def replace_surrogates(text: str) -> str:
    """Return text that UTF-8 can encode: U+FFFD replaces each lone surrogate (half a character)."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def to_json_data(value: Any) -> Any:
    """Return a copy of a value as JSON data without lone surrogates; `<type>` for what has no JSON form.

    NaN and Infinity are texts.
    """
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {replace_surrogates(str(key)): to_json_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_data(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, int):
        return value
    try:
        return to_json_data(to_json_form(value))
    except InvalidResultError:
        return f"<{type(value).__name__}>"
