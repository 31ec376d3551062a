"""Errand: one call in a worker process, which a timeout or a cancellation ends with all that it has started."""

from __future__ import annotations

import concurrent.futures
import pickle
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import InvalidResultError, PickleError, ToolConnectionError
from ahvn_tools.execution.hand import EmitItemSync
from ahvn_tools.execution.isolation import pool, protocol
from ahvn_tools.execution.isolation.pool import ReplyUnpicklingError, WorkerProcess
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.pickling import dumps, is_picklable, to_import_path
from ahvn_tools.execution.plan import MAX_START_SECONDS, Arguments, Body, Plan
from ahvn_tools.redaction import redact


class ProcessCall:
    """One call in a worker process: one thread talks to the worker, and any other may stop it."""

    def __init__(
        self, plan: Plan, body: Body, values: Arguments, *, has_reader: bool, set_starting: Callable[[bool], None]
    ) -> None:
        """Take a call. `is_read`: somebody reads its chunks. `starting` hears when the body is on its way, and begins.

        To be on its way, a worker has to start and to import what the body needs: that has a limit of its own.
        """
        self._plan = plan
        self._body = body
        self._values = values
        self._has_reader = has_reader
        self._set_starting = set_starting
        self._context = next((value for value in values.values() if isinstance(value, ToolContext)), None)
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None
        self._is_stopped = self._is_starting = False

    def run(self, emit: EmitItemSync) -> Outcome:
        """Run the body in a worker and return what came of it; `give` gets its chunks.

        Raises PickleError for what cannot go over, and ToolConnectionError when the worker has been lost.
        """
        frame = self._encode_request()
        self._is_starting = True
        self._set_starting(True)
        try:
            until = monotonic() + MAX_START_SECONDS
            while (slot := pool.process_pool.take_idle()) is not None:
                if (outcome := self._run_in_process(slot, frame, emit, until)) is not None:
                    return outcome
            slot = self._start_process(until)
            outcome = self._run_in_process(slot, frame, emit, until)
            return self._process_lost_outcome(slot) if outcome is None else outcome
        finally:
            self._mark_started()

    def stop(self) -> None:
        """End the worker, whatever it does."""
        with self._lock:
            self._is_stopped = True
            slot = self._process
        if slot is not None:
            slot.kill()

    def _encode_request(self) -> bytes:
        values = {name: self._to_snapshot(value) for name, value in self._values.items()}
        positional, named = self._plan.to_args_kwargs(values)
        job = protocol.CallRequest(
            body=to_import_path(self._body),
            positional=positional,
            named=named,
            is_async=self._plan.is_async,
            has_reader=self._has_reader,
        )
        try:
            packed = dumps(job)
        except Exception as error:
            raise self._pickle_error(values, error) from error
        return dumps((protocol.ProcessEnvironment.capture(), packed))

    @staticmethod
    def _to_snapshot(value: Any) -> Any:
        if not isinstance(value, ToolContext):
            return value
        return protocol.ContextSnapshot(
            call_id=value.call_id,
            tool=value.tool,
            run_id=value.run_id,
            session_id=value.session_id,
            roots=value.roots,
            is_approved=value.is_approved,
        )

    def _pickle_error(self, values: Arguments, error: Exception) -> PickleError:
        """Return the error that names what cannot go over."""
        kind = type(error).__name__
        for name, value in values.items():
            if not is_picklable(value):
                return PickleError(
                    f"Parameter {name!r} of {self._plan.name!r} got a {type(value).__name__}, which cannot go to a "
                    f"worker process ({kind}): pass what it is made from, and make it in the tool."
                )
        return PickleError(
            f"The function of {self._plan.name!r} cannot go to a worker process ({kind}): "
            "let it not hold on to locks, files or connections, or make it importable."
        )

    def _mark_started(self) -> None:
        if self._is_starting:
            self._is_starting = False
            self._set_starting(False)

    def _start_process(self, until: float) -> WorkerProcess:
        try:
            slot = pool.process_pool.start()
        except OSError as error:
            raise ToolConnectionError(
                f"A worker process for tool {self._plan.name!r} could not be started: {error}.", tool=self._plan.name
            ) from error
        self._attach_process(slot)
        is_ready = False
        try:
            self._wait_for_reply(slot, until)
            is_ready = slot.receive() == ("ready",)
        finally:
            if not is_ready:
                self._release_process(slot, is_reusable=False)
        if is_ready:
            return slot
        raise ToolConnectionError(
            f"The worker process of tool {self._plan.name!r} ended while it started ({slot.describe_exit()}); "
            "its standard error says more.",
            tool=self._plan.name,
        )

    def _wait_for_reply(self, process: WorkerProcess, until: float) -> None:
        """Wait until a worker says that it, or a body, has started. Raises ToolConnectionError."""
        if not process.wait_readable(until - monotonic()):
            raise ToolConnectionError(
                f"The worker process of tool {self._plan.name!r} did not start within {MAX_START_SECONDS:g} seconds, "
                "or did not import in that time what the tool needs.",
                tool=self._plan.name,
            )

    def _run_in_process(self, process: WorkerProcess, frame: bytes, emit: EmitItemSync, until: float) -> Outcome | None:
        """Return what came of the body; None where the worker had ended before it took the call."""
        is_whole = False
        self._attach_process(process)
        try:
            if not process.send_request(frame):
                return None
            self._wait_for_reply(process, until)
            outcome = self._read_replies(process, emit)
            is_whole = outcome is not None
            return self._process_lost_outcome(process) if outcome is None else outcome
        except ReplyUnpicklingError as error:
            message = f"What tool {self._plan.name!r} gave cannot be made again here ({error}): return plain values."
            return Outcome(error=InvalidResultError(message, tool=self._plan.name), is_runner_error=True)
        finally:
            self._release_process(process, is_reusable=is_whole)

    def _attach_process(self, process: WorkerProcess) -> None:
        with self._lock:
            self._process = process
            is_stopped = self._is_stopped
        if is_stopped:
            self._release_process(process, is_reusable=False)
            raise concurrent.futures.CancelledError

    def _release_process(self, process: WorkerProcess, *, is_reusable: bool) -> None:
        with self._lock:
            self._process = None
            is_reusable = is_reusable and not self._is_stopped
        if is_reusable:
            pool.process_pool.release(process)
        else:
            pool.process_pool.discard(process)

    def _read_replies(self, process: WorkerProcess, emit: EmitItemSync) -> Outcome | None:
        """Take what the worker tells until the body has ended; None where the worker has ended before."""
        while (told := process.receive()) is not None:
            kind, *rest = told
            if kind == "begun":
                self._mark_started()
            elif kind == "chunk":
                emit(rest[0])
                process.send(protocol.NEXT_CHUNK)
            elif self._context is not None and kind == "output":
                self._context.append_output(rest[0])
            elif self._context is not None and kind == "progress":
                self._context.report_progress(*rest)
            else:
                return self._to_outcome(kind, rest)
        return None

    def _to_outcome(self, kind: str, payload: list[Any]) -> Outcome:
        if kind == "unread":
            text = redact(payload[1], self._plan.hidden_values(self._values))
            message = (
                f"Tool {self._plan.name!r} cannot be made again in a worker process ({payload[0]}: {text}): "
                "make what it needs importable there."
            )
            return Outcome(error=PickleError(message))
        ends_session, *rest = payload
        if ends_session and self._context is not None:
            self._context.end_session()
        if kind == "value":
            return Outcome(rest[0])
        if kind == "unsent":
            message = f"A worker process cannot send back a {rest[0]} ({rest[1]}): return plain values."
            return Outcome(error=InvalidResultError(message, tool=self._plan.name), is_runner_error=True)
        return Outcome(error=_unpickle_error(*rest))

    def _process_lost_outcome(self, process: WorkerProcess) -> Outcome:
        if self._is_stopped:
            raise concurrent.futures.CancelledError
        process.kill()
        message = (
            f"The worker process of tool {self._plan.name!r} ended ({process.describe_exit()}) before it answered."
        )
        return Outcome(error=ToolConnectionError(message, tool=self._plan.name), is_runner_error=True)


class WorkerTraceback(Exception):  # noqa: N818  # it is a text that stands as a cause
    """Where in the worker process an exception was raised; the cause of what is raised here."""

    def __str__(self) -> str:
        """Give the text on lines of its own."""
        return f"\n{self.args[0]}"


def _unpickle_error(packed: bytes | None, kind: int, name: str, text: str, trace: str) -> BaseException:
    """Return an exception of a body; where it could not be pickled, one that looks like it."""
    try:
        error: BaseException = pickle.loads(packed or b"")  # noqa: S301  # from a process of ours
    except Exception:  # noqa: BLE001  # a foreign __setstate__ may raise anything
        error = type(name, (protocol.FALLBACK_EXCEPTION_TYPES[kind],), {})(text)
    error.__cause__ = WorkerTraceback(trace)
    return error
