"""Bytes: a text, or base64 with the media type that their beginning shows."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.encoders.subjects import each_entry_point, returning
from tests.execution.entry_points import EntryPoint

FILES = {
    "image/png": (b"\x89PNG\r\n\x1a\n\x00", "image"),
    "image/jpeg": (b"\xff\xd8\xff\xe0", "image"),
    "image/gif": (b"GIF89a\x01\x00", "image"),
    "image/webp": (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image"),
    "audio/wav": (b"RIFF\x00\x00\x00\x00WAVEfmt ", "audio"),
    "audio/mpeg": (b"ID3\x04\x00", "audio"),
    "video/mp4": (b"\x00\x00\x00\x18ftypmp42", "resource"),
    "application/pdf": (b"%PDF-1.7\n", "resource"),
    "application/zip": (b"PK\x03\x04\x14\x00", "resource"),
    "application/gzip": (b"\x1f\x8b\x08\x00", "resource"),
    "application/octet-stream": (b"\xff\xfe\x00", "resource"),
}


@pytest.mark.parametrize("mime_type", FILES)
@pytest.mark.parametrize("annotation", [Any, bytes], ids=["Any", "bytes"])
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_a_file_is_a_block_and_base64(mime_type: str, annotation: Any, kind: type) -> None:
    data, block_type = FILES[mime_type]
    result = returning(kind(data), annotation).exec()
    assert result.value == {"mime_type": mime_type, "data": base64.b64encode(data).decode()}
    [block] = result.content
    contents = getattr(block, "resource", block)
    encoded = contents.blob if block_type == "resource" else contents.data
    assert (block.type, contents.mime_type, base64.b64decode(encoded)) == (block_type, mime_type, data)
    assert not result.to_mcp().is_error


@pytest.mark.parametrize("data", [b"", b"text", "naïve".encode(), b"BM", b"PK is short for pack"], ids=repr)
@each_entry_point
def test_a_text_is_a_text(entry_point: EntryPoint, data: bytes) -> None:
    for value in (data, bytearray(data)):
        assert entry_point(returning(value)).value == data.decode()
    assert entry_point(returning([data, {"a": data}])).value == [data.decode(), {"a": data.decode()}]
    assert entry_point(returning(memoryview(data))).value == data.decode()


@each_entry_point
def test_bytes_inside_of_data_are_base64(entry_point: EntryPoint) -> None:
    value = entry_point(returning({"a": [b"\xff", (b"text", bytearray(b"\x89PNG\r\n\x1a\n"))], "b": 1})).value
    assert value["a"][0] == {"mime_type": "application/octet-stream", "data": "/w=="}
    assert (value["a"][1][0], value["a"][1][1]["mime_type"], value["b"]) == ("text", "image/png", 1)


def test_a_file_does_not_fit_another_annotation() -> None:
    assert returning(b"\xff", dict[str, str]).exec().error.code == "invalid_result"
