"""ItemLimits: how much a body may yield or send to its reader in one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ahvn_tools.errors import LimitExceededError

_BYTES_PER_PART = 8
"""What counts for each part of an item, so that empty values count, too."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ItemLimits:
    """The limits of one call of a tool; None: no limit."""

    tool: str
    max_items: int | None
    max_bytes: int | None

    def make_counter(self) -> Callable[[Any], None]:
        """Return a function that counts an item. It raises LimitExceededError when there are too many."""
        items = size = 0

        def count(item: Any) -> None:
            nonlocal items, size
            items += 1
            if self.max_items is not None and items > self.max_items:
                raise self._error(f"more than {self.max_items} items", "max_items")
            if self.max_bytes is not None:
                size += estimate_bytes(item, self.max_bytes - size)
                if size > self.max_bytes:
                    raise self._error(f"items of more than {self.max_bytes} bytes", "max_bytes")

        return count

    def _error(self, amount: str, option: str) -> LimitExceededError:
        message = f"Tool {self.tool!r} made {amount}: ask it for fewer."
        return LimitExceededError(message, tool=self.tool, explanation=f"{message} Its host can raise `{option}`.")


def estimate_bytes(item: Any, max_bytes: int) -> int:
    """Return about how much memory an item takes: its characters and bytes, and 8 bytes for each part.

    Dicts, lists, tuples, sets and the attributes of objects are entered; no code of a foreign class runs. Counting ends
    above `max_bytes`.
    """
    size, pending, seen = 0, [item], set()
    while pending and size <= max_bytes:
        part = pending.pop()
        size += _BYTES_PER_PART
        if isinstance(part, str | bytes | bytearray):
            size += len(part)
        elif type(part) not in _ATOMIC_TYPES and id(part) not in seen:
            seen.add(id(part))
            pending.extend(_parts(part))
    return size


_ATOMIC_TYPES = frozenset({int, float, bool, type(None)})


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*dict.keys(value), *dict.values(value)]
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    attributes = getattr(type(value), "__dictoffset__", 0) and object.__getattribute__(value, "__dict__")
    return list(attributes.values()) if type(attributes) is dict else []
