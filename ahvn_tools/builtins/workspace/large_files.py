"""The lines of files that are too large to be read whole, in bounded memory."""

from __future__ import annotations

import codecs
import io
from collections.abc import Generator, Iterator
from typing import BinaryIO, Final

from ahvn_tools.builtins.files.text import decode
from ahvn_tools.builtins.workspace.lines import bare, ending

_HEAD_BYTES: Final = 65_536
"""How much of the file shows its encoding."""
_PIECE_CHARS: Final = 65_536
"""How much of a long line is read at once."""


def iterate_lines(file: BinaryIO, max_chars: int) -> Generator[str, None, None]:
    """Yield the lines with their endings; of a long line at most so many characters.

    The encoding is that of the beginning; what does not fit it later is replaced. Raises ToolError for binary content.
    """
    encoding = _encoding(file.read(_HEAD_BYTES))
    file.seek(0)
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


def _encoding(head: bytes) -> str:
    """Return the encoding that the beginning of a file shows, without a character that is cut at its end."""
    try:
        decoder = codecs.getincrementaldecoder("utf-8")()
        decoder.decode(head)
        head = head[: len(head) - len(decoder.getstate()[0])]
    except UnicodeDecodeError:
        pass  # another encoding, whose characters have two bytes or one
    return decode(head)[1].encoding
