"""Exclusive calls: alone, or alone among those with one key; in emitted order within one answer; never a deadlock."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ahvn_tools import ToolCall, ToolCallError, Toolkit
from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.locks import ALONE, KeyedLocks, lock_key, run_in_order
from tests.execution.entry_points import program, until


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
    assert asyncio.run(run_in_order(jobs, keys, limit)) == list(range(len(batch)))
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
        task = asyncio.create_task(run_in_order(jobs, keys, 2))
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
        ("path", {"path": "a"}, ("by function", ("path", "a"))),
        ("path", {"path": {"b": 1, "a": [2]}}, ("by function", ("path", '{"a": [2], "b": 1}'))),
        ("path", {}, ("by function", ("path", None))),
        (lambda arguments: arguments["n"] % 2, {"n": 3}, ("by function", 1)),
        (lambda arguments: None, {}, None),
        (lambda arguments: arguments["n"], {}, ALONE),
        (lambda arguments: [], {}, ALONE),
    ],
)
def test_a_key_is_made_of_the_arguments(exclusive, arguments, key):
    assert lock_key(exclusive, arguments) == key


@pytest.mark.parametrize(
    ("one", "other", "are_one"),
    [
        (1, 1.0, True),
        (1, "1", True),
        (["a"], '["a"]', True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (1, 2, False),
        (1, True, False),
        (1.5, 1, False),
        ("a", "A", False),
    ],
    ids=str,
)
def test_values_that_a_tool_may_take_for_the_same_have_one_key(one, other, are_one):
    assert (lock_key("n", {"n": one}) == lock_key("n", {"n": other})) is are_one


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
    keys = KeyedLocks()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        begun.set()
        await go_on.wait()

    async def second() -> str:
        return "second"

    async def third() -> str:
        return "third"

    running = asyncio.create_task(keys.run_locked("k", first))
    await begun.wait()
    waiting = [asyncio.create_task(keys.run_locked("k", job)) for job in (second, third)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait({waiting[0]})
    go_on.set()
    assert await asyncio.wait_for(waiting[1], 5) == "third"
    await running
    assert await asyncio.wait_for(keys.run_locked("k", second), 5) == "second"


async def test_a_call_that_is_cancelled_in_the_moment_of_its_turn_gives_it_on():
    keys = KeyedLocks()
    go_on = asyncio.Event()
    running = asyncio.create_task(keys.run_locked("k", go_on.wait))
    await asyncio.sleep(0)

    async def job() -> str:
        return "ran"

    second, third = (asyncio.create_task(keys.run_locked("k", job)) for _ in range(2))
    await asyncio.sleep(0)
    go_on.set()
    await running  # the turn is the second one's now, and it has not run yet
    second.cancel()
    await asyncio.wait({second})
    assert await asyncio.wait_for(third, 5) == "ran"


async def test_a_call_that_is_cancelled_by_the_one_it_waits_for_gives_its_turn_on():
    keys, both = KeyedLocks(), asyncio.Event()

    async def cancel_second() -> None:
        await both.wait()
        second.cancel()

    async def job() -> str:
        return "ran"

    running = asyncio.create_task(keys.run_locked("k", cancel_second))
    await asyncio.sleep(0)
    second, third = (asyncio.create_task(keys.run_locked("k", job)) for _ in range(2))
    await asyncio.sleep(0)
    both.set()
    await running
    assert await asyncio.wait_for(third, 5) == "ran"
    assert second.cancelled()


@pytest.mark.parametrize("given", [{}, {"path": "a.txt"}], ids=["left out", "given"])
async def test_an_argument_that_is_left_out_is_its_default(given):
    watch: list[str] = []
    kit = Toolkit("files")

    @kit.tool(exclusive="path")
    async def write(path: str = "a.txt") -> None:
        watch.append(f"+{path}")
        await asyncio.sleep(0.01)
        watch.append(f"-{path}")

    await asyncio.gather(kit.acall("write"), kit.acall("write", given))
    assert watch == ["+a.txt", "-a.txt"] * 2


async def test_calls_stay_apart_where_the_parameter_is_bound():
    watch: list[str] = []
    kit = kit_of("path", watch).bind("path")
    await asyncio.gather(*(kit.session(path="a").acall("write") for _ in range(3)))
    assert not overlap(watch)
    assert len(Toolkit("outer").add(kit)) == 1


async def test_calls_from_inside_of_one_call_do_not_run_at_once_either():
    watch: list[str] = []
    kit = kit_of("path", watch)

    @kit.tool(exclusive="path")
    async def write_twice(path: str) -> None:
        await asyncio.gather(*(kit.acall("write", {"path": path}) for _ in range(2)))

    await asyncio.gather(*(kit.acall("write_twice", {"path": "a"}) for _ in range(2)))
    assert len(watch) == 2 * 4
    assert not overlap(watch)


async def test_what_a_tool_leaves_running_does_not_keep_its_key():
    watch: list[str] = []
    kit = kit_of("path", watch)
    go_on = asyncio.Event()
    left: list[asyncio.Task[Any]] = []

    @kit.tool(exclusive="path")
    async def leave(path: str) -> None:
        async def later() -> None:
            await go_on.wait()
            await kit.acall("write", {"path": path})

        left.append(asyncio.create_task(later()))

    await kit.acall("leave", {"path": "a"})
    writing = asyncio.create_task(kit.acall("write", {"path": "a"}))
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(writing, *left)
    assert len(watch) == 4
    assert not overlap(watch)


async def test_a_call_that_a_tool_leaves_running_keeps_the_key_until_it_ends():
    watch: list[str] = []
    kit = kit_of("path", watch)
    left: list[asyncio.Task[Any]] = []

    @kit.tool(exclusive="path")
    async def leave(path: str) -> None:
        left.append(asyncio.create_task(kit.acall("write", {"path": path})))
        assert await asyncio.to_thread(until, lambda: watch)

    await kit.acall("leave", {"path": "a"})
    await asyncio.gather(kit.acall("write", {"path": "a"}), *left)
    assert len(watch) == 4
    assert not overlap(watch)


async def test_code_that_outlives_an_inner_call_still_belongs_to_the_outer_one():
    kit = kit_of("path", [])
    left: list[asyncio.Task[Any]] = []

    @kit.tool(exclusive="path")
    async def leave(path: str) -> None:
        async def later() -> None:
            await asyncio.sleep(0.01)
            await kit.acall("write", {"path": path})

        left.append(asyncio.create_task(later()))

    @kit.tool(exclusive="path")
    async def wait(path: str) -> str:
        await kit.acall("leave", {"path": path})
        await left[0]
        return "waited"

    assert await asyncio.wait_for(kit.acall("wait", {"path": "a"}), 10) == "waited"


def test_a_key_of_one_toolkit_is_none_of_another():
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


@pytest.mark.parametrize("door", ["call", "exec"])
async def test_a_sync_call_that_would_wait_for_the_loop_that_it_blocks_says_so(door):
    kit = Toolkit("files")
    begun = asyncio.Event()

    @kit.tool(exclusive="path")
    async def write(path: str, seconds: float = 0) -> str:
        begun.set()
        await asyncio.sleep(seconds)
        return path

    task = asyncio.create_task(kit.acall("write", {"path": "a", "seconds": 0.05}))
    await begun.wait()
    told = r"event loop which it blocks: in an event loop use `await …acall\(…\)`"
    if door == "call":
        with pytest.raises(ToolCallError, match=told):
            kit.call("write", {"path": "a"})
    else:
        assert re.search(told, kit.exec("write", {"path": "a"}).text)
    assert kit.call("write", {"path": "b"}) == "b"
    assert await task == "a"
    assert kit.call("write", {"path": "a"}) == "a"


@pytest.mark.parametrize("what", ["holds", "holds and is kept", "waits", "waits and is kept"])
def test_a_loop_that_is_closed_under_a_call_keeps_no_key(what):
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
    task._log_destroy_pending = False  # nobody else can end it
    kept = [task] if "is kept" in what else []
    del task
    gc.collect()
    go_on.set()
    made: list[str] = []
    after = threading.Thread(target=lambda: made.append(kit.call("write", {"path": "a"})), daemon=True)
    after.start()
    after.join(10)
    assert made == ["a"]
    if "waits" in what:
        thread.join(10)
    kept.clear()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_waits_for_no_call_of_its_parent():
    code = """if True:
        import os, threading, time
        from ahvn_tools import Toolkit
        kit = Toolkit("files")
        begun, go_on = threading.Event(), threading.Event()

        @kit.tool(exclusive="path")
        def write(path: str, is_last: bool = True) -> str:
            begun.set()
            if not is_last:
                go_on.wait(20)
            return path

        @kit.tool(exclusive="path")
        def fork(path: str) -> bool:
            child = os.fork()
            if child == 0:
                os._exit(0 if kit.call("write", {"path": "b"}) + kit.call("write", {"path": "a"}) == "ba" else 1)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

        thread = threading.Thread(target=lambda: kit.call("write", {"path": "a", "is_last": False}))
        thread.start()
        begun.wait(20)
        print(kit.call("fork", {"path": "b"}))
        go_on.set()
        thread.join()
        print(kit.call("write", {"path": "a"}), kit.call("write", {"path": "b"}))
        """
    status, output, errors = program(code)
    assert (status, output.split()) == (0, ["True", "a", "b"]), errors


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
