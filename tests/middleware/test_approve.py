"""The middleware `approve`: its condition."""

from __future__ import annotations

from typing import Any

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.middleware.approve import approve


def pay(amount: int) -> str:
    return f"paid {amount}"


async def apay(amount: int) -> str:
    return f"paid {amount}"


each_tool = pytest.mark.parametrize("function", [pay, apay])


def kit_of(function: Any, condition: Any, **options: Any) -> Toolkit:
    """Return a toolkit with one tool, which the condition makes require an approval."""
    return Toolkit("bank", **options).add(function, rename="pay", requires_approval=condition)


@each_tool
@pytest.mark.parametrize("condition_fails", [False, True])
async def test_the_condition_of_a_middleware_decides_or_fails_the_call(function, condition_fails):
    def condition(call: Any) -> bool:
        if condition_fails:
            raise LookupError("hunter2")
        return call.arguments["amount"] > 100

    kit = Toolkit("bank", middleware=[approve(when=condition)]).add(function, rename="pay")
    codes = [(await kit.aexec("pay", {"amount": amount})).error for amount in (5, 500)]
    assert [error and error.code for error in codes] == (
        ["tool_error"] * 2 if condition_fails else [None, "approval_required"]
    )
