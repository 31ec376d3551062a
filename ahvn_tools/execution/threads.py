"""Daemon worker threads of our own: a hung body neither starves other tools nor blocks the interpreter's exit."""

from __future__ import annotations

import asyncio
import contextvars
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from ahvn_tools.execution.outcome import Outcome

MOST_IDLE = 32
"""Idle threads beyond this number end."""

Job = Callable[[], None]


class Workers:
    """Threads that run one job at a time. There is no upper limit: whoever wants one counts calls, not threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: deque[queue.SimpleQueue[Job]] = deque()
        self.abandoned = 0
        """How many threads run a body that nobody waits for any more."""

    def run(self, job: Job) -> None:
        """Run a job in an idle thread, or in a new one."""
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._work, args=(inbox,), name="ahvn-tools-worker", daemon=True).start()
        inbox.put(job)

    def _work(self, inbox: queue.SimpleQueue[Job]) -> None:
        while True:
            inbox.get()()
            with self._lock:
                if len(self._idle) >= MOST_IDLE:
                    return
                self._idle.append(inbox)

    def count(self, change: int) -> None:
        """Add to the number of abandoned threads."""
        with self._lock:
            self.abandoned += change


workers = Workers()


def _forget() -> None:
    global workers  # noqa: PLW0603  # a forked child has none of its parent's threads
    workers = Workers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class Stop:
    """Tells a thread that nobody waits for it any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_over = False
        self.is_set = False

    def abandon(self) -> bool:
        """Give up on the thread; return whether it was still running."""
        with self._lock:
            self.is_set = True
            return not self._is_over

    def finish(self) -> bool:
        """Mark the thread's job as done; return whether somebody still waits."""
        with self._lock:
            self._is_over = True
            return not self.is_set


async def in_thread(function: Callable[[Stop], Any]) -> Outcome:
    """Run `function` in a worker thread, with the caller's contextvars, and return its outcome.

    When the waiting task is cancelled the thread is abandoned: it is counted until its body ends.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Outcome] = loop.create_future()
    context, stop, pool = contextvars.copy_context(), Stop(), workers

    def job() -> None:
        outcome = Outcome.of(lambda: context.run(function, stop))
        if not stop.finish():
            pool.count(-1)
            return
        try:
            loop.call_soon_threadsafe(_settle, future, outcome)
        except RuntimeError:
            return  # the loop was closed under us: nobody is left to tell

    pool.run(job)
    try:
        return await future
    except asyncio.CancelledError:
        if stop.abandon():
            pool.count(1)
        raise


def _settle(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


def abandoned() -> int:
    """Return how many threads run a body that nobody waits for any more."""
    return workers.abandoned
