"""A check against an SDK's own types that leaves nothing unsaid: an unknown key is a failure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, TypeAdapter


def fits(kind: Any, value: Any) -> None:
    """Assert that a value is one of a kind, and that validation drops nothing of it.

    TypedDicts drop unknown keys in silence, and check an Iterable only when it is read; the adapter has to live until
    then.
    """
    adapter = TypeAdapter(kind)
    assert drained(adapter.validate_python(value)) == value


def fits_model(kind: type[BaseModel], value: Any, expected: Any = None) -> None:
    """Assert that a model of the SDK takes a value and gives it back whole, or as it is expected."""
    made = kind.model_validate(value)
    assert made.model_dump(mode="json", by_alias=True, exclude_unset=True) == (value if expected is None else expected)


def drained(value: Any) -> Any:
    """Return a value with everything in it read to its end."""
    if isinstance(value, dict):
        return {key: drained(member) for key, member in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | BaseModel):
        return [drained(item) for item in value]
    return value
