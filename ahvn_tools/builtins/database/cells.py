"""The values of a database as JSON data of limited length."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any, Final

MAX_INT: Final = 2**63
"""Larger integers become texts: many programs that read JSON would round them."""
_MAX_DECIMAL_BITS: Final = 10_000
"""Python refuses to write longer integers in decimal."""


def plain_cell(value: Any, limit: int) -> tuple[Any, bool]:
    """Return a value as None, a bool, a number or a text of about `limit` characters, and whether it was cut."""
    if value is None or value is True or value is False:
        return value, False
    if type(value) is int:
        return (value, False) if -MAX_INT <= value < MAX_INT else _cut(_digits(value), limit)
    if type(value) is float:
        return (value, False) if math.isfinite(value) else (_name_of(value), False)
    if isinstance(value, str):
        return _cut(value, limit)
    if isinstance(value, bytes | bytearray | memoryview):
        return _cut_bytes(bytes(value), limit)
    return _cut(_text_of(value), limit)


def _digits(value: int) -> str:
    """Return an integer as text, in hexadecimal where Python refuses that many decimal digits."""
    return str(value) if value.bit_length() < _MAX_DECIMAL_BITS else hex(value)


def _name_of(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _text_of(value: Any) -> str:
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _cut(text: str, limit: int) -> tuple[str, bool]:
    text = text if text.isascii() else text.encode("utf-8", "replace").decode()
    return (text, False) if len(text) <= limit else (f"{text[:limit]}… ({len(text):,} characters)", True)


def _cut_bytes(value: bytes, limit: int) -> tuple[str, bool]:
    shown = max(limit // 2, 1)
    text = f"0x{value[:shown].hex()}"
    return (text, False) if len(value) <= shown else (f"{text}… ({len(value):,} bytes)", True)
