"""Calls per second of a served toolkit, compared with a plain FastMCP server, over both transports."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastmcp import Client

from tests.benchmarks.measure import Timing, timing_of
from tests.benchmarks.peers.worker.served import connected
from tests.benchmarks.rows import Row

CHUNK = 0.05
"""Seconds that the slower server should take for the calls of one round: short, so that a brief load affects both."""
PAIRS = 8
"""Pairs of servers for each row: two processes of the same server can differ by a tenth, for their whole lifetime."""
MAX_SECONDS = 3.0
"""Seconds for all rounds of a pair."""
MIN_ROUNDS, MAX_ROUNDS = 9, 101
"""Rounds of a pair."""
CONCURRENCY = 4
"""Concurrent calls."""
OURS, PLAIN = "ours", "plain"


def served_over_stdio() -> Row:
    """Ten tools over stdio."""
    return _row("stdio", 10, 0.95)


def served_over_http() -> Row:
    """Ten tools over HTTP."""
    return _row("http", 10, 0.95)


def many_served_over_stdio() -> Row:
    """A thousand tools over stdio."""
    return _row("stdio", 1_000, 1.1)


def many_served_over_http() -> Row:
    """A thousand tools over HTTP."""
    return _row("http", 1_000, 1.1)


def _row(transport: str, count: int, limit: float) -> Row:
    timing = asyncio.run(_timing(transport, count))
    return Row(
        what=f"a served toolkit of {count:,} tools over {transport}, calls per second",
        against="the same functions on a plain FastMCP server",
        ours=f"{1 / timing.ours:.0f}/s",
        baseline=f"{1 / timing.baseline:.0f}/s",
        measured=1 / timing.ratio,
        limit=limit,
        is_floor=True,
    )


async def _timing(transport: str, count: int) -> Timing:
    """Call pairs of servers in turn, and alternate which one is first."""
    name, rounds = f"add_{count // 2}", []
    for number in range(PAIRS):
        first, second = (OURS, PLAIN) if number % 2 else (PLAIN, OURS)
        async with _connected(first, transport, count) as one, _connected(second, transport, count) as other:
            rounds += await _rounds(name, {first: one, second: other})
    return timing_of([(seconds[OURS], seconds[PLAIN]) for seconds in rounds])


async def _rounds(name: str, clients: dict[str, Client[Any]]) -> list[dict[str, float]]:
    """Return the seconds of a call on each of two servers, for each of many rounds."""
    slower = max([await _seconds(client, name, 40) for client in clients.values()])
    calls = max(2 * CONCURRENCY, round(CHUNK / slower))
    rounds = min(max(MIN_ROUNDS, round(MAX_SECONDS / (2 * calls * slower))), MAX_ROUNDS)
    order = list(clients)
    gc.collect()
    made = []
    for _ in range(rounds):
        order.reverse()
        made.append({whose: await _seconds(clients[whose], name, calls) for whose in order})
    return made


async def _seconds(client: Client[Any], name: str, calls: int) -> float:
    """Make calls, a few at once, and return the seconds of one call."""
    numbers = iter(range(calls))

    async def call() -> None:
        for number in numbers:
            result = await client.call_tool_mcp(name, {"left": number, "right": 1})
            if result.structured_content != {"result": number + 1}:
                raise AssertionError(result)

    start = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(CONCURRENCY)))
    return (time.perf_counter() - start) / calls


def _connected(whose: str, transport: str, count: int) -> AbstractAsyncContextManager[Client[Any]]:
    """Start a server process, and connect to it."""
    command = ["-m", "tests.benchmarks.server", whose, transport, str(count)]
    return connected(command, transport, {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
