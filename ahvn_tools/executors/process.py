"""ProcessExecutor: worker processes of this computer, which a timeout or a cancellation kills with all they started."""

from __future__ import annotations

import concurrent.futures
import functools
import importlib.util
import sys
import threading

from ahvn_tools.errors import DefinitionError
from ahvn_tools.execution.threads import thread_pool
from ahvn_tools.execution.workers.call_executor import SHUT_DOWN, CallExecutor, CallObserver, CallTask, RunningCall
from ahvn_tools.execution.workers.link import Link
from ahvn_tools.execution.workers.slots import Slots, count_cores
from ahvn_tools.settings import is_count

_POOL_MODULE = "ahvn_tools.execution.workers.worker_process"


class ProcessExecutor(CallExecutor):
    """Runs functions and the bodies of tools in worker processes of this computer. Needs the extra `process`.

    Unlike those of `concurrent.futures.ProcessPoolExecutor`, its workers import no main module, are killed with all
    that they have started when a call is cancelled or exceeds its timeout, and are replaced when they have ended. At
    most `max_workers` run at once, as many as there are cores by default; more calls wait. Create it after a fork.

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
        self._slots = Slots(max_workers or count_cores())
        self._condition = threading.Condition()
        self._jobs: set[_Job] = set()
        """Those that run, and those that wait for a slot."""
        self._is_shut_down = False

    def start_call(self, task: CallTask, observer: CallObserver) -> RunningCall:
        """Run the body of a task in a worker process, in a thread of its own, now or when a slot is free."""
        job = _Job(self, task, observer)
        with self._condition:
            if self._is_shut_down:
                raise RuntimeError("The executor was shut down: create a new one.")
            self._jobs.add(job)
        self._slots.enqueue(job.start)
        return job

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls. Wait until the others have ended, and end idle processes; `cancel_futures` ends all.

        Idle processes serve all executors and isolated tools; those that need one later start a new one.
        """
        with self._condition:
            self._is_shut_down = True
            jobs = list(self._jobs)
        for job in jobs if cancel_futures else ():
            job.cancel()
            job.observer.fail(SHUT_DOWN)
        if wait:
            with self._condition:
                self._condition.wait_for(lambda: not self._jobs)
            if (pool := sys.modules.get(_POOL_MODULE)) is not None and hasattr(pool, "process_pool"):
                pool.process_pool.end_idle()

    def run(self, job: _Job) -> None:
        """Run a job that has a slot to its end."""
        try:
            job.run()
        finally:
            self._slots.release()
            self._forget(job)

    def make_link(self, observer: CallObserver) -> Link:
        """Return the link of a body to the caller who observes it. Another job runs while that one takes its time."""
        return Link(observer.deliver, self._slots.lend)

    def withdraw(self, job: _Job) -> None:
        """Remove a job from the queue, if it is there."""
        if self._slots.withdraw(job.start):
            self._forget(job)

    def _forget(self, job: _Job) -> None:
        with self._condition:
            self._jobs.discard(job)
            self._condition.notify_all()


class _Job:
    """One function or body, from the queue to its end."""

    def __init__(self, executor: ProcessExecutor, task: CallTask, observer: CallObserver) -> None:
        self.observer = observer
        self._executor = executor
        self._task = task
        self._link = executor.make_link(observer)

    def start(self) -> None:
        """Run it in a thread."""
        thread_pool.run(functools.partial(self._executor.run, self))

    def run(self) -> None:
        """Run it in this thread, and tell the caller how it ended, unless the call was cancelled."""
        from ahvn_tools.execution.workers.body_call import WorkerLostError
        from ahvn_tools.execution.workers.process_call import run_killable

        if self._link.is_cancelled:
            return
        try:
            reply = run_killable(self._task.request, self._link, self._task.seconds)
        except WorkerLostError as error:
            reason = str(error)
        except concurrent.futures.CancelledError:  # by the clock, or by the caller, who needs no reason
            reason = "was ended: the timeout of its call was over"
        except BaseException as error:  # noqa: BLE001  # this process is broken, and the caller must know
            reason = f"was ended ({type(error).__name__}) before it returned a result"
        else:
            self._link.send(reply)
            return
        if not self._link.is_cancelled:
            self.observer.fail(reason)

    def send(self, answer: bytes) -> None:
        """Answer the body."""
        self._link.answer(answer)

    def cancel(self) -> None:
        """Leave the queue, or kill the process. Nothing is delivered any more."""
        self._link.cancel()
        self._executor.withdraw(self)
