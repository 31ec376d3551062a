"""Streams: one chunk for each item at once, a body that waits for its reader, a reader that may stop at any time."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing
from typing import Any, get_type_hints

import pytest
from pydantic import BaseModel

from ahvn_tools import Toolkit, ToolResult, ToolSpec, tool
from ahvn_tools.errors import InvalidParametersError
from tests.execution.entry_points import STREAM_ENTRY_POINTS, WAIT, WAYS, EntryPoint, auntil, combinations, run, until

user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="no one")
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
KINDS = ["sync body", "async body"]
each_kind = pytest.mark.parametrize("kind", KINDS)
each_entry_point = pytest.mark.parametrize("entry_point", STREAM_ENTRY_POINTS.values(), ids=STREAM_ENTRY_POINTS)


class Body:
    """An endless body of either kind that counts its items and sets an event when it is closed."""

    def __init__(self, kind: str) -> None:
        self.count = 0
        self.closed = threading.Event()
        self.function = self.items if kind == "sync body" else self.aitems

    def items(self) -> Any:
        try:
            while True:
                self.count += 1
                yield self.count
        finally:
            self.closed.set()

    async def aitems(self) -> Any:
        try:
            while True:
                self.count += 1
                yield self.count
                await asyncio.sleep(0)
        finally:
            await asyncio.sleep(0)
            self.closed.set()

    def spec(self, **way: Any) -> ToolSpec:
        return ToolSpec.from_function(self.function, name="subject", **way)


class Reader:
    """Reads a stream, from sync or from async code."""

    def __init__(self, spec: ToolSpec, *, is_async: bool) -> None:
        self._stream: Any = spec.astream() if is_async else spec.stream()
        self._is_async = is_async

    async def next(self) -> Any:
        """Return the next result, or None."""
        return await anext(self._stream, None) if self._is_async else next(self._stream, None)

    async def close(self) -> None:
        await self._stream.aclose() if self._is_async else self._stream.close()


@combinations(kind=KINDS, way=WAYS, is_async=[False, True])
async def test_each_item_is_read_before_the_body_continues_and_closing_closes_it(
    kind: str, way: dict[str, Any], is_async: bool
) -> None:
    body = Body(kind)
    reader = Reader(body.spec(**way), is_async=is_async)
    for n in range(1, 6):
        assert ((await reader.next()).value, body.count) == (n, n)
    await reader.close()
    assert await auntil(body.closed.is_set)
    assert (body.count, await reader.next()) == (5, None)


@combinations(kind=KINDS, way=WAYS)
def test_breaking_out_of_a_sync_stream_closes_the_body(kind: str, way: dict[str, Any]) -> None:
    body = Body(kind)
    for chunk in body.spec(**way).stream():
        if chunk.value == 3:
            break
    gc.collect()
    assert until(body.closed.is_set)
    assert body.count == 3


@combinations(kind=KINDS, way=WAYS)
def test_breaking_out_of_an_async_stream_closes_the_body(kind: str, way: dict[str, Any]) -> None:
    body = Body(kind)

    async def main() -> None:
        async for chunk in body.spec(**way).astream():
            if chunk.value == 3:
                break
        gc.collect()
        assert await asyncio.to_thread(until, body.closed.is_set)

    run(main)
    assert body.count == 3


@combinations(kind=KINDS, way=WAYS)
async def test_cancelling_an_async_reader_closes_the_body(kind: str, way: dict[str, Any]) -> None:
    body = Body(kind)
    reached = asyncio.Event()

    async def read() -> None:
        async with aclosing(body.spec(**way).astream()) as stream:
            async for _ in stream:
                reached.set()
                await asyncio.sleep(60)

    task = asyncio.create_task(read())
    await asyncio.wait_for(reached.wait(), WAIT)
    task.cancel()
    await asyncio.wait({task}, timeout=WAIT)
    assert task.cancelled()
    assert await auntil(body.closed.is_set)


@combinations(kind=KINDS, way=WAYS)
async def test_cancelling_a_reader_that_waits_for_a_chunk_closes_the_body(kind: str, way: dict[str, Any]) -> None:
    if kind == "sync body":
        way = {**way, "run_in_thread": True}
    loop, waits, release, closed = asyncio.get_running_loop(), asyncio.Event(), threading.Event(), threading.Event()

    def items() -> Any:
        try:
            loop.call_soon_threadsafe(waits.set)
            release.wait(30)
            yield 1
        finally:
            closed.set()

    async def aitems() -> Any:
        try:
            waits.set()
            await asyncio.sleep(60)
            yield 1
        finally:
            closed.set()

    spec = ToolSpec.from_function(items if kind == "sync body" else aitems, **way)
    task = asyncio.create_task(anext(spec.astream()))
    await asyncio.wait_for(waits.wait(), WAIT)
    task.cancel()
    await asyncio.wait({task}, timeout=WAIT)
    release.set()
    assert task.cancelled()
    assert await asyncio.to_thread(closed.wait, WAIT)


@each_way
async def test_two_streams_may_be_read_alternately(way: dict[str, Any]) -> None:
    first, second = Body("async body"), Body("sync body")
    async with aclosing(first.spec(**way).astream()) as one, aclosing(second.spec(**way).astream()) as two:
        seen = [((await anext(one)).value, (await anext(two)).value) for _ in range(3)]
    assert seen == [(1, 1), (2, 2), (3, 3)]
    with closing(first.spec(**way).stream()) as one, closing(second.spec(**way).stream()) as two:
        assert (next(one).value, next(two).value, next(one).value) == (4, 4, 5)


@each_way
async def test_a_stream_may_be_closed_from_another_task(way: dict[str, Any]) -> None:
    body = Body("async body")
    stream = body.spec(**way).astream()
    await anext(stream)
    await asyncio.create_task(stream.aclose())
    assert await auntil(body.closed.is_set)


def test_a_stream_that_is_never_read_never_starts() -> None:
    body = Body("sync body")
    body.spec().stream()
    body.spec().astream()
    assert body.count == 0


@each_kind
def test_a_sync_stream_may_be_read_in_a_running_loop(kind: str) -> None:
    async def main() -> list[int]:
        with closing(Body(kind).spec(timeout=30.0).stream()) as stream:
            return [next(stream).value for _ in range(3)]

    assert run(main) == [1, 2, 3]


# contextvars


def changing_user(kind: str, way: dict[str, Any]) -> ToolSpec:
    """Make a tool that yields the value of `user`, changes it, and yields the new value."""

    def items() -> Any:
        seen = user.get()
        user.set("body")
        yield seen
        yield user.get()

    async def aitems() -> Any:
        for item in items():
            yield item

    return ToolSpec.from_function(items if kind == "sync body" else aitems, **way)


@combinations(kind=KINDS, way=WAYS, is_async=[False, True])
async def test_a_bodys_contextvars_never_reach_its_reader(kind: str, way: dict[str, Any], is_async: bool) -> None:
    user.set("reader")
    reader = Reader(changing_user(kind, way), is_async=is_async)
    seen = [((await reader.next()).value, user.get()) for _ in range(3)]
    assert seen == [("reader", "reader"), ("body", "reader"), (["reader", "body"], "reader")]


@pytest.mark.parametrize(("option", "is_here"), [({}, True), ({"timeout": 60}, False)])
def test_a_sync_generator_runs_in_one_thread_from_its_first_item_to_its_end(
    option: dict[str, Any], is_here: bool
) -> None:
    seen = []

    def items() -> Any:
        try:
            seen.append(threading.get_ident())
            yield 1
            seen.append(threading.get_ident())
            yield 2
        finally:
            seen.append(threading.get_ident())

    chunks = ToolSpec.from_function(items, **option).stream()
    assert [next(chunks).value, next(chunks).value] == [1, 2]
    chunks.close()
    assert until(lambda: len(seen) == 3)
    assert len({*seen}) == 1
    assert (seen[0] == threading.get_ident()) is is_here


def test_cancelling_between_two_items_ends_a_generator_in_its_readers_thread() -> None:
    body = Body("sync body")
    kit = Toolkit("k").add(body.function, name="subject")
    chunks = kit.stream("subject", {}, call_id="c1")
    assert next(chunks).value == 1
    kit.cancel("c1")
    result = next(chunks)
    assert (result.error.code, result.value, result.is_interrupted, result.id) == ("cancelled", [1], True, "c1")
    assert next(chunks, None) is None
    assert (body.count, body.closed.is_set()) == (1, True)


async def test_a_timeout_scope_of_the_body_around_a_yield_does_not_reach_the_reader() -> None:
    @tool
    async def body() -> Any:
        async with asyncio.timeout(0.05):
            yield 1
            await asyncio.sleep(30)

    stream = body.astream()
    assert (await anext(stream)).value == 1
    await asyncio.sleep(0.1)  # longer than the body's own scope
    last = await anext(stream)
    assert (last.is_error, asyncio.current_task().cancelling()) == (True, 0)


# time


@combinations(kind=KINDS, is_async=[False, True])
def test_the_time_of_a_slow_reader_does_not_count(kind: str, is_async: bool) -> None:
    def items() -> Any:
        yield from range(3)

    async def aitems() -> Any:
        for n in range(3):
            yield n

    function = items if kind == "sync body" else aitems

    spec = ToolSpec.from_function(function, name="subject", timeout=0.3)

    def read() -> Iterator[Any]:
        for result in spec.stream():
            time.sleep(0.12)
            yield result.value

    async def aread() -> list[Any]:
        values = []
        async for result in spec.astream():
            await asyncio.sleep(0.12)
            values.append(result.value)
        return values

    assert (run(aread) if is_async else list(read())) == [0, 1, 2, [0, 1, 2]]


@combinations(kind=KINDS, entry_point=STREAM_ENTRY_POINTS)
def test_a_timeout_ends_a_stream_after_some_items(kind: str, entry_point: EntryPoint) -> None:
    closed, release = threading.Event(), threading.Event()

    def items() -> Any:
        try:
            yield 1
            release.wait(30)
            yield 2
        finally:
            closed.set()

    async def aitems() -> Any:
        try:
            yield 1
            await asyncio.sleep(30)
        finally:
            closed.set()

    spec = ToolSpec.from_function(items if kind == "sync body" else aitems, timeout=0.5)
    first, last = entry_point(spec)
    release.set()
    assert (first.value, last.error.code, last.is_last) == (1, "timeout", True)
    assert closed.wait(WAIT)


@each_entry_point
def test_the_timeout_covers_all_items_together(entry_point: EntryPoint) -> None:
    @tool(timeout=0.3)
    async def body() -> Any:
        for n in range(100):
            await asyncio.sleep(0.05)
            yield n

    *chunks, last = entry_point(body)
    assert last.error.code == "timeout"
    assert 1 <= len(chunks) < 10


@each_entry_point
def test_the_time_to_deliver_many_items_does_not_count(entry_point: EntryPoint) -> None:
    @tool(timeout=3)
    async def body() -> Any:
        for n in range(3000):
            yield n

    *chunks, last = entry_point(body)
    assert (len(chunks), last.is_error) == (3000, False)


@each_entry_point
def test_a_body_that_continues_after_its_timeout_is_closed_at_its_next_item(entry_point: EntryPoint) -> None:
    closed = threading.Event()

    @tool(timeout=0.05)
    async def body() -> Any:
        try:
            while True:
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    await asyncio.sleep(0.2)  # longer than CANCEL_GRACE_SECONDS
                    yield 1
        finally:
            closed.set()

    async def main() -> list[ToolResult]:
        results = [result async for result in body.astream()]
        await asyncio.to_thread(closed.wait, WAIT)
        return results

    (last,) = list(body.stream()) if entry_point is STREAM_ENTRY_POINTS["stream"] else run(main)
    assert last.error.code == "timeout"
    assert closed.wait(WAIT)


# chunks and results


@each_entry_point
def test_a_stream_with_invalid_arguments_is_one_error_result(entry_point: EntryPoint) -> None:
    (result,) = entry_point(ToolSpec.from_function(lambda n: n, name="subject"), 1, 2)
    assert (result.error.code, result.is_last) == ("invalid_parameters", True)
    with pytest.raises(InvalidParametersError):
        ToolSpec.from_function(lambda n: n, name="subject").call(1, 2)


@combinations(entry_point=STREAM_ENTRY_POINTS, way=WAYS)
def test_an_item_without_a_json_form_is_an_error_chunk_and_the_result_is_invalid(
    entry_point: EntryPoint, way: dict[str, Any]
) -> None:
    def body() -> Any:
        yield 1
        yield object()
        yield 3

    first, bad, third, last = entry_point(ToolSpec.from_function(body, **way))
    assert (first.value, third.value) == (1, 3)
    assert (bad.error.code, bad.is_last) == ("invalid_result", False)
    assert (last.error.code, last.is_last) == ("invalid_result", True)


class Point(BaseModel):
    x: int


@each_entry_point
def test_items_are_converted_by_their_annotation(entry_point: EntryPoint) -> None:
    def body() -> Iterator[Point]:
        yield Point(x=1)

    async def abody() -> AsyncIterator[Point]:
        yield Point(x=1)

    for function in (body, abody):
        chunk, last = entry_point(ToolSpec.from_function(function))
        assert (chunk.value, last.value, last.structured_content) == ({"x": 1}, [{"x": 1}], {"result": [{"x": 1}]})


@combinations(entry_point=STREAM_ENTRY_POINTS, way=WAYS)
def test_the_result_of_an_empty_stream_is_an_empty_list(entry_point: EntryPoint, way: dict[str, Any]) -> None:
    def body() -> Iterator[int]:
        return iter(())

    (last,) = entry_point(ToolSpec.from_function(body, **way))
    assert (last.value, last.structured_content) == ([], {"result": []})


@each_entry_point
def test_yielded_content_and_results_become_chunks_unchanged(entry_point: EntryPoint) -> None:
    from fastmcp.tools.base import ToolResult as FastMCPResult
    from fastmcp.utilities.types import Image
    from mcp_types import ImageContent, TextContent

    def body() -> Any:
        yield Image(data=b"png", format="png")
        yield TextContent(type="text", text="block")
        yield FastMCPResult(structured_content={"a": 1})
        yield ToolResult("ours")
        yield "text"

    image, block, foreign, ours, text, last = entry_point(ToolSpec.from_function(body))
    assert isinstance(image.content[0], ImageContent)
    assert (block.value, foreign.value, ours.value, text.value) == ("block", {"a": 1}, "ours", "text")
    assert [one.type for one in last.content] == ["image", "text", "text", "text", "text"]


@each_entry_point
def test_the_values_of_yielded_results_are_part_of_the_result(entry_point: EntryPoint) -> None:
    from fastmcp.tools.base import ToolResult as FastMCPResult

    def body() -> Any:
        yield FastMCPResult(structured_content={"a": 1})
        yield ToolResult({"a": 2}, {"a": 2})

    *_, last = entry_point(ToolSpec.from_function(body))
    assert last.value == [{"a": 1}, {"a": 2}]


@each_kind
def test_an_exception_of_a_body_that_is_closed_does_not_reach_the_reader(kind: str) -> None:
    def items() -> Any:
        try:
            yield 1
        finally:
            raise ValueError("while closing")

    async def aitems() -> Any:
        try:
            yield 1
        finally:
            raise ValueError("while closing")

    for way in WAYS.values():
        stream = ToolSpec.from_function(items if kind == "sync body" else aitems, **way).stream()
        assert next(stream).value == 1
        stream.close()
        assert list(stream) == []


def test_a_stream_may_be_closed_on_the_background_loop() -> None:
    @tool
    async def closes(stream: Any) -> int:
        stream.pop().close()
        return 1

    body = Body("async body")
    stream = body.spec().stream()
    next(stream)
    streams = [stream]
    del stream
    assert closes.bind("stream", default=None) is closes
    closes.state["stream"] = streams
    assert closes() == 1
    assert until(body.closed.is_set)


def test_the_type_of_a_stream_has_close() -> None:
    assert get_type_hints(ToolSpec.stream)["return"] == Generator[ToolResult, None, None]
    assert get_type_hints(ToolSpec.astream)["return"] == AsyncGenerator[ToolResult, None]
