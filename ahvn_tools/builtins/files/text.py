"""The text of a file: its encoding, byte order mark and line endings, which an edit keeps."""

from __future__ import annotations

import codecs
import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from ahvn_tools.errors import ToolError

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UNUSUAL_CONTROLS: Final = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
_WITHOUT_PROOF: Final = ("cp1252", "latin-1")
"""Encodings that any bytes could have: control characters are taken for binary content."""
_BINARY: Final = "The file is binary and no text, so it cannot be read or edited as text."
_DAMAGED: Final = "The file says that it is {encoding} text, but it is damaged. It cannot be read or edited as text."


@dataclass(frozen=True, kw_only=True)
class TextForm:
    """How a text is written in a file."""

    encoding: str = "utf-8"
    """utf-8, utf-16-le, utf-16-be, utf-32-le, utf-32-be, cp1252 or latin-1."""
    has_byte_order_mark: bool = False
    newline: str = "\n"
    """The line ending of most lines; a line feed without lines."""


def decode(content: bytes) -> tuple[str, TextForm]:
    """Return the text with its own line endings, and its form. Raises ToolError for binary content.

    A byte order mark decides. Else it is UTF-8, and what is no UTF-8 is Windows-1252, or Latin-1 where that has no
    character for a byte. Content with NUL characters is binary. `encode` with the form gives the same bytes again.
    """
    mark, encoding = find_encoding(content)
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError:
        raise ToolError(_DAMAGED.format(encoding=encoding.upper())) from None
    if "\0" in text:
        raise ToolError(_BINARY)
    return text, TextForm(encoding=encoding, has_byte_order_mark=bool(mark), newline=find_newline(text))


def encode(text: str, form: TextForm) -> bytes:
    """Return the content of a file. Raises ToolError for what `decode` would not read again."""
    try:
        content = text.encode(form.encoding)
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        if unicodedata.category(character) == "Cs":
            raise ToolError("The text has characters that cannot be written: surrogates. Remove them.") from None
        raise ToolError(
            f"The file is {form.encoding} text, which has no character U+{ord(character):04X}. Write it without that "
            "character, or replace the whole file: then it is UTF-8."
        ) from None
    if "\0" in text or (form.encoding in _WITHOUT_PROOF and _UNUSUAL_CONTROLS.search(content)):
        raise ToolError("With this text the file would be binary: it has NUL or other control characters. Remove them.")
    return _mark_of(form) + content


def find_encoding(content: bytes) -> tuple[bytes, str]:
    """Return the byte order mark and the encoding. Raises ToolError for bytes that are no text in any encoding."""
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return mark, encoding
    for encoding in ("utf-8", "cp1252"):
        try:
            content.decode(encoding)
        except UnicodeDecodeError:
            if _UNUSUAL_CONTROLS.search(content):
                raise ToolError(_BINARY) from None
        else:
            return b"", encoding
    return b"", "latin-1"


def find_newline(text: str) -> str:
    """Return the line ending of most lines; of several that are equally frequent LF, then CRLF."""
    if "\r" not in text:
        return "\n"
    windows = text.count("\r\n")
    counts = {"\n": text.count("\n") - windows, "\r\n": windows, "\r": text.count("\r") - windows}
    return max(counts, key=lambda newline: counts[newline])


def _mark_of(form: TextForm) -> bytes:
    if not form.has_byte_order_mark:
        return b""
    return next(mark for mark, encoding in _MARKS if encoding == form.encoding)
