"""The lines of files that are too large to be read whole, in bounded memory."""

from __future__ import annotations

import io
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


def iterate_lines(file: BinaryIO, encoding: str, max_chars: int) -> Generator[str, None, None]:
    """Yield the lines with their endings; of a long line at most so many characters. What does not fit is replaced."""
    text = io.TextIOWrapper(file, encoding, "replace", newline="")
    try:
        yield from _joined_pieces(text, max_chars)
    finally:
        text.detach()


def _joined_pieces(text: io.TextIOWrapper, max_chars: int) -> Iterator[str]:
    first = text.readline(_PIECE_CHARS).removeprefix("\ufeff")
    while first:
        piece = first
        line = bare(piece)[:max_chars]
        while not ending(piece) and (following := text.readline(_PIECE_CHARS)):
            piece = following
            line += bare(piece)[: max(max_chars - len(line), 0)]
        first = text.readline(_PIECE_CHARS)
        if first == "\n" and ending(piece) == "\r":  # one line ending, at the end of a piece
            first = text.readline(_PIECE_CHARS)
        yield line + ending(piece)
