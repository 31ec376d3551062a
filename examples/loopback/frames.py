"""How services write the events of a stream: server-sent events, a JSON text a line, AWS's binary event stream."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

SERVER_SENT = "text/event-stream"
LINES = "application/x-ndjson"
EVENT_STREAM = "application/vnd.amazon.eventstream"

_TEXT = 7
"""The type of an event stream's header whose value is text."""


def server_sent(data: dict[str, Any] | str, event: str | None = None) -> bytes:
    """Return a server-sent event; the data is JSON, or a text as it is."""
    text = data if isinstance(data, str) else json.dumps(data)
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {text}\n\n".encode()


def line(data: dict[str, Any]) -> bytes:
    """Return a line."""
    return json.dumps(data).encode() + b"\n"


def event_stream(kind: str, data: dict[str, Any]) -> bytes:
    """Return a frame: both lengths and their checksum, the headers, the JSON, the checksum of it all."""
    payload = json.dumps(data).encode()
    texts = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(_header(name, value) for name, value in texts.items())
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    frame = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return frame + struct.pack(">I", zlib.crc32(frame))


def halves(text: str) -> tuple[str, str]:
    """Cut a text in two, as a stream would."""
    return text[: len(text) // 2], text[len(text) // 2 :]


def _header(name: str, value: str) -> bytes:
    return struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", _TEXT, len(value)) + value.encode()
