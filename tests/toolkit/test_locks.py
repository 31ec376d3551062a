"""Exclusive calls: alone, or alone among those with the same key; never a deadlock."""

from __future__ import annotations

import asyncio
import functools
import gc
import re
import threading
import time
from typing import Any

import pytest

from ahvn_tools import ToolCall, ToolCallError, Toolkit
from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.locks import KeyedLocks
from tests.execution.entry_points import until
from tests.toolkit.subjects import in_threads


def kit_of(exclusive: Any, watch: list[str], *, pause: float = 0.002) -> Toolkit:
    kit = Toolkit("files")

    @kit.tool(exclusive=exclusive)
    def write(path: str, text: str = "") -> str:
        watch.append(f"+{path}")
        time.sleep(pause)
        watch.append(f"-{path}")
        return path

    return kit


def overlap(watch: list[str]) -> bool:
    """Return whether a path was begun again before it was ended."""
    open_paths: set[str] = set()
    for step in watch:
        if step[0] == "+":
            if step[1:] in open_paths:
                return True
            open_paths.add(step[1:])
        else:
            open_paths.discard(step[1:])
    return False


def test_one_key_never_runs_twice_at_once_across_threads_loops_and_sessions():
    watch: list[str] = []
    kit = kit_of("path", watch)

    def from_sync(number: int) -> None:
        assert kit.session(user=number).call("write", {"path": "a"}) == "a"

    def from_async(number: int) -> None:
        async def many() -> list[Any]:
            return await asyncio.gather(*(kit.acall("write", {"path": "a"}) for _ in range(3)))

        assert asyncio.run(many()) == ["a"] * 3

    in_threads(functools.partial(work, i) for i in range(5) for work in (from_sync, from_async))
    assert len(watch) == 2 * 20
    assert not overlap(watch)


def test_calls_with_different_keys_run_at_the_same_time():
    meet = threading.Barrier(2, timeout=10)
    kit = Toolkit("files")

    @kit.tool(exclusive="path")
    def write(path: str) -> str:
        meet.wait()
        return path

    calls = [ToolCall(id=path, name="write", arguments={"path": path}) for path in "ab"]
    assert [result.value for _, result in kit.run(calls).results] == ["a", "b"]


@pytest.mark.parametrize("exclusive", [True, "path", lambda arguments: arguments["path"]])
def test_a_tool_that_calls_the_toolkit_under_its_own_key_does_not_wait_for_itself(exclusive):
    kit = kit_of(exclusive, [])

    @kit.tool(exclusive=exclusive)
    async def copy_async(path: str) -> str:
        return await kit.acall("write", {"path": path})

    @kit.tool(exclusive=exclusive)
    def copy(path: str) -> str:
        return kit.call("write", {"path": path})

    assert kit.call("copy", {"path": "a"}) == "a"
    assert kit.call("copy_async", {"path": "a"}) == "a"
    calls = [ToolCall(id=str(i), name=name, arguments={"path": "a"}) for i, name in enumerate(["copy", "copy_async"])]
    assert [result.value for _, result in kit.run(calls).results] == ["a", "a"]


@pytest.mark.parametrize("when", ["it waits", "it gets the key", "its holder ends"])
async def test_a_call_that_is_cancelled_before_it_runs_does_not_block_the_next(when):
    keys, go_on = KeyedLocks(), asyncio.Event()

    async def hold() -> None:
        await go_on.wait()
        if when == "its holder ends":
            second.cancel()

    async def job() -> str:
        return "ran"

    running = asyncio.create_task(keys.run_locked("k", hold))
    await asyncio.sleep(0)
    second, third = (asyncio.create_task(keys.run_locked("k", job)) for _ in range(2))
    await asyncio.sleep(0)
    if when == "it waits":
        second.cancel()
        await asyncio.wait({second})
    go_on.set()
    await running
    if when == "it gets the key":  # it has not run yet
        second.cancel()
    assert await asyncio.wait_for(third, 5) == "ran"
    assert second.cancelled()
    assert await asyncio.wait_for(keys.run_locked("k", job), 5) == "ran"


async def test_calls_do_not_overlap_when_the_exclusive_parameter_is_bound():
    watch: list[str] = []
    kit = kit_of("path", watch).bind("path")
    await asyncio.gather(*(kit.session(path="a").acall("write") for _ in range(3)))
    assert not overlap(watch)
    assert len(Toolkit("outer").add(kit)) == 1


async def test_nested_calls_of_one_call_do_not_run_at_once_either():
    watch: list[str] = []
    kit = kit_of("path", watch)

    @kit.tool(exclusive="path")
    async def write_twice(path: str) -> None:
        await asyncio.gather(*(kit.acall("write", {"path": path}) for _ in range(2)))

    await asyncio.gather(*(kit.acall("write_twice", {"path": "a"}) for _ in range(2)))
    assert len(watch) == 2 * 4
    assert not overlap(watch)


async def test_a_task_that_a_tool_leaves_running_does_not_hold_its_key():
    watch: list[str] = []
    kit = kit_of("path", watch)
    go_on = asyncio.Event()
    background: list[asyncio.Task[Any]] = []

    @kit.tool(exclusive="path")
    async def leave(path: str) -> None:
        async def later() -> None:
            await go_on.wait()
            await kit.acall("write", {"path": path})

        background.append(asyncio.create_task(later()))

    await kit.acall("leave", {"path": "a"})
    writing = asyncio.create_task(kit.acall("write", {"path": "a"}))
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(writing, *background)
    assert len(watch) == 4
    assert not overlap(watch)


async def test_a_nested_call_that_a_tool_leaves_running_holds_the_key_until_it_ends():
    watch: list[str] = []
    kit = kit_of("path", watch)
    background: list[asyncio.Task[Any]] = []

    @kit.tool(exclusive="path")
    async def leave(path: str) -> None:
        background.append(asyncio.create_task(kit.acall("write", {"path": path})))
        assert await asyncio.to_thread(until, lambda: watch)

    await kit.acall("leave", {"path": "a"})
    await asyncio.gather(kit.acall("write", {"path": "a"}), *background)
    assert len(watch) == 4
    assert not overlap(watch)


async def test_code_that_outlives_a_nested_call_still_belongs_to_the_outer_call():
    kit = kit_of("path", [])
    background: list[asyncio.Task[Any]] = []

    @kit.tool(exclusive="path")
    async def leave(path: str) -> None:
        async def later() -> None:
            await asyncio.sleep(0.01)
            await kit.acall("write", {"path": path})

        background.append(asyncio.create_task(later()))

    @kit.tool(exclusive="path")
    async def wait(path: str) -> str:
        await kit.acall("leave", {"path": path})
        await background[0]
        return "waited"

    assert await asyncio.wait_for(kit.acall("wait", {"path": "a"}), 10) == "waited"


def test_keys_of_two_toolkits_are_independent():
    watch: list[str] = []
    inner = kit_of("path", watch, pause=0.02)
    outer = Toolkit("outer")

    @outer.tool(exclusive="path")
    async def write_there(path: str) -> None:
        await inner.acall("write", {"path": path})

    threads = [threading.Thread(target=lambda: inner.call("write", {"path": "a"})) for _ in range(2)]
    for thread in threads:
        thread.start()
    outer.call("write_there", {"path": "a"})
    for thread in threads:
        thread.join(30)
    assert len(watch) == 2 * 3
    assert not overlap(watch)


@pytest.mark.parametrize("method", ["call", "exec"])
async def test_a_sync_call_that_would_wait_for_the_loop_that_it_blocks_raises(method):
    kit = Toolkit("files")
    begun = asyncio.Event()

    @kit.tool(exclusive="path")
    async def write(path: str, seconds: float = 0) -> str:
        begun.set()
        await asyncio.sleep(seconds)
        return path

    task = asyncio.create_task(kit.acall("write", {"path": "a", "seconds": 0.05}))
    await begun.wait()
    message = r"event loop which it blocks: in an event loop use `await …acall\(…\)`"
    if method == "call":
        with pytest.raises(ToolCallError, match=message):
            kit.call("write", {"path": "a"})
    else:
        assert re.search(message, kit.exec("write", {"path": "a"}).text)
    assert kit.call("write", {"path": "b"}) == "b"
    assert await task == "a"
    assert kit.call("write", {"path": "a"}) == "a"


@pytest.mark.parametrize("what", ["holds", "holds and stays", "waits", "waits and stays"])
def test_a_call_whose_loop_was_closed_holds_no_key(what):
    kit = Toolkit("files")
    begun, go_on = threading.Event(), threading.Event()

    @kit.tool(exclusive="path")
    async def write(path: str, seconds: float = 0) -> str:
        await asyncio.sleep(seconds)
        return path

    @kit.tool(exclusive="path")
    def hold(path: str) -> None:
        begun.set()
        assert go_on.wait(10)

    thread = threading.Thread(target=lambda: kit.call("hold", {"path": "a"}))
    if "waits" in what:
        thread.start()
        assert begun.wait(10)
    loop = asyncio.new_event_loop()
    task = loop.create_task(kit.aexec("write", {"path": "a", "seconds": 60}))
    loop.run_until_complete(asyncio.sleep(0.02))
    loop.close()
    task._log_destroy_pending = False  # nothing else can end it
    references = [task] if "stays" in what else []
    del task
    gc.collect()
    go_on.set()
    outcomes: list[str] = []
    after = threading.Thread(target=lambda: outcomes.append(kit.call("write", {"path": "a"})), daemon=True)
    after.start()
    after.join(10)
    assert outcomes == ["a"]
    if "waits" in what:
        thread.join(10)
    references.clear()


def test_a_failing_call_releases_its_key():
    kit = Toolkit("files")

    @kit.tool(exclusive=True)
    def fail() -> None:
        raise ValueError("no")

    assert [kit.exec("fail").error.code for _ in range(2)] == ["tool_error"] * 2


@pytest.mark.parametrize(
    ("exclusive", "message"),
    [
        ("pth", r"no argument 'pth' to be exclusive by\. Did you mean 'path'"),
        (3, "must be True, a parameter's name or"),
    ],
)
def test_an_unknown_exclusive_parameter_is_refused(exclusive, message):
    with pytest.raises(ToolkitError, match=message):
        kit_of(exclusive, [])
