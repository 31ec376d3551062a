"""ApprovalStore: remembers which approval requests were decided, so that each is decided once."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Final, Protocol, runtime_checkable

KEPT_SECONDS: Final = 24 * 3600
"""How long an expired request is remembered, in case a clock is set back."""

Requests = Mapping[str, int | None]
"""Ids of requests with the time at which each expires, in seconds since 1970 (UTC); None: never."""


@runtime_checkable
class ApprovalStore(Protocol):
    """Remembers decided requests. Both methods are called from any thread, and raise when they cannot remember."""

    def decide(self, requests: Requests) -> bool:
        """Mark all of these requests as decided, and return True; mark none and return False if one already is.

        What it has marked is stored when it returns, even if the process ends then.
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
        self._next_cleanup = 1000

    def decide(self, requests: Requests) -> bool:
        """Mark all of these requests as decided, unless one already is."""
        with self._lock:
            if not self._decided.keys().isdisjoint(requests):
                return False
            self._forget_expired()
            self._decided.update(requests)
            return True

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
        oldest = time.time() - KEPT_SECONDS
        self._decided = {key: end for key, end in self._decided.items() if end is None or end > oldest}
        self._attempts = {key: (n, end) for key, (n, end) in self._attempts.items() if end is None or end > oldest}
        self._next_cleanup = max(1000, 2 * (len(self._decided) + len(self._attempts)))
