"""One call in a worker process. A timeout or a cancellation kills the worker and all processes that it started."""

from __future__ import annotations

import concurrent.futures
import pickle
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import INVALID_RESULT, InvalidResultError, PickleError, ToolConnectionError
from ahvn_tools.execution.isolation import pool, protocol, slots
from ahvn_tools.execution.isolation.worker_process import WorkerProcess
from ahvn_tools.execution.outcome import Outcome, is_consumable
from ahvn_tools.execution.pickling import dumps, is_picklable, to_import_path
from ahvn_tools.execution.plan import MAX_START_SECONDS, Arguments, Body, Plan
from ahvn_tools.execution.threads import EmitItemSync
from ahvn_tools.redaction import redact

MAX_CHECK_SECONDS = 1.0
"""How many seconds a worker may take after a call to find out what the body has left running."""


class ProcessCall:
    """One call in a worker process. One thread runs it, and any other thread may stop it."""

    def __init__(
        self, plan: Plan, body: Body, values: Arguments, *, has_reader: bool, set_starting: Callable[[bool], None]
    ) -> None:
        """Prepare the call. `has_reader` says whether a caller reads the chunks.

        `set_starting` is called with True before a worker starts and imports what the body needs, which has its own
        time limit, and with False when the body starts and when the call is over.
        """
        self._plan = plan
        self._body = body
        self._values = values
        self._has_reader = has_reader
        self._set_starting = set_starting
        self._context = next((value for value in values.values() if isinstance(value, ToolContext)), ToolContext())
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None
        self._call_id = protocol.make_call_id()
        self._turn = threading.Event()
        self._slots = slots.process_slots
        self._is_stopped = False
        self._start_deadline = 0.0

    def run(self, emit: EmitItemSync) -> Outcome:
        """Wait for a slot, run the body in a worker, pass its chunks to `emit`, and return its outcome.

        Raises PickleError when the function or an argument cannot be pickled, InvalidResultError when a result cannot
        be unpickled, ToolConnectionError when the worker does not start or ends early, CancelledError after `stop`.
        """
        request = self._encode_request()
        if not self._slots.acquire(self._turn):
            raise concurrent.futures.CancelledError
        try:
            self._start_deadline = monotonic() + MAX_START_SECONDS
            self._set_starting(True)
            while (outcome := self._run_in_process(request, emit)) is None:
                pass
            return outcome
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

    def _encode_request(self) -> bytes:
        values = {
            name: protocol.ContextSnapshot.capture(value) if isinstance(value, ToolContext) else value
            for name, value in self._values.items()
        }
        positional, named = self._plan.to_args_kwargs(values)
        request = protocol.CallRequest(
            body=to_import_path(self._body),
            positional=positional,
            named=named,
            is_async=self._plan.is_async,
            limits=self._plan.item_limits,
            has_reader=self._has_reader,
        )
        try:
            pickled = dumps(request)
        except Exception as error:
            raise self._pickle_error(values, error) from error
        return dumps((protocol.ProcessEnvironment.capture(), pickled))

    def _pickle_error(self, values: Arguments, error: Exception) -> PickleError:
        """Return the error that names what cannot be pickled: a parameter or the function."""
        tool, error_type = self._plan.name, type(error).__name__
        for name, value in values.items():
            if not is_picklable(value):
                return PickleError(
                    f"Parameter {name!r} of {tool!r} got a {type(value).__name__}, which cannot be sent to a worker "
                    f"process ({error_type}): pass the data that it is made from, and create it in the tool."
                )
        return PickleError(
            f"The function of {tool!r} cannot be sent to a worker process ({error_type}): "
            "make it importable, or remove the locks, files and connections that it refers to."
        )

    def _run_in_process(self, request: bytes, emit: EmitItemSync) -> Outcome | None:
        """Return the outcome of the body; None when an idle process had ended before it accepted the request."""
        outcome, is_reusable = None, False
        try:
            process = pool.process_pool.acquire(keeps_children=self._plan.keeps_children)
        except OSError as error:
            raise self._connection_error(f"could not be started: {error}") from error
        with self._lock:
            self._process = process  # from here on, `stop` kills it
        try:
            if self._is_stopped:
                raise concurrent.futures.CancelledError
            if self._is_accepted(process, request):
                self._wait_for_start(process)
                outcome = self._read_outcome(process, emit)
                is_reusable = self._is_left_clean(process)
            elif process.is_new:
                raise self._process_lost_error(process)
            return outcome
        finally:
            with self._lock:
                self._process = None
                is_reusable = is_reusable and not self._is_stopped
            pool.process_pool.release(process, is_reusable=is_reusable)

    def _is_accepted(self, process: WorkerProcess, request: bytes) -> bool:
        if process.is_new:
            self._wait_for_start(process)
            if process.receive(protocol.NO_CALL) != protocol.READY:
                return False
        return process.send(self._call_id, request) and process.receive(self._call_id) == protocol.ACCEPTED

    def _is_left_clean(self, process: WorkerProcess) -> bool:
        """Return whether the body has left no thread and no process running in the worker."""
        return process.wait_readable(MAX_CHECK_SECONDS) and process.receive(self._call_id) == protocol.REUSABLE

    def _wait_for_start(self, process: WorkerProcess) -> None:
        """Wait until the worker, or the body in it, has started or failed to. Raises ToolConnectionError."""
        if not process.wait_readable(self._start_deadline - monotonic()):
            raise self._connection_error(
                f"did not start, or did not import what the tool needs, within {MAX_START_SECONDS:g} seconds"
            )

    def _read_outcome(self, process: WorkerProcess, emit: EmitItemSync) -> Outcome:
        """Read replies until the body has ended, and return its outcome."""
        while (frame := process.receive(self._call_id)) is not None:
            kind, *payload = self._unpickle_reply(frame)
            if kind == "started":
                self._set_starting(False)
            elif kind == "chunk":
                with self._slots.lend():
                    emit(*payload)
                process.send(self._call_id, protocol.NEXT_CHUNK)
            elif kind == "output":
                self._context.append_output(*payload)
            elif kind == "progress":
                self._context.report_progress(*payload)
            elif kind == "ask":
                with self._slots.lend():
                    error = self._ask(*payload)
                process.send(self._call_id, protocol.ANSWER + dumps(error))
            else:
                return self._to_outcome(kind, *payload)
        raise self._process_lost_error(process)

    def _ask(self, action: str, details: Any) -> Exception | None:
        """Ask for the worker, and return what `ask` raises."""
        try:
            self._context.ask_sync(action, details)
        except Exception as error:  # noqa: BLE001  # raised again in the worker
            return error
        return None

    def _unpickle_reply(self, frame: bytes) -> tuple[Any, ...]:
        try:
            reply: tuple[Any, ...] = pickle.loads(frame)  # noqa: S301  # from a process that this one started
        except BaseException as error:  # a user's __setstate__ may raise anything, SystemExit, too
            raise InvalidResultError(
                INVALID_RESULT,
                tool=self._plan.name,
                explanation=f"A result of tool {self._plan.name!r} cannot be unpickled in the calling process "
                f"({type(error).__name__}): return plain values.",
            ) from error
        return reply

    def _to_outcome(self, kind: str, ends_session: bool, *payload: Any) -> Outcome:
        if ends_session:
            self._context.end_session()
        tool = self._plan.name
        if kind == "value":
            [value] = payload
            if is_consumable(value):  # the worker has consumed all others; this one would run code here
                text = f"A worker process sent back a {type(value).__name__}, which is not data: return plain values."
                return Outcome(error=InvalidResultError(INVALID_RESULT, tool=tool, explanation=text))
            return Outcome(value)
        if kind == "error":
            return Outcome(error=_unpickle_error(*payload))
        type_name, text = payload
        if kind == "unpicklable":
            text = f"A worker process cannot send back a {type_name} ({text}): return plain values."
            return Outcome(error=InvalidResultError(INVALID_RESULT, tool=tool, explanation=text))
        text = redact(text, self._plan.hidden_values(self._values))
        message = (
            f"Tool {tool!r} cannot be loaded in a worker process ({type_name}: {text}): "
            "make its function and the types of its arguments importable there."
        )
        return Outcome(error=PickleError(message))

    def _process_lost_error(self, process: WorkerProcess) -> Exception:
        if self._is_stopped:
            return concurrent.futures.CancelledError()
        process.kill()
        return self._connection_error(
            f"ended ({process.describe_exit()}) before it returned a result", "; its standard error may say why"
        )

    def _connection_error(self, problem: str, fix: str = "") -> ToolConnectionError:
        message = f"The worker process of tool {self._plan.name!r} {problem}"
        explanation = f"{message}{fix}." if fix else None
        return ToolConnectionError(f"{message}.", tool=self._plan.name, explanation=explanation)


class WorkerTraceback(Exception):  # noqa: N818  # a traceback as the cause of an exception
    """Where in the worker process an exception was raised. It is the cause of the exception in this process."""

    def __str__(self) -> str:
        """Return the traceback, which starts on a new line."""
        return f"\n{self.args[0]}"


def _unpickle_error(pickled: bytes, fallback: bytes, trace: str) -> BaseException:
    try:
        error: BaseException = pickle.loads(pickled)  # noqa: S301  # from a process that this one started
    except BaseException:  # noqa: BLE001  # a user's __setstate__ may raise anything, SystemExit, too
        error = pickle.loads(fallback)  # noqa: S301  # as above
    error.__cause__ = WorkerTraceback(trace)
    return error
