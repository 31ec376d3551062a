"""All calls of an answer as one stream: chunks and progress as they come, each with its call id, then the Run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ahvn_tools import ToolCall, ToolContext, Toolkit, ToolResult
from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit import Run

LIMIT = 60
"""Seconds: the longest that any of these tests waits."""


def call(number: int, name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"c{number}", name=name, arguments=arguments)


async def collect(kit: Toolkit, calls: Any, how: str, **options: Any) -> tuple[list[ToolResult], Run]:
    """Return the chunks and the run."""
    if how == "astream_run":
        items = [item async for item in kit.astream_run(calls, **options)]
    else:
        items = await asyncio.to_thread(lambda: list(kit.stream_run(calls, **options)))
    *chunks, run = items
    assert isinstance(run, Run)
    assert all(isinstance(chunk, ToolResult) and not chunk.is_last for chunk in chunks)
    return chunks, run


each_way = pytest.mark.parametrize("how", ["stream_run", "astream_run"])


def counting_kit(**options: Any) -> Toolkit:
    kit = Toolkit("k", **options)

    @kit.tool
    def count(to: int) -> Iterator[int]:
        yield from range(to)

    @kit.tool
    async def acount(to: int) -> AsyncIterator[int]:
        for number in range(to):
            await asyncio.sleep(0)
            yield number

    @kit.tool
    def work(context: ToolContext) -> str:
        context.report_progress(1, 2, "half")
        return "done"

    @kit.tool
    def fail() -> Iterator[int]:
        yield 1
        raise ValueError("no")

    return kit


@each_way
async def test_the_chunks_of_each_call_come_in_order_under_its_id_and_then_the_run(how):
    calls = [call(1, "count", to=3), call(2, "acount", to=2), call(3, "work"), call(4, "fail"), call(5, "gone")]
    chunks, run = await collect(counting_kit(), calls, how, format="openai")
    by_call = {number: [chunk.value for chunk in chunks if chunk.id == f"c{number}"] for number in range(1, 6)}
    assert by_call == {1: [0, 1, 2], 2: [0, 1], 3: ["half"], 4: [1], 5: []}
    [progress] = [chunk for chunk in chunks if chunk.id == "c3"]
    assert "progress" in progress.meta
    assert [result.error.code if result.error else result.value for _, result in run.results] == [
        [0, 1, 2], [0, 1], "done", "tool_error", "not_found",
    ]  # fmt: skip
    assert [message["tool_call_id"] for message in run] == ["c1", "c2", "c3", "c4", "c5"]


@each_way
@pytest.mark.parametrize("name", ["count", "acount"])
async def test_one_call_streams_as_several_do(how, name):
    chunks, run = await collect(counting_kit(), [call(1, name, to=2)], how)
    assert [(chunk.id, chunk.value) for chunk in chunks] == [("c1", 0), ("c1", 1)]
    assert run.results[0][1].value == [0, 1]


@each_way
async def test_an_answer_without_calls_is_its_run_alone(how):
    assert await collect(counting_kit(), [], how) == ([], Run())


@pytest.mark.parametrize("how", ["stream_run", "astream_run"])
def test_a_wrong_answer_is_refused_at_once(how):
    with pytest.raises(ToolkitError, match="None is no answer"):
        getattr(counting_kit(), how)(None)


async def test_chunks_come_while_another_call_runs():
    kit, read = counting_kit(), asyncio.Event()

    @kit.tool
    async def wait() -> str:
        await asyncio.wait_for(read.wait(), LIMIT)
        return "seen"

    seen = []
    async for item in kit.astream_run([call(1, "wait"), call(2, "acount", to=3)]):
        seen.append(item)
        read.set()
    assert [item.value for item in seen[:-1]] == [0, 1, 2]
    assert seen[-1].results[0][1].value == "seen"


async def test_a_tool_waits_until_its_chunk_is_read():
    kit, made = Toolkit("k"), []

    @kit.tool
    async def count(name: str) -> AsyncIterator[str]:
        for number in range(3):
            made.append(f"{name}{number}")
            yield name

    read = 0
    async for item in kit.astream_run([call(1, "count", name="a"), call(2, "count", name="b")]):
        read += 1
        await asyncio.sleep(0.01)
        assert isinstance(item, Run) or len(made) <= read + 1
    assert (read, len(made)) == (7, 6)


async def test_the_timeout_of_a_call_does_not_count_the_time_of_its_reader():
    kit = counting_kit(timeout=5)
    chunks = []
    async for item in kit.astream_run([call(1, "acount", to=3), call(2, "acount", to=3)]):
        chunks.append(item)
        await asyncio.sleep(0.01)
    assert [result.is_error for _, result in chunks[-1].results] == [False, False]


@each_way
async def test_leaving_the_stream_ends_all_calls(how):
    kit, closed = Toolkit("k"), []
    both_closed = threading.Event()

    @kit.tool
    async def run(name: str) -> AsyncIterator[str]:
        try:
            while True:
                await asyncio.sleep(0)
                yield name
        finally:
            closed.append(name)
            if len(closed) == 2:
                both_closed.set()

    calls = [call(1, "run", name="a"), call(2, "run", name="b")]
    if how == "astream_run":
        stream = kit.astream_run(calls)
        seen = {(await anext(stream)).id for _ in range(8)}
        await stream.aclose()
    else:
        stream = kit.stream_run(calls)
        seen = await asyncio.to_thread(lambda: {next(stream).id for _ in range(8)})
        await asyncio.to_thread(stream.close)
    assert seen == {"c1", "c2"}
    assert await asyncio.to_thread(both_closed.wait, LIMIT)


async def test_a_middleware_sees_the_chunks_of_its_call():
    async def louder(call: Any, next: Any) -> ToolResult:
        async def emit(chunk: ToolResult) -> None:
            await call.emit(ToolResult(chunk.value * 10))

        return await next(replace(call, emit=emit))

    chunks, _ = await collect(counting_kit(middleware=[louder]), [call(1, "acount", to=3)], "astream_run")
    assert [(chunk.id, chunk.value, chunk.is_last) for chunk in chunks] == [
        ("c1", 0, False), ("c1", 10, False), ("c1", 20, False),
    ]  # fmt: skip


async def test_a_call_is_cancelled_by_its_id_while_the_others_go_on():
    kit = counting_kit()

    @kit.tool
    async def hang() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(LIMIT)

    async for item in kit.astream_run([call(1, "hang"), call(2, "acount", to=2)]):
        if isinstance(item, ToolResult) and item.id == "c1":
            assert kit.cancel("c1")
    assert [result.error and result.error.code for _, result in item.results] == ["cancelled", None]


async def test_a_call_that_waits_for_approval_is_pending_in_the_run():
    kit = counting_kit()
    kit.add(lambda: "paid", rename="pay", requires_approval=True)
    chunks, run = await collect(kit, [call(1, "pay"), call(2, "count", to=1)], "astream_run")
    assert ([chunk.id for chunk in chunks], run.is_done) == (["c2"], False)
    assert (await kit.aresume(run, approved=True)).is_done


@each_way
async def test_exclusive_calls_stream_one_after_the_other(how):
    kit = Toolkit("k")

    @kit.tool(exclusive="path")
    async def write(path: str, text: str) -> AsyncIterator[str]:
        for _ in range(2):
            await asyncio.sleep(0)
            yield text

    calls = [call(number, "write", path="a", text=str(number)) for number in range(3)]
    chunks, _ = await collect(kit, calls, how)
    assert [chunk.value for chunk in chunks] == ["0", "0", "1", "1", "2", "2"]
