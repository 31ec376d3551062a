"""The middleware `approve`: the function that says whether a call needs an approval may be slow."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.middleware.approve import approve

LIMIT = 60
"""Seconds: the longest that any of these tests waits."""


def pay(amount: int) -> str:
    return f"paid {amount}"


async def apay(amount: int) -> str:
    return f"paid {amount}"


each_tool = pytest.mark.parametrize("function", [pay, apay])


def kit_of(function: Any, condition: Any, **options: Any) -> Toolkit:
    """Return a toolkit with one tool, which the condition makes require an approval."""
    return Toolkit("bank", **options).add(function, rename="pay", requires_approval=condition)


@each_tool
@pytest.mark.parametrize("ask", [1, 2], ids=["as sent", "as received"])
async def test_a_condition_that_blocks_does_not_block_the_event_loop(function, ask):
    """It is asked twice: about the arguments as they were sent, and as the tool receives them."""
    asked, is_blocking, others_ran = [], threading.Event(), threading.Event()

    def condition(arguments: dict[str, Any]) -> bool:
        asked.append(arguments["amount"])
        if len(asked) < ask:
            return False
        is_blocking.set()
        return not others_ran.wait(LIMIT)

    call = asyncio.create_task(kit_of(function, condition).aexec("pay", {"amount": "5"}))
    assert await asyncio.to_thread(is_blocking.wait, LIMIT)
    others_ran.set()
    assert (await asyncio.wait_for(call, LIMIT)).value == "paid 5"
    assert asked == ["5", 5]


@each_tool
@pytest.mark.parametrize("ask", [1, 2], ids=["as sent", "as received"])
@pytest.mark.parametrize("how", ["exec", "aexec", "astream"])
async def test_a_condition_counts_towards_the_timeout(function, ask, how):
    asked, released = [], threading.Event()

    def condition(arguments: dict[str, Any]) -> bool:
        asked.append(arguments["amount"])
        return len(asked) == ask and released.wait(LIMIT)

    kit = kit_of(function, condition, timeout=0.3)
    try:
        if how == "exec":
            result = await asyncio.to_thread(kit.exec, "pay", {"amount": 5})
        elif how == "aexec":
            result = await kit.aexec("pay", {"amount": 5})
        else:
            result = [chunk async for chunk in kit.astream("pay", {"amount": 5})][-1]
    finally:
        released.set()
    assert result.error.code == "timeout"


async def test_the_error_of_a_slow_condition_says_what_was_slow():
    released = threading.Event()
    kit = kit_of(pay, lambda _: released.wait(LIMIT), timeout=0.05)
    result = await kit.aexec("pay", {"amount": 5})
    released.set()
    assert "the function that says whether it needs an approval took too long" in result.error.message


async def test_from_async_code_a_condition_runs_in_a_thread():
    threads: list[int] = []
    kit = kit_of(pay, lambda _: bool(threads.append(threading.get_ident())))
    assert (await kit.aexec("pay", {"amount": 5})).value == "paid 5"
    assert len(threads) == 2
    assert threading.get_ident() not in threads


def test_from_sync_code_a_condition_runs_in_the_callers_thread():
    threads: set[int] = set()
    kit = kit_of(pay, lambda _: bool(threads.add(threading.get_ident())))
    assert kit.call("pay", {"amount": 5}) == "paid 5"
    assert threads == {threading.get_ident()}


@each_tool
@pytest.mark.parametrize("condition_fails", [False, True])
async def test_the_condition_of_a_middleware_may_block_too(function, condition_fails):
    def condition(call: Any) -> bool:
        if condition_fails:
            raise LookupError("hunter2")
        return call.arguments["amount"] > 100

    kit = Toolkit("bank", middleware=[approve(when=condition)]).add(function, rename="pay")
    codes = [(await kit.aexec("pay", {"amount": amount})).error for amount in (5, 500)]
    assert [error and error.code for error in codes] == (
        ["tool_error"] * 2 if condition_fails else [None, "approval_required"]
    )
