"""Exclusive calls: alone, or alone among those with one key; in emitted order within one answer; never a deadlock."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ahvn_tools import ToolCall, Toolkit
from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.exclusive import ALONE, Keys, in_order, key_of


class Watch:
    """Sees which calls run at once."""

    def __init__(self) -> None:
        self.running: list[Any] = []
        self.started: list[Any] = []
        self.overlaps: list[tuple[Any, Any]] = []
        self.most = 0

    async def run(self, key: Any, name: Any, turns: int = 1) -> Any:
        self.overlaps += [(other, key) for other in self.running if ALONE in (other, key) or (key and other == key)]
        self.running.append(key)
        self.started.append(name)
        self.most = max(self.most, len(self.running))
        for _ in range(turns):
            await asyncio.sleep(0)
        self.running.remove(key)
        return name


BATCHES = st.lists(st.tuples(st.sampled_from([None, "a", "b", ALONE]), st.integers(0, 3)), max_size=12)


@settings(deadline=None)
@given(batch=BATCHES, limit=st.integers(1, 4))
def test_no_two_calls_of_one_key_run_at_once_and_each_key_keeps_its_order(batch, limit):
    watch = Watch()
    keys = [None if key is None else (key if key == ALONE else (key,)) for key, _ in batch]
    jobs = [
        lambda key=key, number=number, turns=turns: watch.run(key, number, turns)
        for number, (key, (_, turns)) in enumerate(zip(keys, batch, strict=True))
    ]
    assert asyncio.run(in_order(jobs, keys, limit)) == list(range(len(batch)))
    assert watch.overlaps == []
    assert watch.most <= limit
    for key in set(keys) - {None}:
        order = [number for number in watch.started if keys[number] == key]
        assert order == sorted(order)
    for place, key in enumerate(keys):
        if key == ALONE:
            before = set(watch.started[: watch.started.index(place)])
            assert before == set(range(place))


@settings(deadline=None, max_examples=50)
@given(batch=BATCHES.filter(bool), steps=st.integers(0, 12))
def test_a_batch_that_is_cancelled_leaves_nothing_running(batch, steps):
    async def whole() -> None:
        watch = Watch()
        keys = [None if key is None else (key if key == ALONE else (key,)) for key, _ in batch]
        jobs = [lambda key=key: watch.run(key, 0, 5) for key in keys]
        task = asyncio.create_task(in_order(jobs, keys, 2))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("exclusive", "arguments", "key"),
    [
        (True, {}, ALONE),
        (False, {}, None),
        ("path", {"path": "a"}, ("path", '"a"')),
        ("path", {"path": {"b": 1, "a": [2]}}, ("path", '{"a": [2], "b": 1}')),
        ("path", {}, None),
        (lambda arguments: arguments["n"] % 2, {"n": 3}, ("by function", 1)),
        (lambda arguments: None, {}, None),
        (lambda arguments: arguments["n"], {}, ALONE),
        (lambda arguments: [], {}, ALONE),
    ],
)
def test_a_key_is_made_of_the_arguments(exclusive, arguments, key):
    assert key_of(exclusive, arguments) == key


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
    """Tell whether a path was begun again before it was ended."""
    open_paths: set[str] = set()
    for step in watch:
        if step[0] == "+":
            if step[1:] in open_paths:
                return True
            open_paths.add(step[1:])
        else:
            open_paths.discard(step[1:])
    return False


def test_one_key_never_runs_twice_at_once_over_threads_loops_and_sessions():
    watch: list[str] = []
    kit = kit_of("path", watch)

    def from_sync(number: int) -> None:
        assert kit.session(user=number).call("write", {"path": "a"}) == "a"

    def from_async(number: int) -> None:
        async def many() -> list[Any]:
            return await asyncio.gather(*(kit.acall("write", {"path": "a"}) for _ in range(3)))

        assert asyncio.run(many()) == ["a"] * 3

    threads = [threading.Thread(target=work, args=(i,)) for i in range(5) for work in (from_sync, from_async)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(watch) == 2 * 20
    assert not overlap(watch)


def test_calls_with_other_keys_run_beside_each_other():
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


async def test_a_call_that_is_cancelled_while_it_waits_gives_its_turn_on():
    keys = Keys()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        begun.set()
        await go_on.wait()

    async def second() -> str:
        return "second"

    async def third() -> str:
        return "third"

    running = asyncio.create_task(keys.holding("k", first))
    await begun.wait()
    waiting = [asyncio.create_task(keys.holding("k", job)) for job in (second, third)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait({waiting[0]})
    go_on.set()
    assert await asyncio.wait_for(waiting[1], 5) == "third"
    await running
    assert await asyncio.wait_for(keys.holding("k", second), 5) == "second"


async def test_a_call_that_is_cancelled_in_the_moment_of_its_turn_gives_it_on():
    keys = Keys()
    go_on = asyncio.Event()
    running = asyncio.create_task(keys.holding("k", go_on.wait))
    await asyncio.sleep(0)

    async def job() -> str:
        return "ran"

    second, third = (asyncio.create_task(keys.holding("k", job)) for _ in range(2))
    await asyncio.sleep(0)
    go_on.set()
    await running  # the turn is the second one's now, and it has not run yet
    second.cancel()
    await asyncio.wait({second})
    assert await asyncio.wait_for(third, 5) == "ran"


def test_what_fails_gives_its_key_back():
    kit = Toolkit("files")

    @kit.tool(exclusive=True)
    def fail() -> None:
        raise ValueError("no")

    assert [kit.exec("fail").error.code for _ in range(2)] == ["tool_error"] * 2


@pytest.mark.parametrize(
    ("exclusive", "told"),
    [("pth", r"no argument 'pth' to be exclusive by\. Did you mean 'path'"), (3, "is True, a parameter's name or")],
)
def test_what_names_no_argument_is_refused(exclusive, told):
    with pytest.raises(ToolkitError, match=told):
        kit_of(exclusive, [])
