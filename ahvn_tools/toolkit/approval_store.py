"""ApprovalStore: remembers which approval requests were decided, so that each is decided once.

Clocks may jump. A request that was forgotten because it had expired would be valid again when the clock is set back. So
a store also remembers the latest expiry of what it has forgotten: no request that expires by then can be approved.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Mapping
from typing import Final, Protocol, runtime_checkable

KEPT_SECONDS: Final = 24 * 3600
"""How long an expired request is remembered: a clock that is set back by less makes no request expire."""

MIN_KEPT: Final = 1_000
"""How many requests, those that expire last, are remembered whatever the clock says.

A clock that was wrong may have made requests that expire in some years. To forget one of these would make all requests
expire until then.
"""

Requests = Mapping[str, int | None]
"""Ids of requests with the time at which each expires, in seconds since 1970 (UTC); None: never."""


@runtime_checkable
class ApprovalStore(Protocol):
    """Remembers decided requests. Its methods are called from any thread, and raise when they cannot remember."""

    def decide(self, requests: Requests) -> bool:
        """Mark all of these requests as decided, and return True.

        Mark none and return False if one already is, or expires by the time that `forgotten_until` returns. What it has
        marked is stored when it returns, even if the process ends then.
        """
        ...

    def forgotten_until(self) -> int:
        """Return the latest expiry of the requests that it has forgotten, in seconds since 1970 (UTC); 0: none.

        It never becomes less, whatever the clock does.
        """
        ...

    def count_attempt(self, request_id: str, expires_at: int | None) -> int:
        """Count one more attempt to pass the secret arguments of a request, and return how many there were."""
        ...


class MemoryApprovalStore:
    """Remembers the requests that this process has decided."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._decided: dict[str, int | None] = {}
        self._attempts: dict[str, tuple[int, int | None]] = {}
        self._forgotten_until = 0
        self._next_cleanup = MIN_KEPT

    def decide(self, requests: Requests) -> bool:
        """Mark all of these requests as decided, unless one already is or may have been."""
        with self._lock:
            self._forget_expired()
            if any(end is not None and end <= self._forgotten_until for end in requests.values()):
                return False
            if not self._decided.keys().isdisjoint(requests):
                return False
            self._decided.update(requests)
            return True

    def forgotten_until(self) -> int:
        """Return the latest expiry of the requests that were forgotten."""
        return self._forgotten_until

    def count_attempt(self, request_id: str, expires_at: int | None) -> int:
        """Count one more attempt of a request."""
        with self._lock:
            self._forget_expired()
            attempts = self._attempts.get(request_id, (0, None))[0] + 1
            self._attempts[request_id] = attempts, expires_at
            return attempts

    def _forget_expired(self) -> None:
        """Forget expired requests whenever their number has doubled."""
        if len(self._decided) + len(self._attempts) < self._next_cleanup:
            return
        ends = [end for end in self._decided.values() if end is not None]
        ends += [end for _, end in self._attempts.values() if end is not None]
        first_kept, oldest = min(heapq.nlargest(MIN_KEPT, ends), default=0), time.time() - KEPT_SECONDS
        last = max((end for end in ends if end < first_kept and end <= oldest), default=0)
        self._decided = {key: end for key, end in self._decided.items() if end is None or end > last}
        self._attempts = {key: (n, end) for key, (n, end) in self._attempts.items() if end is None or end > last}
        self._forgotten_until = max(self._forgotten_until, last)
        self._next_cleanup = max(MIN_KEPT, 2 * (len(self._decided) + len(self._attempts)))
