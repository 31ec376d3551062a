"""Limits of generators: how many items they make, how large these are, and that others run in between."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from fastmcp import Client

from ahvn_tools import ToolContext, Toolkit, ToolSpec, tool
from ahvn_tools.errors import LimitExceededError, ToolkitError
from ahvn_tools.execution.plan import ItemLimits
from ahvn_tools.json_types import estimate_size
from tests.execution.entry_points import (
    RESULT_ENTRY_POINTS,
    VALUE_ENTRY_POINTS,
    EntryPoint,
    combinations,
)
from tests.ids import named

PATIENCE = 60.0
"""How many seconds an endless generator runs when nothing ends it."""


def endless(item: Any = 1) -> Iterator[Any]:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        yield item


async def aendless(item: Any = 1) -> AsyncIterator[Any]:
    for made in endless(item):
        yield made


def returns_aendless() -> Any:
    return aendless()


async def areturns_endless() -> Any:
    return endless()


ENDLESS = {body.__name__: body for body in (endless, aendless, returns_aendless, areturns_endless)}
GENERATORS = {"sync": endless, "async": aendless}


class Again:
    """Returns itself when awaited, and never suspends."""

    def __init__(self) -> None:
        self.end = time.monotonic() + PATIENCE

    def __await__(self) -> Any:
        return self if time.monotonic() < self.end else None
        yield


def limited(body: Callable[..., Any], **options: Any) -> ToolSpec:
    return ToolSpec.from_function(body, **{"name": "endless", "max_items": 5, **options})


@combinations(body=ENDLESS, entry_point=RESULT_ENTRY_POINTS)
def test_too_many_items_are_an_error(body: Callable[..., Any], entry_point: EntryPoint) -> None:
    result = entry_point(limited(body))
    message = "Tool 'endless' made more than 5 items: ask it for fewer."
    assert (result.error.code, result.error.message) == ("limit_exceeded", message)
    assert str(result.exception) == f"{message} Its host can raise `max_items`."


@combinations(body=ENDLESS, entry_point=VALUE_ENTRY_POINTS)
def test_call_raises_the_error_of_too_many_items(body: Callable[..., Any], entry_point: EntryPoint) -> None:
    with pytest.raises(LimitExceededError, match="more than 5 items"):
        entry_point(limited(body))


@combinations(entry_point=RESULT_ENTRY_POINTS, body=GENERATORS)
def test_items_that_are_too_large_are_an_error(entry_point: EntryPoint, body: Callable[..., Any]) -> None:
    result = entry_point(limited(body, max_items=None, max_bytes=1_000), item={"text": "x" * 400})
    assert result.error.code == "limit_exceeded"
    assert "more than 1000 bytes" in result.error.message


@combinations(entry_point=RESULT_ENTRY_POINTS)
def test_the_limits_include_what_they_name(entry_point: EntryPoint) -> None:
    @tool(max_items=3, max_bytes=3 * 9)
    def letters() -> Iterator[str]:
        yield from "abc"

    assert entry_point(letters).value == ["a", "b", "c"]


@combinations(body=GENERATORS)
def test_the_generator_is_closed_above_the_limit(body: Callable[..., Any]) -> None:
    closed = threading.Event()

    def closing() -> Iterator[int]:
        try:
            yield from endless()
        finally:
            closed.set()

    assert limited(closing).exec().is_error
    assert closed.is_set()


@pytest.mark.parametrize("entry_point", ["stream", "astream"])
def test_output_is_limited(entry_point: str) -> None:
    def chatter(context: ToolContext) -> None:
        for item in endless():
            context.append_output(item)

    kit = Toolkit("kit").add(chatter, max_items=5)
    assert RESULT_ENTRY_POINTS[entry_point](kit["chatter"]).error.code == "limit_exceeded"


def test_a_toolkit_replaces_the_limits_of_a_tool() -> None:
    kit = Toolkit("kit").add(limited(endless), max_items=7)
    assert "more than 7 items" in kit.exec("endless").error.message
    assert "more than 5 items" in Toolkit("kit").add(limited(endless)).exec("endless").error.message


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "many"])
def test_a_limit_of_a_toolkit_is_a_positive_number(value: Any) -> None:
    with pytest.raises(ToolkitError, match="max_items must be a whole number"):
        Toolkit("kit").add(endless, max_items=value)


@combinations(entry_point=["exec", "aexec"], timeout=[None, 30.0])
def test_a_generator_that_awaits_nothing_lets_others_run(entry_point: str, timeout: float | None) -> None:
    has_run = threading.Event()

    @tool(max_items=None, max_bytes=None, timeout=timeout)
    async def until_others_run() -> AsyncIterator[int]:
        asyncio.get_running_loop().call_soon(has_run.set)
        for item in endless():
            if has_run.is_set():
                return
            yield item

    RESULT_ENTRY_POINTS[entry_point](until_others_run)
    assert has_run.is_set()


@combinations(entry_point=["exec", "aexec"], body=ENDLESS)
def test_a_timeout_ends_a_generator_that_awaits_nothing(entry_point: str, body: Callable[..., Any]) -> None:
    spec = limited(body, max_items=None, max_bytes=None, timeout=0.05)
    assert RESULT_ENTRY_POINTS[entry_point](spec).error.code == "timeout"


@combinations(entry_point=["exec", "aexec"])
def test_a_timeout_ends_an_awaitable_that_returns_itself(entry_point: str) -> None:
    async def again() -> Any:
        return Again()

    assert RESULT_ENTRY_POINTS[entry_point](limited(again, timeout=0.05)).error.code == "timeout"


async def test_a_served_generator_that_awaits_nothing_lets_other_clients_run() -> None:
    kit, has_answered = Toolkit("kit"), threading.Event()

    @kit.tool(max_items=None, max_bytes=None)
    async def until_answered() -> AsyncIterator[int]:
        for item in endless():
            if has_answered.is_set():
                return
            yield item

    @kit.tool
    async def ping() -> str:
        return "pong"

    server = kit.to_fastmcp_server()
    async with Client(server) as busy, Client(server) as other:
        call = asyncio.create_task(busy.call_tool("until_answered"))
        await asyncio.sleep(0)
        assert (await other.call_tool("ping")).data == "pong"
        has_answered.set()
        await call


@dataclass
class Record:
    text: str


def circular() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


class Hostile:
    """Fails whenever its own code is asked for anything."""

    def __len__(self) -> int:
        raise RuntimeError

    def __iter__(self) -> Any:
        raise RuntimeError

    def __sizeof__(self) -> int:
        raise RuntimeError


@pytest.mark.parametrize(
    ("item", "size"),
    [
        (None, 8),
        (1, 8),
        ("abc", 11),
        (b"abc", 11),
        (["abc", 1], 27),
        ({"key": "value"}, 8 + 11 + 13),
        (Record("abc"), 19),
        (circular(), 16),
        (Hostile(), 8),
        (object(), 8),
    ],
    ids=named,
)
def test_the_size_of_an_item_is_estimated(item: Any, size: int) -> None:
    assert estimate_size(item, 1_000) == size


def test_the_estimate_ends_above_the_maximum() -> None:
    assert 100 < estimate_size(["x"] * 1_000_000, 100) < 200


def test_without_limits_everything_is_counted_as_allowed() -> None:
    count = ItemLimits(tool="any", max_items=None, max_bytes=None).make_counter()
    for item in range(10):
        count(item)


def test_progress_is_no_item():
    def report(context: ToolContext) -> int:
        for number in range(50):
            context.report_progress(number, 50)
        return 50

    *chunks, result = Toolkit("k").add(report, max_items=3).stream("report")
    assert (result.value, chunks[-1].meta["progress"]["progress"]) == (50, 49)
