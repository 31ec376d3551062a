"""A check of each test file in this folder: it leaves no thread, task or file descriptor."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ahvn_tools import tool
from ahvn_tools.execution import deadline, threads
from tests.execution.entry_points import run, until

DESCRIPTORS = Path("/proc/self/fd")


@tool(output="raw")
async def background_tasks() -> list[str]:
    """Return the tasks on the background loop, without this one."""
    return [repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]


@tool
def warm() -> int:
    """Run in a worker thread, which this starts."""
    return 1


def foreign_threads() -> int:
    """Count the threads that are not worker threads of the package."""
    return sum(thread.name != "ahvn-tools-worker" for thread in threading.enumerate())


def descriptors() -> int:
    """Count the open file descriptors; 0 where the system does not list them."""
    gc.collect()
    return len(list(DESCRIPTORS.iterdir())) if DESCRIPTORS.exists() else 0


def left_tasks() -> list[str]:
    """Return the tasks on the background loop that do not end in time."""
    left: list[str] = []

    def is_empty() -> bool:
        nonlocal left
        left = background_tasks()
        return not left

    until(is_empty)
    return left


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Compare what runs and what is open before and after a file of tests."""
    assert left_tasks() == []
    assert run(warm.acall) == 1
    before, opened = foreign_threads(), descriptors()
    yield
    assert until(lambda: threads.count_abandoned_threads() == 0)
    assert until(lambda: deadline.count_abandoned_tasks() == 0)
    assert left_tasks() == []
    assert until(lambda: foreign_threads() <= before)
    assert until(lambda: descriptors() <= opened)
    assert sum(thread.name == "ahvn-tools-worker" for thread in threading.enumerate()) <= threads.MAX_IDLE_THREADS
