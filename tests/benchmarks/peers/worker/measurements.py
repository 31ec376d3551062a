"""The rows, as one package measures them: what is prepared, and what is timed."""

from __future__ import annotations

import asyncio
import gc
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.peers.worker import processes, served
from tests.benchmarks.peers.worker.adapter import PackageAdapter, run
from tests.benchmarks.peers.worker.subjects import ARGUMENTS, add, add_later, fresh_function, rest

BATCH = 1_000
"""Calls at once in the row `batch`."""
SLEEPING = 100
"""Calls at once in the row `sleeping`."""
DISPATCHED = 10_000
"""Tools in the row `dispatch` …"""
CALLED = 100
"""… and how many of them are called in turn."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A call to time, and what it takes each time."""

    call: Callable[[Any], Any]
    inputs: Callable[[int], list[Any]]
    parts: int = 1
    """How many costs one run is made of."""


class Measurements:
    """Measures the rows of one package. What a row needs is prepared once, and kept until another row is measured."""

    def __init__(self, name: str, adapter: PackageAdapter) -> None:
        self._name, self._adapter = name, adapter
        self._prepared: tuple[str, Statement, bool] | None = None

    def cost(self, row: str, number: int) -> float:
        """Measure a row with so many runs, and return the cost of one in seconds or bytes."""
        if row in PROCESSES:
            return PROCESSES[row](self._name, self._adapter)
        if row in SERVED:
            return run(served.seconds(self._name, self._adapter, SERVED[row], number))
        statement, is_awaited = self._statement(row)
        inputs = statement.inputs(number)
        gc.collect()
        gc.disable()
        try:
            seconds = run(_repeat_later(statement.call, inputs)) if is_awaited else _repeat(statement.call, inputs)
        finally:
            gc.enable()
        return seconds / number / statement.parts

    def _statement(self, row: str) -> tuple[Statement, bool]:
        if self._prepared is None or self._prepared[0] != row:
            self._prepared = None  # what the last row has kept is given back first
            statement = STATEMENTS[row](self._adapter)
            self._prepared = row, statement, run(_is_awaited(statement))
        return self._prepared[1:]


async def _is_awaited(statement: Statement) -> bool:
    """Run a statement once, and tell whether its result has to be awaited."""
    result = statement.call(statement.inputs(1)[0])
    if inspect.isawaitable(result):
        await result
        return True
    return False


def _repeat(call: Callable[[Any], Any], inputs: Iterable[Any]) -> float:
    start = time.perf_counter()
    for value in inputs:
        call(value)
    return time.perf_counter() - start


async def _repeat_later(call: Callable[[Any], Awaitable[Any]], inputs: Iterable[Any]) -> float:
    start = time.perf_counter()
    for value in inputs:
        await call(value)
    return time.perf_counter() - start


def _arguments(number: int) -> list[dict[str, Any]]:
    return [dict(ARGUMENTS) for _ in range(number)]


def _functions(number: int) -> list[Callable[..., int]]:
    return [fresh_function() for _ in range(number)]


def _create(adapter: PackageAdapter) -> Statement:
    return Statement(call=adapter.create, inputs=_functions)


def _first_export(adapter: PackageAdapter) -> Statement:
    return Statement(call=lambda function: adapter.exporter(adapter.create(function))(), inputs=_functions)


def _export(adapter: PackageAdapter) -> Statement:
    return _again(adapter.exporter(adapter.create(add)))


def _shared_export(adapter: PackageAdapter) -> Statement:
    return _again(adapter.shared_exporter(adapter.create(add)))


def _again(export: Callable[[], Any]) -> Statement:
    return Statement(call=lambda _: export(), inputs=lambda number: [None] * number)


def _sync_call(adapter: PackageAdapter) -> Statement:
    return Statement(call=adapter.sync_call(adapter.create(add)), inputs=_arguments)


def _async_call(adapter: PackageAdapter) -> Statement:
    return Statement(call=adapter.async_call(adapter.create(add_later)), inputs=_arguments)


def _context_call(adapter: PackageAdapter) -> Statement:
    return Statement(call=adapter.context_call(), inputs=_arguments)


def _at_once(adapter: PackageAdapter, function: Callable[..., Any], count: int) -> Statement:
    call = adapter.async_call(adapter.create(function))

    async def gather(batch: list[dict[str, Any]]) -> None:
        await asyncio.gather(*(call(arguments) for arguments in batch))

    return Statement(call=gather, inputs=lambda number: [_arguments(count) for _ in range(number)])


def _dispatch(adapter: PackageAdapter) -> Statement:
    call = adapter.dispatch(DISPATCHED)

    def inputs(number: int) -> list[tuple[str, dict[str, Any]]]:
        names = (f"add_{index % CALLED * (DISPATCHED // CALLED)}" for index in range(number))
        return list(zip(names, _arguments(number), strict=True))

    return Statement(call=lambda named: call(named[0], named[1]), inputs=inputs)


def _turns(adapter: PackageAdapter, count: int) -> Statement:
    """Prepare a conversation with `count` turns that have a call, and a last one that has none."""
    return Statement(call=adapter.conversation(count), inputs=lambda number: [None] * number, parts=count + 1)


STATEMENTS: dict[str, Callable[[PackageAdapter], Statement]] = {
    "sync_call": _sync_call,
    "async_call": _async_call,
    "context_call": _context_call,
    "batch": lambda adapter: _at_once(adapter, add_later, BATCH),
    "sleeping": lambda adapter: _at_once(adapter, rest, SLEEPING),
    "dispatch": _dispatch,
    "create": _create,
    "first_export": _first_export,
    "export": _export,
    "shared_export": _shared_export,
    "turns_1": lambda adapter: _turns(adapter, 1),
    "turns_5": lambda adapter: _turns(adapter, 5),
    "turns_20": lambda adapter: _turns(adapter, 20),
}
PROCESSES: dict[str, Callable[[str, PackageAdapter], float]] = {
    "start": lambda _, adapter: processes.start_seconds(adapter),
    "memory_process": lambda _, adapter: processes.start_memory(adapter),
    "memory_tool": lambda name, _: processes.reported(name, "memory_tool"),
    "memory_context": lambda name, _: processes.reported(name, "memory_context"),
}
SERVED = {"served_stdio": "stdio", "served_http": "http"}
