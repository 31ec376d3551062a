"""Resume: continue the calls that waited, for an approval or for their result. Each request is decided once."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeVar

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ahvn_tools.code_mode.running_program import ProgramCall
from ahvn_tools.code_mode.saved_program import ProgramDecision, ResumedProgram, SavedProgram
from ahvn_tools.errors import (
    InvalidParametersError,
    RequestUsedError,
    ToolChangedError,
    ToolkitError,
    ToolNotAvailableError,
    ToolNotFoundError,
    UnboundStateError,
    unknown_options,
)
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.threads import call_in_thread
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware import external
from ahvn_tools.middleware.approve import lost_text, rejected_result, rejection_text
from ahvn_tools.middleware.pending import (
    FIRST_KEYS,
    ApprovalRequest,
    ExternalCall,
    PendingRequest,
    RequestSigner,
    SignedRequest,
    arguments_digest,
    is_same_json,
    pending_requests,
    read_request,
)
from ahvn_tools.redaction.values import contains_secret
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.toolkit import model_tools
from ahvn_tools.toolkit.background_calls import CallStatus
from ahvn_tools.toolkit.batch import Batch, changed_result, changed_text
from ahvn_tools.toolkit.call_rules import remember
from ahvn_tools.toolkit.calls import find_entry, state_scopes
from ahvn_tools.toolkit.code_mode import is_program_tool
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.run import Approved, Decisions, Reason, Run, pending_call
from ahvn_tools.toolkit.server_access import is_missing
from ahvn_tools.toolkit.visibility import StoreView

MAX_ATTEMPTS: Final = 5
"""How often the secret arguments of one request may be passed: they must not be found by trying."""

_CHANGED: Final = (
    "The request has been changed, or was made with another secret_key: pass the same one to the Toolkit of every "
    "process, Toolkit(…, secret_key=…). To approve with other arguments, pass them as arguments=…."
)

_Kind = TypeVar("_Kind", bound=SignedRequest)

_STILL_OPEN: Final = "The request is still open."

Waiting = Run | PendingRequest | CallStatus | Mapping[str, Any]
"""A run with pending calls, a background call that waits, or one request, also as its JSON data."""


@dataclass(frozen=True, kw_only=True)
class _Approval:
    """A person's decision on one ApprovalRequest."""

    is_approved: bool
    reason: str = ""
    edits: Any
    """The approver's own arguments."""
    error: ClassVar[None] = None
    is_result: ClassVar[bool] = False
    """Whether it is a result, also for a call that is not approved."""

    def start(
        self, view: StoreView, request: ApprovalRequest, call: ToolCall | ProgramCall
    ) -> tuple[JsonObject, Outcome | None]:
        """Return the arguments with which the call runs, and its result if that is known. Raises ToolkitError."""
        return _approved_arguments(view, request, call, self.edits), None


@dataclass(frozen=True, kw_only=True)
class _Supplied:
    """What was supplied for one ExternalCall."""

    value: Any
    error: ToolResult | None
    """The error result that the value is, if it is one."""
    reason: ClassVar[str] = ""
    is_result: ClassVar[bool] = True

    @property
    def is_approved(self) -> bool:
        """Whether the call gets a value."""
        return self.error is None

    def start(
        self, view: StoreView, request: ExternalCall, call: ToolCall | ProgramCall
    ) -> tuple[JsonObject, Outcome | None]:
        """Return the same as `_Approval.start`. Raises ToolkitError for a value that the tool refuses."""
        is_known = arguments_digest(call.arguments, view.store.secret_key) == request.digest
        return call.arguments if is_known else request.arguments, self._outcome(view, request)

    def _outcome(self, view: StoreView, request: ExternalCall) -> Outcome:
        if isinstance(self.value, Exception):
            return Outcome(error=self.value)
        if self.error is not None or (entry := _find_startable(view, request.tool)) is None:
            return Outcome(self.error or self.value)  # the call of a removed tool is answered like any other
        plan, scopes = view.compiled_tool(entry).plan, state_scopes(view, entry)
        return external.supply(plan, entry.spec.body, scopes, request, self.value)


_Decision = _Approval | _Supplied


def resumed_batch(view: StoreView, waiting: Waiting, decisions: Decisions) -> Batch:
    """Return the batch that continues what waited, and mark its requests as decided. It runs at most once.

    Raises ToolkitError for what does not fit the requests, and RequestUsedError for a call to run whose request was
    decided before. The rejection of such a request answers the call.
    """
    run, by_id = _read_decisions(view, waiting, decisions)
    background_calls = view.background_calls
    calls = [call for call, _ in run.results]
    known_results: dict[int, ToolResult] = {}
    requests: dict[int, PendingRequest] = {}
    supplied: dict[int, Outcome] = {}
    programs: dict[int, ResumedProgram] = {}
    marked: dict[int, list[PendingRequest | SavedProgram]] = {}
    refused: dict[int, _Decision] = {}
    kept = _rules_to_remember(run, by_id) if decisions.get("always") else []
    signer, forgotten_until = RequestSigner(view.store.secret_key), view.store.approval_store.forgotten_until()
    now = max(time.time(), forgotten_until)  # what was forgotten has expired, also if the clock was set back
    for index, (call, result) in enumerate(run.results):
        chosen = [request for request in pending_requests(result.meta) if request.call_id in by_id]
        if not chosen:
            known_results[index] = result
            continue
        requests[index] = chosen[0]
        decided_calls = [(request, by_id[request.call_id]) for request in chosen]
        continued = (
            _continue(view, signer, now, call, decided_calls[0])
            if chosen[0].program is None
            else _continue_program(view, signer, now, call, decided_calls)
        )
        if isinstance(continued, ResumedProgram):
            programs[index] = continued
        elif isinstance(continued, ToolResult):
            known_results[index] = continued
        else:
            calls[index], outcome = continued
            supplied |= {} if outcome is None else {index: outcome}
        marked[index] = [request for request in chosen if signer.has_signed(request)]  # others cannot be approved here
        if index in programs:
            marked[index].append(programs[index].program)
        if not any(decision.is_approved for _, decision in decided_calls):
            refused[index] = decided_calls[0][1]
    for index in _mark_decided(view, waiting, marked, refused.keys()):
        call = calls[index] = run.results[index][0]
        tool = call.name if requests[index].program is not None else requests[index].tool
        known_results[index] = _to_rejected(tool, call, refused[index], rejection=lost_text)
        programs.pop(index, None)
    rejections = [
        (
            request,
            known_results.get(index) or rejected_result(rejection_text(request.tool, by_id[request.call_id].reason)),
        )
        for index in (requests if view.store.middleware else ())
        for request in pending_requests(run.results[index][1].meta)
        if _is_rejected(by_id.get(request.call_id)) and signer.has_signed(request)
    ]
    for request in kept:
        if changed_text(view, request) is None:
            remember(view, request)
    return Batch(
        view=view, calls=calls, format=run.format, continuation=run.continuation, known_results=known_results,
        requests=requests, supplied=supplied, programs=programs, rejections=rejections,
        background_calls=background_calls,
    )  # fmt: skip


def _is_rejected(decision: _Decision | None) -> bool:
    return isinstance(decision, _Approval) and not decision.is_approved


def check_decisions(view: StoreView, waiting: Run, decisions: Decisions) -> None:
    """Raise what `resumed_batch` raises for decisions that do not fit, without the store of approvals; run nothing."""
    run, by_id = _read_decisions(view, waiting, decisions)
    if decisions.get("always"):
        _rules_to_remember(run, by_id)
    signer, now = RequestSigner(view.store.secret_key), time.time()
    for request in run.pending:
        if (decision := by_id.get(request.call_id)) is not None:
            _require_valid(view, signer, now, request, decision)


def _read_decisions(view: StoreView, waiting: Waiting, decisions: Decisions) -> tuple[Run, dict[str, _Decision]]:
    """Return the run that waits, and the decisions by call id. Raises ToolkitError and TypeError for wrong ones."""
    if unknown := unknown_options(decisions, Decisions.__annotations__):
        raise TypeError(f"resume(): {unknown}")
    approved, results, reason = decisions.get("approved"), decisions.get("results"), decisions.get("reason")
    run, edits = _to_run(waiting, approved, decisions.get("arguments"))
    _require_single_ids(run, [names for names in (approved, edits, reason, results) if isinstance(names, Mapping)])
    if approved is None and results is None:
        raise ToolkitError("Pass approved=True or False, or results={call_id: value} for external calls.")
    return run, {**_approvals(run, approved, edits, reason), **_supplied_values(view, run, results)}


def _rules_to_remember(run: Run, decisions: Mapping[str, _Decision]) -> list[ApprovalRequest]:
    """Return the approved requests, whose rules are remembered. Raises ToolkitError for one that has none."""
    approved: list[ApprovalRequest] = []
    for request in run.pending:
        decision = decisions.get(request.call_id)
        if not (isinstance(request, ApprovalRequest) and isinstance(decision, _Approval) and decision.is_approved):
            continue
        if request.suggested_rule is None or decision.edits:
            raise ToolkitError(
                f"The approval of {request.tool!r} cannot be remembered: it has secret, edited or very long arguments, "
                f"or is a question of the tool. Approve it without always=True. {_STILL_OPEN}"
            )
        approved.append(request)
    return approved


async def aresumed_batch(view: StoreView, waiting: Waiting, decisions: Decisions) -> Batch:
    """Return the batch from async code; the store of approvals may wait for a file, so this runs in a thread."""
    return await call_in_thread(resumed_batch, view, waiting, decisions)


def _to_run(waiting: Waiting, approved: Approved | None, arguments: Any) -> tuple[Run, Any]:
    """Return the run that waits, of its one call for a request, and the approver's arguments by call id."""
    if isinstance(waiting, CallStatus):
        if not waiting.requests:
            raise ToolkitError(f"The call {waiting.id!r} does not wait for anything: it is {waiting.state}.")
        waiting = Run.create([pending_call(waiting.requests)], None)
    if isinstance(waiting, Run):
        return waiting, {} if arguments is None else arguments
    request = waiting if isinstance(waiting, SignedRequest) else read_request(waiting)
    if isinstance(request, ApprovalRequest) and not isinstance(approved, bool):
        raise ToolkitError("One request is approved or not: pass approved=True or False.")
    try:
        run = Run.create([pending_call([request])], None)
    except RecursionError:
        raise ToolkitError("This request is nested too deep.") from None
    return run, {} if arguments is None else {request.call_id: arguments}


def _require_single_ids(run: Run, decisions: Sequence[Mapping[str, Any]]) -> None:
    """Raise ToolkitError for decisions by an id that several waiting calls have: one would apply to all of them."""
    counts = Counter(request.call_id for request in run.pending)
    for call_id in (name for names in decisions for name in names if counts[name] > 1):
        raise ToolkitError(
            f"{counts[call_id]} calls with the id {call_id!r} wait. Decide on all calls at once, with approved=True or "
            "False, or resume one of `run.pending` alone."
        )


def _requests_of(run: Run, kind: type[_Kind]) -> dict[str, _Kind]:
    """Return the pending requests of one kind, by call id."""
    return {request.call_id: request for request in run.pending if isinstance(request, kind)}


def _unknown_call(run: Run, call_id: Any, kind: type[PendingRequest]) -> ToolkitError:
    """Return the error for a decision on a call that does not wait for it."""
    by_argument = {kind.decided_by: sorted(_requests_of(run, kind)) for kind in FIRST_KEYS.values()}
    waiting = "; ".join(f"{name}={{…}}: {ids}" for name, ids in by_argument.items() if ids)
    return ToolkitError(f"No call {call_id!r} waits for {kind.needs[0]}. Waiting: {waiting or 'none'}.")


def _approvals(run: Run, approved: Approved | None, edits: Any, reason: Reason) -> dict[str, _Approval]:
    """Return the decisions by call id. Raises ToolkitError for those that fit no pending call."""
    pending = _requests_of(run, ApprovalRequest).keys()
    choices = dict.fromkeys(pending, approved) if isinstance(approved, bool) else {} if approved is None else approved
    if not (isinstance(choices, Mapping) and all(isinstance(choice, bool) for choice in choices.values())):  # type: ignore[redundant-expr]  # callers may pass anything
        raise ToolkitError("Calls are approved or not: pass approved=True, False, or one of them by call id.")
    if not isinstance(edits, Mapping):
        raise ToolkitError("The arguments of a run are a dict by call id, with a dict by parameter for each call.")
    rejected = {call_id for call_id, is_approved in choices.items() if not is_approved}
    accepted = choices.keys() - rejected
    reasons = reason if isinstance(reason, Mapping) else {} if reason is None else dict.fromkeys(rejected, reason)
    if unknown := (choices.keys() | edits.keys() | reasons.keys()) - pending:
        raise _unknown_call(run, min(unknown), ApprovalRequest)
    if not edits.keys() <= accepted:
        raise ToolkitError(f"Arguments are for approved calls, unlike {min(edits.keys() - accepted)!r}.")
    if (reason is not None and not reasons) or not reasons.keys() <= rejected:
        raise ToolkitError("A reason is for rejected calls: pass it with approved=False, or by the ids of these calls.")
    if not all(isinstance(text, str) for text in reasons.values()):
        raise ToolkitError("A reason is a text for the model.")
    return {
        call_id: _Approval(is_approved=is_approved, reason=reasons.get(call_id, ""), edits=edits.get(call_id, {}))
        for call_id, is_approved in choices.items()
    }


def _supplied_values(view: StoreView, run: Run, results: Any) -> dict[str, _Supplied]:
    """Return what was supplied, by call id. Raises ToolkitError for ids of no call that waits for its result."""
    if not isinstance(results, Mapping | None):
        raise ToolkitError("The results of external calls are a dict by call id: results={call_id: value}.")
    values, requests = results or {}, _requests_of(run, ExternalCall)
    if unknown := values.keys() - requests.keys():
        raise _unknown_call(run, min(unknown, key=str), ExternalCall)
    masks_errors = view.store.masks_errors
    return {
        call_id: _Supplied(
            value=value, error=external.to_error_result(value, requests[call_id], masks_errors=masks_errors)
        )
        for call_id, value in values.items()
    }


def _continue(
    view: StoreView, signer: RequestSigner, now: float, call: ToolCall, decided: tuple[Any, _Decision]
) -> tuple[ToolCall, Outcome | None] | ToolResult:
    """Return the call to run, with what was supplied for it; its result if it does not run.

    Raises ToolkitError for what does not fit.
    """
    request, decision = decided
    _require_valid(view, signer, now, request, decision)
    changed = changed_text(view, request)
    is_usable = changed is None and signer.has_signed(request) and not request.has_expired(now)
    if not (decision.is_approved or (decision.is_result and is_usable)):
        return _to_rejected(request.tool, call, decision)
    if changed is not None:
        return changed_result(changed, call)
    requested = call if request.tool == call.name else model_tools.inner_call(call) or call
    arguments, outcome = decision.start(view, request, requested)
    return replace(requested, name=request.tool, arguments=arguments), outcome


def _continue_program(
    view: StoreView,
    signer: RequestSigner,
    now: float,
    call: ToolCall,
    decided: Sequence[tuple[Any, _Decision]],
) -> ToolResult | ResumedProgram:
    """Return the program to continue or, if it does not, the result of its call. Raises as `_continue` does."""
    for request, decision in decided:
        _require_valid(view, signer, now, request, decision)
    first, decision = decided[0]
    if not all(signer.has_signed(request) for request, _ in decided):
        if any(own.is_approved for _, own in decided):
            raise ToolkitError(_CHANGED)
        return _to_rejected(call.name, call, decision)
    entry = view.store.entries.get(call.name)
    if entry is not None and not is_program_tool(entry.spec):
        return changed_result(f"{call.name!r} is another tool now, which does not run programs.", call)
    try:
        saved = SavedProgram.from_json(first.program or {})
    except ToolkitError as error:
        return changed_result(str(error), call)
    if saved.has_expired(now):
        return _to_rejected(call.name, call, decision)
    return ResumedProgram(
        program=saved,
        decisions={saved.find_call(request.id): _decide(view, saved, request, own) for request, own in decided},
    )


def _to_rejected(
    tool: str, call: ToolCall, decision: _Decision, rejection: Callable[[str, str], str] = rejection_text
) -> ToolResult:
    """Return the result of a call that does not run: of a rejected one, or the error that was supplied."""
    return replace(decision.error or rejected_result(rejection(tool, decision.reason)), id=call.id)


def _decide(view: StoreView, saved: SavedProgram, request: Any, decision: _Decision) -> ProgramDecision:
    """Return the decision on one call of a program. Raises ToolkitError for arguments that do not fit."""
    runs = decision.is_approved or decision.is_result
    rejection = changed_text(view, request) if runs else rejection_text(request.tool, decision.reason)
    call = saved.state.waiting[saved.find_call(request.id)]
    arguments, outcome = ({}, None) if rejection is not None else decision.start(view, request, call)
    return ProgramDecision(
        arguments=_to_json(request.tool, arguments),
        is_call_approved=request.approves_call,
        approved_questions=request.approved_questions,
        rejection=rejection,
        supplied=outcome,
    )


def _to_json(tool: str, arguments: JsonObject) -> JsonObject:
    """Return arguments as JSON data: they are stored, without any secret, if the program waits again."""
    with contextlib.suppress(PydanticSerializationError, ValueError, RecursionError):
        if not contains_secret(arguments):
            data: JsonObject = to_jsonable_python(arguments, by_alias=True)
            return data
    raise ToolkitError(f"The arguments of {tool!r} are not JSON data without secrets, as those of a program must be.")


def _require_valid(
    view: StoreView, signer: RequestSigner, now: float, request: PendingRequest, decision: _Decision
) -> None:
    """Raise ToolkitError for a request of another session, and for one that cannot be approved."""
    if signer.has_signed(request):
        _require_session(view, request)
    elif decision.is_approved:
        raise ToolkitError(_CHANGED)
    if decision.is_approved and request.has_expired(now):
        raise ToolkitError(
            f"The request for the call {request.call_id!r} has expired. {request.expired_fix}; "
            "Toolkit(…, approval_expiry=…) sets how long calls wait."
        )


def _require_session(view: StoreView, request: PendingRequest) -> None:
    session_id = view.session_state.session_id if view.is_session else None
    if request.session_id != session_id:
        raise ToolkitError("The request was made in another session. Resume it there, with the same session_id.")


def _approved_arguments(
    view: StoreView, request: ApprovalRequest, call: ToolCall | ProgramCall, edits: Any
) -> JsonObject:
    """Return the arguments with which an approved call runs. Raises ToolkitError for a call that could not start.

    The secret arguments that a saved request does not hold are taken from the approver's.
    """
    key = view.store.secret_key
    if not isinstance(edits, Mapping):
        raise ToolkitError(f"An approver's arguments are a dict by parameter, not a {type(edits).__name__}.")
    _refuse_call_id(view, request, edits)
    is_known = arguments_digest(call.arguments, key) == request.digest
    exact = call.arguments if is_known else _with_secrets(request, call.arguments, edits)
    arguments = request.merge_edits(edits, exact)
    _require_startable(view, request.tool, arguments if edits else None)
    if not is_known:
        _require_same_secrets(view, request, exact)
    return arguments


def _refuse_call_id(view: StoreView, request: ApprovalRequest, edits: Mapping[str, Any]) -> None:
    """Raise ToolkitError for the arguments of one request that are passed by the id of its call, as those of a run."""
    given, entry = edits.get(request.call_id), view.store.entries.get(request.tool)
    known = {} if entry is None else (view.definition(entry).input_schema or {}).get("properties", {})
    if isinstance(given, Mapping) and request.call_id not in known:
        raise ToolkitError(
            "The arguments of one request are passed without the id of its call: "
            f"arguments={{{next(iter(given), 'parameter')!r}: …}}. Those of a run have the id. {_STILL_OPEN}"
        )


def _find_startable(view: StoreView, tool: str) -> Entry | None:
    """Return a tool; None if it is not there any more. Raises ToolkitError if it is not available."""
    try:
        return find_entry(view, tool, hides_unselected=False)
    except (ToolNotFoundError, ToolChangedError):
        return None
    except ToolNotAvailableError as error:
        raise ToolkitError(f"{error.message} Activate it here, or resume where it is. {_STILL_OPEN}") from None


def _require_startable(view: StoreView, tool: str, edited: JsonObject | None) -> None:
    """Raise ToolkitError if a tool refuses edited arguments, is not available or lacks the value of a binding."""
    if (entry := _find_startable(view, tool)) is None:
        return  # the call is answered like any other
    compiled = view.compiled_tool(entry)
    plan = compiled.plan
    if unsent := [name for name, binding in compiled.bindings.items() if is_missing(binding)]:
        raise ToolkitError(
            f"{tool!r} cannot run. Its MCP server may not receive {unsent}: pass may_receive={unsent} to add_mcp. "
            f"{_STILL_OPEN}"
        )
    try:
        if edited is not None:
            plan.check_arguments((), edited)
        plan.check_bound_values(state_scopes(view, entry))
    except InvalidParametersError as error:
        raise ToolkitError(f"{tool!r} refuses the arguments of the approver. {error.message} {_STILL_OPEN}") from None
    except UnboundStateError as error:
        raise ToolkitError(f"{tool!r} cannot run. {error} {_STILL_OPEN}") from None


def _with_secrets(request: ApprovalRequest, arguments: Mapping[str, Any], edits: Mapping[str, Any]) -> JsonObject:
    """Return the arguments of a saved request with the secret ones from `edits`. Raises ToolkitError without them."""
    if not request.secrets or not is_same_json(arguments, request.arguments):
        raise ToolkitError("The arguments are not those that were asked for. Pass edited ones as arguments=….")
    masked = request.arguments
    missing = [name for name in request.secrets if name not in edits or is_same_json(edits[name], masked.get(name))]
    if missing:
        raise ToolkitError(f"The request does not hold its secret arguments {missing}. Pass them as arguments=….")
    return {**masked, **{name: edits[name] for name in request.secrets}}


def _require_same_secrets(view: StoreView, request: ApprovalRequest, exact: JsonObject) -> None:
    """Raise ToolkitError unless the secret arguments are those of the request, or after too many attempts."""
    if view.store.approval_store.count_attempt(request.id, request.expires_at) > MAX_ATTEMPTS:
        raise ToolkitError(
            f"The secret arguments of this request were passed wrongly {MAX_ATTEMPTS} times. Reject it, so that the "
            "model can ask again."
        )
    if arguments_digest(exact, view.store.secret_key) != request.digest:
        raise ToolkitError(f"The secret arguments {[*request.secrets]} are not those that were asked for.")


def _mark_decided(
    view: StoreView,
    waiting: Waiting,
    marked: Mapping[int, Sequence[PendingRequest | SavedProgram]],
    refused: Collection[int],
) -> list[int]:
    """Mark the requests of calls as decided before any call runs; return the refused calls that were decided before.

    A program that continues is marked, too: none of its requests can let it continue from the same point again. Raises
    RequestUsedError for a call that would run although its request was decided before; then none is marked.
    """
    if _decide_all(view, [one for ones in marked.values() for one in ones]):
        return []
    running = [one for index, ones in marked.items() if index not in refused for one in ones]
    if running and not (refused and _decide_all(view, running)):
        raise RequestUsedError(_used_text(running, is_by_id=isinstance(waiting, Run | CallStatus)))
    return [index for index in refused if not _decide_all(view, marked[index])]


def _decide_all(view: StoreView, decided: Sequence[PendingRequest | SavedProgram]) -> bool:
    """Mark all of these as decided; mark none and return False if one already is."""
    expiries = {one.id: one.expires_at for one in decided}
    return not decided or (len(expiries) == len(decided) and view.store.approval_store.decide(expiries))


def _used_text(decided: Sequence[PendingRequest | SavedProgram], *, is_by_id: bool) -> str:
    """Return why none of these calls runs, and which decisions answer them; `is_by_id`: those have to name calls."""
    ended = ", or its program has continued" if any(isinstance(one, SavedProgram) for one in decided) else ""
    approvals = {one.call_id: False for one in decided if isinstance(one, ApprovalRequest)}
    results = ", ".join(f"{one.call_id!r}: ToolError(…)" for one in decided if isinstance(one, ExternalCall))
    ways = [f"approved={approvals if is_by_id else False}"] if approvals else []
    ways += [f"results={{{results}}}"] if results else []
    return (
        f"This request was used before: its call was rejected, or has been started or answered{ended}. Nothing runs "
        f"twice. To go on without its result, pass {' and '.join(ways)}."
    )
