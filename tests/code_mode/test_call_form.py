"""Whether a program awaits its calls, read from its words."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools.code_mode.call_form import awaits_calls, find_names

AWAITS = ast.Await | ast.AsyncFor | ast.AsyncWith | ast.AsyncFunctionDef


@pytest.mark.parametrize(
    ("code", "awaits"),
    [
        ("find(1)", False),
        ("await find(1)", True),
        ("find('async')if 1 else[await find(1)]", True),
        ("async def f():\n    return 1", True),
        ("# await is not needed\nfind('async')", False),
        ("find('''\nasync \\''' await''', r'\\' async', \"it's await\")", False),
        ('find("""a ""await"" b""")', False),
        ("find('it')  # it's\nawait find(1)", True),
        ("'a\\\n await'", False),
        ("f'{await find(1)}'", True),
        ('rF"""{await find(1)}"""', True),
        ("f'{x['k'] + await find()} {x['k']}'", True),
        ("# no await\nprint(f'{find()}')", False),
        ("f\"async {find()['async']} await\"", False),
        ("f'''\n{find(\"a\")} await\n'''", False),
        ("f'{x[\"}\"] + y['k'] + await find()}'", True),
        ("f'{{{await find()}}}'", True),
        ("awaits = find(async_=1)", False),
        ("import asyncio\nasyncio.run(find(1))", True),
        ("import asyncio\nasyncio . gather(find(1), find(2))", True),
        ("import asyncio\nfind(1)", False),
        ("", False),
    ],
    ids=[
        "plain", "await", "await beside a text", "async def", "only in a comment and a text", "only in long texts",
        "between quotes in a long text",
        "after an apostrophe in a comment", "in a continued text", "in an f-string", "in a long f-string",
        "beside a text in an f-string", "in a comment beside an f-string", "in the text of an f-string",
        "in the text of a long f-string", "after a brace in a text", "in doubled braces", "part of a name",
        "asyncio.run", "asyncio.gather", "import", "empty",
    ],
)  # fmt: skip
def test_a_program_awaits_if_one_of_its_words_says_so(code: str, awaits: bool) -> None:
    assert awaits_calls(code) is awaits


WORDS = st.text(alphabet="'\"\\# \nb", max_size=6) | st.sampled_from(["await", "async"])
TEXTS = st.lists(WORDS, max_size=4).map(" ".join)
PARTS = st.one_of(
    st.just("await g()"),
    st.just("b"),
    TEXTS.map(repr),
    TEXTS.map(lambda text: f"r{text!r}"),
    TEXTS.map(lambda text: '"""' + text.replace("\\", "\\\\").replace('"', '\\"') + '"""'),
    TEXTS.map(lambda text: "'''" + text.replace("\\", "\\\\").replace("'", "\\'") + "'''"),
    TEXTS.map(lambda text: f"b # {' '.join(text.split())}\n"),
)


@given(st.lists(PARTS, min_size=1, max_size=6))
def test_a_program_awaits_exactly_if_it_has_an_awaited_call(parts: list[str]) -> None:
    code = f"({' + '.join(parts)}\n)"
    tree = compile(code, "program", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert awaits_calls(code) is any(isinstance(node, ast.Await) for node in ast.walk(tree))


PIECES = st.sampled_from(
    [
        "await g()",
        "async def g(): pass",
        "x",
        "'",
        '"',
        "'''",
        '"""',
        "\\",
        "\n",
        "#",
        " ",
        ";",
        "f",
        "r",
        "b'",
        "+",
        "{",
        "}",
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_no_program_with_an_awaited_call_is_read_as_one_without(code: str) -> None:
    try:
        tree = compile(code, "program", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError):
        return
    assert awaits_calls(code) >= any(isinstance(node, AWAITS) for node in ast.walk(tree))


@pytest.mark.parametrize("piece", ["(", '"""', "'", '\\"""\n', "f'", "\\", '"\\', "'''\\'''", "await ", "#"])
def test_a_long_program_is_read_in_one_pass(piece: str) -> None:
    code = "".join([piece] * (100_000 // len(piece)))
    assert awaits_calls(f"await find()\n{code}\\")
    assert "find" in find_names(f"{code} find")
