"""The values of a program as JSON data, within limits of their size and depth."""

from __future__ import annotations

import base64
import functools
import math
from dataclasses import dataclass
from typing import Any, Final

from ahvn_tools.code_mode.sandbox import ProgramError
from ahvn_tools.errors import InvalidResultError
from ahvn_tools.schema.limits import INTEGER_LIMIT, MAX_DIGITS

MAX_DEPTH: Final = 100
"""Values that nest deeper than this are refused."""

_TOO_DEEP: Final = "<deeply nested>"
"""What Monty puts in place of a value that is nested deeper than its limit of recursion."""

_PART_BYTES: Final = 100
"""How much each value counts, in addition to its text. It bounds the time that a conversion takes."""

_QUICK_BYTES: Final = 100_000
"""Values up to this size are converted in the event loop: it takes about a millisecond."""


class TooLargeError(ProgramError):
    """A value is larger than the limit."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"A value has more than {max_bytes:,} bytes. Make it smaller, or pass a part.")


@dataclass(frozen=True)
class SizedValue:
    """JSON data, and its size."""

    value: Any
    size: int
    """The characters of its texts, and 100 for each value in it."""


async def to_json(value: Any, max_bytes: int, *, is_from_program: bool = True) -> SizedValue:
    """Return a value as JSON data; objects of a program's own classes are dicts of their attributes.

    A value that is in it several times counts each time. Large values are converted in a thread. Raises ProgramError
    for a value that is too large, nested too deep, or has no JSON form.
    """
    try:
        return convert(value, min(max_bytes, _QUICK_BYTES), is_from_program=is_from_program)
    except TooLargeError:
        if max_bytes <= _QUICK_BYTES:
            raise
    from ahvn_tools.execution.threads import call_in_thread  # processes that run programs need no threads

    return await call_in_thread(functools.partial(convert, value, max_bytes, is_from_program=is_from_program))


def convert(value: Any, max_bytes: int, *, is_from_program: bool = True) -> SizedValue:
    """Do what `to_json` does, in this thread."""
    conversion = _Conversion(max_bytes, is_from_program)
    converted = conversion.convert(value, 1)
    return SizedValue(converted, max_bytes - conversion.bytes_left)


def require_finite(value: Any) -> None:
    """Raises ProgramError for JSON data that contains NaN or Infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ProgramError(f"The result contains {value!r}, which JSON does not have. Return None or a text instead.")
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            require_finite(part)


def _require_unicode(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            raise ProgramError("A text in it is not valid Unicode.") from None


class _Conversion:
    """One conversion to JSON data, which counts what it converts."""

    def __init__(self, max_bytes: int, is_from_program: bool) -> None:
        self.bytes_left = self._max_bytes = max_bytes
        self._is_from_program = is_from_program

    def convert(self, value: Any, level: int) -> Any:
        if level > MAX_DEPTH:
            raise ProgramError(f"A value is nested more than {MAX_DEPTH} levels deep.")
        self._count(_PART_BYTES + (len(value) if isinstance(value, str | bytes) else 0))
        if isinstance(value, str):
            if self._is_from_program and value == _TOO_DEEP:
                raise ProgramError("A value is nested too deep. Make it flatter.")
            _require_unicode(value)
        if value is None or isinstance(value, str | bool | float):
            return value
        if isinstance(value, int):
            if not -INTEGER_LIMIT < value < INTEGER_LIMIT:
                raise ProgramError(f"An integer has more than {MAX_DIGITS} digits.")
            return value
        if isinstance(value, dict):
            return self._convert_dict(value, level)
        if isinstance(value, list | tuple | set | frozenset):
            return [self.convert(part, level + 1) for part in value]
        return self._convert_object(value, level)

    def _convert_dict(self, value: dict[Any, Any], level: int) -> dict[str, Any]:
        converted: dict[str, Any] = {}
        for key, part in value.items():
            text = key if isinstance(key, str) else str(self.convert(key, level + 1))
            _require_unicode(text)
            if text in converted:
                raise ProgramError(f"Two keys of a dict are the same text in JSON: {text[:100]!r}.")
            self._count(len(text))
            converted[text] = self.convert(part, level + 1)
        return converted

    def _convert_object(self, value: Any, level: int) -> Any:
        if self._is_from_program:
            if isinstance(value, bytes):
                return base64.b64encode(value).decode()
            if isinstance(attributes := getattr(value, "attributes", None), dict):
                return self._convert_dict(attributes, level)
        from ahvn_tools.encoders.registry import to_json_form

        try:
            return self.convert(to_json_form(value), level)
        except InvalidResultError as error:
            if self._is_from_program:
                return repr(value)  # of a class, an exception or another object of the sandbox
            raise ProgramError(error.message) from None

    def _count(self, size: int) -> None:
        self.bytes_left -= size
        if self.bytes_left < 0:
            raise TooLargeError(self._max_bytes)
