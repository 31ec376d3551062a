"""The rows, as one package measures them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tests.benchmarks.code_mode.worker.subject import SUMS, PackageSubject
from tests.benchmarks.peers.worker.adapter import NotOfferedError
from tests.benchmarks.peers.worker.served import connected

MODULE = "tests.benchmarks.code_mode.worker"
TIME_LIMIT = 120
WARM_UP = 3
"""Programs at the start of each round that do not count: processes have slept while others were measured."""


class Measurements:
    """Measures the rows of one package. A connection stays open until another row is measured."""

    def __init__(self, adapter: str, subject: PackageSubject) -> None:
        self._adapter, self._subject = adapter, subject
        self._row = ""
        self._opened = contextlib.AsyncExitStack()
        self._run: Callable[[], Awaitable[Any]] | None = None

    async def cost(self, row: str, number: int) -> float:
        """Return the median of the seconds of so many runs of the row's program."""
        if row == "first":
            return await self._first()
        if row == "thousand":
            return await self._thousand()
        expected, run = SUMS[row.rpartition("_")[2]], await self._prepared(row)
        results, seconds = [], []
        gc.collect()
        gc.disable()
        try:
            for _ in range(WARM_UP):
                await run()
            for _ in range(number):
                start = time.perf_counter()
                results.append(await run())
                seconds.append(time.perf_counter() - start)
        finally:
            gc.enable()
        if set(results) != {expected}:
            raise AssertionError(f"The program returned {results[0]!r} and not {expected}.")
        return statistics.median(seconds)

    async def close(self) -> None:
        """Close what is open."""
        await self._opened.aclose()
        await self._subject.close()

    async def _prepared(self, row: str) -> Callable[[], Awaitable[Any]]:
        if self._run is None or self._row != row:
            await self._opened.aclose()
            self._row, self._run = row, await self._prepare(row)
        return self._run

    async def _prepare(self, row: str) -> Callable[[], Awaitable[Any]]:
        transport, _, name = row.rpartition("_")
        if name not in self._subject.programs:
            raise NotOfferedError("has no async calls")
        code = self._subject.programs[name]
        if not transport:
            return lambda: self._subject.run(code)
        tool, arguments = self._subject.program_call(code)
        command = ["-m", MODULE, self._adapter, "serve", transport]
        client = await self._opened.enter_async_context(connected(command, transport))

        async def run() -> Any:
            result = await client.call_tool_mcp(tool, arguments)
            if result.is_error:
                raise AssertionError(result)
            return self._subject.value_of(result)

        return run

    async def _first(self) -> float:
        """Return the seconds from the start of a process to the result of its first program."""
        command = [sys.executable, "-m", MODULE, self._adapter, "first"]
        start = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
        )
        if process.stdout is None:
            raise RuntimeError("The process has no pipe.")
        line = await asyncio.wait_for(process.stdout.readline(), TIME_LIMIT)
        seconds = time.perf_counter() - start
        await asyncio.wait_for(process.communicate(), TIME_LIMIT)
        if line.split() != [str(SUMS["three"]).encode()]:
            raise AssertionError(f"The first program returned {line!r}.")
        return seconds

    async def _thousand(self) -> float:
        start = time.perf_counter()
        pairs = await self._subject.thousand()
        seconds = time.perf_counter() - start
        if wrong := [pair for pair in pairs if pair[0] != pair[1]]:
            raise AssertionError(f"{len(wrong)} of {len(pairs)} programs returned another result, such as {wrong[0]}.")
        return seconds
