"""One spec in eight threads: calling, binding and changing state at once raises nothing and tears nothing.

What holds: a call takes one state, so values of a state that is replaced whole (`spec.state = {…}`) are never mixed
with those of another. Inside one state each bound key is walked by itself: every value that is read is one that was
set, but two keys may be read before and after a change. `binds` and the schema are always those of one moment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from ahvn_tools import ToolSpec

SECONDS = 10


def body(left: int, right: int, other: int = 0) -> tuple[int, int, int]:
    return left, right, other


def pair_spec() -> ToolSpec:
    spec = ToolSpec.from_function(body).bind("left", "pair.left").bind("right", "pair.right")
    spec.state = {"pair": {"left": 0, "right": 0}}
    return spec


class Jobs:
    """What the threads do, each again and again with a rising number."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    def call(self, _number: int) -> None:
        self.check(self.spec())

    def execute(self, _number: int) -> None:
        result = self.spec.exec()
        assert result.error is None
        self.check(result.value)

    def replace_state(self, number: int) -> None:
        self.spec.state = {"pair": {"left": 2 * number, "right": 2 * number}, "other": 2 * number + 1}

    def change_state(self, number: int) -> None:
        self.spec.state["other"] = 2 * number + 1
        self.spec.state[f"key{number % 100}"] = [number]
        self.spec.state.pop(f"key{(number + 50) % 100}", None)

    def bind(self, _number: int) -> None:
        self.spec.bind("other", default=1)
        self.spec.unbind("other")

    def look(self, _number: int) -> None:
        binds = dict(self.spec.binds)
        assert (binds.pop("left"), binds.pop("right")) == ("pair.left", "pair.right")
        assert binds in ({}, {"other": "other"})
        assert set(self.spec.params) <= {"other"}
        assert repr(self.spec).startswith("<ToolSpec 'body' binds={'left': 'pair.left'")

    def clone(self, _number: int) -> None:
        self.check(self.spec.clone()())

    def clear(self, _number: int) -> None:
        self.spec._clear_cache()
        self.check(self.spec())

    @staticmethod
    def check(values: list[int]) -> None:
        left, right, other = values
        assert left == right
        assert left % 2 == 0
        assert other == 0 or other % 2 == 1


@pytest.mark.exhaustive
@pytest.mark.timeout(SECONDS + 50)
def test_eight_threads_call_bind_and_change_the_state_of_one_spec():
    jobs = Jobs(pair_spec())
    stop, problems, rounds = threading.Event(), [], {}

    def work(job: Callable[[int], None]) -> None:
        number = 0
        try:
            while not stop.is_set():
                job(number)
                number += 1
        except BaseException as problem:
            problems.append(problem)
            stop.set()
        rounds[job.__name__] = number

    kinds = [
        jobs.call,
        jobs.execute,
        jobs.replace_state,
        jobs.change_state,
        jobs.bind,
        jobs.look,
        jobs.clone,
        jobs.clear,
    ]
    threads = [threading.Thread(target=work, args=[job], daemon=True) for job in kinds]
    for thread in threads:
        thread.start()
    stop.wait(SECONDS)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert not problems
    assert len(rounds) == len(kinds)
    assert all(rounds.values())


@pytest.mark.exhaustive
def test_a_replaced_value_is_never_read_in_part():
    def both(left: list[int], right: list[int]) -> tuple[list[int], list[int]]:
        return left, right

    spec = ToolSpec.from_function(both).bind("left", "pair.left").bind("right", "pair.right")
    spec.state = {"pair": {"left": [0] * 5, "right": [0] * 5}}
    stop = threading.Event()

    def replace() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            spec.state["pair"] = {"left": [number] * 5, "right": [number] * 5}

    thread = threading.Thread(target=replace, daemon=True)
    thread.start()
    try:
        pairs = [spec() for _ in range(5_000)]
    finally:
        stop.set()
        thread.join(30)
    assert all(len(set(values)) == 1 for pair in pairs for values in pair)
    assert all(left[0] <= right[0] for left, right in pairs)


def test_concurrent_bindings_of_many_threads_all_take_effect():
    def wide(a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int) -> int:
        return a + b + c + d + e + f + g + h

    spec = ToolSpec.from_function(wide)
    ready = threading.Barrier(8)

    def bind(name: str) -> None:
        ready.wait(10)
        spec.bind(name, f"deep.er.{name}", default=1)

    threads = [threading.Thread(target=bind, args=[name], daemon=True) for name in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert set(spec.binds) == set("abcdefgh")
    assert spec() == 8
    assert spec.params == {}
