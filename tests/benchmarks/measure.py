"""Measure two statements in turn, in short chunks, so that a slow moment of the machine affects both."""

from __future__ import annotations

import asyncio
import gc
import statistics
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Chunk = Callable[[int], float]
"""Runs a statement so many times and returns the seconds that it took."""

ROUNDS = 61
LOOP = """
async def loop(number, clock):
    start = clock()
    for _ in range(number):
        {statement}
    return clock() - start
"""

_runner = asyncio.Runner()


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The cost of two statements, as medians over all rounds."""

    ours: float
    """Seconds for one run of ours."""
    baseline: float
    """Seconds for one run of the baseline."""
    ratio: float
    """Median over the rounds of ours / baseline."""


def timing_of(pairs: Sequence[tuple[float, float]], number: int = 1) -> Timing:
    """Return the medians of the seconds of ours and of the baseline, each for `number` runs, and of their ratios."""
    return Timing(
        ours=statistics.median(mine for mine, _ in pairs) / number,
        baseline=statistics.median(theirs for _, theirs in pairs) / number,
        ratio=statistics.median(mine / theirs for mine, theirs in pairs),
    )


def plain(statement: str, **names: Any) -> Chunk:
    """Make a chunk of a statement without `await`; it runs without an event loop."""
    return timeit.Timer(statement, globals=names).timeit


def awaited(statement: str, **names: Any) -> Chunk:
    """Make a chunk of a statement with `await`; all of them run in the same event loop."""
    exec(LOOP.format(statement=statement), names)
    return lambda number: _runner.run(names["loop"](number, timeit.default_timer))


def side_by_side(ours: Chunk, baseline: Chunk, *, number: int, rounds: int = ROUNDS) -> Timing:
    """Time `number` runs of each in turn, `rounds` times, after one round to warm up."""
    ours(number), baseline(number)
    gc.collect()
    gc.disable()
    try:
        pairs = [(ours(number), baseline(number)) for _ in range(rounds)]
    finally:
        gc.enable()
    return timing_of(pairs, number)
