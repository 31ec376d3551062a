"""Every door of a call as a plain function, and every body that may stand behind one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import ahvn_tools
from ahvn_tools import ToolResult, ToolSpec

WAIT = 10.0
"""Seconds after which a test gives up waiting for what should be there at once."""

Door = Callable[..., Any]


def run(function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any, **named: Any) -> Any:
    """Await one call in a loop of its own; what it raises is carried past the loop, which it could end."""

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
    """Read a whole stream and keep the last result."""
    return (await collected(spec, *args, **arguments))[-1]


VALUE_DOORS: dict[str, Door] = {
    "spec()": lambda spec, *args, **named: spec(*args, **named),
    "call": lambda spec, *args, **named: spec.call(*args, **named),
    "acall": lambda spec, *args, **named: run(spec.acall, *args, **named),
}
RESULT_DOORS: dict[str, Door] = {
    "exec": lambda spec, *args, **named: spec.exec(*args, **named),
    "aexec": lambda spec, *args, **named: run(spec.aexec, *args, **named),
    "stream": lambda spec, *args, **named: list(spec.stream(*args, **named))[-1],
    "astream": lambda spec, *args, **named: run(last_of, spec, *args, **named),
}
STREAM_DOORS: dict[str, Door] = {
    "stream": lambda spec, *args, **named: list(spec.stream(*args, **named)),
    "astream": lambda spec, *args, **named: run(collected, spec, *args, **named),
}
DOORS = VALUE_DOORS | RESULT_DOORS


def plain(n: int) -> Any:
    return n + 1


async def coroutine(n: int) -> Any:
    await asyncio.sleep(0)
    return n + 1


def gives_coroutine(n: int) -> Any:
    return coroutine(n)


async def gives_coroutine_of_coroutine(n: int) -> Any:
    return gives_coroutine(n)


def generator(n: int) -> Any:
    yield from range(n)


async def async_generator(n: int) -> Any:
    for item in range(n):
        await asyncio.sleep(0)
        yield item


def gives_generator(n: int) -> Any:
    return generator(n)


def gives_map(n: int) -> Any:
    return map(int, "0123"[:n])


async def gives_generator_later(n: int) -> Any:
    return generator(n)


def gives_async_generator(n: int) -> Any:
    return async_generator(n)


async def gives_async_generator_later(n: int) -> Any:
    return async_generator(n)


class Countdown:
    """An async iterable that is no iterator."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __aiter__(self) -> Any:
        return async_generator(self.n)


def gives_async_iterable(n: int) -> Any:
    return Countdown(n)


class Called:
    """An instance that is called."""

    def __call__(self, n: int) -> Any:
        return n + 1


class Awaited:
    """An instance that is called and awaited."""

    async def __call__(self, n: int) -> Any:
        return n + 1


async def _shifted(by: int, n: int) -> Any:
    return n + by


BODIES: dict[str, tuple[Callable[..., Any], Any]] = {
    "function": (plain, 4),
    "coroutine function": (coroutine, 4),
    "function that gives a coroutine": (gives_coroutine, 4),
    "coroutine function that gives one": (gives_coroutine_of_coroutine, 4),
    "callable instance": (Called(), 4),
    "async callable instance": (Awaited(), 4),
    "partial of a coroutine function": (partial(_shifted, 1), 4),
    "generator": (generator, [0, 1, 2]),
    "async generator": (async_generator, [0, 1, 2]),
    "function that gives a generator": (gives_generator, [0, 1, 2]),
    "function that gives a map": (gives_map, [0, 1, 2]),
    "coroutine function that gives a generator": (gives_generator_later, [0, 1, 2]),
    "function that gives an async generator": (gives_async_generator, [0, 1, 2]),
    "coroutine function that gives an async generator": (gives_async_generator_later, [0, 1, 2]),
    "function that gives an async iterable": (gives_async_iterable, [0, 1, 2]),
}
"""What it is -> the body, and what it gives for 3."""

WAYS = {
    "in a thread": {},
    "in the loop": {"run_in_thread": False},
    "with a timeout": {"timeout": 30.0},
}
"""How a body is run: options of a spec."""


def until(claim: Callable[[], bool]) -> bool:
    """Wait for a claim to come true; return whether it did."""
    end = time.monotonic() + WAIT
    while not claim() and time.monotonic() < end:
        time.sleep(0.005)
    return claim()


def process(code: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start a fresh interpreter on a program that can import the package; warnings are errors there."""
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
    """Run a program to its end; return its exit code and what it wrote."""
    running = process(code, *arguments)
    try:
        output, errors = running.communicate(timeout=30)
    finally:
        running.kill()
    return running.returncode, output, errors
