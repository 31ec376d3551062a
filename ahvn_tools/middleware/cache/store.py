"""The result store: cached results and calls in flight by cache key, for any thread and event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Hashable
from concurrent.futures import Future
from time import monotonic
from typing import Any

from ahvn_tools.results import ToolResult


class InFlight:
    """A running call that equal calls wait for."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.started = monotonic()
        self.future: Future[ToolResult | None] = Future()
        """The result for the waiters; None if it cannot be shared; cancelled if the call was."""

    async def wait(self, seconds: float) -> bool:
        """Wait in any event loop for at most `seconds`, and return whether the call has ended."""
        await asyncio.wait({asyncio.wrap_future(self.future)}, timeout=seconds)
        return self.future.done()


class ResultStore:
    """At most `size` results for `ttl` seconds each; the least recently used one is dropped first."""

    def __init__(self, ttl: float, size: int) -> None:
        self._ttl, self._size = ttl, size
        self._lock = threading.Lock()
        self._results: OrderedDict[Hashable, tuple[float, Any, ToolResult]] = OrderedDict()
        self._in_flight: dict[Hashable, InFlight] = {}

    def get_or_start(self, key: Hashable, own: InFlight | None) -> ToolResult | InFlight | None:
        """Return the cached result, or the call in flight; if there is neither, `own` becomes the one in flight."""
        with self._lock:
            if key in self._results:
                until, _, result = self._results[key]
                if monotonic() < until:
                    self._results.move_to_end(key)
                    return result
                del self._results[key]
            return self._in_flight.get(key) if own is None else self._in_flight.setdefault(key, own)

    def put(self, key: Hashable, body: Any, result: ToolResult | None, in_flight: InFlight | None) -> None:
        """Cache a result, unless it is None, and end the call in flight with it.

        The key contains `id(body)`: a reference to `body` keeps that id unique.
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
        """End a call in flight that was cancelled; one of its waiters takes its place."""
        with self._lock:
            self._remove_in_flight(key, in_flight)
        if in_flight is not None:
            in_flight.future.cancel()

    def _remove_in_flight(self, key: Hashable, in_flight: InFlight | None) -> None:
        if in_flight is not None:
            del self._in_flight[key]
