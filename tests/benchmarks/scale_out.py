"""Print how much faster 200 calls of a CPU-bound tool are on two workers than inline, for each executor here.

python -m tests.benchmarks.scale_out [process] [dask] [ray]

It exits with 1 when an engine is slower than the limit.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager

from rich.console import Console
from rich.table import Table

from ahvn_tools import Toolkit
from tests.benchmarks.rows import Row, seconds

CALLS = 200
WORKERS = 2
LOOPS = 800_000
"""About 30 ms of pure Python: an engine adds 1 to 5 ms to each call."""

ROUNDS = 3
LIMIT = 1.6


def count_digits(number: int) -> int:
    """Count in pure Python, which holds the interpreter."""
    total = 0
    for step in range(LOOPS):
        total += (number * step) % 10
    return total


@contextlib.contextmanager
def process_executor() -> Iterator[Executor]:
    """Two worker processes of this computer."""
    from ahvn_tools.executors import ProcessExecutor

    with ProcessExecutor(max_workers=WORKERS) as executor:
        yield executor


@contextlib.contextmanager
def dask_executor() -> Iterator[Executor]:
    """A Dask cluster of two worker processes."""
    from dask.distributed import Client, LocalCluster

    from ahvn_tools.executors import DaskExecutor

    options = {"n_workers": WORKERS, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client, DaskExecutor(client) as executor:
        yield executor


@contextlib.contextmanager
def ray_executor() -> Iterator[Executor]:
    """A local Ray with two CPUs."""
    import ray

    from ahvn_tools.executors import RayExecutor

    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        with RayExecutor() as executor:
            yield executor
    finally:
        ray.shutdown()


ENGINES: dict[str, tuple[str, Callable[[], AbstractContextManager[Executor]]]] = {
    "process": ("psutil", process_executor),
    "dask": ("distributed", dask_executor),
    "ray": ("ray", ray_executor),
}
"""By name: the package that it needs, and its executor."""


def scale_out(name: str) -> Row:
    """Measure an engine and the same calls inline, in turn."""
    kit = Toolkit("digits")
    kit.add(count_digits)
    calls = [("count_digits", {"number": number}) for number in range(CALLS)]
    with ENGINES[name][1]() as executor:

        def run_inline() -> list[int]:
            return [kit.call(*call) for call in calls]

        def run_on_workers() -> list[int]:
            return [result.value for result in kit.map(executor, calls)]

        if run_inline() != run_on_workers():  # the first round starts the workers, too
            raise RuntimeError(f"The engine {name!r} returned other results than the calls inline.")
        pairs = [(_duration(run_inline), _duration(run_on_workers)) for _ in range(ROUNDS)]
    ratios = [inline / workers for inline, workers in pairs]
    return Row(
        what=f"{name}: {CALLS} CPU-bound calls on {WORKERS} workers",
        against=f"inline; {min(ratios):.2f} to {max(ratios):.2f} in {ROUNDS} rounds",
        ours=seconds(statistics.median(workers for _, workers in pairs)),
        baseline=seconds(statistics.median(inline for inline, _ in pairs)),
        measured=statistics.median(ratios),
        limit=LIMIT,
        is_floor=True,
    )


def main(names: list[str]) -> int:
    """Measure the engines of these names, or all that are installed, and print a table."""
    console = Console()
    table = Table("what", "on workers", "inline", "times faster", "to hold")
    is_held = True
    for name in names or ENGINES:
        if importlib.util.find_spec(ENGINES[name][0]) is None:
            console.print(f"Not measured: {name}, because the package {ENGINES[name][0]} is not installed.")
            continue
        row = scale_out(name)
        is_held = is_held and row.is_held
        table.add_row(
            f"{row.what}\n[dim]{row.against}[/]", row.ours, row.baseline, f"{row.measured:.2f}", f"≥ {row.limit:g}"
        )
    console.print(table)
    return 0 if is_held else 1


def _duration(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
