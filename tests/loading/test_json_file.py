"""JSON is read as editors write it, within limits, and mistakes have a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ahvn_tools.errors import SourceError
from ahvn_tools.loading import json_file
from ahvn_tools.loading.json_file import read_json


def refusal(data: bytes | None, tmp_path: Path) -> str:
    file = tmp_path / "f.json"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(SourceError) as caught:
        read_json(file, "f.json")
    assert caught.value.file == "f.json"
    return str(caught.value)


def test_comments_commas_and_a_byte_order_mark_are_allowed(tmp_path):
    file = tmp_path / "f.json"
    file.write_text('\ufeff{"a": "//", /* no */ "b": [1, 2,], // end\n}')
    assert read_json(file, "f.json") == {"a": "//", "b": [1, 2]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "f.json cannot be read: No such file or directory."),
        (b'{"a":\n 1', "f.json, line 2: this is not JSON: Expecting ',' delimiter."),
        (b'{\n"a": "\xe9"}', "f.json, line 2: this is not UTF-8."),
        (b"[" * 100_000, "f.json, line 1: this is nested too deeply."),
        (b"9" * 5000, "f.json: a number in it is too long."),
    ],
)
def test_what_is_no_json_is_refused(data, message, tmp_path):
    assert refusal(data, tmp_path) == message


def test_a_file_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(json_file, "MAX_BYTES", 10)
    assert refusal(b" " * 11, tmp_path) == "f.json is too large: at most 10 bytes are read."
