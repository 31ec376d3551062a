"""BodyCall: one call of a body in another process: its request, and what the replies mean here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import INVALID_RESULT, InvalidResultError, LimitExceededError, PickleError, UnboundStateError
from ahvn_tools.execution.convert import body_error_text
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.pickling import dumps, is_picklable, to_path
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.threads import EmitItemSync
from ahvn_tools.execution.workers import replies
from ahvn_tools.execution.workers.worker_request import ContextSnapshot, WorkerRequest
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction.texts import redact


class BodyCall:
    """One call of a body in another process, as its caller sees it."""

    place = "worker process"
    """Where the body runs, in messages."""
    is_on_this_computer = True

    def __init__(self, plan: Plan, body: Body, values: Arguments, *, has_reader: bool) -> None:
        """Prepare the call. `has_reader` says whether a caller reads the chunks."""
        self.plan = plan
        self.has_reader = has_reader
        self._body = body
        self._values = values
        self._context = next((value for value in values.values() if isinstance(value, ToolContext)), ToolContext())

    def encode_request(self, state: JsonObject, *, max_reply_bytes: int | None = None) -> bytes:
        """Return the pickled WorkerRequest; the body's ToolContext gets this `state`. Raises PickleError."""
        values = {
            name: ContextSnapshot.capture(value, state, has_reader=self.has_reader)
            if isinstance(value, ToolContext)
            else value
            for name, value in self._values.items()
        }
        positional, named = self.plan.to_args_kwargs(values)
        request = WorkerRequest(
            body=to_path(self._body),
            positional=positional,
            named=named,
            is_async=self.plan.is_async,
            limits=self.plan.item_limits,
            has_reader=self.has_reader,
            max_reply_bytes=max_reply_bytes,
        )
        try:
            return dumps(request, keeps_file_names=self.is_on_this_computer)
        except Exception as error:
            raise self._pickle_error(values, error) from error

    def _pickle_error(self, values: Arguments, error: Exception) -> PickleError:
        """Return the error that names what cannot be pickled: a parameter or the function."""
        tool, error_type = self.plan.name, type(error).__name__
        for name, value in values.items():
            if not is_picklable(value):
                return PickleError(
                    f"Parameter {name!r} of {tool!r} got a {type(value).__name__}, which cannot be sent to a "
                    f"{self.place} ({error_type}): pass the data that it is made from, and create it in the tool, or "
                    "bind the parameter to a WorkerResolver."
                )
        return PickleError(
            f"The function of {tool!r} cannot be sent to a {self.place} ({error_type}): "
            "make it importable, or remove the locks, files and connections that it refers to."
        )

    def handle_reply(
        self,
        reply: bytes,
        emit: EmitItemSync,
        send: Callable[[bytes], Any],
        *,
        while_waiting: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> Outcome | None:
        """Do what a reply asks for, and return the outcome of the body if the reply has it.

        `send` answers the worker: with b"" to request the next chunk, else with the pickled exception that `ask`
        raises. `while_waiting` is held while the reader or a person takes their time.
        """
        kind, *payload = self._decode(reply)
        if kind == "chunk":
            with while_waiting():
                emit(*payload)
            send(b"")
        elif kind == "output":
            self._context.append_output(*payload)
        elif kind == "progress":
            self._context.report_progress(*payload)
        elif kind == "ask":
            with while_waiting():
                error = self._ask(*payload)
            send(dumps(error))
        elif kind != "started":
            return self._to_outcome(kind, *payload)
        return None

    def _ask(self, action: str, details: Any) -> Exception | None:
        """Ask for the worker, and return what `ask` raises."""
        try:
            self._context.ask(action, details)
        except Exception as error:  # noqa: BLE001  # raised again in the worker
            return error
        return None

    def _decode(self, reply: bytes) -> tuple[Any, ...]:
        try:
            return replies.decode(reply)
        except BaseException as error:  # a user's __setstate__ may raise anything, SystemExit, too
            raise InvalidResultError(
                INVALID_RESULT,
                tool=self.plan.name,
                explanation=f"A result of tool {self.plan.name!r} cannot be unpickled in the calling process "
                f"({type(error).__name__}): return plain values.",
            ) from error

    def _to_outcome(self, kind: str, ends_session: bool, *payload: Any) -> Outcome:
        if ends_session:
            self._context.end_session()
        tool = self.plan.name
        if kind == "value":
            return Outcome(*payload)
        if kind == "error":
            error = _without_exit(replies.decode_error(*payload))
            if isinstance(error, UnboundStateError):
                error.tool = tool
            return Outcome(error=error, is_runner_error=self._is_of_resolver(error))
        if kind == "too_large":
            message = f"Tool {tool!r} made a result of more than {payload[0]:,} bytes: ask it for less."
            explanation = f"{message} Its host can raise `max_bytes`."
            return Outcome(error=LimitExceededError(message, tool=tool, explanation=explanation))
        type_name, text = payload
        if kind == "unpicklable":
            text = f"A {self.place} cannot send back a {type_name} ({text}): return plain values."
            return Outcome(error=InvalidResultError(INVALID_RESULT, tool=tool, explanation=text))
        text = redact(text, self.plan.hidden_values(self._values, self._body))
        message = (
            f"Tool {tool!r} cannot be loaded in a {self.place} ({type_name}: {text}): "
            "make its function and the types of its arguments importable there."
        )
        return Outcome(error=PickleError(message))

    def _is_of_resolver(self, error: BaseException) -> bool:
        """Return whether a WorkerResolver has failed, and so the body has not run."""
        resolved = [bound.parameter.name for bound in self.plan.bound_parameters if bound.is_resolved_by_worker]
        return isinstance(error, UnboundStateError) and error.parameter in resolved


def _without_exit(error: BaseException) -> BaseException:
    """Return the exception of a body as its caller may raise it: a SystemExit concerns the worker alone."""
    if not isinstance(error, SystemExit):
        return error
    failure = RuntimeError(f"The function has raised {body_error_text(error)}")
    failure.__cause__ = error.__cause__  # the traceback of the worker
    return failure


class WorkerLostError(Exception):
    """The worker did not start, or has ended before it returned a result. The text says what it did."""
