"""Observe: a function of the host hears of each call that has ended."""

from __future__ import annotations

from typing import Any

import pytest

from ahvn_tools import ToolError, Toolkit, ToolSpecError
from ahvn_tools.middleware import observe


def divide(number: float, by: float) -> float:
    """Divide."""
    if by == 0:
        raise ToolError("There is no such number.")
    return number / by


def numbers(to: int):
    """Count."""
    yield from range(to)


class Heard:
    """A toolkit, and what its observer was told."""

    def __init__(self, *tools: Any) -> None:
        self.calls: list[tuple[str, bool, str | None]] = []
        self.durations: list[float] = []
        self.kit = Toolkit("k", middleware=[observe(self.hear)]).add(*tools)

    def hear(self, tool: str, success: bool, duration: float, error_code: str | None = None) -> None:
        self.calls.append((tool, success, error_code))
        self.durations.append(duration)


def test_an_observer_hears_of_each_call_with_its_outcome_and_duration():
    heard = Heard(divide)
    heard.kit.call("divide", {"number": 1, "by": 2})
    heard.kit.exec("divide", {"number": 1, "by": 0})
    heard.kit.exec("divide", {"number": "x", "by": 0})
    assert heard.calls == [
        ("divide", True, None),
        ("divide", False, "tool_error"),
        ("divide", False, "invalid_parameters"),
    ]
    assert all(0 <= duration < 60 for duration in heard.durations)


def test_a_stream_is_one_call():
    heard = Heard(numbers)
    assert [result.value for result in heard.kit.stream("numbers", {"to": 2})] == [0, 1, [0, 1]]
    assert heard.calls == [("numbers", True, None)]


def test_an_observer_that_fails_is_logged_and_costs_no_result(caplog):
    def fail(*arguments: Any) -> None:
        raise OSError("disk full")

    kit = Toolkit("k", middleware=[observe(fail)]).add(divide)
    assert kit.call("divide", {"number": 1, "by": 2}) == 0.5
    assert kit.exec("divide", {"number": 1, "by": 0}).error.code == "tool_error"
    assert "The observer of the call of 'divide' failed." in caplog.text


async def _observe_later(*arguments: Any) -> None:
    """Observe, in a loop."""


@pytest.mark.parametrize("observer", [None, "print", _observe_later], ids=["nothing", "text", "async"])
def test_what_cannot_observe_is_refused(observer):
    with pytest.raises(ToolSpecError, match=r"`observe` takes a function .* that is not async"):
        observe(observer)


def test_a_call_that_waits_has_not_failed():
    seen = []
    kit = Toolkit("k", middleware=[observe(lambda tool, success, duration, code: seen.append((tool, success, code)))])
    kit.add(lambda: "paid", name="pay", description="Pay.", requires_approval=True)
    kit.add(lambda: "seen", name="look", description="Look.", external=True)
    kit.exec("pay")
    kit.exec("look")
    assert seen == [("pay", True, "approval_required"), ("look", True, "result_required")]
