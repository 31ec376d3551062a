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
from ahvn_tools.execution import frames, processes
from ahvn_tools.execution.hand import Give
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.pickles import dumped, is_picklable, reference
from ahvn_tools.execution.plan import START_LIMIT, Arguments, Body, Plan
from ahvn_tools.execution.processes import Slot, UnreadableError
from ahvn_tools.redaction import redact


class Errand:
    """One call in a worker process: one thread talks to the worker, and any other may stop it."""

    def __init__(
        self, plan: Plan, body: Body, values: Arguments, *, is_read: bool, starting: Callable[[bool], None]
    ) -> None:
        """Take a call. `is_read`: somebody reads its chunks. `starting` hears when the body is on its way, and begins.

        To be on its way, a worker has to start and to import what the body needs: that has a limit of its own.
        """
        self._plan = plan
        self._body = body
        self._values = values
        self._is_read = is_read
        self._starting = starting
        self._context = next((value for value in values.values() if isinstance(value, ToolContext)), None)
        self._lock = threading.Lock()
        self._slot: Slot | None = None
        self._is_stopped = self._is_starting = False

    def run(self, give: Give) -> Outcome:
        """Run the body in a worker and return what came of it; `give` gets its chunks.

        Raises PickleError for what cannot go over, and ToolConnectionError when the worker has been lost.
        """
        frame = self._frame()
        self._is_starting = True
        self._starting(True)
        try:
            until = monotonic() + START_LIMIT
            while (slot := processes.slots.take()) is not None:
                if (outcome := self._run_in(slot, frame, give, until)) is not None:
                    return outcome
            slot = self._started(until)
            outcome = self._run_in(slot, frame, give, until)
            return self._lost(slot) if outcome is None else outcome
        finally:
            self._begun()

    def stop(self) -> None:
        """End the worker, whatever it does."""
        with self._lock:
            self._is_stopped = True
            slot = self._slot
        if slot is not None:
            slot.kill()

    def _frame(self) -> bytes:
        values = {name: self._asked(value) for name, value in self._values.items()}
        positional, named = self._plan.spread(values)
        job = frames.Job(
            body=reference(self._body),
            positional=positional,
            named=named,
            is_async=self._plan.is_async,
            is_read=self._is_read,
        )
        try:
            packed = dumped(job)
        except Exception as error:
            raise self._unpacked(values, error) from error
        return dumped((frames.Surroundings.here(), packed))

    @staticmethod
    def _asked(value: Any) -> Any:
        if not isinstance(value, ToolContext):
            return value
        return frames.Asked(
            call_id=value.call_id,
            tool=value.tool,
            run_id=value.run_id,
            session_id=value.session_id,
            roots=value.roots,
            is_approved=value.is_approved,
        )

    def _unpacked(self, values: Arguments, error: Exception) -> PickleError:
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

    def _begun(self) -> None:
        if self._is_starting:
            self._is_starting = False
            self._starting(False)

    def _started(self, until: float) -> Slot:
        try:
            slot = processes.slots.start()
        except OSError as error:
            raise ToolConnectionError(
                f"A worker process for tool {self._plan.name!r} could not be started: {error}.", tool=self._plan.name
            ) from error
        self._hold(slot)
        is_ready = False
        try:
            self._wait_for(slot, until)
            is_ready = slot.receive() == ("ready",)
        finally:
            if not is_ready:
                self._release(slot, is_whole=False)
        if is_ready:
            return slot
        raise ToolConnectionError(
            f"The worker process of tool {self._plan.name!r} ended while it started ({slot.how_it_ended()}); "
            "its standard error says more.",
            tool=self._plan.name,
        )

    def _wait_for(self, slot: Slot, until: float) -> None:
        """Wait until a worker says that it, or a body, has started. Raises ToolConnectionError."""
        if not slot.speaks(until - monotonic()):
            raise ToolConnectionError(
                f"The worker process of tool {self._plan.name!r} did not start within {START_LIMIT:g} seconds, "
                "or did not import in that time what the tool needs.",
                tool=self._plan.name,
            )

    def _run_in(self, slot: Slot, frame: bytes, give: Give, until: float) -> Outcome | None:
        """Return what came of the body; None where the worker had ended before it took the call."""
        is_whole = False
        self._hold(slot)
        try:
            if not slot.takes(frame):
                return None
            self._wait_for(slot, until)
            outcome = self._followed(slot, give)
            is_whole = outcome is not None
            return self._lost(slot) if outcome is None else outcome
        except UnreadableError as error:
            message = f"What tool {self._plan.name!r} gave cannot be made again here ({error}): return plain values."
            return Outcome(error=InvalidResultError(message, tool=self._plan.name), is_ours=True)
        finally:
            self._release(slot, is_whole=is_whole)

    def _hold(self, slot: Slot) -> None:
        with self._lock:
            self._slot = slot
            is_stopped = self._is_stopped
        if is_stopped:
            self._release(slot, is_whole=False)
            raise concurrent.futures.CancelledError

    def _release(self, slot: Slot, *, is_whole: bool) -> None:
        with self._lock:
            self._slot = None
            is_whole = is_whole and not self._is_stopped
        if is_whole:
            processes.slots.give_back(slot)
        else:
            processes.slots.end(slot)

    def _followed(self, slot: Slot, give: Give) -> Outcome | None:
        """Take what the worker tells until the body has ended; None where the worker has ended before."""
        while (told := slot.receive()) is not None:
            kind, *rest = told
            if kind == "begun":
                self._begun()
            elif kind == "chunk":
                give(rest[0])
                slot.send(frames.NEXT)
            elif self._context is not None and kind == "output":
                self._context.append_output(rest[0])
            elif self._context is not None and kind == "progress":
                self._context.report_progress(*rest)
            else:
                return self._outcome(kind, rest)
        return None

    def _outcome(self, kind: str, told: list[Any]) -> Outcome:
        if kind == "unread":
            text = redact(told[1], self._plan.hidden_values(self._values))
            message = (
                f"Tool {self._plan.name!r} cannot be made again in a worker process ({told[0]}: {text}): "
                "make what it needs importable there."
            )
            return Outcome(error=PickleError(message))
        ends_session, *rest = told
        if ends_session and self._context is not None:
            self._context.end_session()
        if kind == "value":
            return Outcome(rest[0])
        if kind == "unsent":
            message = f"A worker process cannot send back a {rest[0]} ({rest[1]}): return plain values."
            return Outcome(error=InvalidResultError(message, tool=self._plan.name), is_ours=True)
        return Outcome(error=_error(*rest))

    def _lost(self, slot: Slot) -> Outcome:
        if self._is_stopped:
            raise concurrent.futures.CancelledError
        slot.kill()
        message = f"The worker process of tool {self._plan.name!r} ended ({slot.how_it_ended()}) before it answered."
        return Outcome(error=ToolConnectionError(message, tool=self._plan.name), is_ours=True)


class WorkerTraceback(Exception):  # noqa: N818  # it is a text that stands as a cause
    """Where in the worker process an exception was raised; the cause of what is raised here."""

    def __str__(self) -> str:
        """Give the text on lines of its own."""
        return f"\n{self.args[0]}"


def _error(packed: bytes | None, kind: int, name: str, text: str, trace: str) -> BaseException:
    """Return an exception of a body; where it could not be pickled, one that looks like it."""
    try:
        error: BaseException = pickle.loads(packed or b"")  # noqa: S301  # from a process of ours
    except Exception:  # noqa: BLE001  # a foreign __setstate__ may raise anything
        error = type(name, (frames.KINDS[kind],), {})(text)
    error.__cause__ = WorkerTraceback(trace)
    return error
