"""Limit: the maximum number of calls per second, per minute, per run and per session."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Final, TypeAlias

from ahvn_tools.errors import MISSING_VALUE, LimitExceededError, ToolSpecError, UnboundStateError, suggests_options
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.results import ToolResult
from ahvn_tools.state import MISSING, StateKey

MAX_COUNTED_KEYS = 100_000
"""How many keys, sessions and runs are counted; beyond that the least recently active count is dropped."""

COUNT_REQUEST: Final = "count_request"
"""The attribute of middleware that counts a call: a function that does so when the call begins to wait for an approval
outside of the middleware. It raises LimitExceededError."""

FindKey: TypeAlias = Callable[[Call], Hashable]
"""Returns the key under which a call is counted."""


@suggests_options
def limit(
    *,
    per_second: int | None = None,
    per_minute: int | None = None,
    per_run: int | None = None,
    per_session: int | None = None,
    by: str | Callable[[Call], Hashable] | None = None,
    wait: float = 0,
) -> Middleware:
    """Return middleware that limits how many calls start in any second, in any minute, in one run, in one session.

    On a toolkit it counts the calls of all its tools, on a tool the calls of that tool; from all threads, loops and
    sessions. With `by`, `per_second` and `per_minute` are for each key: a state key such as "user.id", or a function
    of the call such as `lambda call: call.session_id`. A call without a value under the state key, or with one that
    cannot be hashed, is an error with the code `unbound_state`, and does not run.
    A run is all calls of one answer of a model (`Toolkit.run`); `per_run` does not count other calls. Calls
    outside a session count as one session. A call that exceeds a rate waits if it can start within `wait` seconds. Any
    other call that exceeds a limit ends with the code `limit_exceeded` and is not counted. A call that waits for an
    approval or for its result counts when it is made, and not again when it goes on.
    Raises ToolSpecError for a limit below 1, for no limit, for `by` without a rate, and for a negative or infinite
    `wait`, and StateKeyError for a malformed key.
    """
    numbers = [number for number in (per_second, per_minute, per_run, per_session) if number is not None]
    if not numbers or min(numbers) < 1 or not 0 <= wait < float("inf"):
        raise ToolSpecError("Set at least one limit, each to 1 or more calls, and `wait` to 0 or more seconds.")
    if by is not None and per_second is None and per_minute is None:
        raise ToolSpecError("`by` is for a rate: set `per_second` or `per_minute`, too.")
    rates = [_Rate(number, seconds) for number, seconds in ((per_second, 1), (per_minute, 60)) if number is not None]
    limiter = _Limiter(rates, _Quota(per_run), _Quota(per_session), wait, _key_function(by))

    async def count(call: Call) -> None:
        if (seconds := limiter.acquire(call)) > 0:
            await asyncio.sleep(seconds)

    async def limit_call(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        if call.is_continued and limiter not in call.scope.continued_in:
            call.scope.continued_in.append(limiter)  # a retry of it counts
        else:
            await count(call)
        return await next(call)

    setattr(limit_call, COUNT_REQUEST, count)
    return limit_call


def _key_function(by: str | FindKey | None) -> FindKey:
    if by is None:
        return lambda _: None
    if not isinstance(by, str):
        return by
    key = StateKey.parse(by)

    def read(call: Call) -> Hashable:
        value: Hashable = key.find(call.state_scopes)
        if value is MISSING:
            raise _key_error(call, f"no state has the key {by!r}")
        return value

    return read


def _key_error(call: Call, problem: str) -> UnboundStateError:
    explanation = (
        f"`by` of `limit` has no key for the call of {call.name!r}: {problem}. Set a text or a number in the session "
        "or the toolkit, or return one from a function that is passed as `by`."
    )
    return UnboundStateError(MISSING_VALUE, tool=call.name, parameter="by", key="by", explanation=explanation)


class _Rate:
    """At most `max_calls` starts for each key in any window of `seconds`."""

    def __init__(self, max_calls: int, seconds: float) -> None:
        self.max_calls, self.seconds = max_calls, seconds
        self._start_times: OrderedDict[Hashable, deque[float]] = OrderedDict()
        """The last start times of each key, that of the latest call last; those of waiting calls are in the future."""

    def next_start_time(self, key: Hashable, now: float) -> float:
        """Return when the next call may start."""
        times = self._start_times.get(key)
        return now if times is None or len(times) < self.max_calls else max(now, times[0] + self.seconds)

    def count(self, key: Hashable, start_time: float, now: float) -> None:
        """Count one more call, and forget keys whose calls have all left the window."""
        self._start_times.setdefault(key, deque(maxlen=self.max_calls)).append(start_time)
        self._start_times.move_to_end(key)
        while len(self._start_times) > 1:
            oldest, times = next(iter(self._start_times.items()))
            if times[-1] + self.seconds > now and len(self._start_times) <= MAX_COUNTED_KEYS:
                break
            del self._start_times[oldest]

    def __str__(self) -> str:
        return f"{self.max_calls} per {'second' if self.seconds == 1 else 'minute'}"


class _Quota:
    """At most `max_calls` calls for each key, such as a session id; None: no limit."""

    def __init__(self, max_calls: int | None) -> None:
        self.max_calls = max_calls
        self._counts: OrderedDict[str | None, int] = OrderedDict()

    def is_exhausted(self, key: str | None) -> bool:
        """Return whether there may be no more calls for this key."""
        return self.max_calls is not None and self._counts.get(key, 0) >= self.max_calls

    def count(self, key: str | None) -> None:
        """Count one more call."""
        if self.max_calls is None:
            return
        self._counts[key] = self._counts.get(key, 0) + 1
        self._counts.move_to_end(key)
        if len(self._counts) > MAX_COUNTED_KEYS:
            self._counts.popitem(last=False)


class _Limiter:
    """Assigns start times to calls in the order in which they arrive. Its lock is never held during a wait."""

    def __init__(
        self, rates: list[_Rate], per_run: _Quota, per_session: _Quota, wait: float, find_key: FindKey
    ) -> None:
        self._rates, self._per_run, self._per_session, self._wait = rates, per_run, per_session, wait
        self._find_key = find_key
        self._lock = threading.Lock()

    def acquire(self, call: Call) -> float:
        """Reserve a start time and return how many seconds the call has to wait for it. Raises LimitExceededError.

        A call that is cancelled during the wait leaves its start time unused: later calls have theirs already.
        """
        key = self._find_key(call)
        try:
            hash(key)
        except TypeError:
            raise _key_error(call, f"it found a {type(key).__name__}, which cannot be hashed") from None
        with self._lock:
            self._refuse_exhausted(call)
            now = monotonic()
            start_time = max([now, *(rate.next_start_time(key, now) for rate in self._rates)])
            if start_time - now > self._wait:
                self._refuse_rate(call, key, now, start_time)
            for rate in self._rates:
                rate.count(key, start_time, now)
            self._per_session.count(call.session_id)
            if call.run_id is not None:
                self._per_run.count(call.run_id)
            return start_time - now

    def _refuse_exhausted(self, call: Call) -> None:
        if self._per_session.is_exhausted(call.session_id):
            message = f"Cannot call {call.name!r}: this session has reached its limit of {self._per_session.max_calls}"
            raise LimitExceededError(f"{message} calls.", tool=call.name)
        if call.run_id is not None and self._per_run.is_exhausted(call.run_id):
            message = f"Too many calls in one answer: the limit is {self._per_run.max_calls}."
            raise LimitExceededError(f"{message} Call {call.name!r} again in your next answer.", tool=call.name)

    def _refuse_rate(self, call: Call, key: Hashable, now: float, start_time: float) -> None:
        tightest = max(self._rates, key=lambda rate: rate.next_start_time(key, now))
        seconds = start_time - now
        message = f"Too many calls: the limit is {tightest}. Call {call.name!r} again in {seconds:.1f} seconds."
        raise LimitExceededError(message, tool=call.name, retry_after=seconds)
