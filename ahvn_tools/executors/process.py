"""ProcessExecutor: worker processes of this computer, which a timeout or a cancellation kills with all they started."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import importlib.util
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.errors import DefinitionError
from ahvn_tools.execution.executors.call_executor import CallExecutor, CallObserver, CallTask, RunningCall
from ahvn_tools.execution.isolation.slots import MAX_UNCOUNTED_STREAMS, ProcessSlots, count_cores
from ahvn_tools.execution.threads import thread_pool
from ahvn_tools.executors.function_future import FunctionFuture, encode_function
from ahvn_tools.settings import is_count

T = TypeVar("T")

_POOL_MODULE = "ahvn_tools.execution.isolation.pool"

_executors: weakref.WeakSet[ProcessExecutor] = weakref.WeakSet()


class ProcessExecutor(CallExecutor):
    """Runs functions and the bodies of tools in worker processes of this computer. Needs the extra `process`.

    Unlike those of `concurrent.futures.ProcessPoolExecutor`, its workers import no main module, are killed with all
    that they have started when a call is cancelled or exceeds its timeout, and are replaced when they have ended. At
    most `max_workers` run at once, as many as there are cores by default; more calls wait.

    >>> from ahvn_tools.executors import ProcessExecutor
    >>> with ProcessExecutor(max_workers=1) as executor:
    ...     executor.submit(pow, 2, 10).result()
    1024
    """

    def __init__(self, max_workers: int | None = None) -> None:
        """Start no process yet. Raises DefinitionError for a wrong number, and if psutil is not installed."""
        if max_workers is not None and not is_count(max_workers):
            raise DefinitionError(f"max_workers is a whole number of at least 1, or None, not {max_workers!r}.")
        if importlib.util.find_spec("psutil") is None:
            raise DefinitionError('ProcessExecutor needs psutil: pip install "ahvn-tools[process]"')
        self._max_workers = max_workers or count_cores()
        self._is_shut_down = False
        self.forget_calls()
        _executors.add(self)

    def forget_calls(self) -> None:
        """Begin without calls; after a fork they belong to the parent process."""
        self._condition = threading.Condition()
        self._queue: deque[_Job] = deque()
        self._running: set[_Job] = set()
        self._waiting = 0
        """How many of those that run wait for their reader."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[T]:
        """Run a function in a worker process. Cancelling the Future kills it, also while it runs.

        A generator that it returns is consumed there. Raises PickleError for what cannot be sent to a process. The
        Future raises ToolConnectionError when the process has ended before it returned a result.
        """
        request = encode_function(fn, args, kwargs)
        future: FunctionFuture[T] = FunctionFuture()
        job = _Job(self, request, None, CallObserver(future.deliver, future.fail))
        job.future, future.cancel_call = future, job.cancel
        self._start(job)
        return future

    def start_call(self, task: CallTask, observer: CallObserver) -> RunningCall:
        """Run the body of a task in a worker process."""
        job = _Job(self, task.request, task.seconds, observer)
        self._start(job)
        return job

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls. Wait until the others have ended, and end idle processes; `cancel_futures` ends all.

        Idle processes serve all executors and isolated tools; those that need one later start a new one.
        """
        with self._condition:
            self._is_shut_down = True
            jobs = [*self._queue, *self._running] if cancel_futures else []
        for job in jobs:
            job.end("was ended: the executor was shut down")
        if wait:
            with self._condition:
                self._condition.wait_for(lambda: not self._running)
            if (pool := sys.modules.get(_POOL_MODULE)) is not None:
                pool.process_pool.end_idle(also_keeping_children=False)

    def _start(self, job: _Job) -> None:
        """Run a job in a thread of its own, now or when a process is free."""
        with self._condition:
            if self._is_shut_down:
                raise RuntimeError("The executor was shut down: create a new one.")
            self._queue.append(job)
            self._run_next()

    def _run_next(self) -> None:
        """With the lock: run the next jobs in threads, while there are any and a process is free."""
        limit = self._max_workers + min(self._waiting, MAX_UNCOUNTED_STREAMS)
        while self._queue and len(self._running) < limit:
            job = self._queue.popleft()
            self._running.add(job)
            try:
                thread_pool.run(functools.partial(self._run, job))
            except RuntimeError as error:  # there are too many threads, or the interpreter is exiting
                self._running.discard(job)
                job.fail(f"could not be started: {error}")

    def _run(self, job: _Job) -> None:
        try:
            job.run()
        finally:
            with self._condition:
                self._running.discard(job)
                self._run_next()
                self._condition.notify_all()

    @contextlib.contextmanager
    def lend(self) -> Iterator[None]:
        """Let another job run while one waits for its reader, who may need that: the number of such jobs is limited."""
        with self._condition:
            self._waiting += 1
            self._run_next()
        try:
            yield
        finally:
            with self._condition:
                self._waiting -= 1

    def remove(self, job: _Job) -> None:
        """Remove a job from the queue, if it is there."""
        with self._condition, contextlib.suppress(ValueError):  # it runs, or has ended
            self._queue.remove(job)


class _Job:
    """One function or body, from the queue to its end."""

    def __init__(
        self, executor: ProcessExecutor, request: bytes, seconds: float | None, observer: CallObserver
    ) -> None:
        from ahvn_tools.execution.isolation.relay import LocalLink

        self.future: FunctionFuture[Any] | None = None
        """What the job is for, if it is a function."""
        self._request = request
        self._seconds = seconds
        self._observer = observer
        self._executor = executor
        self._link = LocalLink(observer.deliver, executor.lend)

    def run(self) -> None:
        """Run it to its end in a worker process, in this thread."""
        from ahvn_tools.execution.isolation.body_call import WorkerLostError
        from ahvn_tools.execution.isolation.relay import run_killable

        if self._link.is_cancelled:
            return
        try:
            reply = run_killable(self._request, self._link, ProcessSlots(1), self._seconds)
        except WorkerLostError as error:
            reason = str(error)
        except concurrent.futures.CancelledError:  # by the clock, or by the caller, who needs no reason
            reason = "was ended: the timeout of its call was over"
        except BaseException as error:  # noqa: BLE001  # this process is broken, and the caller must know
            reason = f"was ended ({type(error).__name__}) before it returned a result"
        else:
            self._link.send(reply)
            return
        self.fail(reason)

    def fail(self, reason: str) -> None:
        """Tell the caller what happened to the worker, unless the call was cancelled."""
        if not self._link.is_cancelled:
            self._observer.fail(reason)

    def send(self, answer: bytes) -> None:
        """Answer the body."""
        self._link.answer(answer)

    def cancel(self) -> None:
        """Leave the queue, or kill the process. Nothing is delivered any more."""
        self._executor.remove(self)
        self._link.cancel()

    def end(self, reason: str) -> None:
        """Cancel it, and tell its caller."""
        if self.future is not None:
            self.future.cancel()
            return
        self.cancel()
        self._observer.fail(reason)


@reset_after_fork
def _forget_calls() -> None:  # pragma: no cover  # runs in child processes, which report no coverage
    for executor in _executors:
        executor.forget_calls()
