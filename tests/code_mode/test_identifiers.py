"""The names of tools as Python identifiers: one for each tool, unchanged where that is possible."""

from __future__ import annotations

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools.code_mode.identifiers import assign_identifiers, to_identifier


@given(st.text())
def test_every_name_gets_an_identifier_that_is_no_keyword(name: str) -> None:
    identifier = to_identifier(name)
    assert identifier.isidentifier()
    assert identifier.isascii()
    assert not keyword.iskeyword(identifier)


@given(st.lists(st.text(alphabet="ab_-.", max_size=3), unique=True))
def test_every_tool_has_an_identifier_of_its_own(names: list[str]) -> None:
    assigned = assign_identifiers(names)
    assert sorted(assigned.values()) == sorted(names)


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("list_issues", "list_issues"),
        ("list-issues", "list_issues"),
        ("list", "list_"),
        ("import", "import_"),
        ("asyncio", "asyncio_"),
        ("__import__", "tool__import__"),
        ("", "_"),
        ("größe", "gr__e"),
    ],
    ids=["fits", "dash", "builtin", "keyword", "module", "dunder", "empty", "not ascii"],
)
def test_a_name_changes_as_little_as_possible(name: str, identifier: str) -> None:
    assert to_identifier(name) == identifier


def test_a_name_that_is_an_identifier_is_kept_when_another_clashes_with_it() -> None:
    assert assign_identifiers(["a_b", "a-b"])["a_b"] == "a_b"
