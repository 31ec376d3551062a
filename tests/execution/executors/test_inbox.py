"""What a worker sends faster than its caller handles it: progress is replaced, nothing else is lost, order is kept."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies

from ahvn_tools import ToolContext, Toolkit, ToolSpec
from ahvn_tools.errors import LimitExceededError
from ahvn_tools.execution.workers import link, replies
from ahvn_tools.execution.workers.body_call import WorkerLostError
from ahvn_tools.execution.workers.executor_call import MAX_WAITING, Inbox
from tests.property_checks import EXAMPLES, run_examples

pytestmark = pytest.mark.exhaustive

KINDS = ["progress", "output", "chunk", "ask"]


def encoded(kinds: list[str]) -> list[bytes]:
    return [replies.encode(kind, number) for number, kind in enumerate(kinds)]


async def taken(items: list[Any]) -> list[Any]:
    inbox = Inbox()
    for item in items:
        inbox.put(item)
    return await inbox.take_all()


async def test_progress_that_waits_is_replaced_by_newer_progress():
    items = encoded(["progress"] * 10_000)
    assert await taken(items) == [*items[: MAX_WAITING - 1], items[-1]]


@EXAMPLES
def test_all_but_progress_is_kept_in_its_order(max_examples):
    def check(kinds: list[str]) -> None:
        items = [*encoded(["progress"] * MAX_WAITING + kinds), WorkerLostError("gone")]
        found = asyncio.run(taken(items))
        assert found == sorted(found, key=items.index)
        assert [item for item in items if item not in found and not replies.is_progress(item)] == []
        assert len(found) <= MAX_WAITING + 2 * len(kinds) + 1

    run_examples(max_examples, check, strategies.lists(strategies.sampled_from(KINDS), max_size=30))


def report_behind_a_chunk(folder: str, n: int, context: ToolContext) -> Iterator[str]:
    """Report progress in another thread while the reader has not requested the second chunk."""

    def report() -> None:
        while not Path(folder, "begin").exists():
            time.sleep(0.005)
        for number in range(n):
            context.report_progress(number + 1, n)
        Path(folder, "end").touch()

    thread = threading.Thread(target=report)
    thread.start()
    yield "first"
    thread.join()


def test_a_body_that_reports_more_than_its_reader_takes_is_not_held_up(killable, tmp_path):
    reports = 100  # more than its pipe takes hold a body up
    kit = Toolkit("k", executor=killable).add(report_behind_a_chunk, isolation="executor", max_items=3)
    stream = kit.stream("report_behind_a_chunk", {"folder": str(tmp_path), "n": reports})
    assert next(stream).value == "first"
    (tmp_path / "begin").touch()
    while not (tmp_path / "end").exists():
        time.sleep(0.005)
    *chunks, result = stream
    assert result.value == ["first"]
    assert chunks[-1].meta["progress"] == {"progress": reports, "total": reports}


def report_and_append(n: int, context: ToolContext) -> int:
    for number in range(n):
        context.report_progress(number)
        context.append_output(number)
    return n


def test_what_nobody_reads_is_not_sent():
    sent: list[int] = []

    class Counting(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            future = super().submit(fn, *args, **kwargs)
            sent.append(len(future.result()))
            return future

    with Counting(1) as executor:
        kit = Toolkit("k", executor=executor).add(report_and_append, isolation="executor")
        kit.call("report_and_append", {"n": 9})
        ToolSpec.from_function(report_and_append).submit(executor, n=9).result(20)
        list(kit.stream("report_and_append", {"n": 9}))
    assert sent == [2, 2, 20]  # the body starts, and the result


def append_until_refused(n: int, context: ToolContext) -> str:
    try:
        for number in range(n):
            context.append_output("x" * 100 * number)
    except LimitExceededError as error:
        return f"{number} {error}"
    return "none"


@pytest.mark.parametrize("limits", [{"max_items": 3}, {"max_bytes": 3_000}], ids=["items", "bytes"])
def test_too_much_output_is_refused_in_the_body_as_in_a_local_call(executor, limits):
    found = []
    for options in ({}, {"isolation": "executor"}):
        kit = Toolkit("k", executor=executor).add(append_until_refused, **options, **limits)
        *chunks, result = kit.stream("append_until_refused", {"n": 50})
        found.append(([chunk.value for chunk in chunks], result.value))
    assert found[0] == found[1]
    assert "made" in found[0][1]


def test_a_link_that_keeps_all_for_the_end_keeps_the_newest_of_the_progress():
    kept, items = link.KeepingLink(), encoded(["progress", "progress", "output", "progress", "progress", "progress"])
    for item in items:
        kept.send(item)
    assert kept.replies == [items[1], items[2], items[5]]
