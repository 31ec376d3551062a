"""JSON is read as editors write it, within limits, and mistakes have a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools.errors import SourceError
from ahvn_tools.loading import json_file
from ahvn_tools.loading.json_file import find_json_lines, read_json
from ahvn_tools.loading.yaml_file import read_yaml


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


_NESTED = st.recursive(
    st.sampled_from([1, None, 's,{}[]\n"']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", '"{', "\\", ""]), inner),
    max_leaves=8,
)


def paths_of(value, path=()):
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in members:
        yield from paths_of(item, (*path, step))


@given(value=_NESTED, indent=st.sampled_from([None, 0, 2]))
def test_the_line_of_each_part_is_that_of_a_reader_of_yaml(value, indent):
    text = json.dumps(value, indent=indent)
    document = read_yaml(text)
    expected = {tuple(map(str, path)): document.line_of(path) for path in paths_of(value)}
    assert find_json_lines(text, expected) == expected


def test_a_file_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(json_file, "MAX_BYTES", 10)
    assert refusal(b" " * 11, tmp_path) == "f.json is too large: at most 10 bytes are read."
