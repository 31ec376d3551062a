"""Which programs the check of types refuses: those that fail whenever they run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from typing_extensions import TypedDict

from ahvn_tools import Toolkit

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # as above
from ahvn_tools.code_mode.monty_process.type_check import may_fit  # as above


class Issue(TypedDict):
    id: int
    title: str
    body: str | None


@pytest.fixture(scope="module")
def kit() -> Iterator[Toolkit]:
    sandbox = MontySandbox(max_processes=2)
    kit = Toolkit("desk")

    @kit.tool
    def list_issues(limit: int = 10, labels: list[str] | None = None) -> list[Issue]:
        """List issues."""
        return []

    @kit.tool
    def comment(issue: int, text: str) -> str:
        """Comment on an issue."""
        return text

    @kit.tool
    def get_issue() -> Issue:
        """Get an issue."""
        return {"id": 1, "title": "a", "body": None}

    @kit.tool
    def find_issue() -> Issue | None:
        """Find an issue."""
        return None

    @kit.tool
    def find_numbers(numbers: list[int]) -> list[int]:
        """Find numbers."""
        return numbers

    @kit.tool
    def save(row: dict[str, int]) -> bool:
        """Save a row."""
        return bool(row)

    @kit.tool
    def get_state() -> Literal["open", "closed"]:
        """Get the state."""
        return "open"

    @kit.tool
    def set_state(state: Literal["open", "closed"]) -> str:
        """Set the state."""
        return state

    yield kit.add_code_mode(sandbox=sandbox)
    sandbox.close()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("(await list_issues())[0]['titel']", 'Unknown key "titel"'),
        ("(await find_issue())['titel']", 'Unknown key "titel"'),
        ("(await list_issues())[0].title", "has no attribute `title`"),
        ("list_issues()[0]\nawait comment(1, 'a')", "CoroutineType"),
        ("await comment(1, list_issues())", "CoroutineType"),
        ("await comment(1, await list_issues())", "Expected `str`, found `list["),
        ("await comment(None, 'x')", "found `None`"),
        ("await comment(1.5, 'x')", "Expected `int`"),
        ("await comment([1], 'x')", "found `list[int]`"),
        ("await comment(1)", "No argument provided for required parameter `text`"),
        ("await list_issues(labels=[1])", "Expected `list[str]`, found `list[int]`"),
        ("await save(1)", "Expected `dict[str, int]`, found `Literal[1]`"),
        ("await list_issues(lable=['a'])", "`lable` does not match any known parameter"),
        ("await comment(1, txt)", "`txt` used when not defined"),
        ("issues = await list_issues()\nissues[0]['id'] + 'a'", "`+` is not supported"),
        ("text: str = 'a'\nawait comment(text, 'x')", "Line 2"),
        ("async def main():\n    await comment(1, 'x')\nmain()", "Line 3: Object of type `CoroutineType["),
    ],
    ids=[
        "unknown key", "unknown key or None", "attribute", "result without await", "argument without await",
        "list for a text", "None", "fraction", "list for a number", "missing argument", "list of numbers",
        "number for a mapping", "unknown argument", "unknown name", "operator", "after an annotation",
        "function without await",
    ],
)  # fmt: skip
def test_a_program_that_is_surely_wrong_is_refused(kit: Toolkit, code: str, text: str) -> None:
    result = kit.exec("run_code", {"code": code, "dry_run": True})
    assert result.is_error
    assert text in result.text


@pytest.mark.parametrize(
    "code",
    [
        "found = await list_issues()\nif found:\n    return found[0]\nreturn None",
        "await list_issues(limit=None, labels=None)",
        "from datetime import date\nawait comment(1, date(2026, 1, 2))",
        "await list_issues(10 / 2)",
        "await list_issues(labels={'a', 'b'})",
        "await find_numbers({1, 2}), await find_numbers(reversed([1, 2])), await find_numbers(i for i in [1])",
        "import json\nawait save(json.dumps({'a': 1})), await save('{\"a\": 1}'), await find_numbers('[1]')",
        "for state in ('Open', 'Closed'):\n    await set_state(state.lower())",
        "list(map(len, filter(None, ['a']))), getattr([], 'append', None)",
        "text: str = 1\nawait comment(text, 'x')",
        "def first(row: str) -> int:\n    return row['a']\nfirst({'a': {'b': 1}})['b']",
        "from dataclasses import dataclass\n@dataclass\nclass Row:\n    n: int\nRow('a')",
        "class Row:\n    def add(self, n: int):\n        self.n = n\nrow = Row()\nrow.add('a')\nrow.next = 1\nrow.next",
        "def gather(n: int) -> int:\n    return n\ngather(1)",
        "from collections import deque\nqueue = deque([1])\nqueue.append('a')",
        "rows = {}\nrows.setdefault('a', {'n': 0, 'list': [], 'in': {'a': 1}})\nrows['a']['n'] += 1",
        "rows = [{'n': 0, 'in': {'a': 'b'}}]\nfor row in rows:\n    row['in']['a'], f\"{row['in']['a']}\"",
        "rows = []\nrows.append({'n': 1 / 2, 's': [await get_state()], 'd': {'a': 1}})\nrows[0]['d']['a']",
        "issue = {'id': 1} if True else (await get_issue())\nissue['id']",
        "number = len(await find_numbers([1])) or None\nawait comment(number, 'x')",
    ],
    ids=[
        "return", "None for no argument", "date", "whole fraction", "set of texts", "sets and iterators", "JSON text",
        "changed text", "built-ins", "wrong annotation of a variable", "wrong annotation of a parameter",
        "wrong annotation of a field", "own class", "own gather", "own list", "own number in a dict",
        "own dict in a dict", "own dict beside texts",
        "one of two", "number or None",
    ],
)  # fmt: skip
def test_a_program_that_runs_is_not_refused(kit: Toolkit, code: str) -> None:
    result = kit.exec("run_code", {"code": code})
    assert not result.is_error, result.text


@pytest.mark.parametrize(
    "code",
    [
        "issue.update({'new': 1})\nissue['new']",
        "issue.setdefault('new', []).append(1)\nissue['new']",
        "issue |= {'new': 1}\nissue['new']",
        "issue.pop('id')",
        "[value.upper() for value in issue.values() if isinstance(value, str)][0]",
        "for key, value in issue.items():\n    if key == 'title':\n        value.upper()",
        "issues = [issue]\nissues.append({'new': 1})\nissues[-1]['new']",
        "issues = [issue]\nfor one in issues:\n    one['id'] = str(one['id'])\nissues[0]['id'].upper()",
    ],
    ids=["update", "setdefault", "merge", "pop", "values", "items", "another dict", "another type"],
)
def test_a_program_may_change_what_it_has_received(kit: Toolkit, code: str) -> None:
    result = kit.exec("run_code", {"code": f"issue = await get_issue()\n{code}"})
    assert not result.is_error, result.text


@pytest.mark.parametrize(
    ("found", "expected", "fits"),
    [
        ("str", "int", False),
        ("int | str", "int", True),
        ("str | None", "int | bool", False),
        ('Literal["a"]', 'Literal["a", "b"] | None', True),
        ('Literal["c"]', 'Literal["a", "b"] | None', False),
        ("str", 'Literal["a | b"]', True),
        ("int", 'Literal["a"]', False),
        ("Literal[1]", 'Literal["1"]', False),
        ("float", "int", True),
        ("float*", "int", False),
        ("list[int | str]", "Sequence[str]", True),
        ("list[int]", "Sequence[str]", False),
        ("dict[str, int | str]", "Mapping[str, int]", True),
        ("dict[str, str]", "F_X | Mapping[str, int]", True),
        ("F_X", "Mapping[str, Any]", True),
        ("F_X", "str", False),
        ("CoroutineType[Any, Any, str]", "str", False),
        ("CoroutineType[Any, Any, F_X]", "F_X | Mapping[str, Any]", False),
        ("def f(x: int) -> str", "str", False),
        ("Unknown", "str", True),
        ("int | str", "SupportsAbs[Unknown]", True),
        ("LiteralString", 'Literal["a"]', True),
        ("date", "str | None", True),
        ("Decimal", "list[str]", False),
        ("set[int]", "Sequence[int]", True),
        ("set[str]", "Sequence[int]", False),
        ("dict_keys[int, str]", "Sequence[int]", False),
        ("str", "F_X | Mapping[str, Any]", True),
        ('Literal["{}"]', "Mapping[str, Any]", True),
        ('Literal["[]", "a"]', "Mapping[str, Any]", False),
    ],
)
def test_a_value_may_fit_where_its_type_allows_one_that_does(found: str, expected: str, fits: bool) -> None:
    assert may_fit(found, expected) is fits
