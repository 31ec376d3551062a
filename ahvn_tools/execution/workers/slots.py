"""Slots for calls and programs: as many run at once as there are slots, and the others wait for one in order."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator

from ahvn_tools.after_fork import reset_after_fork

MAX_UNCOUNTED_STREAMS = 8
"""At most this many streams that wait for their readers do not count, so that readers can make isolated calls."""


class Slots:
    """Limits how many calls run at once, in all event loops and threads together."""

    def __init__(self, count: int) -> None:
        """Create the slots; none is taken."""
        self._lock = threading.RLock()
        self._count = count
        self._taken = 0
        self._lent = 0
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def count(self) -> int:
        """How many calls may run at once."""
        return self._count

    @count.setter
    def count(self, count: int) -> None:
        self._count = count
        self._grant()

    def enqueue(self, start: Callable[[], None]) -> None:
        """Call `start`, which must return at once, when there is a slot."""
        with self._lock:
            self._waiting.append(start)
        self._grant()

    def withdraw(self, start: Callable[[], None]) -> bool:
        """Remove a function from the queue. Return False when it was called, or is not there."""
        with self._lock, contextlib.suppress(ValueError):
            self._waiting.remove(start)
            return True
        return False

    def acquire(self, turn: threading.Event) -> bool:
        """Wait for a slot. Return False when another thread has set `turn` to end the wait."""
        self.enqueue(turn.set)
        turn.wait()
        return not self.withdraw(turn.set)

    async def aacquire(self) -> None:
        """Wait for a slot in an event loop, without a thread."""
        import asyncio  # sync callers do without

        loop, turn = asyncio.get_running_loop(), asyncio.Event()

        def start() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(turn.set)

        self.enqueue(start)
        try:
            await turn.wait()
        except BaseException:
            if not self.withdraw(start):  # it was this task's turn already
                self.release()
            raise

    def release(self) -> None:
        """Return a slot."""
        with self._lock:
            self._taken -= 1
        self._grant()

    @contextlib.contextmanager
    def lend(self) -> Iterator[None]:
        """Let another call run while a stream waits for its reader. It continues at once, also beyond the limit."""
        with self._lock:
            self._lent += 1
        self._grant()
        try:
            yield
        finally:
            with self._lock:
                self._lent -= 1

    def _grant(self) -> None:
        granted = []
        with self._lock:
            while self._waiting and self._taken - min(self._lent, MAX_UNCOUNTED_STREAMS) < self._count:
                self._taken += 1
                granted.append(self._waiting.popleft())
        for start in granted:
            start()


def count_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # pragma: no cover  # macOS and Windows


process_slots = Slots(count_cores())


@reset_after_fork
def _replace_slots() -> None:  # pragma: no cover  # runs in child processes, which report no coverage
    global process_slots  # noqa: PLW0603
    process_slots = Slots(process_slots.count)
