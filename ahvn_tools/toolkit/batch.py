"""Batch: all calls of one answer, run in parallel and answered in their order; and what waited, resumed."""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ahvn_tools.errors import ToolkitError
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.execution.scope import CallScope
from ahvn_tools.middleware.approve import ApprovalRequest, rejected_result
from ahvn_tools.middleware.redaction import arguments_digest
from ahvn_tools.results import ErrorDetail, ToolCall, ToolResult
from ahvn_tools.toolkit import calls, search_tools
from ahvn_tools.toolkit.calls import CallOptions
from ahvn_tools.toolkit.locks import lock_key, run_in_order
from ahvn_tools.toolkit.run_result import Run
from ahvn_tools.toolkit.visibility import StoreView

JsonObject = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Calls to be run, and what is known of them already."""

    view: StoreView
    calls: Sequence[ToolCall]
    format: str | None = None
    max_concurrency: int = 1
    """So many run at once."""
    known_results: Mapping[int, ToolResult] = field(default_factory=dict)
    """Results of calls that are not run (again), by place."""
    is_approved: bool = False
    """Whether somebody has allowed those that are run."""
    id: str = field(default_factory=lambda: f"run_{uuid.uuid4().hex}")
    """What the calls have in common, for middleware."""

    def run(self) -> Run:
        """Run it from sync code. A single call runs in the caller's own thread."""
        places = [place for place in range(len(self.calls)) if place not in self.known_results]
        if len(places) > 1:
            from ahvn_tools.execution import background_loop

            made: Run = background_loop.run(capture_outcome, self.arun).get()
            return made
        return self._to_run({place: _result_if_unreadable(self.calls[place]) or self._exec(place) for place in places})

    async def arun(self) -> Run:
        """Run it from async code, exclusive calls in their order."""
        places = [place for place in range(len(self.calls)) if place not in self.known_results]
        if len(places) == 1:
            return self._to_run(
                {place: await self._answer(place, self._call_options(self.calls[place])) for place in places}
            )
        keys = [self._lock_key(self.calls[place]) for place in places]
        with contextlib.ExitStack() as running:
            terms = {place: self._track(running, self.calls[place]) for place in places}
            # a SystemExit must reach no loop
            jobs = [functools.partial(capture_outcome, self._answer, place, terms[place]) for place in places]
            made = await run_in_order(jobs, keys, self.max_concurrency)
        return self._to_run({place: outcome.get() for place, outcome in zip(places, made, strict=True)})

    async def _answer(self, index: int, options: CallOptions) -> ToolResult:
        call = self.calls[index]
        return _result_if_unreadable(call) or _to_answer(
            call, await calls.aexecute(self.view, call.name, call.arguments, options)
        )

    def _track(self, stack: contextlib.ExitStack, call: ToolCall) -> CallOptions:
        """Let a call be cancelled from now on, while it waits for its turn, too."""
        fate = CallScope()
        stack.enter_context(self.view.store.active_calls.track(call.id, self.view.session_states, fate))
        return replace(self._call_options(call), scope=fate)

    def _exec(self, index: int) -> ToolResult:
        call = self.calls[index]
        return _to_answer(call, calls.execute(self.view, call.name, call.arguments, self._call_options(call)))

    def _call_options(self, call: ToolCall) -> CallOptions:
        return CallOptions(id=call.id, run_id=self.id, is_approved=self.is_approved)

    def _lock_key(self, call: ToolCall) -> Hashable | None:
        """Return what a call is exclusive by; None for one that may run beside others, or will not run."""
        call = self._effective_call(call)
        entry = self.view.store.entries.get(call.name)
        return None if entry is None or call.error is not None else lock_key(entry.exclusive, call.arguments)

    def _effective_call(self, call: ToolCall) -> ToolCall:
        """Return the call that a call is about: that of the tool that `call_tool` is to call, or itself."""
        entry = self.view.store.entries.get(call.name)
        if entry is None or call.error is not None or entry.spec.function is not search_tools.call_tool:
            return call
        return search_tools.inner_call(call) or call

    def _to_run(self, new_results: Mapping[int, ToolResult]) -> Run:
        results = {**self.known_results, **new_results}
        return Run.from_results([(call, results[place]) for place, call in enumerate(self.calls)], self.format)


def resumed_batch(
    view: StoreView,
    waiting: Run | ApprovalRequest | Mapping[str, Any],
    *,
    approved: bool | Mapping[str, bool],
    arguments: Mapping[str, Any] | None,
    max_concurrency: int,
) -> Batch:
    """Return the batch that goes on with what waited. Raises ToolkitError for what does not fit to the request."""
    if isinstance(waiting, Run):
        return _batch_from_run(view, waiting, approved, arguments or {}, max_concurrency)
    request = waiting if isinstance(waiting, ApprovalRequest) else ApprovalRequest.from_json(waiting)
    if not isinstance(approved, bool):
        raise ToolkitError("One request is approved or not: pass approved=True or False.")
    exact = _approved_arguments(request, arguments) if approved else request.arguments
    call = ToolCall(id=request.call_id, name=request.tool, arguments=exact)
    refused = (
        _result_if_changed(view, request) if approved else replace(rejected_result(request.tool), id=request.call_id)
    )
    answered = {} if refused is None else {0: refused}
    return Batch(view=view, calls=[call], max_concurrency=max_concurrency, known_results=answered, is_approved=True)


def _batch_from_run(
    view: StoreView, run: Run, approved: bool | Mapping[str, bool], edits: Mapping[str, Any], max_concurrency: int
) -> Batch:
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
            answered[place] = replace(rejected_result(call.name), id=call.id)
        elif (refused := _result_if_changed(view, request)) is not None:
            answered[place] = refused
        else:
            asked_for = call if request.tool == call.name else search_tools.inner_call(call) or call
            edited = _merge_edits(request, edits.get(call.id, request.arguments), asked_for.arguments)
            made[place] = (replace(asked_for, arguments=edited), result)
    calls_now = [call for call, _ in made]
    return Batch(
        view=view,
        calls=calls_now,
        format=run.format,
        max_concurrency=max_concurrency,
        known_results=answered,
        is_approved=True,
    )


def _result_if_changed(view: StoreView, request: ApprovalRequest) -> ToolResult | None:
    """Return the answer to a call whose tool has changed since; None when it may run. Raises ToolkitError."""
    session_id = view.session_state.session_id if view.is_session else None
    if request.session_id != session_id:
        raise ToolkitError("The request was made in another session. Resume it there, with the same session_id.")
    entry = view.store.entries.get(request.tool)
    if entry is None or view.definition(entry).fingerprint == request.fingerprint:
        return None  # a tool that is gone is answered as any other
    message = f"The tool {request.tool!r} has changed since the call was made. Ask for the call again."
    return ToolResult(error=ErrorDetail(code="changed", message=message), id=request.call_id)


def _approved_arguments(request: ApprovalRequest, approver_arguments: Mapping[str, Any] | None) -> JsonObject:
    """Return the exact arguments of a request, or those that the approver gives in their place."""
    edits = _merge_edits(request, approver_arguments or {}, {})
    missing = [name for name in request.secrets if name not in edits or edits[name] == request.arguments.get(name)]
    if missing:
        raise ToolkitError(f"The request does not hold its secret arguments {missing}. Pass them as arguments=….")
    arguments = edits if approver_arguments and not request.secrets else {**request.arguments, **edits}
    if edits.keys() <= set(request.secrets) and arguments_digest(arguments) != request.digest:
        raise ToolkitError("The arguments are not those that were asked for. Pass edited ones as arguments=….")
    return arguments


def _merge_edits(request: ApprovalRequest, edits: Any, requested: Mapping[str, Any]) -> JsonObject:
    """Return an approver's arguments, what is left as it is shown being what was asked for. Raises ToolkitError."""
    if not isinstance(edits, Mapping):
        raise ToolkitError(f"An approver's arguments are a dict by parameter, not a {type(edits).__name__}.")
    return request.restore_masked(edits, requested)


def _to_answer(call: ToolCall, result: ToolResult) -> ToolResult:
    """Return a result as the answer to a call. Of a call inside that waits for an approval nothing can be resumed."""
    meta, asked = result.meta, result.meta.get("approval")
    if asked is not None and not (isinstance(asked, Mapping) and asked.get("call_id") == call.id):
        meta = {key: value for key, value in meta.items() if key != "approval"}
    return replace(result, id=call.id, meta=meta)


def _result_if_unreadable(call: ToolCall) -> ToolResult | None:
    """Return the answer to a call that could not be read; None for one that can be run."""
    if call.error is None:
        return None
    return ToolResult(error=ErrorDetail(code="invalid_parameters", message=call.error), id=call.id)
