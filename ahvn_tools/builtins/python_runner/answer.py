"""Answer: what the program wrote about the code that it ran. The code may have forged it, so everything is checked."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.errors import ToolError

_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_MAX_NOTES: Final = 20
_MAX_NOTE_CHARS: Final = 1000
_MAX_REPR_CHARS: Final = 12
"""How long one character is at most in JSON: a surrogate pair."""


@dataclass(frozen=True, kw_only=True)
class AnswerLimits:
    """How much of an answer is used."""

    max_value_chars: int
    max_images: int
    max_image_bytes: int
    """Bytes of each picture."""

    @property
    def max_bytes(self) -> int:
        """How large the file of an honest answer is at most."""
        texts = self.max_value_chars + _MAX_NOTES * _MAX_NOTE_CHARS
        return texts * _MAX_REPR_CHARS + self.max_images * (self.max_image_bytes * 4 // 3 + 100) + 1000


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the program wrote about the code. Nothing if the code ended it before."""

    exit_code: int | None = None
    value: str | None = None
    """The repr of the last expression, or its beginning."""
    value_chars: int = 0
    """How many characters the whole repr has."""
    images: tuple[bytes, ...] = ()
    """PNG files."""
    notes: tuple[str, ...] = ()
    """Sentences about pictures that are missing."""

    @property
    def is_value_cut(self) -> bool:
        """Whether the repr is longer than `value`."""
        return self.value is not None and self.value_chars > len(self.value)

    @classmethod
    def read(cls, path: Path, limits: AnswerLimits) -> Self:
        """Return what the file says; an empty answer if there is none, or none that the program would write.

        The path is opened as those of a model: a link, a pipe or a huge file there is no answer.
        """
        folder = ConfinedFolders(path.parent, hard_links="refuse")
        try:
            content, _ = folder.read(path.name, max_bytes=limits.max_bytes)
            return cls._of(json.loads(content), limits)
        except (ToolError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return cls()

    @classmethod
    def _of(cls, data: Any, limits: AnswerLimits) -> Self:
        text, length = data["value"] or (None, 0)
        images = [_to_png(image, limits) for image in _list(data["images"])[: limits.max_images]]
        notes = [_printable(str(note)[:_MAX_NOTE_CHARS]) for note in _list(data["notes"])[:_MAX_NOTES]]
        return cls(
            exit_code=int(data["exit_code"]),
            value=None if text is None else _printable(str(text)[: limits.max_value_chars]),
            value_chars=int(length),
            images=tuple(image for image in images if image),
            notes=tuple(notes),
        )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _to_png(image: Any, limits: AnswerLimits) -> bytes:
    """Return the picture; nothing for what is no PNG file, or too large."""
    try:
        content = base64.b64decode(image, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return b""
    return content if content.startswith(_PNG_SIGNATURE) and len(content) <= limits.max_image_bytes else b""


def _printable(text: str) -> str:
    """Return the text with surrogates escaped, which no message could contain."""
    return text.encode("utf-8", "backslashreplace").decode()
