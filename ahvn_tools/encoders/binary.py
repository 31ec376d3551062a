"""Bytes: a text if they are one, else base64 with a media type that is guessed from how they begin."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

UNKNOWN_MIME_TYPE: Final = "application/octet-stream"

_SIGNATURES: Final = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"BM", "image/bmp"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (4, b"ftypavif", "image/avif"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"\x1f\x8b", "application/gzip"),
    (0, b"SQLite format 3\x00", "application/vnd.sqlite3"),
)
"""Where the bytes of a media type begin, and how; the first that fits counts."""

_SHORT_SIGNATURE = 2
"""So short a signature also begins ordinary texts."""


def guess_mime_type(data: bytes) -> str | None:
    """Return the media type of bytes by their signature; None for a text."""
    for offset, signature, mime_type in _SIGNATURES:
        if data.startswith(signature, offset) and not (len(signature) <= _SHORT_SIGNATURE and _is_text(data)):
            return mime_type
    return None if _is_text(data) else UNKNOWN_MIME_TYPE


def encode_bytes(data: Any) -> Any:
    """Return bytes as their text, or as `{"mime_type": …, "data": …}` with base64."""
    data = bytes(data)
    mime_type = guess_mime_type(data)
    if mime_type is None:
        return data.decode()
    return {"mime_type": mime_type, "data": base64.b64encode(data).decode()}


def encode_nested_bytes(value: Any) -> Any:
    """Return a value with all bytes in its containers encoded."""
    return map_containers(value, lambda part: encode_bytes(part) if isinstance(part, bytes | bytearray) else part)


def map_containers(value: Any, encode: Callable[[Any], Any]) -> Any:
    """Return dicts and lists with what `encode` makes of each value in them, or of the value if it is no container."""
    kind = type(value)
    if kind is dict:
        return {key: map_containers(member, encode) for key, member in value.items()}
    if kind in (list, tuple, set, frozenset):
        return [map_containers(item, encode) for item in value]
    return encode(value)


def bytes_block(data: str, mime_type: str) -> Any:
    """Return an MCP block with base64 data: an image, audio or an embedded file."""
    from mcp_types import AudioContent, BlobResourceContents, EmbeddedResource, ImageContent

    if mime_type.startswith("image/"):
        return ImageContent(type="image", data=data, mime_type=mime_type)
    if mime_type.startswith("audio/"):
        return AudioContent(type="audio", data=data, mime_type=mime_type)
    contents = BlobResourceContents(uri="file:///result", blob=data, mime_type=mime_type)
    return EmbeddedResource(type="resource", resource=contents)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
