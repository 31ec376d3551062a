"""WorkerRun: one request in a worker process of this computer, which can be killed with all that it started."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

from ahvn_tools.execution.isolation import pool, protocol
from ahvn_tools.execution.isolation.body_call import WorkerLostError
from ahvn_tools.execution.isolation.slots import ProcessSlots
from ahvn_tools.execution.isolation.worker_process import WorkerProcess
from ahvn_tools.execution.pickling import dumps
from ahvn_tools.execution.plan import MAX_START_SECONDS

MAX_CHECK_SECONDS = 1.0
"""How many seconds a worker may take after a call to find out what the body has left running."""

Result = TypeVar("Result")

Send = Callable[[bytes], object]
"""Answers the worker: b"" requests the next chunk, anything else answers a question."""


class WorkerRun(Generic[Result]):
    """One request in a worker process. One thread runs it, and any other thread may stop it."""

    def __init__(
        self, slots: ProcessSlots, *, keeps_children: bool, set_starting: Callable[[bool], None] = lambda _: None
    ) -> None:
        """Prepare the run. `slots` limit how many run at once.

        `set_starting` is called with True before a worker starts and imports what the body needs, which has its own
        time limit, and with False when the body starts and when the call is over.
        """
        self._slots = slots
        self._keeps_children = keeps_children
        self._set_starting = set_starting
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None
        self._call_id = protocol.make_call_id()
        self._turn = threading.Event()
        self._is_stopped = False
        self._start_deadline = 0.0

    def run(self, request: bytes, handle: Callable[[bytes, Send], Result | None]) -> Result:
        """Wait for a slot, run a pickled CallRequest, pass each reply to `handle` until it returns a result; return it.

        Raises WorkerLostError, and CancelledError after `stop`.
        """
        content = dumps((protocol.ProcessEnvironment.capture(), request))
        if not self._slots.acquire(self._turn):
            raise concurrent.futures.CancelledError
        try:
            self._start_deadline = monotonic() + MAX_START_SECONDS
            self._set_starting(True)
            while (result := self._run_in_process(content, handle)) is None:
                pass
            return result
        finally:
            self._set_starting(False)
            self._slots.release()

    def stop(self) -> None:
        """Kill the worker, whatever it is doing, or leave the queue."""
        with self._lock:
            self._is_stopped = True
            process = self._process
        self._turn.set()
        if process is not None:
            process.kill()

    def _run_in_process(self, content: bytes, handle: Callable[[bytes, Send], Result | None]) -> Result | None:
        """Return the result; None when an idle process had ended before it accepted the request."""
        result, is_reusable = None, False
        try:
            process = pool.process_pool.acquire(keeps_children=self._keeps_children)
        except OSError as error:
            raise WorkerLostError(f"could not be started: {error}") from error
        with self._lock:
            self._process = process  # from here on, `stop` kills it
        try:
            if self._is_stopped:
                raise concurrent.futures.CancelledError
            if self._is_accepted(process, content):
                self._wait_for_start(process)
                result = self._handle_replies(process, handle)
                is_reusable = self._is_left_clean(process)
            elif process.is_new:
                raise self._lost_error(process)
            return result
        finally:
            with self._lock:
                self._process = None
                is_reusable = is_reusable and not self._is_stopped
            pool.process_pool.release(process, is_reusable=is_reusable)

    def _is_accepted(self, process: WorkerProcess, content: bytes) -> bool:
        if process.is_new:
            self._wait_for_start(process)
            if process.receive(protocol.NO_CALL) != protocol.READY:
                return False
        if not process.send(self._call_id, content):
            return False
        self._wait_for_start(process)  # an idle worker may have been suspended
        return process.receive(self._call_id) == protocol.ACCEPTED

    def _is_left_clean(self, process: WorkerProcess) -> bool:
        """Return whether the body has left no thread and no process running in the worker."""
        return process.wait_readable(MAX_CHECK_SECONDS) and process.receive(self._call_id) == protocol.REUSABLE

    def _wait_for_start(self, process: WorkerProcess) -> None:
        """Wait until the worker, or the body in it, has started or failed to. Raises WorkerLostError."""
        if not process.wait_readable(self._start_deadline - monotonic()):
            raise WorkerLostError(
                f"did not start, or did not import what the tool needs, within {MAX_START_SECONDS:g} seconds"
            )

    def _handle_replies(self, process: WorkerProcess, handle: Callable[[bytes, Send], Result | None]) -> Result:
        def send(answer: bytes) -> None:
            process.send(self._call_id, protocol.ANSWER + answer if answer else protocol.NEXT_CHUNK)

        is_starting = True
        while (reply := process.receive(self._call_id)) is not None:
            if is_starting:
                is_starting = False
                self._set_starting(False)
            if (result := handle(reply, send)) is not None:
                return result
        raise self._lost_error(process)

    def _lost_error(self, process: WorkerProcess) -> Exception:
        if self._is_stopped:
            return concurrent.futures.CancelledError()
        process.kill()
        return WorkerLostError(f"ended ({process.describe_exit()}) before it returned a result")
