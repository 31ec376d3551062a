"""The program of the parsing process, run in this process: the same answers without its limits."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest

from ahvn_tools.builtins.workspace.parser_program import LANGUAGES, MAX_PROBLEMS, language_of, main
from tests.builtins.workspace.test_outline import OUTLINES, SOURCES


def answer(task: str, language: str, content: bytes) -> dict[str, Any]:
    header = {"task": task, "language": language, "size": len(content)}
    stdin = BytesIO(json.dumps(header).encode() + b"\n" + content)
    stdout = BytesIO()
    main(stdin, stdout, 60.0)
    ready, reply = stdout.getvalue().splitlines()
    assert ready == b"ready"
    return json.loads(reply)


PROBLEMS = [
    ("Python", b"x = 1\n", []),
    ("Python", b"x = 1\ny = = 2\n", [[2, 5, "SyntaxError: invalid syntax"]]),
    (
        "Python",
        b"def f():\nreturn\n",
        [[2, 1, "IndentationError: expected an indented block after function definition on line 1"]],
    ),
    ("Python", b"return\n", [[1, 1, "SyntaxError: 'return' outside function"]]),
    ("JSON", b'{"a": 1}', []),
    ("JSON", b'\xef\xbb\xbf{"a": 1}', []),
    ("JSON", b'{"a" 1}', [[1, 6, "Expecting ':' delimiter"]]),
    ("TOML", b"a = 1\n", []),
    ("TOML", b"a = 1\na = 2\n", [[2, 6, "Cannot overwrite a value"]]),
    ("TOML", b"a = 1\nb = [", [[2, 1, "Invalid value"]]),
    ("YAML", b"a: &x [1]\nb: *x\nc: !!python/object:os.system {}\n---\nd\n", []),
    ("YAML", b"a: b: c\n", [[1, 5, "mapping values are not allowed here"]]),
    ("YAML", b"a: \x01\n", [[1, 1, "unacceptable character #x0001: special characters are not allowed"]]),
    ("Go", b"package main\n", []),
    ("Go", b"package main\nfunc f( {}\n", [[2, 8, "Syntax error: ')' is missing."]]),
    ("Rust", b"fn f() { let x = ; }\n", [[1, 16, "Syntax error at '='."]]),
]


@pytest.mark.parametrize(("language", "content", "expected"), PROBLEMS)
def test_syntax_errors_have_their_place(language: str, content: bytes, expected: list[Any]) -> None:
    assert answer("check", language, content) == {"problems": expected}


def test_many_syntax_errors_are_cut() -> None:
    found = answer("check", "Java", b"class A { int x = ; }\n" * 100)["problems"]
    assert len(found) == MAX_PROBLEMS


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_empty_file_defines_nothing_and_is_correct(language: str) -> None:
    assert answer("outline", language, b"") == {"definitions": [], "is_complete": True}
    assert answer("check", language, b"") == {"problems": []}


REASONS = [
    ("outline", "Python", b"def f(:\n", "not valid Python 3."),
    ("outline", "Python", b"(" + b"1+" * 100_000 + b"1)", "nested too deeply to parse"),
    ("outline", "Python", b"a\0b", "null bytes"),
    ("check", "JSON", b'"\xff"', "not a UTF-8 text"),
    ("check", "JSON", b"[" * 100_000, "nested too deeply to parse"),
]


@pytest.mark.parametrize(("task", "language", "content", "reason"), REASONS)
def test_a_file_that_cannot_be_parsed_has_a_reason(task: str, language: str, content: bytes, reason: str) -> None:
    assert reason in answer(task, language, content)["reason"]


def test_many_definitions_are_cut() -> None:
    found = answer("outline", "Python", b"def f(): pass\n" * 2_000)
    assert len(found["definitions"]) == 1_000
    assert found["is_complete"] is False


def test_default_values_of_many_nested_expressions_are_left_out() -> None:
    source = b"def f(a=" + b"-" * 900 + b"1): pass\nclass A(" + b"-" * 900 + b"1): pass\n"
    reply = answer("outline", "Python", source)
    assert "reason" in reply or [definition[5] for definition in reply["definitions"]] == ["f", "A"]


@pytest.mark.parametrize("name", SOURCES)
def test_definitions_have_a_kind_and_a_name(name: str) -> None:
    found = answer("outline", language_of(name) or "", SOURCES[name].encode())["definitions"]
    lines = [
        f"{'  ' * depth}- {kind} {own_name} [{first if first == last else f'{first}-{last}'}]"
        for depth, kind, own_name, first, last, _ in found
    ]
    assert "\n".join([f"File: {name}", *lines]) == OUTLINES[name]
