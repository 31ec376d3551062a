"""Identity: a digest of values, the same for equal ones only. What cannot be told apart for sure has none."""

from __future__ import annotations

import dataclasses
import hashlib
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import BaseModel, SecretBytes, SecretStr

_REPR_TYPES = frozenset({
    type(None), bool, int, float, str, bytes, Decimal, UUID, date, timedelta,
    PosixPath, PurePosixPath, PureWindowsPath, WindowsPath,
})  # fmt: skip
"""Their `repr` says all there is to say. Subclasses may hold more, so they are not among them."""


class UncacheableValueError(Exception):
    """A value, or a part of it, cannot be told from others for sure."""


def keyed_digest(value: Any, key: bytes) -> bytes:
    """Return a digest of data, secrets opened; `key` keeps it from being guessed. Raises NoIdentityError.

    Data is what JSON knows, and bytes, sets, tuples, dates, paths, enums, pydantic's secrets, dataclasses and models of
    these. The members of a dict count in their order.
    """
    try:
        told = _canonical_text(value)
    except Exception as error:  # a circle, or a foreign class, which may raise anything
        raise UncacheableValueError(f"A {type(value).__name__} cannot be told from others.") from error
    return hashlib.blake2b(told.encode("utf-8", "surrogatepass"), key=key, digest_size=32).digest()


def _canonical_text(value: Any) -> str:
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
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
    return f"{name}({_canonical_text(_record_fields(value))})"


def _record_fields(value: Any) -> dict[str, Any]:
    """Return all that a record holds. Raises TypeError for what is none."""
    if type(value) in {datetime, time} and type(value.tzinfo) in {type(None), timezone, ZoneInfo}:
        return {"repr": repr(value)}
    if isinstance(value, BaseModel):
        return {**vars(value), "": [value.__pydantic_extra__, value.__pydantic_private__]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {**fields, **getattr(value, "__dict__", {})}
    raise TypeError(type(value).__name__)
