"""Attacks on streams: readers that leave or never read, bodies that misbehave, and chunks that end up elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest

from ahvn_tools import Call, Next, ToolContext, ToolError, Toolkit, ToolResult, ToolSpec, execution
from tests.attacks.attack import CANARY, Attack, Outcome, equals, raises, rows
from tests.execution.entry_points import until

WAIT = 10.0
"""Seconds that an attack waits at most for something that should happen at once."""


class Subject:
    """A toolkit of one tool, in the sync and the async kind, and what became of its bodies."""

    def __init__(self, body: Callable[..., Any] | None = None, **options: Any) -> None:
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.kit = Toolkit("attacked", **options)
        self.kit.add(self.count).add(self.later)
        if body is not None:
            self.kit.add(body, rename="body")

    def count(self, to: int = 3) -> Iterator[int]:
        self.opened.append("count")
        try:
            yield from range(to)
        finally:
            self.closed.append("count")

    async def later(self, to: int = 3) -> AsyncIterator[int]:
        self.opened.append("later")
        try:
            for number in range(to):
                yield number
                await asyncio.sleep(0)
        finally:
            self.closed.append("later")


async def read(kit: Any, name: str = "body", arguments: Any = None, **options: Any) -> list[ToolResult]:
    return [result async for result in kit.astream(name, arguments, **options)]


def in_both_ways(
    *bodies: Callable[..., Any], arguments: Any = None, **options: Any
) -> Callable[[], list[list[ToolResult]]]:
    """Read the stream of each body with a sync and with an async reader."""

    def act() -> list[list[ToolResult]]:
        results = []
        for body in bodies:
            kit = Subject(body, **options).kit
            results += [list(kit.stream("body", arguments)), asyncio.run(read(kit, arguments=arguments))]
        return results

    return act


def is_well_formed(results: list[ToolResult]) -> bool:
    """Chunks, then exactly one last result, all with one id."""
    flags = [result.is_last for result in results]
    return flags == [False] * (len(flags) - 1) + [True] and len({result.id for result in results}) == 1


def well_formed(*, code: str | None = None, values: list[Any] | None = None) -> Callable[[Outcome], bool]:
    """Every stream is well formed, its chunks have these values and it ends with this code, or without an error."""

    def holds(outcome: Outcome) -> bool:
        return outcome.error is None and bool(outcome.value) and all(
            is_well_formed(results)
            and (results[-1].error.code if results[-1].error else None) == code
            and (values is None or [result.value for result in results[:-1]] == values)
            for results in outcome.value
        )  # fmt: skip

    return holds


def still_works(act: Callable[[], Any]) -> Callable[[], Any]:
    """Return what an attack brought, and whether the background loop and the threads still run calls."""

    def acted() -> Any:
        value = act()
        subject = Subject()
        works = [subject.kit.call(name) for name in ("count", "later")] == [[0, 1, 2]] * 2
        return [value, works, execution.abandoned()]

    return acted


# Readers


def never_read() -> list[Any]:
    subject = Subject()
    streams: list[Any] = [subject.kit.stream("count"), subject.kit.stream("later"), subject.kit.astream("later")]
    del streams
    gc.collect()
    return [subject.opened, subject.closed]


def left(name: str, leave: Callable[[Any], Any]) -> Callable[[], Any]:
    """Read one chunk with a sync reader, and leave."""

    def act() -> list[str]:
        subject = Subject()
        stream = subject.kit.stream(name, {"to": 1_000_000})
        next(stream)
        leave(stream)
        del stream
        gc.collect()
        until(lambda: bool(subject.closed))
        return subject.closed

    return act


def aleft(name: str, leave: Callable[[Any], Any]) -> Callable[[], Any]:
    """Read one chunk with an async reader, and leave."""

    async def act() -> list[str]:
        subject = Subject()
        stream = subject.kit.astream(name, {"to": 1_000_000})
        await anext(stream)
        await leave(stream)
        del stream
        gc.collect()
        for _ in range(1_000):
            if subject.closed:
                break
            await asyncio.sleep(0.01)
        return subject.closed

    return act


async def thrown_into(stream: Any) -> None:
    with contextlib.suppress(ValueError):
        await stream.athrow(ValueError("from the reader"))


def thrown(stream: Any) -> None:
    with contextlib.suppress(ValueError):
        stream.throw(ValueError("from the reader"))


async def nothing(stream: Any) -> None:
    """Let go of the stream."""


async def cancelled_reader(stream: Any) -> None:
    task = asyncio.create_task(anext(stream))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})


async def two_readers() -> list[Any]:
    """Read one stream in two tasks at once."""
    subject = Subject()
    stream = subject.kit.astream("later", {"to": 4})
    outcomes = await asyncio.gather(*[anext(stream) for _ in range(2)], return_exceptions=True)
    errors = [type(outcome).__name__ for outcome in outcomes if isinstance(outcome, BaseException)]
    rest = [result async for result in stream]
    return [errors, subject.closed, bool(rest) and rest[-1].is_last]


def read_after_the_end() -> list[Any]:
    subject = Subject()
    stream = subject.kit.stream("count", {"to": 1})
    first = [len(list(stream)), len(list(stream))]
    stream.close()
    return [first, next(stream, "ended")]


def read_in_another_thread() -> list[Any]:
    """Read each chunk in another thread."""
    results = []
    for name in ("count", "later"):
        stream, seen = Subject().kit.stream(name), []
        for _ in range(4):
            thread = threading.Thread(target=lambda stream=stream, seen=seen: seen.append(next(stream)))
            thread.start()
            thread.join(WAIT)
        results.append(seen)
    return results


def read_itself() -> list[Any]:
    """A tool that reads a stream of itself, inside of its own stream."""
    subject = Subject()

    def body(context: ToolContext, depth: int = 0) -> Iterator[int]:
        yield depth
        if depth < 5:
            for result in context.toolkit.stream("body", {"depth": depth + 1}):
                if not result.is_last:
                    yield result.value

    subject.kit.add(body)
    return [list(subject.kit.stream("body"))]


# Bodies


def raises_in_the_middle(kind: Callable[[], BaseException]) -> tuple[Callable[..., Any], ...]:
    """Return two bodies that yield one item and raise."""

    def body() -> Iterator[int]:
        yield 1
        raise kind()

    async def later() -> AsyncIterator[int]:
        yield 1
        raise kind()

    return body, later


def exit_in_the_middle() -> list[Any]:
    """Raise SystemExit after an item, for every kind of reader."""
    ends: list[Any] = []
    for body in raises_in_the_middle(lambda: SystemExit(3)):
        kit = Subject(body).kit
        for read_all in (lambda kit=kit: list(kit.stream("body")), lambda kit=kit: asyncio.run(guarded(kit))):
            try:
                ends.append(read_all())
            except SystemExit as error:
                ends.append(error.code)
    return ends


async def guarded(kit: Any) -> Any:
    """Return the code of a SystemExit: it would end the loop of the test."""
    try:
        return await read(kit)
    except SystemExit as error:
        return error.code


def odd_items() -> Iterator[Any]:
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    yield cyclic
    yield object()
    yield float("nan")
    yield 10**5000
    yield "\ud800"
    yield (item for item in [1])
    yield threading.Lock()
    yield ValueError("no error")
    yield ToolResult("last?", is_last=True, id="foreign")
    yield StopIteration("no end")
    yield None
    yield ...


async def odd_items_later() -> AsyncIterator[Any]:
    for item in odd_items():
        yield item


def same_list() -> Iterator[list[int]]:
    items: list[int] = []
    for number in range(3):
        items.append(number)
        yield items


def deep_item() -> Iterator[Any]:
    item: Any = []
    for _ in range(10_000):
        item = [item]
    yield item


def ignores_close() -> list[Any]:
    """A generator that yields again when it is closed."""

    def body() -> Iterator[int]:
        try:
            yield 0
        except GeneratorExit:
            yield 1

    stream = Subject(body).kit.stream("body")
    first = next(stream).value
    stream.close()
    return [first, next(stream, "ended")]


async def ignores_close_async() -> list[Any]:
    async def body() -> AsyncIterator[int]:
        try:
            yield 0
        except (GeneratorExit, asyncio.CancelledError):
            await asyncio.sleep(0)
            yield 1

    stream = Subject(body).kit.astream("body")
    first = (await anext(stream)).value
    await stream.aclose()
    return [first, await anext(stream, "ended")]


async def ignores_close_when_cancelled() -> list[Any]:
    """Cancel the caller of an async generator that yields again when it is closed: the caller is cancelled."""
    ended = []
    started = asyncio.Event()

    async def body() -> AsyncIterator[int]:
        try:
            while True:
                started.set()
                yield 0
        except GeneratorExit:
            await asyncio.sleep(0)
            yield 1

    kit = Subject(body).kit
    ways = [(kit.aexec, "body"), (kit.acall, "body"), (kit["body"].aexec,), (kit.select().aexec, "body")]
    for run, *name in ways:
        started.clear()
        task = asyncio.create_task(run(*name))
        await asyncio.wait_for(started.wait(), WAIT)
        task.cancel()
        await asyncio.wait({task}, timeout=WAIT)
        ended.append(task.cancelled())
    return ended


def many_items() -> list[Any]:
    kit = Subject().kit
    streams = [list(kit.stream("count", {"to": 10_000})), asyncio.run(read(kit, "later", {"to": 1_000}))]
    return [[len(results), is_well_formed(results), len(results[-1].value)] for results in streams]


def endless() -> list[Any]:
    """A generator without an end, whose result nobody could hold."""

    def body() -> Iterator[str]:
        while True:
            yield "x" * 1_000

    async def later() -> AsyncIterator[str]:
        while True:
            yield "x" * 1_000

    codes = []
    for function in (body, later):
        kit = Toolkit("k").add(ToolSpec.from_function(function, name="body", max_items=100))
        results = [kit.exec("body"), list(kit.stream("body"))[-1], asyncio.run(read(kit))[-1]]
        codes += [result.error and result.error.code for result in results]
    return codes


def injected_endless() -> list[Any]:
    """A generator without an end into which FastMCP injects a value: FastMCP would collect its items."""
    from fastmcp.dependencies import Depends

    def noon() -> str:
        return "noon"

    async def later(now: str = Depends(noon)) -> AsyncIterator[str]:
        while True:
            yield now

    def body(now: str = Depends(noon)) -> Iterator[str]:
        while True:
            yield now

    kit = Toolkit("k").add(later, max_items=100).add(body, max_items=100)
    results = [kit.exec(name) for name in ("later", "body")]
    results += [list(kit.stream("later"))[-1], asyncio.run(read(kit, "later"))[-1]]
    return [result.error and result.error.code for result in results]


# Chunks that end up elsewhere


def read_in_another_session() -> list[Any]:
    """Read the stream of one session in a tool of another: each has its own values and its own output."""

    def count(user: str, context: ToolContext) -> Iterator[str]:
        for number in range(2):
            context.append_output(f"output of {user}")
            yield f"{user} {number}"

    def relay(user: str, context: ToolContext) -> list[Any]:
        values = [result.value for result in foreign]
        context.append_output(f"output of {user}")
        return values

    kit = Toolkit("k").bind("user").add(count).add(relay)
    foreign = kit.session(user="ann").stream("count")
    first = next(foreign).value
    return [first, *(result.value for result in kit.session(user="bob").stream("relay"))]


async def mixed_streams() -> bool:
    """Read twenty streams at once, sync and async, of many sessions."""

    def body(user: str, context: ToolContext) -> Iterator[str]:
        for number in range(5):
            context.append_output(f"{user} o{number}")
            yield f"{user} {number}"

    async def later(user: str, context: ToolContext) -> AsyncIterator[str]:
        for number in range(5):
            context.append_output(f"{user} o{number}")
            await asyncio.sleep(0)
            yield f"{user} {number}"

    kit = Toolkit("k").add(body).add(later).bind("user")

    async def one(number: int) -> bool:
        user = f"user-{number}-"
        results = await read(kit.session(user=user), ("body", "later")[number % 2], call_id="c1")
        texts = [result.value for result in results[:-1]]
        expected = [text for n in range(5) for text in (f"{user} o{n}", f"{user} {n}")]
        return is_well_formed(results) and texts == expected

    return all(await asyncio.gather(*[one(number) for number in range(20)]))


def mixed_threads() -> bool:
    """Read twenty streams of async tools at once, in threads."""

    async def body(user: str) -> AsyncIterator[str]:
        for number in range(5):
            await asyncio.sleep(0)
            yield f"{user} {number}"

    kit, good = Toolkit("k").add(body).bind("user"), []

    def one(user: str) -> None:
        results = list(kit.session(user=user).stream("body", call_id="c1"))
        good.append([result.value for result in results[:-1]] == [f"{user} {number}" for number in range(5)])

    threads = [threading.Thread(target=one, args=(f"user-{number}-",)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    return good == [True] * 20


def output_after_the_end() -> list[Any]:
    """Keep a ToolContext, and append output when its call is over and another one runs."""
    kept: list[ToolContext] = []

    def body(user: str, context: ToolContext) -> str:
        for other in kept:
            other.append_output(f"late: {CANARY}")
            other.report_progress(1, 2, CANARY)
        kept.append(context)
        return user

    kit = Toolkit("k").add(body).bind("user")
    streams = [list(kit.session(user=user).stream("body")) for user in ("ann", "bob")]
    streams += [asyncio.run(read(kit.session(user=user))) for user in ("ann", "bob")]
    return [[result.value for result in results] for results in streams]


async def output_from_a_thread_after_the_end() -> list[Any]:
    go, done = threading.Event(), threading.Event()

    def body(user: str, context: ToolContext) -> str:
        def late() -> None:
            go.wait(WAIT)
            context.append_output(CANARY)
            done.set()

        if user == "ann":
            threading.Thread(target=late, daemon=True).start()
        return user

    kit = Toolkit("k").add(body).bind("user")
    first = await read(kit.session(user="ann"))
    stream = kit.session(user="bob").astream("body")
    go.set()
    await asyncio.to_thread(done.wait, WAIT)
    return [[result.value for result in first], [result.value async for result in stream]]


async def output_while_another_reads() -> list[Any]:
    """Append output to one's own stream from the body of another call that runs inside."""

    def inner(context: ToolContext) -> str:
        context.append_output("inner")
        return "done"

    def outer(context: ToolContext) -> str:
        context.append_output("outer")
        return str(context.toolkit.exec("inner").value)

    return [result.value for result in await read(Toolkit("k").add(inner).add(outer), "outer")]


variable: ContextVar[str] = ContextVar("variable", default="reader")


async def context_of_the_body() -> list[str]:
    """Set a context variable around every step of a stream."""

    async def body() -> AsyncIterator[str]:
        variable.set("body")
        yield "a"
        variable.set("body again")
        yield "b"

    return [variable.get() async for _ in Subject(body).kit.astream("body")]


# Middleware


def with_middleware(
    emit_more: Callable[[Call, Callable[[ToolResult], Any]], Any],
) -> Callable[[], list[list[ToolResult]]]:
    """Read `count` and `later` through a middleware that emits what it likes after each item."""

    async def middleware(call: Call, next: Next) -> ToolResult:
        emit = call.emit
        if emit is None:
            return await next(call)

        async def emit_and_more(chunk: ToolResult) -> None:
            await emit(chunk)
            for more in emit_more(call, chunk):
                await emit(more)

        return await next(replace(call, emit=emit_and_more))

    def act() -> list[list[ToolResult]]:
        kit = Subject(middleware=[middleware]).kit
        return [
            list(kit.stream("count")),
            list(kit.stream("later")),
            asyncio.run(read(kit, "count")),
            asyncio.run(read(kit, "later")),
        ]

    return act


def emitted_after_the_end() -> list[Any]:
    """Keep `emit`, and use it when the stream is over and another one is read."""
    kept: list[Any] = []

    async def middleware(call: Call, next: Next) -> ToolResult:
        for emit in kept:
            with contextlib.suppress(asyncio.CancelledError):
                await emit(ToolResult(CANARY, is_last=False))
        kept.append(call.emit)
        return await next(call)

    kit = Subject(middleware=[middleware]).kit

    async def twice() -> list[list[ToolResult]]:
        return [await read(kit, "later"), await read(kit, "later")]

    return asyncio.run(twice())


async def emitted_by_another_task() -> list[ToolResult]:
    """Emit from a task of the middleware that outlives the call."""
    tasks: list[asyncio.Task[Any]] = []
    over = asyncio.Event()

    async def middleware(call: Call, next: Next) -> ToolResult:
        async def late() -> None:
            await over.wait()
            if call.emit is not None:
                await call.emit(ToolResult(CANARY, is_last=False))

        tasks.append(asyncio.create_task(late()))
        return await next(call)

    results = await read(Subject(middleware=[middleware]).kit, "later")
    over.set()
    await asyncio.wait(tasks, timeout=WAIT)
    return [results]  # type: ignore[list-item]  # a list of streams


async def drops_all(call: Call, next: Next) -> ToolResult:
    async def drop(chunk: ToolResult) -> None:
        """Pass nothing on."""

    return await next(replace(call, emit=None if call.emit is None else drop))


async def fails_on_a_chunk(call: Call, next: Next) -> ToolResult:
    async def fail(chunk: ToolResult) -> None:
        raise ValueError(CANARY)

    return await next(replace(call, emit=None if call.emit is None else fail))


async def leaves_on_a_chunk(call: Call, next: Next) -> ToolResult:
    async def leave(chunk: ToolResult) -> None:
        raise SystemExit(3)

    return await next(replace(call, emit=None if call.emit is None else leave))


def through(middleware: Any) -> Callable[[], list[Any]]:
    def act() -> list[Any]:
        subject = Subject(middleware=[middleware])
        results = [
            list(subject.kit.stream("count")), list(subject.kit.stream("later")),
            asyncio.run(read(subject.kit, "count")), asyncio.run(read(subject.kit, "later")),
        ]  # fmt: skip
        until(lambda: len(subject.closed) == 4)
        return results

    return act


# Cancellation


class Canceller:
    """Cancels the call `c1` of a toolkit in one phase, as middleware or as reader."""

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.kit = Subject(middleware=[self.around_the_body, self.around_the_delivery]).kit

    async def cancel_in(self, *phases: str) -> None:
        if self.phase in phases:
            self.kit.cancel("c1")
            await asyncio.sleep(0)

    async def around_the_body(self, call: Call, next: Next) -> ToolResult:
        await self.cancel_in("before the body")
        result = await next(call)
        await self.cancel_in("after the body")
        return result

    async def around_the_delivery(self, call: Call, next: Next) -> ToolResult:
        emit = call.emit
        assert emit is not None

        async def emit_and_cancel(chunk: ToolResult) -> None:
            if chunk.value == 1:
                await self.cancel_in("in the delivery")
            await emit(chunk)

        return await next(replace(call, emit=emit_and_cancel))

    async def read(self, name: str) -> list[ToolResult]:
        results = []
        async for result in self.kit.astream(name, call_id="c1"):
            results.append(result)
            if result.value == 1:
                await self.cancel_in("between chunks", "twice")
                await self.cancel_in("twice")
        assert not self.kit.cancel("c1")
        return results


def cancelled(phase: str) -> Callable[[], Any]:
    """Cancel a stream of both kinds in one of its phases."""

    async def act() -> list[list[ToolResult]]:
        return [await Canceller(phase).read(name) for name in ("count", "later")]

    return act


def interrupted(outcome: Outcome) -> bool:
    """Every stream is well formed and ends as interrupted, with items that its reader was sent."""
    return outcome.error is None and all(
        is_well_formed(results)
        and results[-1].is_interrupted
        and results[-1].error is not None
        and results[-1].error.code == "cancelled"
        and set(results[-1].value or []) <= {0, 1, 2}
        for results in outcome.value
    )


def cancelled_by_a_chunk_reader() -> list[Any]:
    """Cancel the sync stream in whose thread the body runs, and go on reading."""
    subject = Subject()
    results = []
    for result in subject.kit.stream("count", {"to": 1_000_000}, call_id="c1"):
        results.append(result)
        subject.kit.cancel("c1")
    return [[result.value for result in results], results[-1].is_interrupted, subject.closed]


async def cancelled_during_resume_of_reader() -> list[Any]:
    """Cancel the reader's task and the call at once: the task ends as cancelled."""
    subject = Subject()

    async def reader() -> None:
        async for _ in subject.kit.astream("later", {"to": 1_000_000}, call_id="c1"):
            pass

    task = asyncio.create_task(reader())
    await asyncio.to_thread(until, lambda: bool(subject.opened))
    subject.kit.cancel("c1")
    task.cancel()
    await asyncio.wait({task}, timeout=WAIT)
    return [task.cancelled(), subject.closed]


ONE_TO_THREE = [0, 1, 2]

ATTACKS = [
    # Readers
    Attack("a stream that nobody reads", never_read, equals([[], []])),
    *[
        Attack(f"a sync reader of `{name}` that {how}", left(name, leave), equals([name]))
        for name in ("count", "later")
        for how, leave in {
            "lets go": lambda stream: None,
            "closes twice": lambda s: (s.close(), s.close()),
            "throws": thrown,
        }.items()
    ],
    *[
        Attack(f"an async reader of `{name}` that {how}", aleft(name, leave), equals([name]))
        for name in ("count", "later")
        for how, leave in {"lets go": nothing, "throws": thrown_into, "is cancelled": cancelled_reader}.items()
    ],
    Attack("two readers of one stream", two_readers, lambda got: got.value[1] == ["later"]),
    Attack("reading after the end", read_after_the_end, equals([[2, 0], "ended"])),
    Attack("each chunk read in another thread", read_in_another_thread, well_formed(values=ONE_TO_THREE)),
    Attack("a tool that streams itself", read_itself, well_formed(values=[0, 1, 2, 3, 4, 5])),
    # Bodies
    *[
        Attack(
            f"{kind.__name__} in the middle",
            in_both_ways(*raises_in_the_middle(kind)),
            well_formed(code=code, values=[1]),
        )
        for kind, code in {
            ValueError: "tool_error",
            ToolError: "tool_error",
            StopIteration: "tool_error",
            StopAsyncIteration: "tool_error",
            asyncio.CancelledError: "cancelled",
            RecursionError: "tool_error",
            MemoryError: "tool_error",
            TimeoutError: "tool_error",
        }.items()
    ],
    Attack("SystemExit in the middle", still_works(exit_in_the_middle), equals([[3] * 4, True, 0])),
    Attack("items without a JSON form", in_both_ways(odd_items, odd_items_later), well_formed(code="invalid_result")),
    Attack("an item of 10,000 levels", in_both_ways(deep_item), well_formed(code="invalid_result")),
    Attack(
        "one list that grows, yielded again and again",
        in_both_ways(same_list),
        well_formed(values=[[0], [0, 1], [0, 1, 2]]),
    ),
    Attack("a generator that ignores its end", still_works(ignores_close), equals([[0, "ended"], True, 0])),
    Attack("an async generator that ignores its end", ignores_close_async, equals([0, "ended"])),
    Attack("cancelled while a generator ignores its end", ignores_close_when_cancelled, equals([True] * 4)),
    Attack("very many items", many_items, equals([[10_001, True, 10_000], [1_001, True, 1_000]])),
    Attack("items without an end", endless, equals(["limit_exceeded"] * 6)),
    Attack("injected items without an end", injected_endless, equals(["limit_exceeded"] * 4)),
    # Chunks that end up elsewhere
    Attack(
        "a stream that another session reads",
        read_in_another_session,
        equals(
            [
                "output of ann",
                "output of bob",
                ["ann 0", "output of ann", "ann 1", ["ann 0", "ann 1"]],
            ]
        ),
    ),
    Attack("twenty streams of twenty sessions with one call id", mixed_streams, equals(True)),
    Attack("twenty threads with one call id", mixed_threads, equals(True)),
    Attack("output of a call that is over", output_after_the_end, equals([["ann"], ["bob"]] * 2)),
    Attack("output of a thread whose call is over", output_from_a_thread_after_the_end, equals([["ann"], ["bob"]])),
    Attack("output of a call inside of another", output_while_another_reads, equals(["outer", "done"])),
    Attack("a context variable that the body sets", context_of_the_body, equals(["reader"] * 3)),
    # Middleware
    Attack(
        "a chunk emitted twice", with_middleware(lambda call, chunk: [chunk]), well_formed(values=[0, 0, 1, 1, 2, 2])
    ),
    Attack(
        "a chunk that says it is the last",
        with_middleware(lambda call, chunk: [replace(chunk, is_last=True)]),
        well_formed(values=[0, 0, 1, 1, 2, 2]),
    ),
    Attack(
        "a chunk with the id of another call",
        with_middleware(lambda call, chunk: [replace(chunk, id="c9")]),
        well_formed(values=[0, 0, 1, 1, 2, 2]),
    ),
    Attack("something that is no chunk", with_middleware(lambda call, chunk: ["text"]), well_formed(code="tool_error")),
    Attack("a chunk for a stream that is over", emitted_after_the_end, well_formed(values=ONE_TO_THREE)),
    Attack("a chunk of a task that outlives the call", emitted_by_another_task, well_formed(values=ONE_TO_THREE)),
    Attack("a middleware that drops every chunk", through(drops_all), well_formed(values=[])),
    Attack("a middleware that fails on a chunk", through(fails_on_a_chunk), well_formed(code="tool_error", values=[])),
    Attack("a middleware that exits on a chunk", still_works(through(leaves_on_a_chunk)), raises(SystemExit)),
    # Cancellation
    *[
        Attack(f"cancelled {phase}", cancelled(phase), interrupted)
        for phase in ("before the body", "in the delivery", "between chunks", "twice", "after the body")
    ],
    Attack(
        "cancelled by the reader in whose thread it runs",
        cancelled_by_a_chunk_reader,
        equals([[0, [0]], True, ["count"]]),
    ),
    Attack("cancelled together with its reader", cancelled_during_resume_of_reader, equals([True, ["later"]])),
]


@pytest.mark.parametrize("attack", rows(ATTACKS))
def test_what_must_hold_holds(attack, carry_out):
    outcome = carry_out(attack)
    assert attack.holds(outcome), outcome
