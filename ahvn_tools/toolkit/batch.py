"""Batch: all calls of one answer, run in parallel and answered in their order; and what waited, resumed."""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ahvn_tools.errors import ToolkitError
from ahvn_tools.execution.drive import carried
from ahvn_tools.execution.fate import Fate
from ahvn_tools.middleware.approve import ApprovalRequest, rejected
from ahvn_tools.middleware.shown import digest
from ahvn_tools.results import ErrorDetail, ToolCall, ToolResult
from ahvn_tools.toolkit import calls, meta
from ahvn_tools.toolkit.calls import Terms
from ahvn_tools.toolkit.exclusive import in_order, key_of
from ahvn_tools.toolkit.run import Run
from ahvn_tools.toolkit.view import View

JsonObject = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Calls to be run, and what is known of them already."""

    view: View
    calls: Sequence[ToolCall]
    format: str | None = None
    limit: int = 1
    """So many run at once."""
    answered: Mapping[int, ToolResult] = field(default_factory=dict)
    """Results of calls that are not run (again), by place."""
    is_approved: bool = False
    """Whether somebody has allowed those that are run."""
    id: str = field(default_factory=lambda: f"run_{uuid.uuid4().hex}")
    """What the calls have in common, for middleware."""

    def run(self) -> Run:
        """Run it from sync code. A single call runs in the caller's own thread."""
        places = [place for place in range(len(self.calls)) if place not in self.answered]
        if len(places) > 1:
            from ahvn_tools.execution import bridge

            made: Run = bridge.run(carried, self.arun).get()
            return made
        return self._run_of({place: _refused(self.calls[place]) or self._exec(place) for place in places})

    async def arun(self) -> Run:
        """Run it from async code, exclusive calls in their order."""
        places = [place for place in range(len(self.calls)) if place not in self.answered]
        if len(places) == 1:
            return self._run_of({place: await self._answer(place, self._terms(self.calls[place])) for place in places})
        keys = [self._key(self.calls[place]) for place in places]
        with contextlib.ExitStack() as running:
            terms = {place: self._running(running, self.calls[place]) for place in places}
            # a SystemExit must reach no loop
            jobs = [functools.partial(carried, self._answer, place, terms[place]) for place in places]
            made = await in_order(jobs, keys, self.limit)
        return self._run_of({place: outcome.get() for place, outcome in zip(places, made, strict=True)})

    async def _answer(self, place: int, terms: Terms) -> ToolResult:
        call = self.calls[place]
        return _refused(call) or _answering(call, await calls.aexecute(self.view, call.name, call.arguments, terms))

    def _running(self, stack: contextlib.ExitStack, call: ToolCall) -> Terms:
        """Let a call be cancelled from now on, while it waits for its turn, too."""
        fate = Fate()
        stack.enter_context(self.view.catalog.running.under(call.id, self.view.holders, fate))
        return replace(self._terms(call), fate=fate)

    def _exec(self, place: int) -> ToolResult:
        call = self.calls[place]
        return _answering(call, calls.execute(self.view, call.name, call.arguments, self._terms(call)))

    def _terms(self, call: ToolCall) -> Terms:
        return Terms(id=call.id, run_id=self.id, is_approved=self.is_approved)

    def _key(self, call: ToolCall) -> Hashable | None:
        """Return what a call is exclusive by; None for one that may run beside others, or will not run."""
        call = self._meant(call)
        entry = self.view.catalog.entries.get(call.name)
        return None if entry is None or call.error is not None else key_of(entry.exclusive, call.arguments)

    def _meant(self, call: ToolCall) -> ToolCall:
        """Return the call that a call is about: that of the tool that `call_tool` is to call, or itself."""
        entry = self.view.catalog.entries.get(call.name)
        if entry is None or call.error is not None or entry.spec.function is not meta.call_tool:
            return call
        return meta.inner(call) or call

    def _run_of(self, made: Mapping[int, ToolResult]) -> Run:
        results = {**self.answered, **made}
        return Run.of([(call, results[place]) for place, call in enumerate(self.calls)], self.format)


def resumed(
    view: View,
    waiting: Run | ApprovalRequest | Mapping[str, Any],
    *,
    approved: bool | Mapping[str, bool],
    arguments: Mapping[str, Any] | None,
    limit: int,
) -> Batch:
    """Return the batch that goes on with what waited. Raises ToolkitError for what does not fit to the request."""
    if isinstance(waiting, Run):
        return _of_run(view, waiting, approved, arguments or {}, limit)
    request = waiting if isinstance(waiting, ApprovalRequest) else ApprovalRequest.from_json(waiting)
    if not isinstance(approved, bool):
        raise ToolkitError("One request is approved or not: pass approved=True or False.")
    exact = _arguments(request, arguments) if approved else request.arguments
    call = ToolCall(id=request.call_id, name=request.tool, arguments=exact)
    refused = _checked(view, request) if approved else replace(rejected(request.tool), id=request.call_id)
    answered = {} if refused is None else {0: refused}
    return Batch(view=view, calls=[call], limit=limit, answered=answered, is_approved=True)


def _of_run(view: View, run: Run, approved: bool | Mapping[str, bool], edits: Mapping[str, Any], limit: int) -> Batch:
    """Return the batch of a whole run: its results so far, and what was decided of those calls that wait."""
    asked = {request.call_id for request in run.pending}
    decided = dict.fromkeys(asked, approved) if isinstance(approved, bool) else approved
    is_told = isinstance(decided, Mapping) and all(isinstance(one, bool) for one in decided.values())  # type: ignore[redundant-expr]  # a caller may give anything
    if not is_told:
        raise ToolkitError("Calls are approved or not: pass approved=True, False, or one of them by call id.")
    strangers = (decided.keys() | edits.keys()) - asked
    if strangers:
        raise ToolkitError(f"No call {min(strangers)!r} waits for approval. Waiting: {sorted(asked)}.")
    made = list(run.results)
    answered: dict[int, ToolResult] = {}
    for place, (call, result) in enumerate(run.results):
        if "approval" not in result.meta or call.id not in decided:
            answered[place] = result
            continue
        request = ApprovalRequest.from_json(result.meta["approval"])  # its own: two calls may have one id
        if not decided[call.id]:
            answered[place] = replace(rejected(call.name), id=call.id)
        elif (refused := _checked(view, request)) is not None:
            answered[place] = refused
        else:
            asked_for = call if request.tool == call.name else meta.inner(call) or call
            edited = _edited(request, edits.get(call.id, request.arguments), asked_for.arguments)
            made[place] = (replace(asked_for, arguments=edited), result)
    calls_now = [call for call, _ in made]
    return Batch(view=view, calls=calls_now, format=run.format, limit=limit, answered=answered, is_approved=True)


def _checked(view: View, request: ApprovalRequest) -> ToolResult | None:
    """Return the answer to a call whose tool has changed since; None when it may run. Raises ToolkitError."""
    session_id = view.holder.session_id if view.is_session else None
    if request.session_id != session_id:
        raise ToolkitError("The request was made in another session. Resume it there, with the same session_id.")
    entry = view.catalog.entries.get(request.tool)
    if entry is None or view.definition(entry).fingerprint == request.fingerprint:
        return None  # a tool that is gone is answered as any other
    message = f"The tool {request.tool!r} has changed since the call was made. Ask for the call again."
    return ToolResult(error=ErrorDetail(code="changed", message=message), id=request.call_id)


def _arguments(request: ApprovalRequest, given: Mapping[str, Any] | None) -> JsonObject:
    """Return the exact arguments of a request, or those that the approver gives in their place."""
    edits = _edited(request, given or {}, {})
    missing = [name for name in request.secrets if name not in edits or edits[name] == request.arguments.get(name)]
    if missing:
        raise ToolkitError(f"The request does not hold its secret arguments {missing}. Pass them as arguments=….")
    arguments = edits if given and not request.secrets else {**request.arguments, **edits}
    if edits.keys() <= set(request.secrets) and digest(arguments) != request.digest:
        raise ToolkitError("The arguments are not those that were asked for. Pass edited ones as arguments=….")
    return arguments


def _edited(request: ApprovalRequest, given: Any, asked: Mapping[str, Any]) -> JsonObject:
    """Return an approver's arguments, what is left as it is shown being what was asked for. Raises ToolkitError."""
    if not isinstance(given, Mapping):
        raise ToolkitError(f"An approver's arguments are a dict by parameter, not a {type(given).__name__}.")
    return request.exact(given, asked)


def _answering(call: ToolCall, result: ToolResult) -> ToolResult:
    """Return a result as the answer to a call. Of a call inside that waits for an approval nothing can be resumed."""
    meta, asked = result.meta, result.meta.get("approval")
    if asked is not None and not (isinstance(asked, Mapping) and asked.get("call_id") == call.id):
        meta = {key: value for key, value in meta.items() if key != "approval"}
    return replace(result, id=call.id, meta=meta)


def _refused(call: ToolCall) -> ToolResult | None:
    """Return the answer to a call that could not be read; None for one that can be run."""
    if call.error is None:
        return None
    return ToolResult(error=ErrorDetail(code="invalid_parameters", message=call.error), id=call.id)
