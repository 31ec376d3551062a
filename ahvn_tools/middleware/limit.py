"""Limit: how many calls there may be in a time, and in a session."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from time import monotonic

from ahvn_tools.errors import LimitExceededError, ToolSpecError
from ahvn_tools.execution.call import Call, Middleware, Next, inline
from ahvn_tools.results import ToolResult

MOST_SESSIONS = 100_000
"""So many sessions are counted; beyond them the count of the one that has not called for longest is forgotten."""


def limit(
    *, per_second: int | None = None, per_minute: int | None = None, per_session: int | None = None, wait: float = 0
) -> Middleware:
    """Return the middleware that lets so many calls begin in any second, in any minute, in one session.

    On a toolkit it counts the calls of all its tools, on a tool those of this one; from all threads, loops and
    sessions. A call that would have to wait at most `wait` seconds for its turn waits; one beyond that, or beyond
    `per_session`, ends with the code `limit_exceeded` and counts for nothing. Calls outside of a session count as one
    session. Raises ToolSpecError for limits below 1, or none.
    """
    numbers = [most for most in (per_second, per_minute, per_session) if most is not None]
    if not numbers or min(numbers) < 1 or not 0 <= wait < float("inf"):
        raise ToolSpecError("Give at least one limit, each of at least 1 call, and a wait of 0 or more seconds.")
    rates = [_Rate(most, seconds) for most, seconds in ((per_second, 1), (per_minute, 60)) if most is not None]
    turns = _Turns(rates, per_session, wait)

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


class _Turns:
    """Gives calls their turn, in the order in which they ask. Nobody waits while it is held."""

    def __init__(self, rates: list[_Rate], per_session: int | None, wait: float) -> None:
        self._rates, self._per_session, self._wait = rates, per_session, wait
        self._lock = threading.Lock()
        self._counts: OrderedDict[str | None, int] = OrderedDict()

    def take(self, call: Call) -> float:
        """Return how many seconds the call has to wait for its turn, which is its own now. Raises LimitExceededError.

        A call that is cancelled while it waits leaves its turn unused: those behind it have theirs already.
        """
        with self._lock:
            count = self._counts.get(call.session_id, 0)
            if self._per_session is not None and count >= self._per_session:
                message = f"This session has used up its calls: {self._per_session} at most, {call.name!r} among them."
                raise LimitExceededError(message, tool=call.name)
            now = monotonic()
            turn = max([now, *(rate.free_at(now) for rate in self._rates)])
            if turn - now > self._wait:
                self._refuse(call, now, turn)
            for rate in self._rates:
                rate.begun.append(turn)
            self._count(call.session_id, count + 1)
            return turn - now

    def _refuse(self, call: Call, now: float, turn: float) -> None:
        tightest = max(self._rates, key=lambda rate: rate.free_at(now))
        message = f"Too many calls: at most {tightest}. Try {call.name!r} again in {turn - now:.1f} seconds."
        raise LimitExceededError(message, tool=call.name, retry_after=turn - now)

    def _count(self, session_id: str | None, count: int) -> None:
        if self._per_session is None:
            return
        self._counts[session_id] = count
        self._counts.move_to_end(session_id)
        if len(self._counts) > MOST_SESSIONS:
            self._counts.popitem(last=False)
