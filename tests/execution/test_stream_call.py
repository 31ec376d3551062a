"""Streams: a chunk per item at once, a body that waits for its reader, and a reader who may leave at any time."""

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

from ahvn_tools import ToolResult, ToolSpec, tool
from ahvn_tools.errors import InvalidParametersError
from tests.execution.entry_points import STREAM_DOORS, WAIT, WAYS, Door, run, until

user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
each_kind = pytest.mark.parametrize("kind", ["sync body", "async body"])
each_door = pytest.mark.parametrize("door", STREAM_DOORS.values(), ids=STREAM_DOORS)


class Body:
    """An endless body of either kind that tells how far it is and when it is closed."""

    def __init__(self, kind: str) -> None:
        self.made = 0
        self.closed = threading.Event()
        self.function = self.items if kind == "sync body" else self.aitems

    def items(self) -> Any:
        try:
            while True:
                self.made += 1
                yield self.made
        finally:
            self.closed.set()

    async def aitems(self) -> Any:
        try:
            while True:
                self.made += 1
                yield self.made
                await asyncio.sleep(0)
        finally:
            await asyncio.sleep(0)
            self.closed.set()

    def spec(self, **way: Any) -> ToolSpec:
        return ToolSpec.from_function(self.function, name="subject", **way)


@each_kind
@each_way
def test_a_sync_reader_gets_each_item_before_the_next_is_made(kind: str, way: dict[str, Any]) -> None:
    body = Body(kind)
    with closing(body.spec(**way).stream()) as stream:
        for n in range(1, 6):
            assert (next(stream).value, body.made) == (n, n)


@each_kind
@each_way
async def test_an_async_reader_gets_each_item_before_the_next_is_made(kind: str, way: dict[str, Any]) -> None:
    body = Body(kind)
    async with aclosing(body.spec(**way).astream()) as stream:
        for n in range(1, 6):
            assert ((await anext(stream)).value, body.made) == (n, n)


@each_kind
@each_way
def test_a_sync_reader_who_closes_closes_the_body(kind: str, way: dict[str, Any]) -> None:
    body = Body(kind)
    stream = body.spec(**way).stream()
    next(stream)
    stream.close()
    assert body.closed.is_set()
    assert body.made == 1
    assert next(stream, None) is None


@each_kind
@each_way
def test_a_sync_reader_who_breaks_closes_the_body(kind: str, way: dict[str, Any]) -> None:
    body = Body(kind)
    for chunk in body.spec(**way).stream():
        if chunk.value == 3:
            break
    gc.collect()
    assert until(body.closed.is_set)
    assert body.made == 3


@each_kind
@each_way
async def test_an_async_reader_who_closes_closes_the_body(kind: str, way: dict[str, Any]) -> None:
    body = Body(kind)
    stream = body.spec(**way).astream()
    await anext(stream)
    await stream.aclose()
    assert body.closed.is_set()
    assert body.made == 1


@each_kind
@each_way
def test_an_async_reader_who_breaks_closes_the_body(kind: str, way: dict[str, Any]) -> None:
    body = Body(kind)

    async def main() -> None:
        async for chunk in body.spec(**way).astream():
            if chunk.value == 3:
                break
        gc.collect()
        assert await asyncio.to_thread(until, body.closed.is_set)

    run(main)
    assert body.made == 3


@each_kind
@each_way
async def test_an_async_reader_who_is_cancelled_closes_the_body(kind: str, way: dict[str, Any]) -> None:
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
    assert body.closed.is_set()


@each_kind
@each_way
async def test_a_reader_who_is_cancelled_while_it_waits_for_a_chunk_closes_the_body(
    kind: str, way: dict[str, Any]
) -> None:
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
async def test_two_streams_may_be_read_in_turn(way: dict[str, Any]) -> None:
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
    assert body.closed.is_set()


def test_a_stream_that_is_never_read_never_starts() -> None:
    body = Body("sync body")
    body.spec().stream()
    body.spec().astream()
    assert body.made == 0


@each_kind
def test_a_sync_stream_may_be_read_in_a_running_loop(kind: str) -> None:
    async def main() -> list[int]:
        with closing(Body(kind).spec(timeout=30.0).stream()) as stream:
            return [next(stream).value for _ in range(3)]

    assert run(main) == [1, 2, 3]


# contextvars


def changing_user(kind: str, way: dict[str, Any]) -> ToolSpec:
    """Make a tool that yields the user it finds, changes it, and yields what it then is."""

    def items() -> Any:
        seen = user.get()
        user.set("body")
        yield seen
        yield user.get()

    async def aitems() -> Any:
        for item in items():
            yield item

    return ToolSpec.from_function(items if kind == "sync body" else aitems, **way)


@each_way
@each_kind
def test_a_bodys_contextvars_never_reach_a_sync_reader(kind: str, way: dict[str, Any]) -> None:
    spec = changing_user(kind, way)
    token = user.set("reader")
    try:
        seen = [(chunk.value, user.get()) for chunk in spec.stream()]
    finally:
        user.reset(token)
    assert seen == [("reader", "reader"), ("body", "reader"), (["reader", "body"], "reader")]


@each_way
@each_kind
async def test_a_bodys_contextvars_never_reach_an_async_reader(kind: str, way: dict[str, Any]) -> None:
    spec = changing_user(kind, way)
    user.set("reader")
    seen = [(chunk.value, user.get()) async for chunk in spec.astream()]
    assert seen == [("reader", "reader"), ("body", "reader"), (["reader", "body"], "reader")]


async def test_a_scope_of_the_body_across_a_yield_does_not_reach_the_reader() -> None:
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


@each_kind
def test_a_slow_reader_does_not_use_up_the_bodys_time(kind: str) -> None:
    def items() -> Any:
        yield from range(3)

    async def aitems() -> Any:
        for n in range(3):
            yield n

    function = items if kind == "sync body" else aitems

    def read() -> Iterator[Any]:
        for result in ToolSpec.from_function(function, name="subject", timeout=0.5).stream():
            time.sleep(0.2)
            yield result.value

    async def aread() -> list[Any]:
        values = []
        async for result in ToolSpec.from_function(function, name="subject", timeout=0.5).astream():
            await asyncio.sleep(0.2)
            values.append(result.value)
        return values

    assert list(read()) == [0, 1, 2, [0, 1, 2]]
    assert run(aread) == [0, 1, 2, [0, 1, 2]]


@each_kind
@each_door
def test_a_slow_body_is_cut_half_way(kind: str, door: Door) -> None:
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

    spec = ToolSpec.from_function(items if kind == "sync body" else aitems, timeout=0.1)
    first, last = door(spec)
    release.set()
    assert (first.value, last.error.code, last.is_last) == (1, "timeout", True)
    assert closed.wait(WAIT)


@each_door
def test_the_time_of_all_items_counts_together(door: Door) -> None:
    @tool(timeout=0.3)
    async def body() -> Any:
        for n in range(100):
            await asyncio.sleep(0.05)
            yield n

    *chunks, last = door(body)
    assert last.error.code == "timeout"
    assert 1 <= len(chunks) < 10


@each_door
def test_many_quick_items_do_not_use_up_a_timeout_by_being_handed_over(door: Door) -> None:
    @tool(timeout=0.3)
    async def body() -> Any:
        for n in range(3000):
            yield n

    *chunks, last = door(body)
    assert (len(chunks), last.is_error) == (3000, False)


@each_door
def test_a_body_that_goes_on_after_its_timeout_is_stopped_at_its_next_item(door: Door) -> None:
    closed = threading.Event()

    @tool(timeout=0.05)
    async def body() -> Any:
        try:
            while True:
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    await asyncio.sleep(0.2)  # longer than its grace
                    yield 1
        finally:
            closed.set()

    async def main() -> list[ToolResult]:
        results = [result async for result in body.astream()]
        await asyncio.to_thread(closed.wait, WAIT)
        return results

    (last,) = list(body.stream()) if door is STREAM_DOORS["stream"] else run(main)
    assert last.error.code == "timeout"
    assert closed.wait(WAIT)


# what a stream is made of


@each_door
def test_bad_arguments_are_the_only_result(door: Door) -> None:
    (result,) = door(ToolSpec.from_function(lambda n: n, name="subject"), 1, 2)
    assert (result.error.code, result.is_last) == ("invalid_parameters", True)
    with pytest.raises(InvalidParametersError):
        ToolSpec.from_function(lambda n: n, name="subject").call(1, 2)


@each_door
@each_way
def test_an_item_without_a_json_form_is_an_error_chunk_and_the_whole_is_invalid(
    door: Door, way: dict[str, Any]
) -> None:
    def body() -> Any:
        yield 1
        yield object()
        yield 3

    first, bad, third, last = door(ToolSpec.from_function(body, **way))
    assert (first.value, third.value) == (1, 3)
    assert (bad.error.code, bad.is_last) == ("invalid_result", False)
    assert (last.error.code, last.is_last) == ("invalid_result", True)


class Point(BaseModel):
    x: int


@each_door
def test_items_are_shown_by_their_annotation(door: Door) -> None:
    def body() -> Iterator[Point]:
        yield Point(x=1)

    async def abody() -> AsyncIterator[Point]:
        yield Point(x=1)

    for function in (body, abody):
        chunk, last = door(ToolSpec.from_function(function))
        assert (chunk.value, last.value, last.structured_content) == ({"x": 1}, [{"x": 1}], {"result": [{"x": 1}]})


@each_door
@each_way
def test_an_empty_stream_gives_the_empty_list(door: Door, way: dict[str, Any]) -> None:
    def body() -> Iterator[int]:
        return iter(())

    (last,) = door(ToolSpec.from_function(body, **way))
    assert (last.value, last.structured_content) == ([], {"result": []})


@each_door
def test_yielded_content_and_results_are_taken_as_they_are(door: Door) -> None:
    from fastmcp.tools.base import ToolResult as FastMCPResult
    from fastmcp.utilities.types import Image
    from mcp_types import ImageContent, TextContent

    def body() -> Any:
        yield Image(data=b"png", format="png")
        yield TextContent(type="text", text="block")
        yield FastMCPResult(structured_content={"a": 1})
        yield ToolResult("ours")
        yield "text"

    image, block, foreign, ours, text, last = door(ToolSpec.from_function(body))
    assert isinstance(image.content[0], ImageContent)
    assert (block.value, foreign.value, ours.value, text.value) == ("block", {"a": 1}, "ours", "text")
    assert [one.type for one in last.content] == ["image", "text", "text", "text", "text"]


@each_door
def test_yielded_results_add_their_values_to_the_whole(door: Door) -> None:
    from fastmcp.tools.base import ToolResult as FastMCPResult

    def body() -> Any:
        yield FastMCPResult(structured_content={"a": 1})
        yield ToolResult({"a": 2}, {"a": 2})

    *_, last = door(ToolSpec.from_function(body))
    assert last.value == [{"a": 1}, {"a": 2}]


@each_kind
def test_a_body_that_fails_while_it_is_closed_does_not_trouble_its_reader(kind: str) -> None:
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


def test_a_reader_may_be_collected_in_the_loop_it_reads_from() -> None:
    @tool
    async def drops(stream: Any) -> int:
        stream.pop().close()
        return 1

    body = Body("async body")
    stream = body.spec().stream()
    next(stream)
    held = [stream]
    del stream
    assert drops.bind("stream", default=None) is drops
    drops.state["stream"] = held
    assert drops() == 1
    assert until(body.closed.is_set)


def test_a_stream_says_that_it_can_be_closed() -> None:
    assert get_type_hints(ToolSpec.stream)["return"] == Generator[ToolResult, None, None]
    assert get_type_hints(ToolSpec.astream)["return"] == AsyncGenerator[ToolResult, None]
