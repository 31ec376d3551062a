"""The event loop of the host does not do the heavy work of a program."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.code_mode import MontySandbox
from ahvn_tools.code_mode.sandbox import ProgramError
from ahvn_tools.code_mode.values import MAX_DEPTH, convert, require_finite, to_json


class Probe:
    """An object of a program that remembers in which thread it was converted."""

    def __init__(self) -> None:
        self.thread = 0

    @property
    def attributes(self) -> dict[str, Any]:
        self.thread = threading.get_ident()
        return {}


async def test_a_large_value_is_converted_in_another_thread() -> None:
    small, large = Probe(), Probe()
    assert (await to_json([small], 1_000_000)).value == [{}]
    await to_json(["x" * 500_000, large], 1_000_000)
    assert small.thread == threading.get_ident()
    assert large.thread not in {0, threading.get_ident()}


async def test_a_value_that_is_too_large_is_not_converted_to_its_end() -> None:
    probe = Probe()
    doubled: list[Any] = [probe]
    with pytest.raises(ProgramError, match="more than 1,000,000 bytes"):
        await to_json(["x" * 1_000_001, probe], 1_000_000)
    for _ in range(60):
        doubled = [doubled, doubled]
    with pytest.raises(ProgramError, match="more than 10,000 bytes"):
        await to_json(doubled, 10_000)
    assert probe.thread == threading.get_ident()


def test_a_size_counts_each_value_and_each_time() -> None:
    shared = ["ab"]
    assert convert("ab", 1000).size == 102
    assert convert(shared, 1000).size == 202
    assert convert([shared, shared], 1000).size == 504
    assert convert({"key": None}, 1000).size == 203
    with pytest.raises(ProgramError, match="more than 503 bytes"):
        convert([shared, shared], 503)


def test_a_value_nests_up_to_a_limit() -> None:
    def nested(depth: int) -> Any:
        value: Any = 1
        for _ in range(depth):
            value = [value]
        return value

    assert convert(nested(MAX_DEPTH - 1), 100_000).value == nested(MAX_DEPTH - 1)
    with pytest.raises(ProgramError, match="more than 100 levels deep"):
        convert(nested(MAX_DEPTH), 100_000)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ProgramError, match="more than 100 levels deep"):
        convert(endless, 100_000)


def test_an_object_of_the_host_shows_no_repr() -> None:
    class Handle:
        def __repr__(self) -> str:
            return "canary-handle"

    assert convert(Handle(), 1000).value == "canary-handle"
    with pytest.raises(ProgramError) as caught:
        convert(Handle(), 1000, is_from_program=False)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": [{"b": float("-inf")}]}], ids=str)
def test_what_is_no_json_number_is_no_result(value: Any) -> None:
    with pytest.raises(ProgramError, match="which JSON does not have"):
        require_finite(value)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "end",
    ["{a: 1}", "{a}", "double([{a: 1}])", "double({1: {a}})", "await double([{a: 1}])"],
    ids=["a result", "a set", "an argument", "a nested argument", "an awaited argument"],
)
def test_a_key_of_doubled_tuples_stops_only_its_own_process(end: str) -> None:
    with MontySandbox(max_processes=2) as sandbox:
        kit = Toolkit("k").add_code_mode(sandbox=sandbox)

        @kit.tool
        def double(value: Any) -> Any:
            """Return a value."""
            return value

        async def main() -> None:
            code = f"a = ('x',)\nfor _ in range(60):\n    a = (a, a)\n{end}"
            task = asyncio.create_task(kit.aexec("run_code", {"code": code}))
            while not task.done():
                assert await kit.acall("run_code", {"code": "double(1)"}) == 1
            assert "did not respond in time" in (await task).text

        asyncio.run(main())
