"""A wrong call refuses its program before any call, wherever in the program it is."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ahvn_tools import Toolkit

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # after the check that its package is there

MADE: list[int] = []
LAW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def kit() -> Iterator[Toolkit]:
    sandbox = MontySandbox(max_processes=2)
    kit = Toolkit("desk")

    @kit.tool
    def act(number: int, text: str, flag: bool = False) -> str:
        """Act."""
        MADE.append(number)
        return text

    @kit.tool
    def find(limit: int = 3) -> list[int]:
        """Find numbers."""
        MADE.append(limit)
        return [1, 2, 3]

    yield kit.add_code_mode(sandbox=sandbox)
    sandbox.close()


RIGHT = ["act(1, 'x')", "act(number=2, text='x', flag=True)", "act(text='# no', number=len('a'))"]
WRONG = {
    "acct(1, 'x')": "`acct` used when not defined",
    "act(1)": "required parameter `text`",
    "act()": "required parameters `number`, `text`",
    "act(1, txt='x')": "`txt` does not match any known parameter",
    "act(1, 'x', falg=True)": "`falg` does not match any known parameter",
    "act(1, 'x', True, 4)": "Too many positional arguments",
    "act('1', 'x')": "Expected `int`",
    "act('this may not be right', 'x')": "Expected `int`",
    "act('in union `a`', 'x')": "Expected `int`",
    "act(None, 'x')": "Expected `int`",
    "act([1], 'x')": "Expected `int`",
    "act({}, 'x')": "Expected `int`",
    "act(1.5, 'x')": "Expected `int`",
    "act(1, 2)": "Expected `str`",
    "act(1, b'x')": "Expected `str`",
    "act(1, text=None)": "Expected `str`",
    "act(1, 'x', 'yes')": "Expected `bool`",
    "act(1, 'x', flag=1)": "Expected `bool`",
}
EXPRESSIONS = [
    "AWAIT", "(AWAIT).upper()", "[AWAIT, 1]", "(1, AWAIT)", "{'a': AWAIT}", "{AWAIT}", "f'{AWAIT}'", "print(AWAIT)",
    "dict(a=AWAIT)", "[1, 2][len(AWAIT) - 1]", "(y := AWAIT)", "AWAIT and 1", "await find() and AWAIT",
    "AWAIT if await find() else 1", "1 if await find() else AWAIT", "[AWAIT for i in range(2)]",
    "{i: AWAIT for i in await find()}", "[i for i in range(2) if AWAIT]", "[*(AWAIT)]", "not (AWAIT)",
    "await asyncio.gather(CALL, CALL)", "await asyncio.gather(*[CALL for i in range(2)])", "lambda: CALL",
    "(lambda i=CALL: i)", "sorted([1, 2], key=lambda i: [CALL, i][1])", "act(len(AWAIT), 'x')", "AWAIT  # type: ignore",
    "AWAIT  # ty: ignore",
]  # fmt: skip
PLAIN_EXPRESSIONS = [each for each in EXPRESSIONS if "gather" not in each]
STATEMENTS = [
    "EXPRESSION", "x = EXPRESSION", "x: list = [EXPRESSION]", "x = []\nx += [EXPRESSION]", "assert EXPRESSION",
    "if EXPRESSION:\n    1", "for item in [EXPRESSION]:\n    item", "found = await find()\nEXPRESSION",
]  # fmt: skip
BLOCKS = [
    "BODY", "if await find():\n    BODY", "if await find():\n    1\nelse:\n    BODY",
    "size = len(await find())\nif size > 2:\n    1\nelif size > 1:\n    BODY", "for i in await find():\n    BODY",
    "for i in await find():\n    i\nelse:\n    BODY", "n = 0\nwhile n < 2:\n    n += 1\n    BODY",
    "while True:\n    BODY\n    break", "try:\n    BODY\nexcept RuntimeError:\n    1",
    "try:\n    await find()\nexcept RuntimeError:\n    BODY", "try:\n    await find()\nfinally:\n    BODY",
    "async def g(a, b=1):\n    if a:\n        return 1\n    BODY\nawait g(1)", "async def g():\n    BODY\n1",
    "async def g():\n    async def h():\n        BODY\n    await h()\nawait g()",
    "class A:\n    async def g(self):\n        BODY\nawait A().g()",
]  # fmt: skip


@st.composite
def places(draw: st.DrawFn, *, awaits: bool) -> str:
    """Return a program with one place for a call, which may be reached, behind a right call."""
    program = draw(st.sampled_from(BLOCKS))
    for _ in range(draw(st.integers(0, 2))):
        program = _nest(program, draw(st.sampled_from(BLOCKS)))
    program = _nest(program, draw(st.sampled_from(STATEMENTS)))
    expression = draw(st.sampled_from(EXPRESSIONS if awaits else PLAIN_EXPRESSIONS))
    if "#" in expression and not program.endswith("EXPRESSION"):
        expression = "AWAIT"
    program = program.replace("EXPRESSION", expression).replace("AWAIT", "await CALL")
    program = f"import asyncio\n\nawait act(1, 'first')\n{program}"
    return program if awaits else program.replace("await ", "").replace("async def", "def")


def _nest(program: str, body: str) -> str:
    lines = program.splitlines()
    indents = {line: line[: len(line) - len(line.lstrip())] for line in lines}
    return "\n".join(textwrap.indent(body, indents[line]) if line.strip() == "BODY" else line for line in lines)


@LAW
@given(place=places(awaits=True) | places(awaits=False), wrong=st.sampled_from(sorted(WRONG)))
def test_a_wrong_call_refuses_its_program_before_any_call(kit: Toolkit, place: str, wrong: str) -> None:
    MADE.clear()
    result = kit.exec("run_code", {"code": place.replace("CALL", wrong)})
    assert result.is_error
    assert WRONG[wrong] in result.text
    assert result.text.startswith("Line ")
    assert MADE == []


@LAW
@given(place=places(awaits=True) | places(awaits=False), right=st.sampled_from(RIGHT))
def test_a_right_call_passes_the_check_at_the_same_places(kit: Toolkit, place: str, right: str) -> None:
    result = kit.exec("run_code", {"code": place.replace("CALL", right), "dry_run": True})
    assert not result.is_error, result.text


@pytest.mark.parametrize(
    "code",
    [
        "if 0:\n    await acct(1)\n'x'",
        "for i in []:\n    await act(1)\n'x'",
        "args = [1, 'x']\nawait act(*args)",
        "args = {'number': 1, 'text': 'x'}\nawait act(**args)",
        "await act(*(1, 'x'))",
    ],
    ids=["branch that never runs", "loop that never runs", "list of arguments", "dict of arguments", "tuple"],
)
def test_a_call_that_never_runs_or_may_be_right_refuses_nothing(kit: Toolkit, code: str) -> None:
    assert kit.call("run_code", {"code": code}) == "x"
