"""Kept: results by what they are the results of, and the calls under way. Any thread and any loop may ask."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from time import monotonic
from typing import Any

from ahvn_tools.results import ToolResult

ResultFuture = concurrent.futures.Future[ToolResult | None]


class InFlight:
    """A call under way that equal calls wait for."""

    def __init__(self) -> None:
        """Begin one in the running loop."""
        self.loop = asyncio.get_running_loop()
        self.started = monotonic()
        self.future: ResultFuture = concurrent.futures.Future()
        """Gets the result that is kept, or None when there is none; cancelled, when the call was."""

    async def wait(self, seconds: float) -> bool:
        """Wait in any loop, for at most so many seconds, and tell whether it has landed."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def wake(_: ResultFuture) -> None:
            with suppress(RuntimeError):  # the loop was closed under us: nobody is left to wake
                loop.call_soon_threadsafe(woken.set_result, None)

        self.future.add_done_callback(wake)
        await asyncio.wait({woken}, timeout=seconds)
        return self.future.done()


class ResultStore:
    """At most `size` results for `ttl` seconds each; the one that was not asked for for longest goes first."""

    def __init__(self, ttl: float, size: int) -> None:
        self._ttl, self._size = ttl, size
        self._lock = threading.Lock()
        self._results: OrderedDict[Hashable, tuple[float, Any, ToolResult]] = OrderedDict()
        self._in_flight: dict[Hashable, InFlight] = {}

    def get_or_start(self, key: Hashable, own: InFlight | None) -> ToolResult | InFlight | None:
        """Return what is kept, or the flight that is under way; `own` begins where there is none."""
        with self._lock:
            if key in self._results:
                until, _, result = self._results[key]
                if monotonic() < until:
                    self._results.move_to_end(key)
                    return result
                del self._results[key]
            return self._in_flight.get(key) if own is None else self._in_flight.setdefault(key, own)

    def put(self, key: Hashable, body: Any, result: ToolResult | None, in_flight: InFlight | None) -> None:
        """Keep a result, unless it is None, and land the flight with it.

        `body` is kept along: as long as it lives no other one has its `id`.
        """
        with self._lock:
            if result is not None:
                self._results[key] = monotonic() + self._ttl, body, result
                self._results.move_to_end(key)
                if len(self._results) > self._size:
                    self._results.popitem(last=False)
            self._remove_in_flight(key, in_flight)
        if in_flight is not None:
            in_flight.future.set_result(result)

    def cancel(self, key: Hashable, in_flight: InFlight | None) -> None:
        """End a flight whose call was cancelled: one of those that wait for it takes its place."""
        with self._lock:
            self._remove_in_flight(key, in_flight)
        if in_flight is not None:
            in_flight.future.cancel()

    def _remove_in_flight(self, key: Hashable, in_flight: InFlight | None) -> None:
        if in_flight is not None:
            del self._in_flight[key]
