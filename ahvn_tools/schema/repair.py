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
from ahvn_tools.schema.places import InstancePath, SubschemaFinder

MAX_DEPTH = 200
"""Arguments that nest deeper than this are refused."""

MAX_DIGITS = 4_300
"""Integers of more digits than this are refused."""

MAX_ROUNDS = 16
"""How often repairing and validating alternate; a repaired JSON text may hold further things to repair."""

INTEGER_LIMIT = 10**MAX_DIGITS
"""The least integer of too many digits."""

_UNGUARDED_TYPES = frozenset({str, bool, type(None)})
_SEQUENCES = (list, tuple, set, frozenset, deque)
_CONTAINERS = (dict, *_SEQUENCES)


@dataclass(frozen=True, slots=True)
class RepairCandidate:
    """One place where validation failed: what to try there."""

    location: InstancePath
    wants_container: bool = False
    wants_integer: bool = False


def enforce_limits(arguments: dict[str, Any]) -> bool:
    """Refuse what nests too deep or counts too high. Return whether a NaN or an infinity is in it."""
    has_non_finite = False
    pending: list[tuple[Any, int]] = [(arguments, 0)]
    while pending:
        value, level = pending.pop()
        if type(value) in _UNGUARDED_TYPES:
            continue
        if isinstance(value, int):
            if not -INTEGER_LIMIT < value < INTEGER_LIMIT:
                raise InvalidParametersError(f"Invalid arguments: an integer has more than {MAX_DIGITS} digits.")
        elif isinstance(value, float):
            has_non_finite |= not math.isfinite(value)
        elif isinstance(value, _CONTAINERS):
            if level > MAX_DEPTH:
                raise InvalidParametersError(f"Invalid arguments: they nest more than {MAX_DEPTH} levels deep.")
            pending.extend((item, level + 1) for item in (value.values() if isinstance(value, dict) else value))
    return has_non_finite


def repair(
    arguments: dict[str, Any],
    candidates: Iterable[RepairCandidate],
    get_finder: Callable[[], SubschemaFinder],
    removed: set[InstancePath],
) -> dict[str, Any] | None:
    """Return arguments with what can be repaired repaired, or None when there is nothing to repair.

    `places` gives the places of the schema, when they are needed. Where a null was taken out, its path is added to
    `removed`.
    """
    repaired = _CopyOnWrite(arguments)
    nulls: dict[InstancePath, None] = {}
    for fault in candidates:
        path = to_input_path(repaired.root, fault.location)
        if not path:
            continue
        holder, value = _container_and_value(repaired.root, path)
        if value is None and isinstance(holder, dict):
            nulls[path] = None
        elif fault.wants_container and isinstance(value, str) and (parsed := _parse_container(value)) is not None:
            repaired.put(path, parsed)
        elif fault.wants_integer and isinstance(value, float) and value.is_integer():
            repaired.put(path, int(value))
    if nulls and not repaired.is_changed:
        members = [path for path in nulls if not get_finder().is_undeclared(path)]
        for path in [path for path in members if not get_finder().allows_null(path)] or members:
            repaired.remove(path)
            removed.add(path)
    return repaired.root if repaired.is_changed else None


def contains_non_finite(value: Any) -> bool:
    """Tell whether a NaN or an infinity is in a value or in its containers (a model's own fields are its business)."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(contains_non_finite(item) for item in value.values())
    if isinstance(value, _SEQUENCES):
        return any(contains_non_finite(item) for item in value)
    if is_dataclass(value) and not hasattr(type(value), "__pydantic_validator__"):
        return any(contains_non_finite(getattr(value, field.name, None)) for field in fields(value))
    return False


def to_input_path(arguments: Any, location: InstancePath) -> InstancePath:
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


class _CopyOnWrite:
    """A copy of nested containers that copies a container when something in it is changed, once."""

    def __init__(self, original: dict[str, Any]) -> None:
        self.root = original
        self._copies: dict[int, Any] = {}

    @property
    def is_changed(self) -> bool:
        return bool(self._copies)

    def put(self, path: InstancePath, value: Any) -> None:
        self._writable_container(path)[path[-1]] = value

    def remove(self, path: InstancePath) -> None:
        del self._writable_container(path)[path[-1]]

    def _writable_container(self, path: InstancePath) -> Any:
        """Return the container of the last step, ready to be changed."""
        self.root = here = self._copy_once(self.root)
        for step in path[:-1]:
            here[step] = self._copy_once(here[step])
            here = here[step]
        return here

    def _copy_once(self, container: Any) -> Any:
        if id(container) in self._copies:
            return container
        copy = dict(container) if isinstance(container, dict) else list(container)
        self._copies[id(copy)] = copy
        return copy


def _container_and_value(value: Any, path: InstancePath) -> tuple[Any, Any]:
    """Return the container of the last step of `path`, and what is in it there."""
    holder = value
    for step in path:
        holder, value = value, value[step]
    return holder, value


def _parse_container(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_reject_constant, parse_float=_parse_finite_float)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _reject_constant(constant: str) -> Any:
    raise ValueError(constant)


def _parse_finite_float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _reject_constant(text)
