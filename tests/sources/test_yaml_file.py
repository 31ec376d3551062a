"""YAML is plain data with lines: YAML 1.2's types, nothing that runs, grows or hides."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ahvn_tools.errors import SourceError
from ahvn_tools.sources import yaml_file
from ahvn_tools.sources.yaml_file import read_yaml


def refusal(text: str) -> str:
    with pytest.raises(SourceError) as caught:
        read_yaml(text, "f.yaml")
    assert caught.value.file == "f.yaml"
    return str(caught.value)


def test_values_have_the_types_of_yaml_1_2():
    text = "[no, on, y, 1:30, 2026-01-01, 1_000, 010, 0x1F, 0o17, +1, 1e3, .5, -.inf, ~, null, true, '', !!str 1, ! 2]"
    no_longer_special = ["no", "on", "y", "1:30", "2026-01-01", "1_000"]
    numbers = [10, 31, 15, 1, 1000.0, 0.5, -math.inf]
    assert read_yaml(text).value == [*no_longer_special, *numbers, None, None, True, "", "1", "2"]


def test_keys_are_texts_as_written():
    assert read_yaml("200: a\nno: b\n1.0: c\n'': d").value == {"200": "a", "no": "b", "1.0": "c", "": "d"}


def test_lines_are_those_of_keys_and_items():
    document = read_yaml("# c\ntools:\n  - name: x\n  -\n    name: y\nshared: &s {a: 1}\nagain: *s\nflow: [1,\n  2]\n")
    lines = [("tools",), ("tools", 0), ("tools", 1, "name"), ("shared", "a"), ("again",), ("again", "a"), ("flow", 1)]
    assert [document.line_of(path) for path in lines] == [2, 3, 5, 6, 7, 6, 9]
    assert document.line_of(()) == 1
    assert [document.line_of(path) for path in [("no",), ("tools", 2), ("tools", 0, "name", "x")]] == [None] * 3


@pytest.mark.parametrize("text", ["", "# only a comment", "---\n"])
def test_an_empty_document_is_none(text):
    assert read_yaml(text).value is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2", "line 4: the key 'c' is here for a second time: line 3 has it."),
        ("a: 1\n--- \nb: 2", "line 2: a second document starts here: keep one document in a file."),
        ("a: &x [*x]", "line 1: there is no anchor &x before this alias, or it contains the alias."),
        ("a: *x", "line 1: there is no anchor &x before this alias, or it contains the alias."),
        ("- !!python/object/apply:os.system [ls]", "line 1: the tag '!!python/object/apply:os.system' is not supp"),
        ("a: !env HOME", "line 1: the tag '!env' is not supported"),
        ("a: !!int one", "line 1: the tag !!int does not fit this value."),
        ("<<: {a: 1}", "line 1: merge keys (<<) are not part of YAML 1.2: write the keys out."),
        ("? [a]\n: b", "line 1: a key must be a text."),
        ("x: &a 1\n*a : 2", "line 2: a key must be a text, and no alias."),
        ("a:\n\tb: 1", "line 2: found character that cannot start any token while scanning for the next token. YAML"),
        ("a:\n  - [1,", "line 3: did not find expected node content while parsing a flow node."),
        ("a: " + "9" * 5000, "line 1: this number is too long: put it in quotes."),
    ],
)
def test_what_is_not_plain_data_is_refused_with_the_line(text, message):
    assert refusal(text).startswith(f"f.yaml, {message}")


@pytest.mark.parametrize("opening", ["[", "- ", "{a: ", "? "])
def test_deep_nesting_is_refused_and_does_not_crash(opening):
    assert "a key must be" in (message := refusal(opening * 100_000)) or "nested too deeply" in message


def test_aliases_that_multiply_are_refused_before_they_grow():
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]\n" for i in range(1, 60))
    assert refusal(bomb).startswith(
        "f.yaml is too large: with what it refers to and repeats it has more than 3,000,000"
    )


def test_a_file_that_is_too_large_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(yaml_file, "MAX_BYTES", 100)
    (tmp_path / "f.yaml").write_text("x" * 101)
    with pytest.raises(SourceError, match=r"is too large: at most 100 bytes are read"):
        read_yaml(tmp_path / "f.yaml", "f.yaml")


def test_a_file_is_utf_8_with_or_without_a_byte_order_mark(tmp_path: Path):
    file = tmp_path / "f.yaml"
    file.write_bytes("\ufeffa: é".encode())
    assert read_yaml(file).value == {"a": "é"}
    file.write_bytes(b"a: 1\nb: \xe9")
    with pytest.raises(SourceError, match=r"f.yaml, line 2: this is not UTF-8: save the file in that encoding"):
        read_yaml(file)
    file.write_bytes(b"a: \x01")
    with pytest.raises(SourceError, match=r"f.yaml: the character U\+0001 is not allowed in YAML"):
        read_yaml(file)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(SourceError, match=r"none.yaml cannot be read: No such file or directory"):
        read_yaml(tmp_path / "none.yaml")


def test_values_are_not_in_the_repr_of_a_document():
    assert "hidden" not in repr(read_yaml("key: hidden"))
