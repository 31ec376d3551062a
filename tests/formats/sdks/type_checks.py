"""Checks against an SDK's own types; an unknown key is a failure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, TypeAdapter


def fits(kind: Any, value: Any) -> None:
    """Assert that a value has a type, and that validation drops nothing.

    TypedDicts silently drop unknown keys. They check an Iterable only when it is read; the adapter must exist until
    then.
    """
    adapter = TypeAdapter(kind)
    assert drained(adapter.validate_python(value)) == value


def fits_model(kind: type[BaseModel], value: Any, expected: Any = None) -> None:
    """Assert that a model of the SDK accepts a value and dumps it unchanged, or as expected."""
    model = kind.model_validate(value)
    assert model.model_dump(mode="json", by_alias=True, exclude_unset=True) == (value if expected is None else expected)


def drained(value: Any) -> Any:
    """Return a value with all iterables in it read."""
    if isinstance(value, dict):
        return {key: drained(member) for key, member in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | BaseModel):
        return [drained(item) for item in value]
    return value
