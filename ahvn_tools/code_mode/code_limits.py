"""CodeLimits: what one program may use."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from ahvn_tools.errors import ToolkitError

_MAX_SECONDS: Final = 86_400
_MAX_NUMBER: Final = 2**40


@dataclass(frozen=True, kw_only=True)
class CodeLimits:
    """What one program may use.

    Raises ToolkitError for a limit that is not more than 0, for seconds of more than a day, and for other limits that
    are no whole number or more than 2**40.
    """

    seconds: float = 10.0
    """Seconds in which the program itself runs. The time that it waits for tools does not count."""
    memory_bytes: int = 100_000_000
    """Bytes of all objects of the program at a time, and of what unanswered calls have received and returned."""
    value_bytes: int = 10_000_000
    """Bytes of the arguments of one call, and of the result, where each value in them counts 100."""
    calls: int = 100
    """How many calls of tools it makes."""
    output_chars: int = 20_000
    """How many characters it prints. What it prints after that is lost, and the result says so."""
    code_chars: int = 100_000
    """How long the program is."""
    recursion: int = 200
    """How deep its functions call each other, and its values are nested, together."""
    content_bytes: int = 20_000_000
    """Bytes of all images and files that its calls return, as base64."""
    saved_bytes: int = 2_000_000
    """Bytes of a program that waits for an approval, as it is stored."""

    def __post_init__(self) -> None:
        """Check the values."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ToolkitError(f"The limit `{field.name}` of programs is a number above 0, not {value!r}.")
            if field.type == "int" and not isinstance(value, int):
                raise ToolkitError(f"The limit `{field.name}` of programs is a whole number, not {value!r}.")
            most = _MAX_NUMBER if field.type == "int" else _MAX_SECONDS
            if value > most:
                raise ToolkitError(f"The limit `{field.name}` of programs is at most {most:,}, not {value!r}.")
