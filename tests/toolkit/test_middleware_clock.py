"""The time limit of middleware, which counts neither the body nor the reader."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ahvn_tools import Toolkit, ToolResult
from ahvn_tools.errors import ToolkitError, ToolTimeoutError
from ahvn_tools.execution.deadline import Deadline
from ahvn_tools.toolkit.middleware_clock import MiddlewareClock
from tests.execution.entry_points import WAIT, combinations
from tests.toolkit.test_faults import RESULTS

SHORT = 0.05
"""Seconds: the limit of something that hangs."""


async def hang_before(call: Any, next: Any) -> ToolResult:
    await asyncio.sleep(60)
    return await next(call)


async def hang_after(call: Any, next: Any) -> ToolResult:
    result = await next(call)
    await asyncio.sleep(60)
    return result


async def hang_on_chunks(call: Any, next: Any) -> ToolResult:
    async def emit(_chunk: ToolResult) -> None:
        await asyncio.sleep(60)

    return await next(replace(call, emit=emit))


def kit_of(*middleware: Any, **options: Any) -> Toolkit:
    kit = Toolkit("kit", middleware=middleware, **options)

    @kit.tool
    def count(to: int = 2) -> Any:
        yield from range(to)

    @kit.tool
    async def count_later(to: int = 2) -> Any:
        for number in range(to):
            await asyncio.sleep(0)
            yield number

    return kit


TOOLS = ["count", "count_later"]


@combinations(method=RESULTS, middleware={"before": hang_before, "after": hang_after}, name=TOOLS)
def test_a_middleware_that_hangs_is_a_timeout(method: Any, middleware: Any, name: str) -> None:
    result = method(kit_of(middleware, middleware_timeout=SHORT), name)
    assert (result.error.code, result.error.message) == (
        "timeout",
        f"The middleware of tool {name!r} did not finish within 0.05 seconds.",
    )


@combinations(name=TOOLS, entry_point=["stream", "astream"])
def test_a_middleware_that_hangs_on_a_chunk_is_a_timeout(name: str, entry_point: str) -> None:
    kit = kit_of(hang_on_chunks, middleware_timeout=SHORT)
    assert RESULTS[entry_point](kit, name).error.code == "timeout"


@combinations(name=TOOLS)
async def test_an_async_postprocess_that_hangs_is_a_timeout(name: str) -> None:
    async def hang(_call: Any, _result: Any) -> None:
        await asyncio.sleep(60)

    kit = Toolkit("kit", middleware_timeout=SHORT).add(kit_of()[name], postprocess=hang)
    with pytest.raises(ToolTimeoutError) as caught:
        await kit.acall(name)
    assert caught.value.timeout == SHORT


@combinations(method=RESULTS)
def test_within_the_limit_nothing_changes(method: Any) -> None:
    async def passing(call: Any, next: Any) -> ToolResult:
        return await next(call)

    kit = kit_of(passing, middleware_timeout=60)
    assert (method(kit, "count").value, method(kit, "count_later").value) == ([0, 1], [0, 1])


async def test_the_clock_stands_still_while_the_body_runs_and_the_reader_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[str] = []

    def note(name: str) -> None:
        runs.append(f"{name} {'stopped' if deadlines[0]._resumed_at is None else 'running'}")

    deadlines: list[Deadline] = []
    start = Deadline.__init__

    def remember(self: Deadline, seconds: float) -> None:
        deadlines.append(self)
        start(self, seconds)

    monkeypatch.setattr(Deadline, "__init__", remember)

    async def noting(call: Any, next: Any) -> ToolResult:
        async def emit(chunk: ToolResult) -> None:
            note("chunk")
            await call.emit(chunk)

        note("before")
        result = await next(replace(call, emit=emit))
        note("after")
        return result

    kit = Toolkit("kit", middleware=[noting], middleware_timeout=60)

    @kit.tool
    async def count() -> Any:
        note("body")
        yield 1

    async for result in kit.astream("count"):
        note("reader" if not result.is_last else "end")
    assert runs == ["before running", "body stopped", "chunk running", "reader stopped", "after running", "end running"]


@combinations(entry_point=["exec", "aexec", "stream", "astream"], name=TOOLS)
def test_the_clock_stands_still_while_an_approver_decides(
    entry_point: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks: list[Deadline] = []
    stopped: list[bool] = []
    start = Deadline.__init__

    def remember(self: Deadline, seconds: float) -> None:
        clocks.append(self)
        start(self, seconds)

    monkeypatch.setattr(Deadline, "__init__", remember)

    def approver(_request: Any) -> bool:
        stopped.append(clocks[0]._resumed_at is None)
        return True

    async def noting(call: Any, next: Any) -> ToolResult:
        stopped.append(clocks[0]._resumed_at is None)
        return await next(call)

    kit = Toolkit("kit", approver=approver, middleware_timeout=60)
    kit.add(kit_of()[name], requires_approval=True, middleware=[noting])
    assert RESULTS[entry_point](kit, name).value == [0, 1]
    assert stopped == [True, False]


async def test_cancelling_a_call_cancels_its_middleware() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def hang(call: Any, next: Any) -> ToolResult:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return await next(call)

    kit = kit_of(hang, middleware_timeout=60)
    call = asyncio.create_task(kit.aexec("count", call_id="c1"))
    await asyncio.wait_for(started.wait(), WAIT)
    assert kit.cancel("c1")
    assert (await asyncio.wait_for(call, WAIT)).error.code == "cancelled"
    assert cancelled.is_set()


def test_a_call_without_middleware_has_no_clock() -> None:
    assert kit_of(middleware_timeout=60).call("count") == [0, 1]
    assert MiddlewareClock.limit((), 1.0)[0].__name__ == "_run_limited"


@pytest.mark.parametrize("seconds", [0, -1, True, "1"])
def test_a_limit_is_a_positive_number_of_seconds(seconds: Any) -> None:
    with pytest.raises(ToolkitError, match="timeout must be a number of seconds greater than 0"):
        Toolkit("kit", middleware_timeout=seconds)
