"""JSON in Python: the type of an object, and an estimate of the size of a value."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]

_SIZE_OF_PART = 8
"""How much each part of a value counts, in addition to its text."""


def exceeds_size(value: Any, max_size: int) -> bool:
    """Return whether the JSON text of a value has more than about `max_size` characters; counting ends there."""
    return estimate_size(value, max_size) > max_size


def estimate_size(value: Any, max_size: int) -> int:
    """Return about how much memory a value takes: its characters and bytes, and 8 for each part. Ends above `max_size`.

    Members of containers and attributes of objects are parts; each object counts once.
    """
    size, pending, seen = 0, [value], set[int]()
    while pending and size <= max_size:
        part = pending.pop()
        size += _SIZE_OF_PART
        if isinstance(part, str | bytes | bytearray):
            size += len(part)
        elif type(part) not in _ATOMIC_TYPES and id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, dict):
                pending += [*part, *part.values()]
            else:
                pending += part if isinstance(part, list | tuple | set | frozenset) else _attributes(part)
    return size


_ATOMIC_TYPES = frozenset({int, float, bool, type(None)})


def _attributes(value: Any) -> list[Any]:
    attributes = getattr(value, "__dict__", None)
    return list(attributes.values()) if type(attributes) is dict else []
