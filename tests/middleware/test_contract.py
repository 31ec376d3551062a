"""What every middleware that is shipped keeps to: calls and chunks pass as they are, from everywhere, to their end."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ahvn_tools import ToolError, Toolkit, ToolSpec, middleware
from ahvn_tools.middleware import Middleware, postprocess
from ahvn_tools.middleware.approve import approve
from ahvn_tools.middleware.cache.middleware import cache
from ahvn_tools.middleware.limit import limit
from ahvn_tools.middleware.log import log
from ahvn_tools.middleware.metrics import metrics
from ahvn_tools.middleware.record.middleware import record
from ahvn_tools.middleware.retry import retry
from ahvn_tools.middleware.trace import trace
from ahvn_tools.middleware.truncate import truncate
from tests.execution.entry_points import RESULT_DOORS, STREAM_DOORS, VALUE_DOORS, run, until

MADE: dict[str, Callable[[Any], Middleware]] = {
    "approve": lambda _: approve(lambda _: True),
    "cache": lambda _: cache(),
    "limit": lambda _: limit(per_second=10_000, per_session=100_000),
    "limit, waiting": lambda _: limit(per_second=10_000, wait=1),
    "log": lambda _: log(),
    "metrics": lambda _: metrics(),
    "postprocess": lambda _: postprocess.postprocess_middleware(lambda call, result: None),
    "record": lambda folder: record(folder / "calls.jsonl"),
    "retry": lambda _: retry(),
    "trace": lambda _: trace(content=True),
    "truncate": lambda _: truncate(),
}
"""Each as it lets every call through."""


def test_every_middleware_of_the_room_is_here():
    names = [found.name for found in pkgutil.iter_modules(middleware.__path__)]
    modules = [importlib.import_module(f"{middleware.__name__}.{name}") for name in names]
    shipped = {name for name, module in zip(names, modules, strict=True) if hasattr(module, name)}
    assert shipped | {"postprocess"} == {name.partition(",")[0] for name in MADE}


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
    kit = Toolkit("kit", middleware=[MADE[request.param](tmp_path)])
    for function in TOOLS:
        kit.add(ToolSpec.from_function(function, annotations={"readOnlyHint": True}))
    return kit


@pytest.mark.parametrize("door", [*VALUE_DOORS, *RESULT_DOORS])
@pytest.mark.parametrize("name", ["echo", "aecho"])
def test_a_call_comes_through_every_door(kit, name, door):
    made = (VALUE_DOORS | RESULT_DOORS)[door](kit[name], word="tea")
    assert (made if door in VALUE_DOORS else made.value) == "tea"


@pytest.mark.parametrize("door", STREAM_DOORS)
@pytest.mark.parametrize("name", ["count", "acount"])
def test_chunks_pass_in_their_order_then_the_whole(kit, name, door):
    results = STREAM_DOORS[door](kit[name], until=3)
    assert [(result.value, result.is_last) for result in results] == [
        (0, False), (1, False), (2, False), ([0, 1, 2], True),
    ]  # fmt: skip
    assert len({result.id for result in results}) == 1


def test_each_call_has_an_id_of_its_own_and_its_result_has_it(kit):
    answer = {
        "tool_calls": [{"id": f"c{n}", "function": {"name": "echo", "arguments": '{"word": "tea"}'}} for n in range(3)]
    }
    made = kit.run(answer, format="openai")
    assert [result.id for _, result in made.results] == ["c0", "c1", "c2"]
    assert [message["tool_call_id"] for message in made] == ["c0", "c1", "c2"]


@pytest.mark.parametrize("door", VALUE_DOORS)
def test_call_raises_what_the_tool_raised(kit, door):
    with pytest.raises(LookupError, match="nothing there"):
        VALUE_DOORS[door](kit["fail"])


@pytest.mark.parametrize("door", RESULT_DOORS)
def test_exec_gives_the_failure(kit, door):
    result = RESULT_DOORS[door](kit["fail"])
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


def test_many_threads_and_loops_call_at_once_and_each_gets_its_own(kit):
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
        made = (await asyncio.gather(task, return_exceptions=True))[0]
        assert made.value == str(turns) if is_done else isinstance(made, asyncio.CancelledError)
        assert open_calls == []
        assert asyncio.all_tasks() == {asyncio.current_task()}
    assert await kit.acall("hold", {"word": "still here"}) == "still here"


async def test_a_reader_that_goes_leaves_nothing_running(kit):
    for taken in range(3):
        reader = kit.astream("acount", {"until": 5 + taken})
        for _ in range(taken):
            await anext(reader)
        await reader.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_sync_reader_that_goes_leaves_nothing_running(kit):
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


def test_an_error_of_a_middleware_inside_passes_with_its_code(kit):
    async def refuse(call, next):
        raise ToolError("not today")

    undo = kit.use(refuse)
    assert kit.exec("echo", {"word": "a"}).error.message == "not today"
    with pytest.raises(ToolError, match="not today"):
        kit.call("echo", {"word": "a"})
    undo()
    assert kit.call("echo", {"word": "a"}) == "a"
