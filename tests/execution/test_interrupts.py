"""Ctrl-C in a sync caller: wherever it comes, no task is left and the background loop still runs."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from ahvn_tools import Toolkit, tool
from ahvn_tools.execution import background_loop, deadline
from ahvn_tools.execution.call import Call
from tests.execution.conftest import background_tasks
from tests.execution.entry_points import until


@tool
async def waits() -> int:
    await asyncio.sleep(0.002)
    return 1


@tool
async def counts() -> Any:
    yield 1
    await asyncio.sleep(0.002)
    yield 2


@tool
def runs_here() -> int:
    return 1


async def suspends(call: Call, next_: Any) -> Any:
    await asyncio.sleep(0)
    return await next_(call)


kit = Toolkit("kit", middleware=[suspends]).add(waits).add(runs_here)

CALLS: dict[str, Callable[[], Any]] = {
    "call": waits.call,
    "exec": waits.exec,
    "stream": lambda: list(counts.stream()),
    "sync body and middleware": lambda: kit.exec("runs_here", {}),
    "async body and middleware": lambda: kit.exec("waits", {}),
    "stream and middleware": lambda: list(kit.stream("waits", {})),
}


def interrupt(function: Callable[[], Any], point: int) -> bool:
    """Call a function, and raise KeyboardInterrupt at its point of that number. Return whether there is such a point.

    The points are where Python raises KeyboardInterrupt after a signal: where a function of Python begins, and where
    one of C returns.
    """
    left = point

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal left
        code = frame.f_code
        if event not in {"call", "c_return"} or code.co_name == "__del__" or "weakref" in code.co_filename:
            return  # what is raised while an object is deleted, goes nowhere
        left -= 1
        if left == 0:
            sys.setprofile(None)
            raise KeyboardInterrupt

    before = sys.getprofile()
    gc.disable()
    try:
        sys.setprofile(count)
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(before)
        gc.enable()
    return False


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # interrupted before it was
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if "middleware" not in name else pytest.mark.exhaustive) for name in CALLS]
)
def test_ctrl_c_at_any_point_of_a_sync_call_leaves_no_task(name: str) -> None:
    function = CALLS[name]
    function()
    loop, point = background_loop.get_loop(), 1
    while interrupt(function, point):
        assert until(lambda: background_tasks() == 0), point
        point += 1
    assert point > 20
    assert background_loop.get_loop() is loop
    assert deadline.count_abandoned_tasks() == 0
