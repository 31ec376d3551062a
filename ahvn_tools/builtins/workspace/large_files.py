"""The lines of files that are too large to be read whole, in bounded memory."""

from __future__ import annotations

import io
import itertools
from collections.abc import Generator, Iterator
from typing import BinaryIO, Final

from ahvn_tools.builtins.files.text import TextForm, find_encoding
from ahvn_tools.builtins.workspace.lines import bare, ending

_HEAD_BYTES: Final = 65_536
"""How much of the file shows its encoding."""
_PIECE_CHARS: Final = 65_536
"""How much of a long line is read at once."""


def read_form(file: BinaryIO, encoding: str | None) -> TextForm:
    """Return the form that the beginning of a file shows. Raises ToolError for binary content."""
    form = find_encoding(file.read(_HEAD_BYTES), encoding)
    file.seek(0)
    return form


def iterate_lines(
    file: BinaryIO, encoding: str, max_chars: int, *, first: int, dropped: int
) -> Generator[str, None, None]:
    """Yield the lines with their endings; of a long line at most so many characters. What does not fit is replaced.

    The line number `first` comes without its first `dropped` characters.
    """
    text = io.TextIOWrapper(file, encoding, "replace", newline="")
    try:
        yield from _joined_pieces(text, max_chars, first, dropped)
    finally:
        text.detach()


def _joined_pieces(text: io.TextIOWrapper, max_chars: int, first: int, dropped: int) -> Iterator[str]:
    piece = text.readline(_PIECE_CHARS).removeprefix("\ufeff")
    for number in itertools.count(1):
        if not piece:
            return
        left = dropped if number == first else 0
        line = bare(piece)[left : left + max_chars]
        left = max(left - len(bare(piece)), 0)
        while not ending(piece) and (following := text.readline(_PIECE_CHARS)):
            piece = following
            line += bare(piece)[left : left + max_chars - len(line)]
            left = max(left - len(bare(piece)), 0)
        next_piece = text.readline(_PIECE_CHARS)
        if next_piece == "\n" and ending(piece) == "\r":  # one line ending, at the end of a piece
            next_piece = text.readline(_PIECE_CHARS)
        yield line + ending(piece)
        piece = next_piece
