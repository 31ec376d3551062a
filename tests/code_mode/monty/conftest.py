"""A sandbox of its own for each test, and what its processes leave behind."""

from __future__ import annotations

import contextlib
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
    return [process for spawner in spawners() for process in living(spawner.children())]


def processes() -> set[int]:
    """Return the ids of all processes of sandboxes: those that start workers, the workers and their interpreters."""
    found = set()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "monty" in " ".join(child.cmdline()) or child.status() == psutil.STATUS_ZOMBIE:
                found.add(child.pid)
    return found


def spawners() -> list[psutil.Process]:
    """Return the processes that start workers, one for each sandbox."""
    return living(psutil.Process().children())


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return those that run the package's program and live."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if "monty_process" in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
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
    before = processes()
    made = MontySandbox(max_processes=4)
    yield made
    made.close()
    assert until(lambda: processes() <= before)
