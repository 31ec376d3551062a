"""Which encoder a value has, a registered or a built-in one; and the JSON form of a value by pydantic and encoders."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from pydantic_core import CoreConfig, PydanticSerializationError, SchemaSerializer, core_schema

from ahvn_tools.encoders import libraries
from ahvn_tools.encoders.binary import encode_bytes, encode_nested_bytes, map_containers
from ahvn_tools.encoders.loaded_classes import block_classes, is_file_class, loaded_classes, media_classes
from ahvn_tools.errors import INVALID_RESULT, DefinitionError, InvalidResultError

Encoder = Callable[[Any], Any]
"""Returns the JSON form of a value, or content such as an image. It may return values that have encoders."""

JSON_TYPES: Final = frozenset({str, int, float, bool, type(None), dict, list, tuple})
"""Types that are JSON already."""

_registered: dict[type, Encoder] = {}


def register_encoder(type: type, function: Encoder) -> None:  # noqa: A002  # what it is
    """Use a function for all results of a type, and of its subclasses, in all tools of this process.

    The function takes the value. It returns its JSON form, or content: FastMCP's `Image`, an MCP block. It is called
    for a value that a tool returns, at any depth of lists, tuples, sets and dicts, and for one in a pydantic model that
    pydantic cannot serialize. Content is possible for the whole value and for the items of a list. A second encoder
    of a type replaces the first one.

    Raises DefinitionError for a type that is JSON already, for `object`, and for a function that is not sync.

    >>> class Money:
    ...     def __init__(self, amount: int) -> None:
    ...         self.amount = amount
    >>> register_encoder(Money, lambda money: {"cents": money.amount, "currency": "EUR"})
    >>> from ahvn_tools import ToolSpec
    >>> ToolSpec.from_function(lambda: [Money(250)], name="prices")()
    [{'cents': 250, 'currency': 'EUR'}]
    """
    if not isinstance(type, _CLASS):
        raise DefinitionError(f"An encoder is registered for a class, not for {type!r}. Pass the class of the values.")
    if type in JSON_TYPES or type is object:
        raise DefinitionError(f"{type.__name__!r} accepts no encoder. Register one for a class of your own.")
    is_function = callable(function)
    if not is_function or inspect.iscoroutinefunction(function):
        raise DefinitionError(f"The encoder of {type.__name__!r} must be a function that is not async.")
    _registered[type] = function


def encode(value: Any) -> Any:
    """Return the JSON form of a value that pydantic cannot serialize. Raises InvalidResultError for one without."""
    encoder = find_encoder(type(value))
    if encoder is None:
        raise no_json_form_error(value)
    return _encode_inside(value, encoder)


def _encode_inside(value: Any, encoder: Encoder) -> Any:
    """Return the JSON form of a value inside of other data. Raises InvalidResultError for content."""
    encoded = encoder(value)
    if isinstance(encoded, (*block_classes(), *media_classes())):
        raise InvalidResultError(
            INVALID_RESULT,
            explanation=f"The tool returned a value of type {type(value).__name__!r} inside of other data, where it "
            "has no JSON form; return it alone, or as an item of a list.",
        )
    return encoded


def encode_registered(value: Any) -> Any:
    """Return a value in which registered encoders have replaced what they are for, at any depth of containers."""
    return map_containers(value, _encode_registered) if _registered else value


def encode_content(value: Any) -> Any:
    """Return a value with the content of its encoder, or of its items' encoders; any other value unchanged."""
    kind = type(value)
    if kind is list or kind is tuple:
        may_be_content = any(find_encoder(kind, _CONTENT) is not None for kind in {*map(type, value)} - JSON_TYPES)
        return list(map(_encode_whole, value)) if may_be_content else value
    return value if kind in JSON_TYPES else _encode_whole(value)


def no_json_form_error(value: Any) -> InvalidResultError:
    """Return the error about a value without a JSON form."""
    return InvalidResultError(
        INVALID_RESULT,
        explanation=f"The tool returned a value of type {type(value).__name__!r} that has no JSON form, or with fields "
        "that do not have their declared types; return JSON-able data, a valid pydantic model, or content such as "
        "Image or File, or use register_encoder.",
    )


def _refuse_exception(error: BaseException) -> NoReturn:
    raise InvalidResultError(
        INVALID_RESULT,
        explanation=f"The tool returned an exception of type {type(error).__name__!r}; raise it, or return a text.",
    )


_CLASS: Final[Any] = type

_BUILT_IN: Final[Mapping[tuple[str, str], Encoder]] = {
    ("builtins", "BaseException"): _refuse_exception,
    ("pathlib", "PurePath"): str,
    ("builtins", "memoryview"): encode_bytes,
    **libraries.ENCODERS,
}

_CONTENT: Final[Mapping[tuple[str, str], Encoder]] = {
    ("builtins", "BaseException"): _refuse_exception,
    **libraries.IMAGE_ENCODERS,
}


def find_encoder(kind: type, built_in: Mapping[tuple[str, str], Encoder] = _BUILT_IN) -> Encoder | None:
    """Return the encoder of a class: a registered one, its nearest base class first, or a built-in one."""
    registered = (
        next((_registered[base] for base in kind.__mro__ if base in _registered), None) if _registered else None
    )
    return registered or next(
        (
            encoder
            for (module, name), encoder in built_in.items()
            for known in loaded_classes(module, name)
            if issubclass(kind, known)
        ),
        None,
    )


def _encode_whole(value: Any) -> Any:
    encoder = find_encoder(type(value), _CONTENT)
    return value if encoder is None else encoder(value)


def _encode_registered(value: Any) -> Any:
    encoder = None if type(value) in JSON_TYPES else find_encoder(type(value), {})
    return value if encoder is None else encode_registered(_encode_inside(value, encoder))


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
        if type(encoded) not in _PLAIN_TYPES:
            _refuse_files(encoded)
        json_form = serialize(encoded) if serialize and is_strict else _serialize(encoded, serialize)
        if type(json_form) is not str:
            _require_json(json_form)
    except InvalidResultError:  # an encoder's own
        raise
    except PydanticSerializationError:  # its text contains a part of the value
        raise no_json_form_error(value) from None
    except Exception as error:
        raise no_json_form_error(value) from error
    return json_form


_PLAIN_TYPES: Final = frozenset({str, int, float})

_MAX_CHECKED_ITEMS: Final = 50
"""How many items of a large list or dict are looked at: the check must cost little."""


def _refuse_files(value: Any) -> None:
    """Raise InvalidResultError for an open file, and a list or dict with one: pydantic would read its lines."""
    kind = type(value)
    parts = value.values() if kind is dict else value if kind in {list, tuple} else (value,)
    for part in {*map(type, itertools.islice(parts, _MAX_CHECKED_ITEMS))} - JSON_TYPES:
        if is_file_class(part):
            raise InvalidResultError(
                INVALID_RESULT,
                explanation=f"The tool returned an open file, of type {part.__name__!r}; return its content.",
            )


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
