"""The program of the parsing process, run in this process: the same answers without its limits."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest

from ahvn_tools.builtins.workspace.parser_program import LANGUAGES, MAX_PROBLEMS, language_of, main


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


DEFINED = {
    "a.c": b"typedef struct { int x; } A;\nint (*pointer)(int);\nint *f(void);\n"
    b"struct S s;\nenum E { X };\nunion U { int x; };",
    "a.cpp": b"namespace n { class C { ~C(); operator int(); }; }\nint n::C::f() { return 1; }",
    "a.cs": b"namespace N; class C { C() {} void M() {} }",
    "a.go": b"package a\ntype T struct {}\nfunc (t *T) M() {}\nfunc () N() {}",
    "a.js": b"const f = () => 1, n = 2;\nclass A { x = () => 1; y = 2; static z; }",
    "a.rs": b"struct A;\nimpl A { fn f() {} }\nimpl B for A {}",
    "a.ts": b"interface I { m(): void }\nexport default class {}",
    "a.tsx": b"const A = () => <a/>;",
    "a.php": b"<?php class C { function m() {} }",
    "a.rb": b"class A < B\ndef m; end\nend",
    "a.java": b"class A { A() {} void m() {} }",
    "a.py": b"class A:\n    async def m(self): ...\n",
}
NAMES = {
    "a.c": ["Struct A", "Function f", "Enum E", "Union U"],
    "a.cpp": ["Namespace n", "Class C", "Method ~C", "Method operator int", "Method n::C::f"],
    "a.cs": ["Class C", "Method C", "Method M"],
    "a.go": ["Struct T", "Method T.M", "Method N"],
    "a.js": ["Function f", "Class A", "Method x"],
    "a.rs": ["Struct A", "Impl A", "Method f", "Impl B for A"],
    "a.ts": ["Interface I", "Method m"],
    "a.tsx": ["Function A"],
    "a.php": ["Class C", "Method m"],
    "a.rb": ["Class A", "Method m"],
    "a.java": ["Class A", "Method A", "Method m"],
    "a.py": ["Class A", "Method m"],
}


@pytest.mark.parametrize("name", DEFINED)
def test_definitions_have_a_kind_and_a_name(name: str) -> None:
    found = answer("outline", language_of(name) or "", DEFINED[name])["definitions"]
    assert [f"{kind} {own_name}" for _, kind, own_name, *_ in found] == NAMES[name]
