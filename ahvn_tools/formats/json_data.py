"""JSON data that can be sent: without lone surrogates and without values that JSON does not have."""

from __future__ import annotations

import math
from typing import Any


def replace_surrogates(text: str) -> str:
    """Return text that UTF-8 can encode: U+FFFD replaces each lone surrogate (half a character)."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def to_json_data(value: Any) -> Any:
    """Return a copy of a value as JSON data without lone surrogates; what JSON cannot express becomes text."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {replace_surrogates(str(key)): to_json_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_data(item) for item in value]
    is_json = value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return value if is_json else replace_surrogates(str(value))
