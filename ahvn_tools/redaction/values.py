"""Secrets in values: which parts of an argument, a bound value or a state are secret."""

from __future__ import annotations

from collections import UserList, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Any

from ahvn_tools.redaction.names import is_secret_name, secret_types

_MAX_PARTS = 10_000
"""How many parts of a value are searched, outer ones first …"""

_MAX_ITEMS = 1_000
"""… and how many of one container."""

_MAX_WHOLE_ITEMS = 100
"""A container with at most this many items is also a part as a whole."""

_ATOMIC_TYPES = frozenset({type(None), bool, int, float, str, bytes})
"""Types whose values contain no other values."""


class HiddenValues(list[Any]):
    """Several values of one name, each of which is hidden."""


def find_secrets(
    arguments: Mapping[str, Any], names: Collection[str] = (), bound: Iterable[tuple[str, Any]] = ()
) -> dict[str, HiddenValues]:
    """Return the secrets in arguments, at any depth, by name, and the `bound` values, each of which is one.

    A secret has one of the `names`, a secret name, or one of pydantic's secret types.
    """
    found: dict[str, HiddenValues] = {}
    types = secret_types()
    for name, part in _walk(arguments):
        if name in names or is_secret_name(name) or isinstance(part, types):
            found.setdefault(name, HiddenValues()).append(part)
    for name, value in bound:
        found.setdefault(name, HiddenValues()).append(value)
    return found


def contains_secret(value: Any) -> bool:
    """Return whether a value is of one of pydantic's secret types, or has a part that is."""
    types = secret_types()
    return bool(types) and any(isinstance(part, types) for _, part in _walk(value, is_bounded=False))


def reveal_secrets(value: Any) -> Any:
    """Return a value with pydantic's secret types replaced by their content, also inside mappings, lists and tuples."""
    if hasattr(value, "get_secret_value"):
        return reveal_secrets(value.get_secret_value())
    if isinstance(value, Mapping):
        return {name: reveal_secrets(item) for name, item in value.items()}
    return [reveal_secrets(item) for item in value] if isinstance(value, list | tuple) else value


def iter_parts(value: Any) -> Iterator[Any]:
    """Yield a value and its parts, outer ones first, each object once; no large container, None and bool.

    Of pydantic's secret types only the content.
    """
    seen: dict[int, Any] = {}
    wrappers = (bool, type(None), *secret_types())
    for _, part in _walk(value):
        if id(part) not in seen and not isinstance(part, wrappers):
            seen[id(part)] = part
            if len(seen) > _MAX_PARTS:
                return
            if len(_members(part)) <= _MAX_WHOLE_ITEMS:
                yield part


def _walk(value: Any, *, is_bounded: bool = True) -> Iterator[tuple[str, Any]]:
    """Yield a value and its parts, outer ones first, each with its name, or with that of the list that it is in."""
    pending: deque[tuple[str, Any]] = deque([("", value)])
    entered: dict[int, Any] = {}
    while pending and not (is_bounded and len(entered) >= _MAX_PARTS):
        name, here = pending.popleft()
        yield name, here
        if type(here) not in _ATOMIC_TYPES and id(here) not in entered:
            entered[id(here)] = here
            members = _members(here)
            kept = members[:_MAX_ITEMS] if is_bounded else members
            pending.extend((name if key is None else str(key), part) for key, part in kept)


def _members(value: Any) -> list[tuple[Any, Any]]:
    """Return the (name, value) pairs of a container, a record or a secret; of other objects those with a secret name.

    None stands for no name.
    """
    if type(value) in _ATOMIC_TYPES:
        return []
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, list | tuple | set | frozenset | deque | UserList):
        return [(None, part) for part in value]
    if isinstance(value, Enum):
        return [(None, value.value)]
    if isinstance(value, secret_types()):
        return [(None, value.get_secret_value())]
    if is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name, None)) for field in fields(value)]
    attributes = getattr(value, "__dict__", {}).items()
    is_record = isinstance(value, SimpleNamespace) or hasattr(type(value), "__pydantic_fields__")
    return [(name, part) for name, part in attributes if is_record or is_secret_name(name)]
