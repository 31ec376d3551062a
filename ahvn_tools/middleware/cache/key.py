"""Cache keys: a digest of values that is equal for equal values only, or an error if equality cannot be decided."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from types import BuiltinFunctionType
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

from pydantic import BaseModel, SecretBytes, SecretStr

_REPR_TYPES = frozenset({
    type(None), bool, int, float, str, bytes, Decimal, UUID, date, timedelta,
    PosixPath, PurePosixPath, PureWindowsPath, WindowsPath,
})  # fmt: skip
"""Types whose `repr` identifies a value. Their subclasses may have further attributes, so they are not included."""

_class_numbers: WeakKeyDictionary[type, int] = WeakKeyDictionary()
_next_number = itertools.count()


class UncacheableValueError(Exception):
    """A value, or a part of it, has no reliable identity."""


def keyed_digest(value: Any, key: bytes) -> bytes:
    """Return a digest of data, secrets included; the secret `key` makes it unguessable. Raises UncacheableValueError.

    Data is what JSON can represent, and bytes, sets, tuples, dates, paths, enums, pydantic's secrets, dataclasses and
    models of these. The order of a dict's members is significant.
    """
    try:
        text = _canonical_text(value)
    except Exception as error:  # a circular reference, or a foreign class, which may raise anything
        raise UncacheableValueError(f"A {type(value).__name__} has no reliable identity.") from error
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=32).digest()


def _canonical_text(value: Any) -> str:
    kind = type(value)
    name = _class_name(kind)
    if kind in _REPR_TYPES:
        return f"{name}:{value!r}"
    if kind is dict:
        return f"{name}({','.join(f'{_canonical_text(key)}={_canonical_text(part)}' for key, part in value.items())})"
    if kind is list or kind is tuple:
        return f"{name}({','.join(map(_canonical_text, value))})"
    if kind is set or kind is frozenset:
        return f"{name}({','.join(sorted(map(_canonical_text, value)))})"
    if kind is SecretStr or kind is SecretBytes:
        return f"{name}({_canonical_text(value.get_secret_value())})"
    if isinstance(value, Enum):
        return f"{name}.{value.name}({_canonical_text(value.value)})"
    return f"{name}({_canonical_text(_record_state(value))})"


def _class_name(kind: type) -> str:
    """Return a name that no other class has, not even one of the same module and qualified name.

    Raises TypeError for a class that its metaclass may call equal to another one.
    """
    if type(kind).__eq__ is not type.__eq__:
        raise TypeError(kind.__name__)
    return f"{kind.__module__}.{kind.__qualname__}#{_class_numbers.setdefault(kind, next(_next_number))}"


def _record_state(value: Any) -> Any:
    """Return the whole state of a time, model or dataclass. Raises TypeError for any other value."""
    kind = type(value)
    if kind in {datetime, time} and type(value.tzinfo) in {type(None), timezone, ZoneInfo}:
        return repr(value)
    is_record = isinstance(value, BaseModel) or dataclasses.is_dataclass(kind)
    if is_record and not any(isinstance(vars(base).get("__new__"), BuiltinFunctionType) for base in kind.__mro__[:-1]):
        return object.__getstate__(value)  # the attributes and all slots, whatever the class itself would pickle
    raise TypeError(kind.__name__)  # also for a subclass of a built-in type, whose content is no attribute
