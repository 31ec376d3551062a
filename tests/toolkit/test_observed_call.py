"""`aexec` with a function that takes the output of a tool, and with a condition that cancels the call."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ahvn_tools import ToolContext, Toolkit
from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit import observed_call


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask conditions often."""
    monkeypatch.setattr(observed_call, "POLL_SECONDS", 0.003)


@pytest.fixture
def kit() -> Toolkit:
    kit = Toolkit("kit")

    @kit.tool
    def write(count: int, context: ToolContext) -> str:
        for number in range(count):
            context.append_output(number)
            context.report_progress(number)
        return "done"

    @kit.tool
    async def awrite(count: int, context: ToolContext) -> AsyncIterator[str]:
        for number in range(count):
            await context.append_output(number)
            await context.report_progress(number)
            yield "item"

    @kit.tool
    async def wait(context: ToolContext) -> str:
        context.append_output("begun")
        await asyncio.sleep(60)
        return "never"

    @kit.tool
    def look(context: ToolContext) -> str:
        context.append_output("begun")
        while not context.cancelled:
            ended.wait(0.01)
        ended.set()
        return "never"

    ended = threading.Event()
    return kit


@pytest.mark.parametrize("name", ["write", "awrite"])
@pytest.mark.parametrize("is_async", [False, True])
async def test_output_is_taken_in_its_order_and_nothing_else(kit: Toolkit, name: str, is_async: bool) -> None:
    taken: list[Any] = []

    async def take(output: Any) -> None:
        await asyncio.sleep(0)
        taken.append(output)

    result = await kit.aexec(name, {"count": 4}, on_output=take if is_async else taken.append)
    assert taken == [0, 1, 2, 3]
    assert result.value == ("done" if name == "write" else ["item"] * 4)
    assert result.is_last


async def test_what_takes_the_output_may_raise(kit: Toolkit) -> None:
    def take(_: Any) -> None:
        raise OSError("the page is closed")

    for cancel_when in (None, asyncio.Event()):
        with pytest.raises(OSError, match="the page is closed"):
            await kit.aexec("wait", on_output=take, cancel_when=cancel_when)


@pytest.mark.parametrize("on_output", [None, print])
async def test_errors_of_the_call_are_results(kit: Toolkit, on_output: Any) -> None:
    for cancel_when in (None, asyncio.Event()):
        options = {"on_output": on_output, "cancel_when": cancel_when}
        assert (await kit.aexec("nope", **options)).error.code == "not_found"
        assert (await kit.aexec("write", {"count": "x"}, **options)).error.code == "invalid_parameters"


def signal_of(kind: str) -> tuple[Any, Callable[[], object]]:
    """Return what cancels a call, and the function that makes it do so."""
    if kind == "aborted":
        signal = SimpleNamespace(aborted=False)
        return signal, lambda: setattr(signal, "aborted", True)
    event = threading.Event() if kind == "threading" else asyncio.Event()
    return (event.is_set if kind == "function" else event), event.set


SIGNALS = ["asyncio", "threading", "function", "aborted"]


@pytest.mark.parametrize("kind", SIGNALS)
@pytest.mark.parametrize("name", ["wait", "look"])
async def test_a_signal_cancels_a_call_that_runs(kit: Toolkit, name: str, kind: str) -> None:
    cancel_when, give = signal_of(kind)
    result = await kit.aexec(name, on_output=lambda _: give(), cancel_when=cancel_when)
    assert (result.error.code, result.is_interrupted) == ("cancelled", True)


@pytest.mark.parametrize("kind", SIGNALS)
async def test_after_a_signal_no_call_begins(kit: Toolkit, kind: str) -> None:
    taken: list[Any] = []
    cancel_when, give = signal_of(kind)
    give()
    result = await kit.aexec("write", {"count": 1}, on_output=taken.append, cancel_when=cancel_when)
    assert (result.error.code, result.is_interrupted, taken) == ("cancelled", True, [])


async def test_the_result_has_the_items_until_the_signal(kit: Toolkit) -> None:
    event = asyncio.Event()

    @kit.tool
    async def count(context: ToolContext) -> AsyncIterator[int]:
        yield 1
        yield 2
        context.append_output("now")
        await asyncio.sleep(60)

    result = await kit.aexec("count", on_output=lambda _: event.set(), cancel_when=event)
    assert (result.value, result.is_interrupted) == ([1, 2], True)


async def test_the_cancellation_of_the_caller_passes(kit: Toolkit) -> None:
    begun = asyncio.Event()
    call = asyncio.ensure_future(kit.aexec("wait", on_output=lambda _: begun.set(), cancel_when=asyncio.Event()))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_call_can_still_be_cancelled_by_its_id(kit: Toolkit) -> None:
    def cancel(_: Any) -> None:
        kit.cancel("c1")

    result = await kit.aexec("wait", call_id="c1", on_output=cancel, cancel_when=asyncio.Event())
    assert (result.id, result.is_interrupted) == ("c1", True)


async def is_late() -> bool:
    return False


@pytest.mark.parametrize("cancel_when", ["now", True, is_late])
async def test_another_condition_is_an_error(kit: Toolkit, cancel_when: Any) -> None:
    with pytest.raises(ToolkitError, match="an Event or a sync function"):
        await kit.aexec("wait", cancel_when=cancel_when)


@pytest.mark.parametrize("cancel_when", [None, threading.Event()])
async def test_what_takes_the_output_is_a_function(kit: Toolkit, cancel_when: Any) -> None:
    with pytest.raises(ToolkitError, match="`on_output` is a function"):
        await kit.aexec("write", {"count": 0}, on_output="print", cancel_when=cancel_when)


async def test_a_signal_cancels_no_other_call_of_the_same_id(kit: Toolkit) -> None:
    event = asyncio.Event()
    other = asyncio.ensure_future(kit.aexec("wait", call_id="c1"))
    await asyncio.sleep(0)
    result = await kit.aexec("wait", call_id="c1", on_output=lambda _: event.set(), cancel_when=event)
    assert (result.id, result.is_interrupted) == ("c1", True)
    await asyncio.sleep(0.05)
    assert not other.done()
    other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await other


async def test_the_result_has_the_id_of_the_call_in_each_case(kit: Toolkit, monkeypatch) -> None:
    monkeypatch.setattr(observed_call, "CANCEL_GRACE_SECONDS", 0.05)
    event = threading.Event()

    async def take(_: Any) -> None:
        event.set()
        await asyncio.sleep(60)

    for _ in ("begun", "not begun"):
        result = await kit.aexec("wait", call_id="c1", on_output=take, cancel_when=event)
        assert (result.id, result.error.code, result.is_interrupted) == ("c1", "cancelled", True)


@pytest.mark.parametrize("name", ["wait", "look"])
async def test_what_a_condition_raises_is_raised_and_ends_the_call(kit: Toolkit, name: str, caplog: Any) -> None:
    has_begun, has_ended = False, False

    async def take(_: Any) -> None:
        nonlocal has_begun, has_ended
        has_begun = True
        try:
            await asyncio.sleep(60)
        finally:
            has_ended = True
            raise OSError("the page is closed")

    def is_over() -> bool:
        if has_begun:
            raise ValueError("no answer")
        return False

    with pytest.raises(ValueError, match="no answer"):
        await kit.aexec(name, on_output=take, cancel_when=is_over)
    assert has_ended
    assert len(asyncio.all_tasks()) == 1
    gc.collect()
    assert caplog.records == []  # asyncio logs an exception that nobody has read


async def test_a_condition_that_raises_at_once_lets_no_call_begin(kit: Toolkit) -> None:
    taken: list[Any] = []

    def is_over() -> bool:
        raise ValueError("no answer")

    with pytest.raises(ValueError, match="no answer"):
        await kit.aexec("write", {"count": 1}, on_output=taken.append, cancel_when=is_over)
    assert taken == []


async def test_a_result_that_is_there_already_is_not_lost(kit: Toolkit, monkeypatch) -> None:
    monkeypatch.setattr(observed_call, "POLL_SECONDS", 60)  # the condition is asked again when the call has ended
    event = threading.Event()
    result = await kit.aexec("write", {"count": 1}, on_output=lambda _: event.set(), cancel_when=event)
    assert (result.value, result.is_interrupted) == ("done", False)
