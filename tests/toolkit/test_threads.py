"""A toolkit that is changed while others call it and iterate over it."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ahvn_tools import Toolkit, ToolSpec
from tests.toolkit.subjects import add, in_threads, search

SECONDS = 0.2


@pytest.fixture(autouse=True)
def _often() -> Iterator[None]:
    """Switch threads at nearly every step, so that race conditions show."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def at_once(*works: Callable[[], Any], seconds: float = SECONDS) -> None:
    """Repeat each of these in its own thread for a while; raise the first thread's error."""
    end = time.monotonic() + seconds
    errors: list[BaseException] = []

    def repeat(work: Callable[[], Any]) -> None:
        try:
            while time.monotonic() < end and not errors:
                work()
        except BaseException as error:  # reported by the test's own thread
            errors.append(error)

    in_threads(functools.partial(repeat, work) for work in works)
    if errors:
        raise errors[0]


def test_tools_are_added_and_removed_while_others_call_and_iterate():
    spec = ToolSpec.from_function(add)
    kit = Toolkit("k").add(spec, rename="stays")
    session = kit.session().select(where=lambda _: True)

    def come_and_go(name: str) -> Callable[[], None]:
        def work() -> None:
            kit.add(spec, rename=name)
            kit.remove(name)

        return work

    def call() -> None:
        assert kit.call("stays", {"a": 1}) == session.call("stays", {"a": 1}) == 2
        assert kit.exec("x", {"a": 1}).value in {2, None}

    def iterate() -> None:
        for view in (kit, session):
            names = [tool.name for tool in view]
            assert names[0] == "stays"
            assert len(view.to("openai")) >= 1
            assert set(names) <= {"stays", "x", "y", "z"}

    at_once(*map(come_and_go, "xyz"), call, iterate)
    assert [tool.name for tool in kit] == ["stays"]


def test_groups_are_defined_and_removed_while_others_list_and_call():
    spec = ToolSpec.from_function(add)
    kit = Toolkit("k").add(spec, rename="stays")
    session = kit.session()

    def come_and_go() -> None:
        kit.add_group("math", active=True, notes="Be exact.").add(spec, group="math")
        kit.remove_group("math")

    def look() -> None:
        for view in (kit, session):
            assert {"basic"} <= view.groups.keys() <= {"basic", "math"}
            assert view.notes in {"", "## math\nBe exact."}
            assert "stays" in view
            assert len(view) in {1, 2}
            view.exec("add", {"a": 1})

    at_once(come_and_go, look, look)


@pytest.mark.exhaustive
def test_no_group_or_toolset_is_lost_when_threads_define_them_at_once():
    kit = Toolkit("k")
    spec = ToolSpec.from_function(add)

    def make(thread: int) -> Callable[[], None]:
        def work() -> None:
            for number in range(200):
                kit.add_group(f"defined-{thread}-{number}")
                kit.add_toolset(f"set-{thread}-{number}")
                kit.add(spec, rename=f"tool-{thread}-{number}", group=f"defined-{thread}-{number}")

        return work

    in_threads(map(make, range(4)))
    assert len(kit.groups) == 1 + 800
    assert len([kit.select(toolset=f"set-{thread}-{number}") for thread in range(4) for number in range(200)]) == 800


def test_no_switch_is_lost_when_threads_switch_groups_at_once():
    kit = Toolkit("k")
    for number in range(400):
        kit.add_group(f"g{number}")
    session = kit.session()
    in_threads(lambda start=start: [session.activate(f"g{n}") for n in range(start, 400, 4)] for start in range(4))
    assert all(session.groups.values())


def test_a_call_after_a_change_of_bindings_uses_them_while_others_call():
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
        assert tool.exec("q").value == "guest:q:3"

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
    in_threads(lambda start=start: [tool.bind(name, default=1) for name in names[start::4]] for start in range(4))
    assert tool() == len(names)
