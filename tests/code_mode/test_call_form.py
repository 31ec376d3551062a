"""Whether a program awaits its calls, read from its words."""

from __future__ import annotations

import pytest

from ahvn_tools.code_mode.call_form import CallForm


@pytest.mark.parametrize(
    ("code", "awaits"),
    [
        ("find(1)", False),
        ("await find(1)", True),
        ("async def f():\n    return 1", True),
        ("# await is not needed\nfind('async')", False),
        ("find(", True),
        ("'''", True),
        ("", False),
    ],
    ids=["plain", "await", "async def", "only in a comment and a text", "open bracket", "open text", "empty"],
)
def test_a_program_awaits_if_one_of_its_words_says_so(code: str, awaits: bool) -> None:
    assert CallForm.of(code).awaits is awaits


def test_a_deeply_nested_program_can_be_read() -> None:
    assert "find" in CallForm.of("(" * 50_000 + "find").names
