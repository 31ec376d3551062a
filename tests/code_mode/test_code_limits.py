"""What may be a limit of programs."""

from __future__ import annotations

from typing import Any

import pytest

from ahvn_tools.code_mode import CodeLimits
from ahvn_tools.errors import ToolkitError


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("calls", 0, "a number above 0"),
        ("calls", True, "a number above 0"),
        ("calls", "5", "a number above 0"),
        ("seconds", float("nan"), "a number above 0"),
        ("calls", 2.5, "a whole number"),
        ("output_chars", 1.0, "a whole number"),
        ("memory_bytes", 10**20, "at most 1,099,511,627,776"),
        ("seconds", float("inf"), "at most 86,400"),
    ],
    ids=["zero", "bool", "text", "nan", "float", "whole float", "too large", "endless"],
)
def test_a_limit_that_no_sandbox_can_hold_is_refused(name: str, value: Any, text: str) -> None:
    with pytest.raises(ToolkitError, match=f"`{name}` of programs is {text}"):
        CodeLimits(**{name: value})


def test_the_largest_limits_are_accepted() -> None:
    limits = CodeLimits(seconds=86_400, calls=2**40, memory_bytes=2**40)
    assert (limits.seconds, limits.calls, limits.memory_bytes) == (86_400, 2**40, 2**40)
