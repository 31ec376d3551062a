"""Rules that several services share: what they refuse, and the form of images and ids."""

from __future__ import annotations

import re
import uuid
from typing import Any

NAME = r"[a-zA-Z0-9_-]{1,64}"
COMBINATORS = {"oneOf", "anyOf", "allOf", "enum", "const", "not"}


class Refusal(Exception):  # noqa: N818  # a refusal is a service's answer, not our error
    """A service refuses the request; the text is its message."""


def refuse(is_wrong: object, message: str) -> None:
    """Raise Refusal for what is wrong."""
    if is_wrong:
        raise Refusal(message)


def check_name(name: object, pattern: str = NAME) -> None:
    """Refuse a tool's name that does not fit."""
    refuse(
        not (isinstance(name, str) and re.fullmatch(pattern, name)),
        f"Invalid tool name {name!r}: it must match {pattern}.",
    )


def check_unique(names: list[str]) -> list[str]:
    """Return the names; refuse duplicates."""
    refuse(len(set(names)) < len(names), "Tool names must be unique.")
    return names


def check_root(schema: Any) -> None:
    """Refuse a schema whose root is not one plain object."""
    is_object = isinstance(schema, dict) and schema.get("type") == "object"
    refuse(
        not is_object or COMBINATORS & schema.keys(),
        "Invalid schema: it must have type 'object' and not have "
        "'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the top level.",
    )


def check_closed(schema: Any, *, all_required: bool) -> None:
    """Refuse a strict schema with an open object in it, or one that leaves members optional where none may be."""
    if isinstance(schema, list):
        for item in schema:
            check_closed(item, all_required=all_required)
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("properties"), dict):
        refuse(
            schema.get("additionalProperties") is not False,
            "Invalid strict schema: 'additionalProperties' must be false.",
        )
        optional = schema["properties"].keys() - set(schema.get("required", ()))
        refuse(all_required and optional, f"Invalid strict schema: 'required' lacks {sorted(optional)}.")
    for value in schema.values():
        check_closed(value, all_required=all_required)


def new_id(prefix: str = "", length: int = 24) -> str:
    """Return a new id."""
    return prefix + uuid.uuid4().hex[:length]


def describe(url: str) -> str:
    """Return a text for an image in a data URL."""
    media_type, _, data = url.removeprefix("data:").partition(";base64,")
    refuse(not data, f"Invalid image: {url[:40]!r} is no data URL.")
    return f"[{media_type}, {len(data)} characters]"
