"""Repairs of what models send: JSON text for a list or object, null for "absent", integral floats for integers.

They are tried only after plain validation failed, only where it failed, and never change the caller's objects. A null
is removed only when no other repair applies, and only from a declared property, never from a free object. Nulls that
some branch of a union accepts are removed only when there are no others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ahvn_tools.schema.limits import enforce_limits
from ahvn_tools.schema.subschemas import InstancePath, SubschemaFinder

MAX_ROUNDS = 16
"""How often repair and validation alternate; a parsed JSON text may contain further values to repair."""

MAX_REPAIRED_VALUES = 5_000
"""In arguments with more values than this only the first error of each container is repaired."""

MAX_ROUNDS_OF_LARGE = 2
"""How often repair and validation alternate for such arguments."""


@dataclass(frozen=True, slots=True)
class RepairCandidate:
    """A location where validation failed, and the repairs to try there."""

    location: InstancePath
    wants_container: bool = False
    wants_integer: bool = False


def repair(
    arguments: dict[str, Any],
    candidates: Iterable[RepairCandidate],
    get_finder: Callable[[], SubschemaFinder],
    removed: set[InstancePath],
) -> dict[str, Any] | None:
    """Return a repaired copy of the arguments, or None when no repair applies.

    `get_finder` is called only to decide on nulls. The paths of removed nulls are added to `removed`.
    """
    repaired = _CopyOnWrite(arguments)
    nulls: dict[InstancePath, None] = {}
    for candidate in candidates:
        path = to_input_path(repaired.root, candidate.location)
        if not path:
            continue
        container, value = _container_and_value(repaired.root, path)
        if value is None and isinstance(container, dict):
            nulls[path] = None
        elif candidate.wants_container and isinstance(value, str) and (parsed := _parse_container(value)) is not None:
            repaired.put(path, parsed)
        elif candidate.wants_integer and isinstance(value, float) and value.is_integer():
            repaired.put(path, int(value))
    if nulls and repaired.root is arguments:
        members = [path for path in nulls if not get_finder().is_undeclared(path)]
        for path in [path for path in members if not get_finder().allows_null(path)] or members:
            repaired.remove(path)
            removed.add(path)
    return None if repaired.root is arguments else repaired.root


def to_input_path(arguments: Any, location: InstancePath) -> InstancePath:
    """Return the steps of `location` that are in the input; pydantic mixes in the names of union branches."""
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
    """A copy of nested containers that copies each container once, before its first change; until then the original."""

    def __init__(self, original: dict[str, Any]) -> None:
        self.root = original
        self._copies: dict[int, Any] = {}

    def put(self, path: InstancePath, value: Any) -> None:
        self._writable_container(path)[path[-1]] = value

    def remove(self, path: InstancePath) -> None:
        del self._writable_container(path)[path[-1]]

    def _writable_container(self, path: InstancePath) -> Any:
        """Return the copied container of the last step."""
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
    """Return the value at `path` and the container that holds it."""
    container = value
    for step in path:
        container, value = value, value[step]
    return container, value


def _parse_container(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) and not enforce_limits({"": value}).has_non_finite else None
