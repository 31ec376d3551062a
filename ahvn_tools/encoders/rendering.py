"""Rendering: what models read instead of an object that only the host gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

_NUMBER_TYPES: Final = frozenset({int, float})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rendering:
    """What models read instead of a raw value."""

    value: Any
    """The raw value."""
    content: Any
    """A text, JSON data, a list of content blocks; or the InvalidResultError about a value that models cannot read."""
    blocks: tuple[Any, ...] | None = None
    """The content blocks that belong to it, if any."""

    def is_of(self, value: Any) -> bool:
        """Return whether this is the rendering of a value: of that object, or of an equal number (pickles copy it)."""
        kind = type(value)
        return self.value is value or (kind in _NUMBER_TYPES and type(self.value) is kind and self.value == value)
