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

from ahvn_tools.execution.deadline import CANCEL_GRACE_SECONDS
from ahvn_tools.execution.outcome import Outcome

MAX_IDLE_THREADS = 32
"""Idle threads beyond this number end."""

WorkItem = Callable[[], Callable[[], None]]
"""Does the work and returns what tells of it: a worker is idle again before anybody hears that its work is done."""


class ThreadPool:
    """Threads that run one job at a time. There is no upper limit: whoever wants one counts calls, not threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: deque[queue.SimpleQueue[WorkItem]] = deque()
        self.abandoned_count = 0
        """How many threads run a body that nobody waits for any more."""
        self.is_from_parent_process = False
        """Whether they belong to the process that this one was forked from."""

    def run(self, work_item: WorkItem) -> None:
        """Run a job in an idle thread, or in a new one."""
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._run_worker, args=(inbox,), name="ahvn-tools-worker", daemon=True).start()
        inbox.put(work_item)

    def _run_worker(self, inbox: queue.SimpleQueue[WorkItem]) -> None:
        is_kept = True
        while is_kept:
            tell = inbox.get()()
            if (
                self.is_from_parent_process
            ):  # pragma: no cover  # a body forked, and this is its child: nobody else is here
                return
            with self._lock:
                is_kept = len(self._idle) < MAX_IDLE_THREADS
                if is_kept:
                    self._idle.append(inbox)
            tell()
            del tell  # an idle thread holds on to nothing

    def add_abandoned(self, change: int) -> None:
        """Add to the number of abandoned threads."""
        with self._lock:
            self.abandoned_count += change


thread_pool = ThreadPool()


def _reset_after_fork() -> None:  # pragma: no cover  # runs in forked children, which report to nobody
    global thread_pool  # noqa: PLW0603  # a forked child has none of its parent's threads
    thread_pool.is_from_parent_process = True
    thread_pool = ThreadPool()


if hasattr(os, "register_at_fork"):  # pragma: no branch  # not on Windows
    os.register_at_fork(after_in_child=_reset_after_fork)


class ThreadJob:
    """One job in a worker thread, as both sides see it: who has gone, and whether the thread is at rest."""

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._is_done = self._is_abandoned = self._is_stop_requested = False
        self._pending: concurrent.futures.Future[None] | None = None

    def wait_for(self, start: Callable[[], concurrent.futures.Future[None]] | None) -> None:
        """In the thread: wait for what `given` starts. Raises CancelledError once nobody waits for the thread."""
        with self._lock:
            if self._is_stop_requested:
                raise concurrent.futures.CancelledError
            if start is None:
                return
            self._pending = start()
        try:
            self._pending.result()
        finally:
            self._pending = None

    def finish(self) -> bool:
        """In the thread: the job is done. Return whether somebody still waits for it."""
        with self._lock:
            self._is_done = True
            if self._is_abandoned:
                self._pool.add_abandoned(-1)
            return not self._is_abandoned

    def request_stop(self) -> bool:
        """In the loop: nobody wants the job any more. Return whether the thread was at rest, and so will end soon."""
        with self._lock:
            self._is_stop_requested = True
            resting = self._pending
        return resting is not None and resting.cancel()

    def abandon(self) -> None:
        """In the loop: do not wait for the thread; it is counted until its body ends."""
        with self._lock:
            if not self._is_done:
                self._is_abandoned = True
                self._pool.add_abandoned(1)


async def run_in_thread(function: Callable[[ThreadJob], Any], stop: Callable[[], None] | None = None) -> Outcome:
    """Run `function` in a worker thread, with the caller's contextvars, and return its outcome.

    When the waiting task is cancelled, a thread at rest is waited for, `GRACE` seconds at most; another is abandoned.
    `stop` is called then, in another thread, where there is a way to end what `function` does: that is waited for, too.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Outcome] = loop.create_future()
    context, pool = contextvars.copy_context(), thread_pool
    visit = ThreadJob(pool)

    def job() -> Callable[[], None]:
        outcome = Outcome.capture(lambda: context.run(function, visit))
        is_awaited = visit.finish()

        def tell() -> None:
            if is_awaited:
                _set_result_threadsafe(loop, future, outcome)

        return tell

    pool.run(job)
    try:
        await asyncio.wait({future})
    except asyncio.CancelledError:
        try:
            is_ending = visit.request_stop()
            if stop is not None:
                pool.run(_to_work_item(stop))
            if is_ending or stop is not None:
                await asyncio.wait({future}, timeout=CANCEL_GRACE_SECONDS)
        finally:
            visit.abandon()
        raise
    return future.result()


def _to_work_item(function: Callable[[], None]) -> WorkItem:
    """Return a job that nobody waits for."""

    def job() -> Callable[[], None]:
        function()
        return _do_nothing

    return job


def _do_nothing() -> None:
    return None


def _set_result_threadsafe(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    try:
        loop.call_soon_threadsafe(future.set_result, outcome)
    except RuntimeError:
        return  # the loop was closed under us: nobody is left to tell


def count_abandoned_threads() -> int:
    """Return how many threads run a body that nobody waits for any more."""
    return thread_pool.abandoned_count
