"""JSON in Python: the type of an object, and an estimate of the size of a value."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]

_MEMBER_CHARS = 8
"""How much a member of a list or an object counts, in addition to its text."""


def exceeds_size(value: Any, max_chars: int) -> bool:
    """Return whether the JSON text of a value has more than about `max_chars` characters; counting ends there."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str | bytes):
            max_chars -= len(part)
            members: Any = ()
        elif isinstance(part, dict):
            members = part.values()
        elif isinstance(part, list | tuple | set | frozenset):
            members = part
        else:
            members = getattr(part, "__dict__", {}).values()
        max_chars -= _MEMBER_CHARS * len(members)
        if max_chars < 0:
            return True
        pending.extend(members)
    return False
