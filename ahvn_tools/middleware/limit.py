"""Limit: how many calls there may be in a time, in one answer of a model, and in a session."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from time import monotonic

from ahvn_tools.errors import LimitExceededError, ToolSpecError
from ahvn_tools.execution.call import Call, Middleware, Next, inline
from ahvn_tools.results import ToolResult

MOST_COUNTED = 100_000
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
    turns = _Turns(rates, _Quota(per_run), _Quota(per_session), wait)

    async def limited(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        if (seconds := turns.take(call)) > 0:
            await asyncio.sleep(seconds)
        return await next(call)

    return limited if wait > 0 else inline(limited)


class _Rate:
    """At most so many beginnings in any window of so many seconds."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds = most, seconds
        self.begun: deque[float] = deque(maxlen=most)
        """When the last ones began, or will: those that wait have their turn already."""

    def free_at(self, now: float) -> float:
        """Return when the next may begin."""
        return max(now, self.begun[0] + self.seconds) if len(self.begun) == self.most else now

    def __str__(self) -> str:
        return f"{self.most} {'a second' if self.seconds == 1 else 'a minute'}"


class _Quota:
    """At most so many calls of each kind; None: as many as there are."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        self._counts: OrderedDict[str | None, int] = OrderedDict()

    def is_used_up(self, key: str | None) -> bool:
        """Tell whether there may be no more calls of this kind."""
        return self.most is not None and self._counts.get(key, 0) >= self.most

    def count(self, key: str | None) -> None:
        """Count one more."""
        if self.most is None:
            return
        self._counts[key] = self._counts.get(key, 0) + 1
        self._counts.move_to_end(key)
        if len(self._counts) > MOST_COUNTED:
            self._counts.popitem(last=False)


class _Turns:
    """Gives calls their turn, in the order in which they ask. Nobody waits while it is held."""

    def __init__(self, rates: list[_Rate], per_run: _Quota, per_session: _Quota, wait: float) -> None:
        self._rates, self._per_run, self._per_session, self._wait = rates, per_run, per_session, wait
        self._lock = threading.Lock()

    def take(self, call: Call) -> float:
        """Return how many seconds the call has to wait for its turn, which is its own now. Raises LimitExceededError.

        A call that is cancelled while it waits leaves its turn unused: those behind it have theirs already.
        """
        with self._lock:
            self._refuse_used_up(call)
            now = monotonic()
            turn = max([now, *(rate.free_at(now) for rate in self._rates)])
            if turn - now > self._wait:
                self._refuse(call, now, turn)
            for rate in self._rates:
                rate.begun.append(turn)
            self._per_session.count(call.session_id)
            if call.run_id is not None:
                self._per_run.count(call.run_id)
            return turn - now

    def _refuse_used_up(self, call: Call) -> None:
        if self._per_session.is_used_up(call.session_id):
            most = self._per_session.most
            message = f"This session has used up its calls: {most} at most, {call.name!r} among them."
            raise LimitExceededError(message, tool=call.name)
        if call.run_id is not None and self._per_run.is_used_up(call.run_id):
            most = self._per_run.most
            message = f"Too many calls at once: at most {most}. Call {call.name!r} again in your next answer."
            raise LimitExceededError(message, tool=call.name)

    def _refuse(self, call: Call, now: float, turn: float) -> None:
        tightest = max(self._rates, key=lambda rate: rate.free_at(now))
        message = f"Too many calls: at most {tightest}. Try {call.name!r} again in {turn - now:.1f} seconds."
        raise LimitExceededError(message, tool=call.name, retry_after=turn - now)
