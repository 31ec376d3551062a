"""Executors of several kinds, which the tests of this folder share."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from ahvn_tools.execution.workers.worker_process import process_pool
from tests.execution.entry_points import end_servers_of_processes


def open_executor(kind: str, workers: int = 2) -> Executor:
    if kind == "threads":
        return ThreadPoolExecutor(workers)
    if kind == "processes":
        from ahvn_tools.executors import ProcessExecutor

        return ProcessExecutor(workers)
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context(kind))


@pytest.fixture(scope="package", autouse=True)
def no_server_of_processes_is_left() -> Iterator[None]:
    yield
    end_servers_of_processes()


@pytest.fixture(scope="package", autouse=True)
def open_executors(no_server_of_processes_is_left: None) -> Iterator[dict[str, Executor]]:
    """Start the executors, with all of their workers: other fixtures count what runs here."""
    with ExitStack() as stack:
        opened = {}
        for kind in ("forkserver", "threads"):
            opened[kind] = stack.enter_context(open_executor(kind))
            for started in [opened[kind].submit(time.sleep, 0.1) for _ in range(2)]:
                started.result()
        yield opened


@pytest.fixture(
    params=[
        "threads",
        "forkserver",
        pytest.param("spawn", marks=pytest.mark.exhaustive),
        pytest.param("fork", marks=pytest.mark.exhaustive),
        pytest.param("processes", marks=pytest.mark.exhaustive),
    ]
)
def executor(request: pytest.FixtureRequest, open_executors: dict[str, Executor]) -> Iterator[Executor]:
    """Yield an executor that other tests use, too."""
    if request.param in open_executors:
        yield open_executors[request.param]
        return
    with open_executor(request.param) as opened:
        yield opened
    process_pool.end_idle()


@pytest.fixture
def killable() -> Iterator[Executor]:
    """Return an executor whose workers reach their caller, and are killed."""
    with open_executor("processes") as opened:
        yield opened
    process_pool.end_idle()


@pytest.fixture(params=["threads", "processes"])
def cancelling(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """Yield an executor whose bodies learn that their call was cancelled."""
    with open_executor(request.param) as opened:
        yield opened
    process_pool.end_idle()


@pytest.fixture
def pool(open_executors: dict[str, Executor]) -> Executor:
    """Return a shared pool of processes."""
    return open_executors["forkserver"]
