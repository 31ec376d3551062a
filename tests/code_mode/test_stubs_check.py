"""Which programs the check of types refuses: those that fail whenever they run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typing_extensions import TypedDict

from ahvn_tools import Toolkit

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # as above
from ahvn_tools.code_mode.monty_process.type_errors import may_fit  # as above


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

    yield kit.add_code_mode(sandbox=sandbox)
    sandbox.close()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("(await list_issues())[0]['titel']", 'Unknown key "titel"'),
        ("(await list_issues())[0].title", "has no attribute `title`"),
        ("list_issues()[0]\nawait comment(1, 'a')", "CoroutineType"),
        ("await comment(1, list_issues())", "CoroutineType"),
        ("await comment(1, await list_issues())", "Expected `str`, found `list["),
        ("await comment(None, 'x')", "found `None`"),
        ("await comment(1.5, 'x')", "Expected `int`"),
        ("await comment([1], 'x')", "found `list[int]`"),
        ("await comment(1)", "No argument provided for required parameter `text`"),
        ("await list_issues(labels=[1])", "Expected"),
        ("await list_issues(lable=['a'])", "`lable` does not match any known parameter"),
        ("await comment(1, txt)", "`txt` used when not defined"),
        ("issues = await list_issues()\nissues[0]['id'] + 'a'", "`+` is not supported"),
        ("text: str = 1\nawait comment(text, 'x')", "Line 2"),
    ],
    ids=[
        "unknown key", "attribute", "result without await", "argument without await", "list for a text", "None",
        "fraction", "list for a number", "missing argument", "list of numbers", "unknown argument", "unknown name",
        "operator", "after a wrong annotation",
    ],
)  # fmt: skip
def test_a_program_that_is_surely_wrong_is_refused(kit: Toolkit, code: str, text: str) -> None:
    result = kit.exec("run_code", {"code": code, "dry_run": True})
    assert result.is_error
    assert text in result.text


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
    ],
)
def test_a_value_may_fit_where_its_type_allows_one_that_does(found: str, expected: str, fits: bool) -> None:
    assert may_fit(found, expected) is fits
