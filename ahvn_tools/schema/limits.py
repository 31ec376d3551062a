"""Limits of arguments: how deep, how large, how many values, and which numbers are not JSON."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from ahvn_tools.errors import InvalidParametersError

MAX_DEPTH = 200
"""Arguments that nest deeper than this are refused."""

MAX_DIGITS = 4_300
"""Integers of more digits than this are refused."""

INTEGER_LIMIT = 10**MAX_DIGITS
"""The smallest integer with too many digits."""

UNLIMITED_TYPES = frozenset({str, bool, type(None)})
"""Types whose values `enforce_limits` always accepts."""

_SEQUENCES = (list, tuple, set, frozenset, deque)
_CONTAINERS = (dict, *_SEQUENCES)


class Size(NamedTuple):
    """How large arguments are, as `enforce_limits` found it."""

    value_count: int
    """Values in the arguments, at any depth."""
    has_floats: bool = False
    """Whether one of them may be a float; an object of another type may contain some."""
    has_non_finite: bool = False
    """Whether one of them is NaN or Infinity."""


NO_CONTAINERS = Size(0)
"""The size of arguments that contain texts, booleans and nulls alone."""


def enforce_limits(arguments: dict[str, Any]) -> Size:
    """Return the size of arguments.

    Raises InvalidParametersError for excessive nesting and for integers with too many digits.
    """
    value_count = 0
    has_floats = has_non_finite = False
    pending: list[tuple[Any, int]] = [(arguments, 1)]
    while pending:
        container, level = pending.pop()
        value_count += len(container)
        for value in container.values() if isinstance(container, dict) else container:
            if type(value) in UNLIMITED_TYPES:
                continue
            if isinstance(value, int):
                if not -INTEGER_LIMIT < value < INTEGER_LIMIT:
                    raise InvalidParametersError(f"Invalid arguments: an integer has more than {MAX_DIGITS} digits.")
            elif isinstance(value, float):
                has_floats = True
                has_non_finite |= not math.isfinite(value)
            elif isinstance(value, _CONTAINERS):
                if level > MAX_DEPTH:
                    raise InvalidParametersError(
                        f"Invalid arguments: they are nested more than {MAX_DEPTH} levels deep."
                    )
                pending.append((value, level + 1))
            else:
                has_floats = True
    return Size(value_count, has_floats, has_non_finite)


def contains_non_finite(value: Any) -> bool:
    """Whether a value or its containers contain NaN or Infinity. Pydantic models are not inspected."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(contains_non_finite(item) for item in value.values())
    if isinstance(value, _SEQUENCES):
        return any(contains_non_finite(item) for item in value)
    if is_dataclass(value) and not hasattr(type(value), "__pydantic_validator__"):
        return any(contains_non_finite(getattr(value, field.name, None)) for field in fields(value))
    return False
