"""Names of tools and arguments that every provider accepts, made from those of a document."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container
from typing import Final

from ahvn_tools.schema.refs import unused_name

MAX_LENGTH: Final = 64
"""The limit of the strictest provider."""

_DIGEST_LENGTH: Final = 8
_UNSAFE_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_UNSAFE_IN_ARGUMENT: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def tool_name(operation_id: str | None, method: str, path: str) -> str:
    """Return the name of a tool: the operation's id, or its method and path.

    >>> tool_name("pets.list", "get", "/pets")
    'pets_list'
    >>> tool_name(None, "get", "/pets/{petId}/toys")
    'get_pets_petId_toys'
    """
    return _portable(operation_id or method + path, _UNSAFE_IN_NAME)


def argument_name(name: str, location: str, taken: Container[str]) -> str:
    """Return the name of an argument: its own if possible, else one with its location, such as `query_id`."""
    own = _portable(name, _UNSAFE_IN_ARGUMENT)
    if own not in taken:
        return own
    return unused_name(_portable(f"{location}_{own}", _UNSAFE_IN_ARGUMENT), taken)


def _portable(text: str, unsafe: re.Pattern[str]) -> str:
    name = unsafe.sub("_", text).strip("_") if unsafe.search(text) else text
    if not re.match(r"[A-Za-z_]", name):
        name = f"_{name}"
    if len(name) <= MAX_LENGTH:
        return name
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: MAX_LENGTH - _DIGEST_LENGTH - 1]}_{digest}"
