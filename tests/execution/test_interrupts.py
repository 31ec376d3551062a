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
        assert until(lambda: background_tasks() == []), point
        point += 1
    assert point > 20
    assert background_loop.get_loop() is loop
    assert deadline.count_abandoned_tasks() == 0


@tool
async def waits_long() -> int:
    await asyncio.sleep(60)
    return 1


@tool
async def counts_long() -> Any:
    yield 1
    await asyncio.sleep(60)


async def waits_before(call: Call, next_: Any) -> Any:
    await asyncio.sleep(60)
    return await next_(call)


slow_kit = Toolkit("slow", middleware=[suspends]).add(waits_long)
held_kit = Toolkit("held", middleware=[waits_before]).add(runs_here)

LONG_CALLS: dict[str, Callable[[], Any]] = {
    "call": waits_long.call,
    "timeout": tool(waits_long.function, timeout=60).exec,
    "stream": lambda: list(counts_long.stream()),
    "sync body and middleware": lambda: held_kit.exec("runs_here", {}),
    "async body and middleware": lambda: slow_kit.exec("waits_long", {}),
    "stream and middleware": lambda: list(slow_kit.stream("waits_long", {})),
}


class TwoInterrupts:
    """Raises KeyboardInterrupt at a point of a call, the last one where it would wait, and again at one of its cleanup.

    The points are those of `interrupt`, and the second one is counted from the beginning of `LoopCall.cancel`.
    """

    def __init__(self, first: int, second: int) -> None:
        self._left, self._second = first, second
        self.raised = 0
        self.is_at_end = False
        """Whether the first point is the one where the call would wait."""

    def run(self, function: Callable[[], Any], patch: pytest.MonkeyPatch) -> None:
        """Call the function."""
        cancel = background_loop.LoopCall.cancel

        def counted_cancel(loop_call: background_loop.LoopCall, *arguments: Any) -> None:
            if self.raised == 1 and self._left <= 0:
                self._left = self._second
                sys.setprofile(self._count)
            cancel(loop_call, *arguments)

        before = sys.getprofile()
        gc.disable()
        with patch.context() as patched:
            patched.setattr(background_loop.LoopCall, "cancel", counted_cancel)
            try:
                sys.setprofile(self._count)
                function()
            except KeyboardInterrupt:
                pass
            finally:
                sys.setprofile(before)
        gc.enable()

    def _count(self, frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_code.co_name
        waits = self.raised == 0 and event == "c_call" and getattr(argument, "__qualname__", "") == "SimpleQueue.get"
        is_point = event in {"call", "c_return"} and name != "__del__"
        if not waits and (not is_point or "weakref" in frame.f_code.co_filename):
            return
        self._left -= 1
        if waits or self._left == 0:
            self.is_at_end = self.is_at_end or waits
            self.raised, self._left = self.raised + 1, 0
            sys.setprofile(None)
            raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # interrupted before it was
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # interrupted while it was collected
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "call" else pytest.mark.exhaustive) for name in LONG_CALLS]
)
def test_a_second_ctrl_c_during_the_cleanup_leaves_no_task(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, first, pairs = background_loop.get_loop(), 0, 0
    TwoInterrupts(sys.maxsize, sys.maxsize).run(LONG_CALLS[name], monkeypatch)  # the first call compiles the tool
    is_at_end = False
    while not is_at_end:
        first, second, is_interrupted_twice = first + 1, 0, True
        while is_interrupted_twice:
            second += 1
            interrupts = TwoInterrupts(first, second)
            interrupts.run(LONG_CALLS[name], monkeypatch)
            assert until(lambda: background_tasks() == []), (first, second)
            is_at_end, is_interrupted_twice = interrupts.is_at_end, interrupts.raised == 2
            pairs += is_interrupted_twice
    assert pairs > 50
    assert background_loop.get_loop() is loop
    assert deadline.count_abandoned_tasks() == 0
