"""Daemon worker threads: a body that hangs neither blocks other tools nor keeps the interpreter from exiting."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import inspect
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.deadline import CANCEL_GRACE_SECONDS
from ahvn_tools.execution.outcome import Outcome

T = TypeVar("T")

MAX_IDLE_THREADS = 32
"""Idle threads beyond this number end."""

EmitItem = Callable[[Any], Coroutine[Any, Any, None]]
"""Takes one item of a stream and returns when its reader wants the next."""

EmitItemSync = Callable[[Any], None]
"""Passes an item from a thread to an EmitItem and waits for it. Raises CancelledError when the call was cancelled."""

WorkItem = Callable[[], Callable[[], None] | None]
"""Does the work and returns a function that reports its end, if any. The thread is idle again when that is called."""


class ThreadPool:
    """Threads that run one work item at a time. Their number has no upper limit: limit calls instead of threads."""

    def __init__(self) -> None:
        self.forget_threads()

    def forget_threads(self) -> None:
        """Begin without threads; a forked child process has none of its parent's."""
        self._lock = threading.RLock()
        """The garbage collector may run a finalizer that needs a thread where this thread holds the lock."""
        self._idle: list[queue.SimpleQueue[WorkItem]] = []
        self.abandoned: set[ThreadJob] = set()
        """The jobs that no caller waits for any more; each is here until it ends."""

    def run(self, work_item: WorkItem) -> None:
        """Run a work item in an idle thread, or in a new one."""
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._run_worker, args=(inbox,), name="ahvn-tools-worker", daemon=True).start()
        inbox.put(work_item)

    def _run_worker(self, inbox: queue.SimpleQueue[WorkItem]) -> None:
        is_idle = True
        while is_idle:
            notify = inbox.get()()
            with self._lock:
                is_idle = len(self._idle) < MAX_IDLE_THREADS
                if is_idle:
                    self._idle.append(inbox)
            if notify is not None:
                notify()
            del notify  # the thread may wait for long, and must not hold the result

    def abandon(self, job: ThreadJob) -> None:
        """Do not wait for a job any longer; it is counted as abandoned until it ends."""
        self.abandoned.add(job)
        if job.is_done:  # its thread ended it before it was added
            self.abandoned.discard(job)


class CallerThread:
    """The thread of a sync caller, which runs the sync bodies of its calls while it waits for the results."""

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[WorkItem | None] = queue.SimpleQueue()

    def run(self, work_item: WorkItem) -> None:
        """Let the thread run a work item. From the loop of the call."""
        self._inbox.put(work_item)

    def wait_for(self, start: background_loop.CoroutineFactory, *arguments: Any) -> Outcome:
        """Run `start(*arguments)` on the background loop; until it ends, run the work items in this thread."""
        loop_call = background_loop.LoopCall(start, *arguments, on_end=lambda: self._inbox.put(None))
        with loop_call, loop_call:
            loop_call.start()
            while (work_item := self._inbox.get()) is not None:
                if (notify := work_item()) is not None:
                    notify()
            return loop_call.outcome()

    async def call(self, function: Callable[[], Any]) -> Outcome:
        """Call a function in the waiting thread, after those that were passed before. Runs on the background loop."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Outcome] = loop.create_future()

        def deliver(outcome: Outcome) -> None:
            if not ended.done():
                ended.set_result(outcome)

        def job() -> None:
            if ended.done():  # what waited for it was cancelled
                return
            outcome = Outcome.capture(function)
            loop.call_soon_threadsafe(deliver, outcome)
            if isinstance(outcome.error, KeyboardInterrupt):
                raise outcome.error

        self.run(job)
        return await ended

    def abandon(self, job: ThreadJob) -> None:
        """Do nothing: the caller waits until the job has ended."""


Threads = ThreadPool | CallerThread
"""Where sync bodies run."""

thread_pool = ThreadPool()
reset_after_fork(thread_pool.forget_threads)


class ThreadJob:
    """One function call in a worker thread, shared by the thread and the event loop that waits for it."""

    def __init__(self) -> None:
        self.is_done = False
        self._lock = threading.Lock()
        self._is_stop_requested = False
        self._pending: concurrent.futures.Future[None] | None = None

    def raise_if_stopped(self) -> None:
        """In the thread: raise CancelledError after `request_stop`."""
        if self._is_stop_requested:
            raise concurrent.futures.CancelledError

    def wait_for(self, start: Callable[[], concurrent.futures.Future[None]]) -> None:
        """In the thread: wait for the future that `start` returns. Raises CancelledError after `request_stop`."""
        with self._lock:
            self.raise_if_stopped()
            self._pending = start()
        try:
            self._pending.result()
        finally:
            self._pending = None

    def request_stop(self) -> bool:
        """In the loop: the job is no longer needed. Return whether the thread was in `wait_for`, and so ends soon."""
        with self._lock:
            self._is_stop_requested = True
            pending = self._pending
        return pending is not None and pending.cancel()


async def run_in_thread(
    function: Callable[[EmitItemSync], Any],
    emit: EmitItem | None = None,
    stop: Callable[[], None] | None = None,
    threads: Threads | None = None,
) -> Outcome:
    """Run `function` in a worker thread, or in one of `threads`, with the caller's contextvars; return its outcome.

    Its argument is a function that awaits `emit(item)` in this loop, and raises CancelledError when it is not needed.
    When the waiting task is cancelled, `stop` is called in another thread, to end `function`. A thread that `stop`
    ends, or that waits for `emit`, gets `CANCEL_GRACE_SECONDS` to end; any other is abandoned at once.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Outcome] = loop.create_future()
    waiter: asyncio.Future[None] = loop.create_future()  # a cancellation of the task cancels it, and not `ended`
    context, pool, job = contextvars.copy_context(), threads or thread_pool, ThreadJob()

    def emit_item(item: Any) -> None:
        if emit is None:
            job.raise_if_stopped()
        else:
            job.wait_for(lambda: _submit(emit(item), loop))

    def work() -> Callable[[], None]:
        outcome = Outcome.capture(functools.partial(context.run, function, emit_item))

        def notify() -> None:
            job.is_done = True
            thread_pool.abandoned.discard(job)
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(end, outcome)

        return notify

    def end(outcome: Outcome) -> None:
        ended.set_result(outcome)
        if not waiter.done():
            waiter.set_result(None)

    pool.run(work)
    try:
        await waiter  # `asyncio.wait` takes one more iteration of the loop
    except asyncio.CancelledError:
        try:
            is_ending = job.request_stop()
            if stop is not None:
                pool.run(stop)
            if is_ending or stop is not None:
                await asyncio.wait({ended}, timeout=CANCEL_GRACE_SECONDS)
        finally:
            pool.abandon(job)
        raise
    return ended.result()


async def call_in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a worker thread, and return its value or raise its exception."""
    value: T = (await run_in_thread(lambda _: function(*arguments))).get()
    return value


async def call_host_function(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a sync or async function of the host. A sync one runs in a worker thread, so that it may block."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    result = await call_in_thread(function, *arguments)
    return await result if inspect.isawaitable(result) else result


def _submit(coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> concurrent.futures.Future[None]:
    try:
        return asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:  # the loop was closed meanwhile
        coroutine.close()
        raise


def count_abandoned_threads() -> int:
    """Return how many threads run a body whose caller no longer waits for it."""
    return len(thread_pool.abandoned)
