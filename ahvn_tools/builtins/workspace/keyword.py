"""Keyword: the text that a search looks for, in lines and in the bytes of files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ahvn_tools.builtins.files.text import GUESSED_ENCODINGS, find_codec
from ahvn_tools.errors import ToolError

_OTHER_CASES: Final = {"i": "iI\u0131\u0130", "k": "kK\u212a", "s": "sS\u017f"}
"""Letters that are the same as an ASCII letter, without regard to case, for Python's regular expressions."""
_WIDE_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks of encodings whose characters have more than one byte."""
UNSEARCHED_ENCODINGS: Final = ("utf-32-le", "utf-32-be")
"""ripgrep does not know them, so that a search leaves them out with and without it."""
MAX_CHARS: Final = 1_000
"""A longer keyword would take seconds to prepare."""
_LINES_PER_CHECK: Final = 10_000


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A line with a match."""

    index: int
    start: int
    """Where the first match begins in the line, and where it ends: indexes of characters."""
    end: int


class Keyword:
    """A literal text; it is no pattern, so that no search hangs."""

    def __init__(self, text: str, *, ignore_case: bool = False, encoding: str | None = None) -> None:
        """Raise ToolError for a text that no line contains. `encoding` is that of the files that are no UTF-8."""
        if not text or "\n" in text or "\r" in text:
            raise ToolError("Pass a keyword of one line that is not empty.")
        if len(text) > MAX_CHARS:
            raise ToolError(f"The keyword has {len(text):,} characters. Pass a part of it, of at most {MAX_CHARS:,}.")
        self.text = text
        self.encoding = None if encoding is None else find_codec(encoding)
        self._in_line = re.compile(re.escape(text), re.IGNORECASE if ignore_case else 0)
        self.byte_pattern = None if encoding else _byte_pattern(text, ignore_case=ignore_case)
        """A regular expression, of Python and of ripgrep, that every file matches that contains the keyword; None if
        there is none."""
        self._in_bytes = None if self.byte_pattern is None else re.compile(self.byte_pattern.encode())

    def find_lines(self, lines: list[str], is_over: Callable[[], bool]) -> Iterator[FoundLine]:
        """Yield the first match of each line that has one, until it is over."""
        for index, line in enumerate(lines):
            if index % _LINES_PER_CHECK == 0 and is_over():
                return
            if (match := self._in_line.search(line)) is not None:
                yield FoundLine(index, *match.span())

    def may_be_in(self, content: bytes) -> bool:
        """Return False only if no line of the file contains the keyword: quickly, without decoding."""
        return self._in_bytes is None or content.startswith(_WIDE_MARKS) or self._in_bytes.search(content) is not None


def _byte_pattern(text: str, *, ignore_case: bool) -> str | None:
    if text.isascii():
        return "".join(_any_of(_cases(character) if ignore_case else character) for character in text)
    if ignore_case:
        return None
    return _in_any_encoding(text)


def _cases(character: str) -> str:
    return _OTHER_CASES.get(character.lower()) or character.lower() + character.upper()


def _any_of(characters: str) -> str:
    """Return a pattern for the bytes of one of the characters."""
    return f"(?:{'|'.join(map(_in_any_encoding, dict.fromkeys(characters)))})"


def _in_any_encoding(text: str) -> str:
    """Return a pattern for the bytes of a text in each encoding that a file may have without the caller's word."""
    forms = {text.encode()} if text.isascii() else {_encoded(text, each) for each in ("utf-8", *GUESSED_ENCODINGS)}
    return "|".join("".join(f"\\x{byte:02x}" for byte in form) for form in sorted(forms - {b""}))


def _encoded(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return b""
