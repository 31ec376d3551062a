"""A toolkit that is changed while others call it and iterate over it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ahvn_tools import Toolkit, ToolSpec
from tests.toolkit.subjects import add, search

SECONDS = 0.5


@pytest.fixture(autouse=True)
def _often() -> Iterator[None]:
    """Let threads take turns at nearly every step, so that what can go wrong between two steps does."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def at_once(*works: Callable[[], Any], seconds: float = SECONDS) -> None:
    """Repeat each of these in a thread of its own for a while; raise what the first of them raised."""
    end = time.monotonic() + seconds
    errors: list[BaseException] = []

    def repeat(work: Callable[[], Any]) -> None:
        try:
            while time.monotonic() < end and not errors:
                work()
        except BaseException as error:  # told by the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_tools_come_and_go_while_others_call_and_iterate():
    spec = ToolSpec.from_function(add)
    kit = Toolkit("k").add(spec, rename="kept")
    session = kit.session().select(where=lambda _: True)

    def come_and_go(name: str) -> Callable[[], None]:
        def work() -> None:
            kit.add(spec, rename=name)
            kit.remove(name)

        return work

    def call() -> None:
        assert kit.call("kept", {"a": 1}) == session.call("kept", {"a": 1}) == 2
        assert kit.exec("x", {"a": 1}).value in {2, None}

    def iterate() -> None:
        for seen in (kit, session):
            names = [tool.name for tool in seen]
            assert names[0] == "kept"
            assert len(seen.to("openai")) >= 1
            assert set(names) <= {"kept", "x", "y", "z"}

    at_once(*map(come_and_go, "xyz"), call, iterate)
    assert [tool.name for tool in kit] == ["kept"]


def test_groups_come_and_go_while_others_list_and_call():
    spec = ToolSpec.from_function(add)
    kit = Toolkit("k").add(spec, rename="kept")
    session = kit.session()

    def come_and_go() -> None:
        kit.group("math", active=True, notes="Be exact.").add(spec, group="math")
        kit.remove_group("math")

    def look() -> None:
        for seen in (kit, session):
            assert {"basic"} <= seen.groups.keys() <= {"basic", "math"}
            assert seen.notes in {"", "## math\nBe exact."}
            assert "kept" in seen
            assert len(seen) in {1, 2}
            seen.exec("add", {"a": 1})

    at_once(come_and_go, look, look)


def test_no_group_or_toolset_is_lost_where_several_are_made_at_once():
    kit = Toolkit("k")
    spec = ToolSpec.from_function(add)

    def make(thread: int) -> Callable[[], None]:
        def work() -> None:
            for number in range(200):
                kit.group(f"defined-{thread}-{number}")
                kit.toolset(f"set-{thread}-{number}")
                kit.add(spec, rename=f"tool-{thread}-{number}", group=f"named-{thread}-{number}")

        return work

    threads = [threading.Thread(target=make(thread)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kit.groups) == 1 + 2 * 800
    assert len([kit.select(toolset=f"set-{thread}-{number}") for thread in range(4) for number in range(200)]) == 800


def test_no_switch_is_lost_where_several_are_turned_at_once():
    kit = Toolkit("k")
    for number in range(400):
        kit.group(f"g{number}")
    session = kit.session()
    threads = [
        threading.Thread(target=lambda start=start: [session.activate(f"g{n}") for n in range(start, 400, 4)])
        for start in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(session.groups.values())


def test_a_call_after_a_change_of_bindings_goes_by_it_however_many_call_meanwhile():
    spec = ToolSpec.from_function(search)
    kit = Toolkit("k").add(spec)
    tool = kit["search"]

    def change() -> None:
        for target, user in ((spec, "spec"), (kit, "kit"), (tool, "tool")):
            target.bind("user", user, user)
            assert tool.exec("q").value == f"{user}:q:3"
        for target, value in ((tool, "kit:q:3"), (kit, "spec:q:3")):
            target.unbind("user")
            assert tool.exec("q").value == value
        spec.unbind("user")
        assert tool.exec("q").value == "nobody:q:3"

    def call() -> None:
        assert kit.exec("search", {"query": "q"}).value.endswith(":q:3")

    at_once(change, call, call, call)


def test_tools_are_bound_in_several_threads_at_once():
    names = [f"p{number}" for number in range(80)]
    namespace: dict[str, Any] = {}
    exec(
        f"def wide({', '.join(f'{name}: int = 0' for name in names)}) -> int:\n    return {'+'.join(names)}", namespace
    )
    kit = Toolkit("k").add(namespace["wide"])
    tool = kit["wide"]
    threads = [
        threading.Thread(target=lambda start=start: [tool.bind(name, default=1) for name in names[start::4]])
        for start in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tool() == len(names)
