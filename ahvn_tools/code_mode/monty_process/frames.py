"""The messages between the host and its processes. To one that runs programs: JSON data, after its length."""

from __future__ import annotations

import json
import socket
import struct
from typing import Final

from ahvn_tools.execution.workers.frames import read_exactly
from ahvn_tools.json_types import JsonObject

FORK: Final = b"f"
"""Asks the spawner for a process, with the socket that it serves. The reply is its id, or a negative error number."""

REAP: Final = b"r"
"""Asks the spawner for the return code of a process that was killed, with its id after this byte."""

NUMBER: Final = struct.Struct(">q")
"""An id of a process, or a return code, which is negative for a signal."""

NO_SIGNAL: Final = getattr(socket, "MSG_NOSIGNAL", 0)
"""A flag for messages, so that a host with the default action for SIGPIPE does not end when the other process has."""

_LENGTH: Final = struct.Struct(">Q")
_MAX_JOINED_BYTES: Final = 1 << 16
"""Above this size, the content of a message is not copied to be sent together with its length."""


def read_frame(connection: socket.socket) -> JsonObject | None:
    """Wait for the next message. Return None when the other process has ended."""
    head = read_exactly(connection.fileno(), _LENGTH.size)
    content = None if head is None else read_exactly(connection.fileno(), _LENGTH.unpack(head)[0])
    if content is None:
        return None
    message: JsonObject = json.loads(content)
    return message


def write_frame(connection: socket.socket, message: JsonObject) -> None:
    """Send a message. Raises OSError when the other process has ended."""
    content = json.dumps(message).encode()
    head = _LENGTH.pack(len(content))
    parts = [head + content] if len(content) < _MAX_JOINED_BYTES else [head, content]
    for part in parts:
        connection.sendall(part, NO_SIGNAL)
