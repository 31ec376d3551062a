"""Calls in worker processes of this computer, which can be killed with all that they started."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.pickling import dumps
from ahvn_tools.execution.plan import MAX_START_SECONDS, Arguments, Body, Plan
from ahvn_tools.execution.threads import EmitItemSync
from ahvn_tools.execution.workers import replies, slots, worker_process
from ahvn_tools.execution.workers.body_call import BodyCall, WorkerLostError
from ahvn_tools.execution.workers.link import Link
from ahvn_tools.execution.workers.worker_process import WorkerProcess
from ahvn_tools.execution.workers.worker_request import ProcessEnvironment

Result = TypeVar("Result")

Send = Callable[[bytes], object]
"""Answers the worker: b"" requests the next chunk, anything else answers a question."""


class WorkerRun(Generic[Result]):
    """One request in a worker process. One thread runs it, and any other thread may stop it."""

    def __init__(self, *, keeps_children: bool, set_starting: Callable[[bool], None] = lambda _: None) -> None:
        """Prepare the run.

        `set_starting` is called with True before a worker starts and imports what the body needs, which has its own
        time limit, and with False when the body starts and when the call is over.
        """
        self._keeps_children = keeps_children
        self._pool = worker_process.keeping_pool if keeps_children else worker_process.process_pool
        self._set_starting = set_starting
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None
        self._is_stopped = False
        self._start_deadline = 0.0

    def run(self, request: bytes, handle: Callable[[bytes, Send], Result | None]) -> Result:
        """Run a pickled CallRequest, pass each reply to `handle` until it returns a result, and return that.

        Raises WorkerLostError, and CancelledError after `stop`.
        """
        content = dumps((ProcessEnvironment.capture(), request))
        self._start_deadline = monotonic() + MAX_START_SECONDS
        self._set_starting(True)
        try:
            while (result := self._run_in_process(content, handle)) is None:
                pass
            return result
        finally:
            self._set_starting(False)

    def stop(self) -> None:
        """Kill the worker, whatever it is doing."""
        with self._lock:
            self._is_stopped = True
            process = self._process
        if process is not None:
            process.kill()

    def _run_in_process(self, content: bytes, handle: Callable[[bytes, Send], Result | None]) -> Result | None:
        """Return the result; None when an idle process had ended before it took the request."""
        try:
            process = self._pool.acquire()
        except OSError as error:
            raise WorkerLostError(f"could not be started: {error.strerror}") from error
        with self._lock:
            self._process = process  # from here on, `stop` kills it
        result = None
        try:
            if self._is_stopped:
                raise concurrent.futures.CancelledError
            if (reply := self._start(process, content)) is not None:
                result = self._handle_replies(process, reply, handle)
            elif process.calls == 0:
                raise self._lost_error(process)
            return result
        finally:
            process.calls += 1
            is_old = process.calls >= worker_process.MAX_CALLS and not self._keeps_children
            with self._lock:
                self._process = None
                is_reusable = result is not None and not self._is_stopped and not is_old
            self._pool.release(process, is_reusable=is_reusable)

    def _start(self, process: WorkerProcess, content: bytes) -> bytes | None:
        """Return the first reply, when the body has started or failed to. Raises WorkerLostError."""
        if not process.send(content):
            return None
        if not process.wait_readable(self._start_deadline - monotonic()):
            raise WorkerLostError(
                f"did not start, or did not import what the tool needs, within {MAX_START_SECONDS:g} seconds"
            )
        return process.receive()

    def _handle_replies(
        self, process: WorkerProcess, first: bytes, handle: Callable[[bytes, Send], Result | None]
    ) -> Result:
        self._set_starting(False)
        reply: bytes | None = first
        while reply is not None:
            if (result := handle(reply, process.send)) is not None:
                return result
            reply = process.receive()
        raise self._lost_error(process)

    def _lost_error(self, process: WorkerProcess) -> Exception:
        if self._is_stopped:
            return concurrent.futures.CancelledError()
        process.kill()
        return WorkerLostError(f"ended ({process.describe_exit()}) before it returned a result")


class ProcessCall(BodyCall):
    """One call in a worker process. One thread runs it, and any other thread may stop it."""

    def __init__(
        self, plan: Plan, body: Body, values: Arguments, *, has_reader: bool, set_starting: Callable[[bool], None]
    ) -> None:
        """Prepare the call; see BodyCall and WorkerRun."""
        super().__init__(plan, body, values, has_reader=has_reader)
        self._slots = slots.process_slots
        self._turn = threading.Event()
        self._run: WorkerRun[Outcome] = WorkerRun(keeps_children=plan.settings.keep_children, set_starting=set_starting)

    def run(self, emit: EmitItemSync) -> Outcome:
        """Wait for a slot, run the body in a worker, pass its chunks to `emit`, and return its outcome.

        Raises PickleError when the function or an argument cannot be pickled, InvalidResultError when a result cannot
        be unpickled, ToolConnectionError when the worker does not start or ends early, CancelledError after `stop`.
        """

        def handle(reply: bytes, send: Send) -> Outcome | None:
            return self.handle_reply(reply, emit, send, while_waiting=self._slots.lend)

        request = self.encode_request({})
        if not self._slots.acquire(self._turn):
            raise concurrent.futures.CancelledError
        try:
            return self._run.run(request, handle)
        except WorkerLostError as error:
            message = f"The worker process of tool {self.plan.name!r} {error}"
            explanation = f"{message}; its standard error may say why." if str(error).startswith("ended") else None
            raise ToolConnectionError(f"{message}.", tool=self.plan.name, explanation=explanation) from error.__cause__
        finally:
            self._slots.release()

    def stop(self) -> None:
        """Kill the worker, whatever it is doing, or leave the queue."""
        self._run.stop()
        self._turn.set()


def run_killable(request: bytes, link: Link, seconds: float | None) -> bytes:
    """Run a pickled CallRequest in a worker process, pass its replies to `link`, and return the one that ends the call.

    The worker is killed, with all that it started, when the caller cancels the call and after `seconds`, without those
    in which it waits for its caller. Raises WorkerLostError, and CancelledError when it was killed.
    """
    run: WorkerRun[bytes] = WorkerRun(keeps_children=False)

    def handle(reply: bytes, send: Send) -> bytes | None:
        if replies.is_final(reply):
            return reply
        if replies.is_chunk(reply):
            link.send_chunk(reply)
            send(b"")
        elif replies.is_question(reply):
            send(link.ask(reply))
        else:
            link.send(reply)
        return None

    link.on_cancel(run.stop)
    with link.limited(seconds, run.stop):
        return run.run(request, handle)
