"""Limit: how many calls there may be in a time, in one answer of a model, and in a session."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from time import monotonic

from ahvn_tools.errors import LimitExceededError, ToolSpecError
from ahvn_tools.execution.call import Call, Middleware, Next, inline
from ahvn_tools.results import ToolResult

MAX_COUNTED_KEYS = 100_000
"""So many sessions, and so many runs, are counted; beyond them the count of the one that has not called for longest is
forgotten."""


def limit(
    *,
    per_second: int | None = None,
    per_minute: int | None = None,
    per_run: int | None = None,
    per_session: int | None = None,
    wait: float = 0,
) -> Middleware:
    """Return the middleware that lets so many calls begin in any second, in any minute, in one run, in one session.

    On a toolkit it counts the calls of all its tools, on a tool those of this one; from all threads, loops and
    sessions. A run is what `Toolkit.run` makes of one answer; calls outside of one are not counted by `per_run`. A call
    that would have to wait at most `wait` seconds for its turn waits; one beyond that, or beyond `per_run` or
    `per_session`, ends with the code `limit_exceeded` and counts for nothing. Calls outside of a session count as one
    session. Raises ToolSpecError for limits below 1, or none.
    """
    numbers = [most for most in (per_second, per_minute, per_run, per_session) if most is not None]
    if not numbers or min(numbers) < 1 or not 0 <= wait < float("inf"):
        raise ToolSpecError("Give at least one limit, each of at least 1 call, and a wait of 0 or more seconds.")
    rates = [_Rate(most, seconds) for most, seconds in ((per_second, 1), (per_minute, 60)) if most is not None]
    turns = _RateLimiter(rates, _Quota(per_run), _Quota(per_session), wait)

    async def limited(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        if (seconds := turns.acquire(call)) > 0:
            await asyncio.sleep(seconds)
        return await next(call)

    return limited if wait > 0 else inline(limited)


class _Rate:
    """At most so many beginnings in any window of so many seconds."""

    def __init__(self, max_calls: int, seconds: float) -> None:
        self.max_calls, self.seconds = max_calls, seconds
        self.start_times: deque[float] = deque(maxlen=max_calls)
        """When the last ones began, or will: those that wait have their turn already."""

    def next_start_time(self, now: float) -> float:
        """Return when the next may begin."""
        return max(now, self.start_times[0] + self.seconds) if len(self.start_times) == self.max_calls else now

    def __str__(self) -> str:
        return f"{self.max_calls} {'a second' if self.seconds == 1 else 'a minute'}"


class _Quota:
    """At most so many calls of each kind; None: as many as there are."""

    def __init__(self, max_calls: int | None) -> None:
        self.max_calls = max_calls
        self._counts: OrderedDict[str | None, int] = OrderedDict()

    def is_exhausted(self, key: str | None) -> bool:
        """Tell whether there may be no more calls of this kind."""
        return self.max_calls is not None and self._counts.get(key, 0) >= self.max_calls

    def count(self, key: str | None) -> None:
        """Count one more."""
        if self.max_calls is None:
            return
        self._counts[key] = self._counts.get(key, 0) + 1
        self._counts.move_to_end(key)
        if len(self._counts) > MAX_COUNTED_KEYS:
            self._counts.popitem(last=False)


class _RateLimiter:
    """Gives calls their turn, in the order in which they ask. Nobody waits while it is held."""

    def __init__(self, rates: list[_Rate], per_run: _Quota, per_session: _Quota, wait: float) -> None:
        self._rates, self._per_run, self._per_session, self._wait = rates, per_run, per_session, wait
        self._lock = threading.Lock()

    def acquire(self, call: Call) -> float:
        """Return how many seconds the call has to wait for its turn, which is its own now. Raises LimitExceededError.

        A call that is cancelled while it waits leaves its turn unused: those behind it have theirs already.
        """
        with self._lock:
            self._refuse_exhausted(call)
            now = monotonic()
            turn = max([now, *(rate.next_start_time(now) for rate in self._rates)])
            if turn - now > self._wait:
                self._refuse_rate(call, now, turn)
            for rate in self._rates:
                rate.start_times.append(turn)
            self._per_session.count(call.session_id)
            if call.run_id is not None:
                self._per_run.count(call.run_id)
            return turn - now

    def _refuse_exhausted(self, call: Call) -> None:
        if self._per_session.is_exhausted(call.session_id):
            most = self._per_session.max_calls
            message = f"This session has used up its calls: {most} at most, {call.name!r} among them."
            raise LimitExceededError(message, tool=call.name)
        if call.run_id is not None and self._per_run.is_exhausted(call.run_id):
            most = self._per_run.max_calls
            message = f"Too many calls at once: at most {most}. Call {call.name!r} again in your next answer."
            raise LimitExceededError(message, tool=call.name)

    def _refuse_rate(self, call: Call, now: float, start_time: float) -> None:
        tightest = max(self._rates, key=lambda rate: rate.next_start_time(now))
        message = f"Too many calls: at most {tightest}. Try {call.name!r} again in {start_time - now:.1f} seconds."
        raise LimitExceededError(message, tool=call.name, retry_after=start_time - now)
