"""The JSON form of a value: by pydantic, with encoders for what pydantic does not know."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from pydantic_core import CoreConfig, PydanticSerializationError, SchemaSerializer, core_schema

from ahvn_tools.encoders.binary import encode_nested_bytes
from ahvn_tools.encoders.registry import encode, encode_registered, no_json_form_error
from ahvn_tools.errors import InvalidResultError

_SERIALIZER: Final = SchemaSerializer(core_schema.any_schema(), CoreConfig(ser_json_inf_nan="constants"))
"""NaN and Infinity are dumped as they are, and then refused, not as null."""

_require_json: Final = json.JSONEncoder(allow_nan=False).encode
"""Fails for NaN, Infinity, overlong integers, cycles and deep nesting."""


def to_json_form(value: Any, serialize: Callable[[Any], Any] | None = None, *, is_strict: bool = False) -> Any:
    """Return the JSON form of a value. Raises InvalidResultError for one that has none.

    `serialize` serializes it by its annotation, and raises PydanticSerializationError where it does not fit: then its
    own type decides, unless `is_strict`, because a serializer of the annotation may hide a part of the value.
    """
    if type(value) is bool or value is None:
        return value
    try:
        encoded = encode_registered(value)
        json_form = serialize(encoded) if serialize and is_strict else _serialize(encoded, serialize)
        if type(json_form) is not str:
            _require_json(json_form)
    except InvalidResultError:  # an encoder's own
        raise
    except PydanticSerializationError:  # its text contains a part of the value
        raise no_json_form_error(value) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a type's own serializer may raise anything, also a SystemExit
        raise no_json_form_error(value) from error
    return json_form


def serialize_untyped(value: Any) -> Any:
    """Return the JSON form of a value by its own type."""
    try:
        return _SERIALIZER.to_python(value, mode="json", fallback=encode, warnings="error")  # one would show the value
    except UnicodeDecodeError:  # bytes that are no text
        encoded = encode_nested_bytes(value)
        return _SERIALIZER.to_python(encoded, mode="json", fallback=encode, warnings="error")


def _serialize(value: Any, serialize: Callable[[Any], Any] | None) -> Any:
    if serialize is not None:
        try:
            return serialize(value)
        except (PydanticSerializationError, UnicodeDecodeError):
            pass  # the value does not match the annotation: serialize it by its own type
    return serialize_untyped(value)
