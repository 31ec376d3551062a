"""The contract of all shipped middleware: calls and chunks pass unchanged, from every entry point, to their end."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import ToolError, Toolkit, ToolSpec, middleware
from ahvn_tools.middleware import Middleware, postprocess
from ahvn_tools.middleware.cache import cache
from ahvn_tools.middleware.keep_large import keep_large
from ahvn_tools.middleware.limit import limit
from ahvn_tools.middleware.log import log
from ahvn_tools.middleware.metrics import metrics
from ahvn_tools.middleware.observe import observe
from ahvn_tools.middleware.record import record
from ahvn_tools.middleware.retry import retry
from ahvn_tools.middleware.trace import trace
from ahvn_tools.middleware.truncate import truncate
from ahvn_tools.middleware.watch import watch
from ahvn_tools.middleware.watched_calls import WatchedCalls
from tests.execution.entry_points import (
    ENTRY_POINTS,
    RESULT_ENTRY_POINTS,
    STREAM_ENTRY_POINTS,
    VALUE_ENTRY_POINTS,
    run,
    until,
)


def watch_for_viewer(path: Path) -> Middleware:
    WatchedCalls(path).look()
    return watch(path)


MADE: dict[str, Callable[[Any], Middleware]] = {
    "cache": lambda _: cache(),
    "keep_large": lambda _: keep_large(),
    "keep_large, in a folder": lambda folder: keep_large(folder=folder / "kept"),
    "limit": lambda _: limit(per_second=10_000, per_session=100_000),
    "limit, waiting": lambda _: limit(per_second=10_000, wait=1),
    "log": lambda _: log(),
    "metrics": lambda _: metrics(),
    "observe": lambda _: observe(lambda tool, success, duration, error_code: None),
    "postprocess": lambda _: postprocess.postprocess_middleware(lambda call, result: None),
    "record": lambda folder: record(folder / "calls.jsonl"),
    "retry": lambda _: retry(),
    "trace": lambda _: trace(content=True),
    "truncate": lambda _: truncate(),
    "watch": lambda folder: watch_for_viewer(folder / "watched.sqlite"),
    "watch, while nobody looks": lambda folder: watch(folder / "watched.sqlite"),
}
"""Each middleware with options that let every call through."""


def test_every_middleware_of_the_package_is_listed():
    names = [found.name for found in pkgutil.iter_modules(middleware.__path__)]
    modules = [importlib.import_module(f"{middleware.__name__}.{name}") for name in names]
    shipped = {name for name, module in zip(names, modules, strict=True) if hasattr(module, name)}
    assert shipped | {"postprocess"} == {name.partition(",")[0] for name in MADE}
    assert shipped | {"replay"} == {name for name in middleware.__all__ if name.islower()}


def echo(word: str) -> str:
    """Say it."""
    return word


async def aecho(word: str) -> str:
    """Say it in a loop."""
    await asyncio.sleep(0)
    return word


def count(until: int) -> list[int]:
    """Count."""
    yield from range(until)


async def acount(until: int) -> list[int]:
    """Count in a loop."""
    for number in range(until):
        await asyncio.sleep(0)
        yield number


def fail() -> str:
    """Fail."""
    raise LookupError("nothing there")


async def hold(word: str) -> str:
    """Take three turns of the loop, to be cancelled in."""
    open_calls.append(word)
    try:
        for _ in range(3):
            await asyncio.sleep(0)
    finally:
        open_calls.remove(word)
    return word


open_calls: list[str] = []
TOOLS = (echo, aecho, count, acount, fail, hold)


@pytest.fixture(params=MADE)
def kit(request, tmp_path) -> Toolkit:
    kit = Toolkit("kit", middleware=[MADE[request.param](tmp_path)], mask_errors=False)
    for function in TOOLS:
        kit.add(ToolSpec.from_function(function, annotations={"readOnlyHint": True}))
    return kit


def representative(entry_points: dict[str, Any], *names: str) -> list[Any]:
    """Return these entry points for the default run, and the others for the exhaustive one."""
    marks = [pytest.mark.exhaustive]
    return [name if name in names else pytest.param(name, marks=marks) for name in entry_points]


@pytest.mark.parametrize("entry_point", representative(ENTRY_POINTS, "call", "aexec"))
@pytest.mark.parametrize("name", ["echo", "aecho"])
def test_a_call_passes_from_every_entry_point(kit, name, entry_point):
    result = ENTRY_POINTS[entry_point](kit[name], word="tea")
    assert (result if entry_point in VALUE_ENTRY_POINTS else result.value) == "tea"


@pytest.mark.parametrize("entry_point", STREAM_ENTRY_POINTS)
@pytest.mark.parametrize("name", ["count", "acount"])
def test_chunks_pass_in_order_before_the_whole_result(kit, name, entry_point):
    results = STREAM_ENTRY_POINTS[entry_point](kit[name], until=3)
    assert [(result.value, result.is_last) for result in results] == [
        (0, False), (1, False), (2, False), ([0, 1, 2], True),
    ]  # fmt: skip
    assert len({result.id for result in results}) == 1


def test_each_call_has_a_unique_id_that_its_result_repeats(kit):
    answer = {
        "tool_calls": [{"id": f"c{n}", "function": {"name": "echo", "arguments": '{"word": "tea"}'}} for n in range(3)]
    }
    made = kit.run(answer, format="openai")
    assert [result.id for _, result in made.results] == ["c0", "c1", "c2"]
    assert [message["tool_call_id"] for message in made] == ["c0", "c1", "c2"]


@pytest.mark.parametrize("entry_point", representative(VALUE_ENTRY_POINTS, "call"))
def test_call_raises_what_the_tool_raised(kit, entry_point):
    with pytest.raises(LookupError, match="nothing there"):
        VALUE_ENTRY_POINTS[entry_point](kit["fail"])


@pytest.mark.parametrize("entry_point", representative(RESULT_ENTRY_POINTS, "exec"))
def test_exec_returns_the_failure(kit, entry_point):
    result = RESULT_ENTRY_POINTS[entry_point](kit["fail"])
    assert (result.error.code, result.text) == ("tool_error", "LookupError: nothing there")


def test_a_sync_body_runs_in_its_sync_callers_thread(kit):
    def where() -> int:
        return threading.get_ident()

    kit.add(where)
    assert kit.call("where") == threading.get_ident()


def test_a_tool_may_call_another_from_inside(kit):
    def twice(word: str) -> str:
        return kit.call("echo", {"word": word}) * 2

    async def atwice(word: str) -> str:
        return await kit.acall("aecho", {"word": word}) * 2

    kit.add(twice).add(atwice)
    assert kit.call("twice", {"word": "a"}) == kit.call("atwice", {"word": "a"}) == "aa"
    assert run(kit.acall, "twice", {"word": "b"}) == run(kit.acall, "atwice", {"word": "b"}) == "bb"


async def test_a_sync_call_works_inside_a_running_loop(kit):
    assert kit.call("echo", {"word": "tea"}) == kit.call("aecho", {"word": "tea"}) == "tea"


def test_calls_from_many_threads_and_loops_receive_their_own_results(kit):
    answers: dict[str, Any] = {}

    def sync(place: int) -> None:
        answers[f"s{place}"] = [kit.call(name, {"word": f"s{place}"}) for name in ("echo", "aecho")]

    def in_a_loop(place: int) -> None:
        async def several() -> list[str]:
            return list(await asyncio.gather(*(kit.acall(name, {"word": f"a{place}"}) for name in ("echo", "aecho"))))

        answers[f"a{place}"] = asyncio.run(several())

    threads = [threading.Thread(target=target, args=(place,)) for place in range(8) for target in (sync, in_a_loop)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {name: [name, name] for name in (*[f"s{n}" for n in range(8)], *[f"a{n}" for n in range(8)])}


async def test_a_call_cancelled_at_any_await_ends_and_the_next_one_works(kit):
    for turns in range(12):
        task = asyncio.create_task(kit.aexec("hold", {"word": str(turns)}))
        for _ in range(turns):
            await asyncio.sleep(0)
        is_done = task.done()
        task.cancel()
        result = (await asyncio.gather(task, return_exceptions=True))[0]
        assert result.value == str(turns) if is_done else isinstance(result, asyncio.CancelledError)
        assert open_calls == []
        assert asyncio.all_tasks() == {asyncio.current_task()}
    assert await kit.acall("hold", {"word": "still here"}) == "still here"


async def test_a_reader_that_leaves_ends_the_call(kit):
    for taken in range(3):
        reader = kit.astream("acount", {"until": 5 + taken})
        for _ in range(taken):
            await anext(reader)
        await reader.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_sync_reader_that_leaves_ends_the_call(kit):
    ended = threading.Event()

    async def tick() -> list[int]:
        try:
            for number in range(100):
                yield number
        finally:
            ended.set()

    kit.add(tick)
    reader = kit.stream("tick")
    assert next(reader).value == 0
    reader.close()
    assert until(ended.is_set)


def test_an_error_of_inner_middleware_passes_with_its_code(kit):
    async def refuse(call, next):
        raise ToolError("not today")

    undo = kit.use(refuse)
    assert kit.exec("echo", {"word": "a"}).error.message == "not today"
    with pytest.raises(ToolError, match="not today"):
        kit.call("echo", {"word": "a"})
    undo()
    assert kit.call("echo", {"word": "a"}) == "a"
