"""The messages between the host and its processes. To one that runs programs: JSON data, after its length."""

from __future__ import annotations

import json
import struct
from typing import Final

from ahvn_tools.execution.isolation.protocol import read_exactly, write_all
from ahvn_tools.json_types import JsonObject

FORK: Final = b"f"
"""Asks the spawner for a process, with the descriptors that it reads from and writes to. The reply is its id,
or a negative error number."""

REAP: Final = b"r"
"""Asks the spawner for the return code of a process that was killed, with its id after this byte."""

NUMBER: Final = struct.Struct(">q")
"""An id of a process, or a return code, which is negative for a signal."""

_LENGTH: Final = struct.Struct(">Q")


def read_frame(descriptor: int) -> JsonObject | None:
    """Wait for the next message. Return None when the other process has ended."""
    head = read_exactly(descriptor, _LENGTH.size)
    content = None if head is None else read_exactly(descriptor, _LENGTH.unpack(head)[0])
    if content is None:
        return None
    message: JsonObject = json.loads(content)
    return message


def write_frame(descriptor: int, message: JsonObject) -> None:
    """Send a message. Raises OSError when the other process has ended."""
    content = json.dumps(message).encode()
    write_all(descriptor, _LENGTH.pack(len(content)) + content)
