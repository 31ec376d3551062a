"""Every entry point of a call as a plain function, and every kind of body: the axes of the tests in this folder."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

import psutil
import pytest

import ahvn_tools
from ahvn_tools import ToolResult, ToolSpec

WAIT = 30.0
"""How many seconds a test waits for something that should happen at once."""

EntryPoint = Callable[..., Any]


def end_servers_of_processes() -> None:
    """End the processes that `multiprocessing` keeps for itself: other tests count the children of this one."""
    server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    for child in psutil.Process(server).children() if server is not None else ():
        child.kill()  # left by a test that failed; the server waits for it
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]


def run(function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any, **named: Any) -> Any:
    """Await one call in a new event loop; what it raises is raised again outside of the loop, which it could end."""

    async def caught() -> tuple[Any, BaseException | None]:
        try:
            return await function(*arguments, **named), None
        except BaseException as error:
            return None, error

    value, error = asyncio.run(caught())
    if error is not None:
        raise error
    return value


async def collected(spec: ToolSpec, *args: Any, **arguments: Any) -> list[ToolResult]:
    """Read a whole stream."""
    return [result async for result in spec.astream(*args, **arguments)]


async def last_of(spec: ToolSpec, *args: Any, **arguments: Any) -> ToolResult:
    """Read a whole stream and return its last result."""
    return (await collected(spec, *args, **arguments))[-1]


VALUE_ENTRY_POINTS: dict[str, EntryPoint] = {
    "spec()": lambda spec, *args, **named: spec(*args, **named),
    "call": lambda spec, *args, **named: spec.call(*args, **named),
    "acall": lambda spec, *args, **named: run(spec.acall, *args, **named),
}
RESULT_ENTRY_POINTS: dict[str, EntryPoint] = {
    "exec": lambda spec, *args, **named: spec.exec(*args, **named),
    "aexec": lambda spec, *args, **named: run(spec.aexec, *args, **named),
    "stream": lambda spec, *args, **named: list(spec.stream(*args, **named))[-1],
    "astream": lambda spec, *args, **named: run(last_of, spec, *args, **named),
}
STREAM_ENTRY_POINTS: dict[str, EntryPoint] = {
    "stream": lambda spec, *args, **named: list(spec.stream(*args, **named)),
    "astream": lambda spec, *args, **named: run(collected, spec, *args, **named),
}
ENTRY_POINTS = VALUE_ENTRY_POINTS | RESULT_ENTRY_POINTS


def plain(n: int) -> Any:
    return n + 1


async def coroutine(n: int) -> Any:
    await asyncio.sleep(0)
    return n + 1


def returns_coroutine(n: int) -> Any:
    return coroutine(n)


async def returns_nested_coroutine(n: int) -> Any:
    return returns_coroutine(n)


def generator(n: int) -> Any:
    yield from range(n)


async def async_generator(n: int) -> Any:
    for item in range(n):
        await asyncio.sleep(0)
        yield item


def returns_generator(n: int) -> Any:
    return generator(n)


def returns_map(n: int) -> Any:
    return map(int, "0123"[:n])


async def areturns_generator(n: int) -> Any:
    return generator(n)


def returns_async_generator(n: int) -> Any:
    return async_generator(n)


async def areturns_async_generator(n: int) -> Any:
    return async_generator(n)


class Countdown:
    """An async iterable that is not an iterator."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __aiter__(self) -> Any:
        return async_generator(self.n)


def returns_async_iterable(n: int) -> Any:
    return Countdown(n)


class CallableObject:
    """An object that is called like a function."""

    def __call__(self, n: int) -> Any:
        return n + 1


class AsyncCallableObject:
    """An object that is called like a coroutine function."""

    async def __call__(self, n: int) -> Any:
        return n + 1


async def _shifted(by: int, n: int) -> Any:
    return n + by


BODIES: dict[str, tuple[Callable[..., Any], Any]] = {
    "function": (plain, 4),
    "coroutine function": (coroutine, 4),
    "function returning a coroutine": (returns_coroutine, 4),
    "coroutine function returning a coroutine": (returns_nested_coroutine, 4),
    "callable instance": (CallableObject(), 4),
    "async callable instance": (AsyncCallableObject(), 4),
    "partial of a coroutine function": (partial(_shifted, 1), 4),
    "generator": (generator, [0, 1, 2]),
    "async generator": (async_generator, [0, 1, 2]),
    "function returning a generator": (returns_generator, [0, 1, 2]),
    "function returning a map": (returns_map, [0, 1, 2]),
    "coroutine function returning a generator": (areturns_generator, [0, 1, 2]),
    "function returning an async generator": (returns_async_generator, [0, 1, 2]),
    "coroutine function returning an async generator": (areturns_async_generator, [0, 1, 2]),
    "function returning an async iterable": (returns_async_iterable, [0, 1, 2]),
}
"""The body, and its value for 3, by a description of the body."""

WAYS = {
    "in a thread": {},
    "in the loop": {"run_in_thread": False},
    "with a timeout": {"timeout": 30.0},
}
"""The ways to run a body: options of a spec."""


def combinations(**axes: Mapping[str, Any] | Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize a test over combinations of its parameters' values, in which each pair of values occurs.

    By default, only as many combinations run as it takes to use each value once; the others are exhaustive tests.
    """
    named = [
        list(axis.items()) if isinstance(axis, Mapping) else [(str(value), value) for value in axis]
        for axis in axes.values()
    ]
    sample = {tuple(n % len(axis) for axis in named) for n in range(max(map(len, named)))}
    params = []
    for indexes in sorted(sample | pairwise([len(axis) for axis in named], sample)):
        chosen = [axis[index] for axis, index in zip(named, indexes, strict=True)]
        marks = () if indexes in sample else pytest.mark.exhaustive
        params.append(
            pytest.param(*(value for _, value in chosen), id="-".join(name for name, _ in chosen), marks=marks)
        )
    return pytest.mark.parametrize(list(axes), params)


def pairwise(sizes: list[int], sample: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Return combinations of indexes that have, together with a sample, each pair of them."""

    def pairs(indexes: tuple[int, ...]) -> set[Any]:
        return set(itertools.combinations(enumerate(indexes), 2))

    chosen: set[tuple[int, ...]] = set()
    seen = {pair for indexes in sample for pair in pairs(indexes)}
    for wanted in range(len(sizes) * (len(sizes) - 1) // 2, 0, -1):
        for indexes in itertools.product(*map(range, sizes)):
            new = pairs(indexes) - seen
            if len(new) >= wanted:
                chosen.add(indexes)
                seen |= new
    return chosen


def until(claim: Callable[[], bool]) -> bool:
    """Wait until a claim is true; return whether it became true in time."""
    end = time.monotonic() + WAIT
    while not claim():
        if time.monotonic() >= end:
            return False
        time.sleep(0.005)
    return True


async def auntil(claim: Callable[[], bool]) -> bool:
    """Do the same as `until` without blocking the event loop."""
    end = time.monotonic() + WAIT
    while not claim():  # a claim has no event
        if time.monotonic() >= end:
            return False
        await asyncio.sleep(0.005)
    return True


def process(code: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start a new interpreter with a program that can import the package; warnings are errors there."""
    environment = {**os.environ, "PYTHONPATH": str(Path(ahvn_tools.__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def program(code: str, *arguments: str) -> tuple[int, str, str]:
    """Run a program to its end; return its exit code, its output and its errors."""
    running = process(code, *arguments)
    try:
        output, errors = running.communicate(timeout=30)
    finally:
        running.kill()
    return running.returncode, output, errors
