"""Resume: run or reject the calls that waited for an approval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ahvn_tools.errors import ToolkitError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware.approve import ApprovalRequest, arguments_digest, rejected_result
from ahvn_tools.results import ErrorDetail, ToolCall, ToolResult
from ahvn_tools.secret_key import SecretKey
from ahvn_tools.toolkit import model_tools
from ahvn_tools.toolkit.batch import Batch, Run
from ahvn_tools.toolkit.visibility import StoreView

Waiting = Run | ApprovalRequest | Mapping[str, Any]
"""A run with pending calls, or one request, also as its JSON data."""

Decision = bool | Mapping[str, bool]
"""Whether calls are approved: all of them, or each by its call id."""


def resumed_batch(view: StoreView, waiting: Waiting, approved: Decision, arguments: Mapping[str, Any] | None) -> Batch:
    """Return the batch that continues what waited. Raises ToolkitError for what does not fit the request."""
    if isinstance(waiting, Run):
        return _batch_from_run(view, waiting, approved, arguments or {})
    request = waiting if isinstance(waiting, ApprovalRequest) else ApprovalRequest.from_json(waiting)
    if not isinstance(approved, bool):
        raise ToolkitError("One request is approved or not: pass approved=True or False.")
    if approved:
        _require_signature(view, request)
    call = ToolCall(
        id=request.call_id,
        name=request.tool,
        arguments=_approved_arguments(request, arguments, view.store.secret_key) if approved else request.arguments,
    )
    refusal = _result_if_changed(view, request) if approved else _rejection(call)
    known_results = {} if refusal is None else {0: refusal}
    if refusal is None:
        view.store.used_approvals.use([request.id])
    return Batch(view=view, calls=[call], known_results=known_results, is_approved=True)


def _batch_from_run(view: StoreView, run: Run, approved: Decision, edits: Mapping[str, Any]) -> Batch:
    """Return the batch of a whole run: its results so far, and the decisions on the calls that wait."""
    pending = {request.call_id for request in run.pending}
    decisions = dict.fromkeys(pending, approved) if isinstance(approved, bool) else approved
    if not (isinstance(decisions, Mapping) and all(isinstance(decision, bool) for decision in decisions.values())):  # type: ignore[redundant-expr]  # callers may pass anything
        raise ToolkitError("Calls are approved or not: pass approved=True, False, or one of them by call id.")
    if unknown := (decisions.keys() | edits.keys()) - pending:
        raise ToolkitError(f"No call {min(unknown)!r} waits for approval. Waiting: {sorted(pending)}.")
    used: list[str] = []
    calls = [call for call, _ in run.results]
    known_results: dict[int, ToolResult] = {}
    for index, (call, result) in enumerate(run.results):
        if "approval" not in result.meta or call.id not in decisions:
            known_results[index] = result
            continue
        request = ApprovalRequest.from_json(result.meta["approval"])  # not from `pending`: two calls may share an id
        if decisions[call.id]:
            _require_signature(view, request)
        refusal = _result_if_changed(view, request) if decisions[call.id] else _rejection(call)
        if refusal is not None:
            known_results[index] = refusal
        else:
            requested = call if request.tool == call.name else model_tools.inner_call(call) or call
            arguments = _merge_edits(request, edits.get(call.id, request.arguments), requested.arguments)
            if call.id not in edits:
                _require_digest(request, arguments, view.store.secret_key)
            calls[index] = replace(requested, arguments=arguments)
            used.append(request.id)
    view.store.used_approvals.use(used)
    return Batch(view=view, calls=calls, format=run.format, known_results=known_results, is_approved=True)


def _rejection(call: ToolCall) -> ToolResult:
    return replace(rejected_result(call.name), id=call.id)


def _require_signature(view: StoreView, request: ApprovalRequest) -> None:
    """Raise ToolkitError for a request that is not as a toolkit with this key has made it."""
    if not request.is_signed_by(view.store.secret_key):
        raise ToolkitError(
            "The request has been changed, or was made with another secret_key: pass the same one to the Toolkit of "
            "every process, Toolkit(…, secret_key=…). To approve with other arguments, pass them as arguments=…."
        )


def _result_if_changed(view: StoreView, request: ApprovalRequest) -> ToolResult | None:
    """Return the error result when the tool has changed since, else None. Raises ToolkitError in another session."""
    session_id = view.session_state.session_id if view.is_session else None
    if request.session_id != session_id:
        raise ToolkitError("The request was made in another session. Resume it there, with the same session_id.")
    entry = view.store.entries.get(request.tool)
    if entry is None or view.definition(entry).fingerprint == request.fingerprint:
        return None  # the call of a removed tool is answered like any other
    message = f"The tool {request.tool!r} has changed since the call was made. Ask for the call again."
    return ToolResult(error=ErrorDetail(code="changed", message=message), id=request.call_id)


def _approved_arguments(
    request: ApprovalRequest, approver_arguments: Mapping[str, Any] | None, key: SecretKey
) -> JsonObject:
    """Return the exact arguments of a request, or those that the approver passes instead."""
    edits = _merge_edits(request, approver_arguments or {}, {})
    missing = [name for name in request.secrets if name not in edits or edits[name] == request.arguments.get(name)]
    if missing:
        raise ToolkitError(f"The request does not hold its secret arguments {missing}. Pass them as arguments=….")
    arguments = edits if approver_arguments and not request.secrets else {**request.arguments, **edits}
    if edits.keys() <= set(request.secrets):
        _require_digest(request, arguments, key)
    return arguments


def _require_digest(request: ApprovalRequest, arguments: JsonObject, key: SecretKey) -> None:
    """Raise ToolkitError unless these are exactly the arguments of the request."""
    if arguments_digest(arguments, key) != request.digest:
        raise ToolkitError("The arguments are not those that were asked for. Pass edited ones as arguments=….")


def _merge_edits(request: ApprovalRequest, edits: Any, requested: Mapping[str, Any]) -> JsonObject:
    """Return an approver's arguments; masked values that were not edited become the requested ones again."""
    if not isinstance(edits, Mapping):
        raise ToolkitError(f"An approver's arguments are a dict by parameter, not a {type(edits).__name__}.")
    return request.restore_masked(edits, requested)
