"""Approve: calls that run only after approval. A request is plain data, so it can be decided elsewhere and later."""

from __future__ import annotations

import asyncio
import functools
import json
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import Enum
from time import perf_counter
from typing import Any, Final, Self

from ahvn_tools import invisible
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import (
    ApprovalRequiredError,
    CallRejectedError,
    InvalidParametersError,
    ToolCallError,
    ToolError,
    ToolSpecError,
    suggests_options,
)
from ahvn_tools.execution.call import Call, Middleware, Next, Question, QuestionApprover
from ahvn_tools.execution.convert import call_error_detail, error_result, summarize_exception
from ahvn_tools.execution.pipeline import inner_middleware, run_if_large_in_thread
from ahvn_tools.execution.threads import call_host_function
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware import reporting
from ahvn_tools.redaction.values import reveal_secrets
from ahvn_tools.results import ToolResult
from ahvn_tools.secret_key import SecretKey

_REQUEST_PURPOSE: Final = "approval request"
_PROGRAM_PURPOSE: Final = "program of an approval request"


class RequestSigner:
    """Signs and checks requests with the key of a toolkit. The program that several requests share is read once."""

    def __init__(self, key: SecretKey) -> None:
        self._key = key
        self._digests: dict[int, tuple[JsonObject, str]] = {}
        """Programs with their digests, by the ids of the objects."""

    def sign(self, request: ApprovalRequest) -> str:
        """Return the signature of a request."""
        return self._key.digest(_REQUEST_PURPOSE, self._signed_data(request))

    def has_signed(self, request: ApprovalRequest) -> bool:
        """Return whether the request is unchanged since a toolkit with this key made it."""
        try:
            return self._key.is_digest(request.signature, _REQUEST_PURPOSE, self._signed_data(request))
        except (TypeError, ValueError, RecursionError):  # arguments that are not JSON
            return False

    def _signed_data(self, request: ApprovalRequest) -> JsonObject:
        """Return all attributes but the signature, with the digest of the program."""
        data = {name: value for name, value in vars(request).items() if name != "signature"}
        return data if request.program is None else {**data, "program": self._program_digest(request.program)}

    def _program_digest(self, program: JsonObject) -> str:
        if id(program) not in self._digests:
            self._digests[id(program)] = program, self._key.digest(_PROGRAM_PURPOSE, program)
        return self._digests[id(program)][1]


_ARGUMENTS_PURPOSE: Final = "arguments of a call"
REQUEST_KEYS: Final = frozenset({"approval", "further_approvals"})
"""The keys of the requests in the `meta` of a result."""

_TOO_LATE: Final = "the program that has made it no longer waits for the result"


@dataclass(frozen=True, kw_only=True, repr=False)
class ApprovalRequest:
    """One call that waits for approval. It identifies the tool's definition, the exact arguments and the session.

    Its toolkit has signed it: a changed request, or one of a toolkit with another `secret_key`, is not resumed.
    """

    id: str
    """Unique: a request is approved or rejected once."""
    call_id: str
    tool: str
    fingerprint: str
    """The fingerprint of the tool's definition."""
    arguments: JsonObject
    """The model's arguments, with `***` for secrets."""
    secrets: tuple[str, ...] = ()
    """The names of the arguments that contain a masked value."""
    digest: str
    """HMAC-SHA-256, in hex, of the exact arguments, with the toolkit's secret key."""
    session_id: str | None = None
    caller: str | None = None
    """Who called: `"direct"`, a model; `"programmatic"`, its program; None: the host."""
    expires_at: int | None = None
    """When it can no longer be approved, in seconds since 1970 (UTC); None: never."""
    action: str | None
    """What the tool asks for in its own words, with `ToolContext.ask`; None: the call as a whole needs an approval."""
    details: JsonObject | None
    """The details of the action, with `***` for secrets; None without an action."""
    questions: tuple[str, ...]
    """Keyed digests of what the tool has asked for in this call, this action last; empty without an action."""
    is_call_approved: bool
    """Whether the call was approved as a whole before the tool asked for the action."""
    program: JsonObject | None
    """The saved program that has made the call; None for a call that the model has made itself."""
    signature: str
    """HMAC-SHA-256, in hex, of all other fields, with the toolkit's secret key."""

    @classmethod
    def from_call(cls, call: Call, question: Question | None = None) -> Self:
        """Return the request for a call, or for what its body asks.

        Raises InvalidParametersError for arguments without a JSON form.
        """
        exact, masked = reporting.as_json(call.arguments), reporting.redact_arguments(call)
        if not isinstance(exact, dict):
            raise InvalidParametersError("Invalid arguments: they have no JSON form.", tool=call.name)
        request = cls(
            id=uuid.uuid4().hex,
            call_id=call.id,
            tool=call.name,
            fingerprint=call.definition.fingerprint,
            arguments=masked,
            secrets=tuple(name for name, value in exact.items() if masked.get(name) != value),
            digest=arguments_digest(call.arguments, call.secret_key),
            session_id=call.session_id,
            caller=call.caller,
            expires_at=None if call.approval_expiry is None else math.ceil(time.time() + call.approval_expiry),
            action=None if question is None else reporting.redact_json(call, question.action),
            details=None if question is None else reporting.redact_json(call, question.details),
            questions=() if question is None else (*question.earlier, question.digest),
            is_call_approved=call.is_approved,
            program=None,
            signature="",
        )
        return request.signed_by(call.secret_key)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the request that `to_json` exported. Raises ToolSpecError for any other data."""
        wrong = ToolSpecError("This is not an approval request. Pass the result of `ApprovalRequest.to_json()`.")
        try:
            lists = {"secrets": tuple(data.get("secrets", ())), "questions": tuple(data["questions"])}
            request = cls(**{**data, **lists})
        except (TypeError, AttributeError, KeyError):
            raise wrong from None
        texts = [getattr(request, name) for name in ("id", "call_id", "tool", "fingerprint", "digest", "signature")]
        texts += [request.session_id or "", request.caller or "", request.action or "", *request.questions]
        fits = [isinstance(text, str) for text in texts]
        fits += [isinstance(request.arguments, dict), isinstance(request.expires_at, int | None)]
        fits += [isinstance(request.details, dict | None), isinstance(request.is_call_approved, bool)]
        fits += [request.program is None or _is_program(request.program)]
        if all(fits):
            return request
        raise wrong

    def to_json(self) -> JsonObject:
        """Return the request as JSON data, to store or send."""
        return {**asdict(self), "secrets": list(self.secrets), "questions": list(self.questions)}

    @property
    def model_call_id(self) -> str:
        """The id of the model's call that waits: that of the program, for a call that a program has made."""
        return self.call_id if self.program is None else str(self.program["call_id"])

    @property
    def suggested_rule(self) -> str | None:
        """The rule that is remembered if an approver answers "always": this tool with exactly these arguments.

        None for what is not remembered: a question of the tool, secret or very long arguments.
        """
        text = rule_text(self.tool, self.arguments)
        return None if self.secrets or self.action is not None or len(text) > _MAX_RULE_CHARS else text

    @property
    def approves_call(self) -> bool:
        """Whether the call as a whole is approved when this request is."""
        return self.action is None or self.is_call_approved

    def signed_by(self, key: SecretKey) -> Self:
        """Return the request with the signature of a toolkit's key."""
        return replace(self, signature=RequestSigner(key).sign(self))

    def merge_edits(self, edits: Mapping[str, Any], arguments: Mapping[str, Any]) -> JsonObject:
        """Return the arguments of the call with those that an approver has edited.

        An argument that is not named, or equals the request's masked one, stays as it is.
        """
        return {**arguments, **_restore_masked(dict(edits), self.arguments, arguments)}

    def __repr__(self) -> str:
        return f"<ApprovalRequest {self.tool!r} call_id={self.call_id!r}>"


_MAX_RULE_CHARS: Final = 4_000


def rule_text(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the rule for a tool with exactly these arguments, as a person reads it."""
    texts = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return invisible.escape_line(f"{tool}({', '.join(texts)})")


class ApprovalAnswer(Enum):
    """An answer of an approver that is more than yes or no."""

    ALWAYS = "always"
    """Approves the call and, if the request has a `suggested_rule`, the same call from now on."""


ApprovalDecision = bool | str | Mapping[str, Any] | ApprovalAnswer
"""True approves; False or a text, which is the reason, rejects; a mapping approves the call with these edits.

An argument that the mapping does not name stays as it is, and so does a `***` that it copies from the request.
"""

Approver = Callable[[ApprovalRequest], ApprovalDecision | Awaitable[ApprovalDecision]]
"""Decides on calls; sync or async."""


@suggests_options
def approve(approver: Approver | None = None, *, when: Callable[[Call], bool] | bool = True) -> Middleware:
    """Return middleware that runs calls only after they are approved.

    `when` selects the calls that need approval: all by default, none if it is False. A function is asked about the
    arguments as they were sent and, unless these need approval, about the JSON form of the validated ones. Other calls
    may request approval in their body, with `ToolContext.require_approval`. A call whose arguments the tool refuses is
    an `invalid_parameters`, and nobody is asked. Middleware that changes arguments belongs outside of this one.

    Without an approver a call ends with the code `approval_required` and has its request, as JSON data, in
    `meta["approval"]`; `Toolkit.resume` continues it. A call that was approved that way runs.
    """
    return _Approve(approver, when)


class _Approve:
    """The middleware that `approve` makes."""

    def __init__(self, approver: Approver | None, when: Callable[[Call], bool] | bool) -> None:
        self.approver, self.when = approver, when

    async def __call__(self, call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        """Run a call that needs no approval, or has it."""
        approver, when = self.approver, self.when
        if call.plan.takes_context and approver is not None:
            call = replace(call, question_approver=_question_approver(approver))
        if call.is_approved:
            return _with_request(call, await next(call))
        if when is not False:
            try:
                await _validated(call)
            except ToolCallError as error:  # the model corrects it, and no person is asked
                return call.scope.record_error(error, error_result(call_error_detail(error), perf_counter()))
        if when if isinstance(when, bool) else when(call):
            return await _decide(approver, call, next)
        result = _with_request(call, await next(call if isinstance(when, bool) else _asking_again(call, when)))
        return await _decide(approver, call, next) if _is_requested(call, result) else result


async def _decide(approver: Approver | None, call: Call, next: Next) -> ToolResult:  # noqa: A002  # that of `approve`
    """Let the approver decide on a call, and run it if it is approved; without one it waits."""
    request = ApprovalRequest.from_call(call)
    if approver is None:
        return pending_result(request)
    with call.scope.pause():
        decision = _in_time(call, await call_host_function(approver, request))
    if arguments_digest(call.arguments, call.secret_key) != request.digest:
        raise InvalidParametersError("The arguments changed while the call waited for approval.", tool=call.name)
    if isinstance(decision, Mapping):
        call = replace(call, arguments=request.merge_edits(decision, call.arguments))
        await _validate_edited(call)
    if decision is True or isinstance(decision, Mapping | ApprovalAnswer):
        approved = replace(call, is_approved=True)
        return _with_request(approved, await next(approved))
    return rejected_result(call.name, decision or "")


def waits_for_approval(middleware: Middleware) -> bool:
    """Return whether a middleware is of `approve` and has no approver, so that calls wait until they are resumed."""
    return isinstance(middleware, _Approve) and middleware.approver is None and middleware.when is not False


def needs_approval(call: Call, next: Next) -> bool:  # noqa: A002  # that of another middleware
    """Return whether middleware inside of another one would ask about a call.

    A middleware that answers calls by itself must not answer such a call.
    """
    return not call.is_approved and any(
        middleware.when if isinstance(middleware.when, bool) else _selects(middleware.when, call)
        for middleware in inner_middleware(next)
        if isinstance(middleware, _Approve)
    )


def pending_result(request: ApprovalRequest, *further: ApprovalRequest) -> ToolResult:
    """Return the error result of a call that waits for an approval, with its request.

    A program may wait for several calls, each with a request; their program is in the result once.
    """
    count = f"{1 + len(further)} calls need approvals, which have" if further else ""
    message = f"{count or f'The call of {request.tool!r} needs an approval, which has'} been requested."
    meta: JsonObject = {"approval": request.to_json()}
    if further:
        meta["further_approvals"] = [replace(other, program=None).to_json() for other in further]
    detail = ErrorDetail(code=ApprovalRequiredError.code, message=message)
    return ToolResult(error=detail, meta=meta, id=request.model_call_id)


def pending_requests(meta: Mapping[str, Any]) -> list[ApprovalRequest]:
    """Return the requests in the `meta` of a result. Raises ToolSpecError for what is none."""
    if "approval" not in meta:
        return []
    first = ApprovalRequest.from_json(meta["approval"])
    further = meta.get("further_approvals", [])
    if not isinstance(further, list):
        raise ToolSpecError("These are not approval requests.")
    return [first, *[replace(ApprovalRequest.from_json(data), program=first.program) for data in further]]


def without_requests(meta: Mapping[str, Any]) -> JsonObject:
    """Return the `meta` of a result that does not wait, without requests."""
    return {name: value for name, value in meta.items() if name not in REQUEST_KEYS}


def without_other_request(result: ToolResult, key: SecretKey) -> ToolResult:
    """Return the result of a call, without approval requests that cannot be resumed.

    These are those of an inner call, and those that a tool has made itself.
    """
    if REQUEST_KEYS.isdisjoint(result.meta) or _has_own_requests(result, key):
        return result
    return replace(result, meta=without_requests(result.meta))


def _is_program(data: Any) -> bool:
    """Return whether this may be a saved program; only its signature says whether it is one."""
    return isinstance(data, dict) and all(isinstance(data.get(name), str) for name in ("call_id", "tool", "code"))


def _has_own_requests(result: ToolResult, key: SecretKey) -> bool:
    """Return whether the requests of a result are for its call, signed with the toolkit's key."""
    try:
        requests = pending_requests(result.meta)
    except ToolSpecError:
        return False
    signer = RequestSigner(key)
    are_own = [request.model_call_id == result.id and signer.has_signed(request) for request in requests]
    return bool(are_own) and all(are_own)


def rejected_result(tool: str, reason: str | bool = "") -> ToolResult:
    """Return the error result of a rejected call."""
    return ToolResult(error=ErrorDetail(code=CallRejectedError.code, message=rejection_text(tool, reason)))


def rejection_text(tool: str, reason: object) -> str:
    """Return what a model reads of a rejected call; a `reason` that is no text is none."""
    ending = f": {reason}" if isinstance(reason, str) and reason else ". Do not try it again unless you are asked to."
    return f"The call of {tool!r} was rejected{ending}"


def arguments_digest(arguments: Mapping[str, Any], key: SecretKey) -> str:
    """Return the keyed digest of the exact arguments, secrets included: equal for equal arguments only."""
    try:
        revealed = reveal_secrets(arguments)
    except RecursionError:  # a circular reference: no tool that can be recorded accepts it
        revealed = reporting.type_placeholder(arguments)
    return key.digest(_ARGUMENTS_PURPOSE, reporting.as_json(revealed))


async def _validated(call: Call) -> None:
    """Raise InvalidParametersError for arguments that the tool refuses."""
    check = functools.partial(call.plan.check_arguments, call.positional, call.arguments)
    await run_if_large_in_thread(call, call.arguments, check)


async def _validate_edited(call: Call) -> None:
    """Raise ToolError if the tool refuses the arguments of the approver."""
    try:
        await _validated(call)
    except InvalidParametersError as error:
        raise ToolError(
            f"The call of {call.name!r} was approved with other arguments, which the tool refuses. It did not run.",
            tool=call.name,
            explanation=f"The approver of {call.name!r} returned arguments that the tool refuses: {error.message}",
        ) from None


def _selects(when: Callable[[Call], bool], call: Call) -> bool:
    """Return whether `when` selects a call with its arguments as they were sent, or as the tool will receive them."""
    if when(call):
        return True
    try:
        _asking_again(call, when).plan.validate(call.arguments)
    except ApprovalRequiredError:
        return True
    except ToolCallError:  # the call fails
        return False
    return False


def _asking_again(call: Call, when: Callable[[Call], bool]) -> Call:
    """Return the call, which requests approval if `when` selects it with its arguments as the tool will receive them.

    They may differ from those that were sent: validation makes `False` of the text "false".
    """

    def check(arguments: JsonObject) -> None:
        sent = call.arguments
        received = {name: reporting.received_as_json(value, sent.get(name)) for name, value in arguments.items()}
        if when(replace(call, arguments={**sent, **received})):
            raise ApprovalRequiredError("This call needs an approval before it can run.", tool=call.name)

    return replace(call, plan=call.plan.with_check(check))


def _is_requested(call: Call, result: ToolResult) -> bool:
    """Return whether approval of this whole call was requested, and not of another call that its body made."""
    error = _requested_error(call, result)
    return error is not None and error.question is None


def _with_request(call: Call, result: ToolResult) -> ToolResult:
    """Return the result, with the request if the body has asked for something and could reach nobody."""
    error = _requested_error(call, result)
    if error is None or error.question is None:
        return result
    return pending_result(ApprovalRequest.from_call(call, error.question))


def _requested_error(call: Call, result: ToolResult) -> ApprovalRequiredError | None:
    error = call.scope.error
    if not isinstance(error, ApprovalRequiredError) or error.tool != call.name:
        return None
    return error if result.error is not None and result.error.code == ApprovalRequiredError.code else None


def _question_approver(approver: Approver) -> QuestionApprover:
    """Return what asks the approver about the questions of a body."""

    async def decide(call: Call, question: Question) -> None:
        try:
            decision = _in_time(call, await call_host_function(approver, ApprovalRequest.from_call(call, question)))
        except ToolCallError:
            raise
        except Exception as error:
            raise ToolError(
                "The approval that this tool needs could not be requested.",
                tool=call.name,
                explanation=f"The approver of the call of {call.name!r} raised {summarize_exception(error)}.",
            ) from error
        if isinstance(decision, Mapping):
            raise ToolSpecError("An approver edits calls only, and not what a tool asks for: return True or a text.")
        if decision is not True and decision is not ApprovalAnswer.ALWAYS:
            raise CallRejectedError(rejection_text(call.name, decision), tool=call.name)

    return QuestionApprover(decide, asyncio.get_running_loop())


def _in_time(call: Call, decision: ApprovalDecision) -> ApprovalDecision:
    """Return a decision; a rejection if the program that has made the call no longer waits for its result."""
    is_late = call.scope.answer_by is not None and time.time() >= call.scope.answer_by
    return _TOO_LATE if is_late else decision


def _restore_masked(approved: Any, masked: Any, original: Any) -> Any:
    if is_same_json(approved, masked):
        return original
    if isinstance(approved, dict) and isinstance(masked, dict) and isinstance(original, Mapping):
        return {
            key: _restore_masked(part, masked[key], original[key]) if key in masked and key in original else part
            for key, part in approved.items()
        }
    are_lists = all(isinstance(value, list) for value in (approved, masked, original))
    if are_lists and len(approved) == len(masked):
        return [_restore_masked(*parts) for parts in zip(approved, masked, original, strict=True)]
    return approved


def is_same_json(one: Any, other: Any) -> bool:
    """Return whether two values are equal and of the same types; Python calls 1, 1.0 and True equal."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same_json(part, other[key]) for key, part in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same_json, one, other))
    return bool(one == other)
