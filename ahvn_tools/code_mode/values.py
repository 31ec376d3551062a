"""The values of a program as JSON data."""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ahvn_tools.code_mode.sandbox import ProgramError


def to_json(value: Any) -> Any:
    """Return a value of a program as JSON data; objects of its own classes are dicts of their attributes.

    Raises ProgramError for a value that is nested too deep.
    """
    try:
        return _to_json(value)
    except RecursionError:
        raise ProgramError("A value of the program is nested too deep.") from None


def _to_json(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(_to_json(key)): _to_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_to_json(part) for part in value]
    if isinstance(attributes := getattr(value, "attributes", None), dict):
        return _to_json(attributes)
    try:
        return to_jsonable_python(value, bytes_mode="base64")
    except PydanticSerializationError:
        return repr(value)
