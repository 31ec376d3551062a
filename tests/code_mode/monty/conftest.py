"""A sandbox of its own for each test, and what its processes leave behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import psutil
import pytest

from tests.execution.entry_points import until

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # as above


def workers() -> list[psutil.Process]:
    """Return the worker processes that live, of all sandboxes."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            is_worker = "monty_process" in " ".join(child.cmdline()) and child.ppid() != os.getpid()
            if is_worker and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def send_signal(number: int = signal.SIGKILL) -> int:
    """Send a signal to all worker processes, and return how many there are."""
    found = workers()
    for worker in found:
        os.kill(worker.pid, number)
    return len(found)


@pytest.fixture
def sandbox() -> Iterator[MontySandbox]:
    """A sandbox for 4 programs at once; closing it leaves no process."""
    before = {worker.pid for worker in workers()}
    made = MontySandbox(max_processes=4)
    yield made
    made.close()
    assert until(lambda: {worker.pid for worker in workers()} <= before)
