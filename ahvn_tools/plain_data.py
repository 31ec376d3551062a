"""Plain data: what can be read without running code of a foreign class, which may block or raise anything."""

from __future__ import annotations

import gc
import sys
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from types import MappingProxyType, MemberDescriptorType, SimpleNamespace
from typing import Any

_TEXT_TYPES = frozenset({
    bool, int, float, complex, str, bytes, bytearray, type(None), Decimal, Fraction, date, timedelta,
    PosixPath, PurePosixPath, PureWindowsPath, WindowsPath, IPv4Address, IPv4Network, IPv6Address, IPv6Network,
})  # fmt: skip
"""Types whose own `__str__` runs for their values; subclasses may have another."""

_CONTAINER_TYPES = frozenset({dict, list, tuple, set, frozenset, deque})

_PLAIN_LOOKUPS = frozenset({object.__getattribute__, SimpleNamespace.__getattribute__})

_TIME_ZONES = frozenset({type(None), timezone})

MAX_WHOLE_PARTS = 1_000
"""A container with more parts, at any depth, has no text as a whole."""


def has_plain_attribute(value: Any, name: str) -> bool:
    """Return whether reading an attribute only looks it up: no property, no `__getattr__`, no container."""
    kind: Any = type(value)
    if kind.__getattribute__ not in _PLAIN_LOOKUPS or issubclass(kind, Mapping | Sequence):
        return False
    member = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    if type(member) is MemberDescriptorType:  # of a class with __slots__
        return hasattr(value, name)
    return not hasattr(type(member), "__set__") and name in getattr(value, "__dict__", ())


def plain_members(value: Any) -> list[tuple[Any, Any]] | None:
    """Return the (name, value) pairs of a container or record, with None for no name; None for any other value."""
    kind: Any = type(value)
    if issubclass(kind, dict):
        return list(dict.items(value))
    for sequence in (list, tuple, set, frozenset, deque):
        if issubclass(kind, sequence):
            return [(None, part) for part in sequence.__iter__(value)]
    if issubclass(kind, UserDict | UserList):
        return plain_members(plain_attributes(value).get("data"))
    if kind is ChainMap:
        return [(None, mapping) for mapping in value.maps]
    if kind is MappingProxyType:
        return [(None, mapping) for mapping in gc.get_referents(value)]  # its own methods run those of the mapping
    if issubclass(kind, Enum):
        return [(None, value._value_)]
    if isinstance(fields := getattr(kind, "__dataclass_fields__", None), dict):
        return [(name, getattr(value, name)) for name in fields if has_plain_attribute(value, name)]
    is_record = issubclass(kind, SimpleNamespace) or hasattr(kind, "__pydantic_fields__")
    return list(plain_attributes(value).items()) if is_record else None


def plain_attributes(value: Any) -> dict[str, Any]:
    """Return the attributes that an instance itself has, without those of its class."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return attributes if type(attributes) is dict else {}


def plain_text(value: Any) -> str | None:
    """Return the text of a value of a standard type, or of a container of such values; None for any other."""
    kind: Any = type(value)
    try:
        if issubclass(kind, bytes | bytearray):
            return bytes(value).decode("utf-8", "replace")
        if issubclass(kind, str):
            return str.__str__(value)
        if issubclass(kind, int | float):
            return int.__repr__(value) if issubclass(kind, int) else float.__repr__(value)
        return str(value) if _has_plain_text(value, kind) else None
    except (ValueError, RecursionError):  # an integer with too many digits, a container that is too deep
        return None


def _has_plain_text(value: Any, kind: Any) -> bool:
    if kind in _CONTAINER_TYPES:
        return _consists_of_plain_parts(value)
    if kind is datetime or kind is time:
        zone = type(value.tzinfo)
        return zone in _TIME_ZONES or _is_loaded_class(zone, "zoneinfo", "ZoneInfo")
    if kind in _TEXT_TYPES or _is_loaded_class(kind, "uuid", "UUID"):
        return True
    return bool(kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__)


def _is_loaded_class(kind: Any, module: str, name: str) -> bool:
    """Return whether this is the class of a module that takes long to import; else it has no values."""
    return getattr(sys.modules.get(module), name, None) is kind


def _consists_of_plain_parts(container: Any) -> bool:
    pending, count = [container], 0
    while pending:
        part = pending.pop()
        kind = type(part)
        count += 1
        if count > MAX_WHOLE_PARTS:
            return False
        if kind is dict:
            pending += [*part, *part.values()]
        elif kind in _CONTAINER_TYPES:
            pending += part
        elif not _has_plain_text(part, kind):
            return False
    return True
