r"""LoneSurrogates: replaces what is no character in the bytes of a JSON message, which pydantic would refuse whole.

That is an escape such as `\ud83d` without its other half, as JavaScript writes a text that was cut inside of an emoji,
and bytes that are not UTF-8.
"""

from __future__ import annotations

import asyncio
import codecs
import re
from typing import Final

_CHUNK_BYTES: Final = 65_536
_REPLACEMENT: Final = rb"\ufffd"

_POSSIBLE = re.compile(rb"\\u[dD]|\\(?:u[0-9a-fA-F]{0,3})?\Z")
"""What bytes without which nothing is replaced do not contain."""

_ESCAPES = re.compile(
    rb"""
    (?P<end> \\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?\Z)
    |(?P<kept>(?:
        \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}
        |\\u(?=[0-9a-fA-F]{4})(?![dD][89a-fA-F])
        |\\[^u]
    )+)
    |(?P<lone>(?:
        \\u[dD][c-fC-F][0-9a-fA-F]{2}
        |\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z)
    )+)
    """,
    re.VERBOSE,
)


class LoneSurrogates:
    """Replaces lone surrogates in JSON that arrives in chunks."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._has_part = False
        self._end = b""

    def replace(self, chunk: bytes, *, is_last: bool = False) -> bytes:
        """Take the next chunk, and return what is complete with it."""
        if self._has_part or not chunk.isascii():
            chunk = self._decoder.decode(chunk, is_last).encode()
            self._has_part = bool(self._decoder.getstate()[0])
        chunk, self._end = self._end + chunk, b""
        return _ESCAPES.sub(self._replace_escape, chunk) if _POSSIBLE.search(chunk) else chunk

    def finish(self) -> bytes:
        """Return what is left at the end of the message."""
        return self.replace(b'"', is_last=True)[:-1] if self._has_part or self._end else b""

    def _replace_escape(self, match: re.Match[bytes]) -> bytes:
        if match["lone"] is not None:
            return _REPLACEMENT * (len(match["lone"]) // len(_REPLACEMENT))
        if match["end"] is not None:
            self._end = match["end"]
            return b""
        return match["kept"]


async def replace_lone_surrogates(message: bytes) -> bytes:
    """Return a JSON message with U+FFFD in place of each lone surrogate and of bytes that are not UTF-8."""
    surrogates = LoneSurrogates()
    parts = []
    for start in range(0, len(message), _CHUNK_BYTES):
        if start:
            await asyncio.sleep(0)  # a large message takes seconds
        parts.append(surrogates.replace(message[start : start + _CHUNK_BYTES]))
    return b"".join([*parts, surrogates.finish()])
