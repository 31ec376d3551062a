"""Daemon worker threads of our own: a hung body neither starves other tools nor blocks the interpreter's exit."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from ahvn_tools.execution.deadline import GRACE
from ahvn_tools.execution.outcome import Outcome

MOST_IDLE = 32
"""Idle threads beyond this number end."""

Job = Callable[[], Callable[[], None]]
"""Does the work and returns what tells of it: a worker is idle again before anybody hears that its work is done."""


class Workers:
    """Threads that run one job at a time. There is no upper limit: whoever wants one counts calls, not threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: deque[queue.SimpleQueue[Job]] = deque()
        self.abandoned = 0
        """How many threads run a body that nobody waits for any more."""
        self.is_forgotten = False
        """Whether they belong to the process that this one was forked from."""

    def run(self, job: Job) -> None:
        """Run a job in an idle thread, or in a new one."""
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._work, args=(inbox,), name="ahvn-tools-worker", daemon=True).start()
        inbox.put(job)

    def _work(self, inbox: queue.SimpleQueue[Job]) -> None:
        is_kept = True
        while is_kept:
            tell = inbox.get()()
            if self.is_forgotten:  # pragma: no cover  # a body forked, and this is its child: nobody else is here
                return
            with self._lock:
                is_kept = len(self._idle) < MOST_IDLE
                if is_kept:
                    self._idle.append(inbox)
            tell()
            del tell  # an idle thread holds on to nothing

    def count(self, change: int) -> None:
        """Add to the number of abandoned threads."""
        with self._lock:
            self.abandoned += change


workers = Workers()


def _forget() -> None:  # pragma: no cover  # runs in forked children, which report to nobody
    global workers  # noqa: PLW0603  # a forked child has none of its parent's threads
    workers.is_forgotten = True
    workers = Workers()


if hasattr(os, "register_at_fork"):  # pragma: no branch  # not on Windows
    os.register_at_fork(after_in_child=_forget)


class Visit:
    """One job in a worker thread, as both sides see it: who has gone, and whether the thread is at rest."""

    def __init__(self, pool: Workers) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._is_over = self._is_abandoned = self._is_unwanted = False
        self._rest: concurrent.futures.Future[None] | None = None

    def rest(self, given: Callable[[], concurrent.futures.Future[None]] | None) -> None:
        """In the thread: wait for what `given` starts. Raises CancelledError once nobody waits for the thread."""
        with self._lock:
            if self._is_unwanted:
                raise concurrent.futures.CancelledError
            if given is None:
                return
            self._rest = given()
        try:
            self._rest.result()
        finally:
            self._rest = None

    def finish(self) -> bool:
        """In the thread: the job is done. Return whether somebody still waits for it."""
        with self._lock:
            self._is_over = True
            if self._is_abandoned:
                self._pool.count(-1)
            return not self._is_abandoned

    def dismiss(self) -> bool:
        """In the loop: nobody wants the job any more. Return whether the thread was at rest, and so will end soon."""
        with self._lock:
            self._is_unwanted = True
            resting = self._rest
        return resting is not None and resting.cancel()

    def abandon(self) -> None:
        """In the loop: do not wait for the thread; it is counted until its body ends."""
        with self._lock:
            if not self._is_over:
                self._is_abandoned = True
                self._pool.count(1)


async def in_thread(function: Callable[[Visit], Any], stop: Callable[[], None] | None = None) -> Outcome:
    """Run `function` in a worker thread, with the caller's contextvars, and return its outcome.

    When the waiting task is cancelled, a thread at rest is waited for, `GRACE` seconds at most; another is abandoned.
    `stop` is called then, in another thread, where there is a way to end what `function` does: that is waited for, too.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Outcome] = loop.create_future()
    context, pool = contextvars.copy_context(), workers
    visit = Visit(pool)

    def job() -> Callable[[], None]:
        outcome = Outcome.of(lambda: context.run(function, visit))
        is_awaited = visit.finish()

        def tell() -> None:
            if is_awaited:
                _tell(loop, future, outcome)

        return tell

    pool.run(job)
    try:
        await asyncio.wait({future})
    except asyncio.CancelledError:
        try:
            is_ending = visit.dismiss()
            if stop is not None:
                pool.run(_silent(stop))
            if is_ending or stop is not None:
                await asyncio.wait({future}, timeout=GRACE)
        finally:
            visit.abandon()
        raise
    return future.result()


def _silent(function: Callable[[], None]) -> Job:
    """Return a job that nobody waits for."""

    def job() -> Callable[[], None]:
        function()
        return _nothing

    return job


def _nothing() -> None:
    return None


def _tell(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    try:
        loop.call_soon_threadsafe(future.set_result, outcome)
    except RuntimeError:
        return  # the loop was closed under us: nobody is left to tell


def abandoned() -> int:
    """Return how many threads run a body that nobody waits for any more."""
    return workers.abandoned
