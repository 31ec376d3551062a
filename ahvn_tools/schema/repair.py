"""Repairs of what models send: JSON text for a list or object, null for "absent", integral floats for integers.

They are tried only after plain validation failed, only where it failed, and never change the caller's objects. A null
is taken out last of all, and only of a declared member: where some branch of a union takes null, only when nothing
else helps; an entry of a free object stays.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from ahvn_tools.errors import InvalidParametersError
from ahvn_tools.schema.places import Path, Places

MOST_LEVELS = 200
"""Arguments that nest deeper than this are refused."""

MOST_DIGITS = 4_300
"""Integers of more digits than this are refused."""

ROUNDS = 16
"""How often repairing and validating alternate; a repaired JSON text may hold further things to repair."""

TOO_LARGE = 10**MOST_DIGITS
"""The least integer of too many digits."""

_ENDS = frozenset({str, bool, type(None)})
_SEQUENCES = (list, tuple, set, frozenset, deque)
_CONTAINERS = (dict, *_SEQUENCES)


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
        if type(value) in _ENDS:
            continue
        if isinstance(value, int):
            if not -TOO_LARGE < value < TOO_LARGE:
                raise InvalidParametersError(f"Invalid arguments: an integer has more than {MOST_DIGITS} digits.")
        elif isinstance(value, float):
            has_non_finite |= not math.isfinite(value)
        elif isinstance(value, _CONTAINERS):
            if level > MOST_LEVELS:
                raise InvalidParametersError(f"Invalid arguments: they nest more than {MOST_LEVELS} levels deep.")
            pending.extend((item, level + 1) for item in (value.values() if isinstance(value, dict) else value))
    return has_non_finite


def repair(
    arguments: dict[str, Any], faults: Iterable[Fault], places: Callable[[], Places], removed: set[Path]
) -> dict[str, Any] | None:
    """Return arguments with what can be repaired repaired, or None when there is nothing to repair.

    `places` gives the places of the schema, when they are needed. Where a null was taken out, its path is added to
    `removed`.
    """
    repaired = _Copy(arguments)
    nulls: dict[Path, None] = {}
    for fault in faults:
        path = locate(repaired.root, fault.location)
        if not path:
            continue
        holder, value = _ends(repaired.root, path)
        if value is None and isinstance(holder, dict):
            nulls[path] = None
        elif fault.wants_container and isinstance(value, str) and (parsed := _parsed(value)) is not None:
            repaired.put(path, parsed)
        elif fault.wants_integer and isinstance(value, float) and value.is_integer():
            repaired.put(path, int(value))
    if nulls and not repaired.is_changed:
        members = [path for path in nulls if not places().is_entry(path)]
        for path in [path for path in members if not places().takes_null(path)] or members:
            repaired.remove(path)
            removed.add(path)
    return repaired.root if repaired.is_changed else None


def non_finite(value: Any) -> bool:
    """Tell whether a NaN or an infinity is in a value or in its containers (a model's own fields are its business)."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(non_finite(item) for item in value.values())
    if isinstance(value, _SEQUENCES):
        return any(non_finite(item) for item in value)
    if is_dataclass(value) and not hasattr(type(value), "__pydantic_validator__"):
        return any(non_finite(getattr(value, field.name, None)) for field in fields(value))
    return False


def locate(arguments: Any, location: Path) -> Path:
    """Return the steps of `location` that lead through the input; pydantic mixes in the names of union branches."""
    here = arguments
    path: list[str | int] = []
    for step in location:
        if (isinstance(here, dict) and step in here) or (
            isinstance(here, list | tuple) and isinstance(step, int) and -len(here) <= step < len(here)
        ):
            here = here[step]  # type: ignore[index]  # the test above chose the step for its container
            path.append(step)
    return tuple(path)


class _Copy:
    """A copy of nested containers that copies a container when something in it is changed, once."""

    def __init__(self, original: dict[str, Any]) -> None:
        self.root = original
        self._own: dict[int, Any] = {}

    @property
    def is_changed(self) -> bool:
        return bool(self._own)

    def put(self, path: Path, value: Any) -> None:
        self._holder(path)[path[-1]] = value

    def remove(self, path: Path) -> None:
        del self._holder(path)[path[-1]]

    def _holder(self, path: Path) -> Any:
        """Return the container of the last step, ready to be changed."""
        self.root = here = self._owned(self.root)
        for step in path[:-1]:
            here[step] = self._owned(here[step])
            here = here[step]
        return here

    def _owned(self, container: Any) -> Any:
        if id(container) in self._own:
            return container
        copy = dict(container) if isinstance(container, dict) else list(container)
        self._own[id(copy)] = copy
        return copy


def _ends(value: Any, path: Path) -> tuple[Any, Any]:
    """Return the container of the last step of `path`, and what is in it there."""
    holder = value
    for step in path:
        holder, value = value, value[step]
    return holder, value


def _parsed(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)
