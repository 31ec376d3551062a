"""The frames in which a process and its worker process send each other bytes: a length in eight bytes, and the content.

A request is a frame with a pickled ProcessEnvironment and CallRequest. The worker sends `replies`. It gets a frame for
each chunk, b"" to request the next one, and for each question: the pickled exception that `ask` raises, or None.
"""

from __future__ import annotations

import os
import struct

_LENGTH = struct.Struct(">Q")
_MAX_READ_BYTES = 1 << 24
_MAX_JOINED_BYTES = 1 << 16


def read_frame(descriptor: int) -> bytes | None:
    """Read one frame. Return None at the end of the stream."""
    head = read_exactly(descriptor, _LENGTH.size)
    return None if head is None else read_exactly(descriptor, *_LENGTH.unpack(head))


def write_frame(descriptor: int, content: bytes) -> None:
    """Write a frame. Raises OSError when the other process has closed its end."""
    head = _LENGTH.pack(len(content))
    if len(content) > _MAX_JOINED_BYTES:
        _write_all(descriptor, head)
        _write_all(descriptor, content)
    else:
        _write_all(descriptor, head + content)  # the reader wakes up once


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def read_exactly(descriptor: int, length: int) -> bytes | None:
    """Read from a pipe. Return None if it ends before."""
    content = bytearray()
    while len(content) < length:
        part = os.read(descriptor, min(length - len(content), _MAX_READ_BYTES))
        if not part:
            return None
        content += part
    return bytes(content)
