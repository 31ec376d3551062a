"""Repairs of what models send: JSON text for a list or object, null for "absent", integral floats for integers.

They are tried only after plain validation failed, only where it failed, and never change the caller's objects.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ahvn_tools.errors import InvalidParametersError

MOST_LEVELS = 200
"""Arguments that nest deeper than this are refused."""

MOST_DIGITS = 4_300
"""Integers of more digits than this are refused."""

ROUNDS = 8
"""How often repairing and validating alternate; a repaired JSON text may hold further things to repair."""

TOO_LARGE = 10**MOST_DIGITS
"""The least integer of too many digits."""
_ENDS = frozenset({str, bool, type(None)})

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """One place where validation failed: what to try there."""

    location: Path
    wants_container: bool = False
    wants_integer: bool = False


def guard(arguments: dict[str, Any]) -> bool:
    """Refuse what nests too deep or counts too high. Return whether a NaN or an infinity is in it."""
    has_non_finite = False
    pending: list[tuple[Any, int]] = [(arguments, 0)]
    while pending:
        value, level = pending.pop()
        kind = type(value)
        if kind in _ENDS:
            continue
        if kind is int:
            if not -TOO_LARGE < value < TOO_LARGE:
                raise InvalidParametersError(f"Invalid arguments: an integer has more than {MOST_DIGITS} digits.")
        elif kind is float:
            has_non_finite |= not math.isfinite(value)
        elif kind is dict or kind is list or kind is tuple:
            if level > MOST_LEVELS:
                raise InvalidParametersError(f"Invalid arguments: they nest more than {MOST_LEVELS} levels deep.")
            pending.extend((item, level + 1) for item in (value.values() if kind is dict else value))
    return has_non_finite


def repair(arguments: dict[str, Any], faults: Iterable[Fault], removed: set[Path]) -> dict[str, Any] | None:
    """Return arguments with what can be repaired repaired, or None when there is nothing to repair.

    Where a null was taken out, its path is added to `removed`.
    """
    repaired = arguments
    for fault in faults:
        path = _locate(repaired, fault.location)
        if not path:
            continue
        value = _at(repaired, path)
        if value is None and isinstance(_at(repaired, path[:-1]), dict):
            repaired = _edited(repaired, path, is_removal=True)
            removed.add(path)
        elif fault.wants_container and isinstance(value, str) and (parsed := _parsed(value)) is not None:
            repaired = _edited(repaired, path, parsed)
        elif fault.wants_integer and isinstance(value, float) and value.is_integer():
            repaired = _edited(repaired, path, int(value))
    return None if repaired is arguments else repaired


def non_finite(value: Any) -> bool:
    """Tell whether a NaN or an infinity is in a value or in its containers (a model's own fields are its business)."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(non_finite(item) for item in value.values())
    return isinstance(value, list | tuple | set | frozenset) and any(non_finite(item) for item in value)


def _locate(arguments: Any, location: Path) -> Path:
    """Return the steps of `location` that lead through the input; pydantic mixes in the names of union branches."""
    here = arguments
    path: list[str | int] = []
    for step in location:
        if (isinstance(here, dict) and step in here) or (
            isinstance(here, list) and isinstance(step, int) and -len(here) <= step < len(here)
        ):
            here = here[step]  # type: ignore[index]  # the test above chose the step for its container
            path.append(step)
    return tuple(path)


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _edited(value: Any, path: Path, new: Any = None, *, is_removal: bool = False) -> Any:
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    step, *rest = path
    if rest:
        copy[step] = _edited(copy[step], tuple(rest), new, is_removal=is_removal)
    elif is_removal:
        del copy[step]
    else:
        copy[step] = new
    return copy


def _parsed(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _refuse(constant: str) -> Any:
    raise ValueError(constant)
