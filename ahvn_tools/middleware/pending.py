"""PendingRequest: a call that waits for an approval, or for its result, as data for another process and a later time.

Another kind is a class in `PendingRequest`, and the class of the decisions on it in `toolkit/resume.py`.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias, get_args

from ahvn_tools import invisible
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import (
    ApprovalRequiredError,
    InvalidParametersError,
    ResultRequiredError,
    ToolCallError,
    ToolSpecError,
)
from ahvn_tools.execution.call import ApprovalQuestion, Call
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware import reporting
from ahvn_tools.redaction.values import reveal_secrets
from ahvn_tools.results import ToolResult
from ahvn_tools.secret_key import SecretKey

_PROGRAM_PURPOSE: Final = "program of an approval request"


class RequestSigner:
    """Signs and checks requests with the key of a toolkit. The program that several requests share is read once."""

    def __init__(self, key: SecretKey) -> None:
        self._key = key
        self._digests: dict[int, tuple[JsonObject, str]] = {}
        """Programs with their digests, by the ids of the objects."""

    def sign(self, request: SignedRequest) -> str:
        """Return the signature of a request."""
        return self._key.digest(request.words, self._signed_data(request))

    def has_signed(self, request: SignedRequest) -> bool:
        """Return whether the request is unchanged since a toolkit with this key made it."""
        try:
            return self._key.is_digest(request.signature, request.words, self._signed_data(request))
        except (TypeError, ValueError, RecursionError):  # arguments that are not JSON
            return False

    def _signed_data(self, request: SignedRequest) -> JsonObject:
        """Return all attributes but the signature, with the digest of the program."""
        data = {name: value for name, value in vars(request).items() if name != "signature"}
        return data if request.program is None else {**data, "program": self._program_digest(request.program)}

    def _program_digest(self, program: JsonObject) -> str:
        if id(program) not in self._digests:
            self._digests[id(program)] = program, self._key.digest(_PROGRAM_PURPOSE, program)
        return self._digests[id(program)][1]


@dataclass(frozen=True, kw_only=True, repr=False)
class SignedRequest:
    """One call that waits. It identifies the tool's definition, the exact arguments and the session.

    Its toolkit has signed it: a changed request, or one of a toolkit with another `secret_key`, is not resumed.
    """

    words: ClassVar[str]
    """What it is; a signature of one kind is not valid for another."""
    needs: ClassVar[tuple[str, str]]
    """What a call waits for, and what several do."""
    meta_key: ClassVar[str]
    """Its key in the `meta` of a result."""
    error: ClassVar[type[ToolCallError]]
    """The error of a call that waits."""
    state: ClassVar[Literal["waiting_for_approval", "waiting_for_result"]]
    """The state of a background call that waits."""
    decided_by: ClassVar[Literal["approved", "results"]]
    """The argument of `Toolkit.resume` that decides on it by its call id."""
    expired_fix: ClassVar[str]
    """What to do when it has expired."""

    id: str
    """Unique: it is resumed once."""
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
    """When it can no longer be resumed, other than by an error, in seconds since 1970 (UTC); None: never."""
    program: JsonObject | None
    """The saved program that has made the call; None for a call that the model has made itself."""
    signature: str
    """HMAC-SHA-256, in hex, of all other fields, with the toolkit's secret key."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the request that `to_json` exported. Raises ToolSpecError for any other data."""
        wrong = ToolSpecError(f"This is not {cls.words}. Pass the result of `{cls.__name__}.to_json()`.")
        try:
            lists = {name: tuple(data[name]) for name in ("secrets", "questions") if name in data}
            request = cls(**{**data, **lists})
        except (TypeError, AttributeError):
            raise wrong from None
        if all(request._checks()):
            return request
        raise wrong

    def to_json(self) -> JsonObject:
        """Return the request as JSON data, to store or send."""
        return {name: list(part) if isinstance(part, tuple) else part for name, part in asdict(self).items()}

    @property
    def model_call_id(self) -> str:
        """The id of the model's call that waits: that of the program, for a call that a program has made."""
        return self.call_id if self.program is None else str(self.program["call_id"])

    @property
    def approves_call(self) -> bool:
        """Whether the call as a whole is approved when it is resumed."""
        return True

    @property
    def approved_questions(self) -> tuple[str, ...]:
        """Keyed digests of what the tool has asked for in the call, and may do when it is resumed."""
        return ()

    def has_expired(self, now: float) -> bool:
        """Return whether it can no longer be resumed at a time, in seconds since 1970."""
        return self.expires_at is not None and now >= self.expires_at

    def signed_by(self, key: SecretKey) -> Self:
        """Return the request with the signature of a toolkit's key."""
        return replace(self, signature=RequestSigner(key).sign(self))

    def _checks(self) -> list[bool]:
        """Return, for each field, whether it has its type."""
        texts = [self.id, self.call_id, self.tool, self.fingerprint, self.digest, self.signature]
        texts += [self.session_id or "", self.caller or "", *self.secrets]
        checks = [isinstance(text, str) for text in texts]
        checks += [isinstance(self.arguments, dict), isinstance(self.expires_at, int | None)]
        return [*checks, self.program is None or _is_program(self.program)]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.tool!r} call_id={self.call_id!r}>"


def _common_fields(call: Call) -> dict[str, Any]:
    """Return the fields that both kinds have, without a signature. Raises InvalidParametersError."""
    exact, masked = reporting.as_json(call.arguments), reporting.redact_arguments(call)
    if not isinstance(exact, dict):
        raise InvalidParametersError("Invalid arguments: they have no JSON form.", tool=call.name)
    return {
        "id": uuid.uuid4().hex,
        "call_id": call.id,
        "tool": call.name,
        "fingerprint": call.definition.fingerprint,
        "arguments": masked,
        "secrets": tuple(name for name, value in exact.items() if masked.get(name) != value),
        "digest": arguments_digest(call.arguments, call.secret_key),
        "session_id": call.session_id,
        "caller": call.caller,
        "expires_at": None if call.approval_expiry is None else math.ceil(time.time() + call.approval_expiry),
        "program": None,
        "signature": "",
    }


@dataclass(frozen=True, kw_only=True, repr=False)
class ApprovalRequest(SignedRequest):
    """One call that waits for approval. It identifies the tool's definition, the exact arguments and the session.

    Its toolkit has signed it: a changed request, or one of a toolkit with another `secret_key`, is not resumed.
    """

    words = "an approval request"
    needs = "an approval", "approvals"
    meta_key = "approval"
    error = ApprovalRequiredError
    state = "waiting_for_approval"
    decided_by = "approved"
    expired_fix = "Reject it, so that the model can ask again"

    action: str | None
    """What the tool asks for in its own words, with `ToolContext.ask`; None: the call as a whole needs an approval."""
    details: JsonObject | None
    """The details of the action, with `***` for secrets; None without an action."""
    questions: tuple[str, ...]
    """Keyed digests of what the tool has asked for in this call, this action last; empty without an action."""
    is_call_approved: bool
    """Whether the call was approved as a whole before the tool asked for the action."""

    @classmethod
    def from_call(cls, call: Call, question: ApprovalQuestion | None = None) -> Self:
        """Return the request for a call, or for what its body asks.

        Raises InvalidParametersError for arguments without a JSON form.
        """
        request = cls(
            **_common_fields(call),
            action=None if question is None else reporting.redact_json(call, question.action),
            details=None if question is None else reporting.redact_json(call, question.details),
            questions=() if question is None else (*question.earlier, question.digest),
            is_call_approved=call.is_approved,
        )
        return request.signed_by(call.secret_key)

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

    @property
    def approved_questions(self) -> tuple[str, ...]:
        """Its questions."""
        return self.questions

    def merge_edits(self, edits: Mapping[str, Any], arguments: Mapping[str, Any]) -> JsonObject:
        """Return the arguments of the call with those that an approver has edited.

        An argument that is not named, or equals the request's masked one, stays as it is.
        """
        return {**arguments, **_restore_masked(dict(edits), self.arguments, arguments)}

    def _checks(self) -> list[bool]:
        checks = [isinstance(text, str) for text in (self.action or "", *self.questions)]
        checks += [isinstance(self.details, dict | None), isinstance(self.is_call_approved, bool)]
        return [*super()._checks(), *checks]


_MAX_RULE_CHARS: Final = 4_000


def rule_text(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the rule for a tool with exactly these arguments, as a person reads it."""
    texts = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return invisible.escape_line(f"{tool}({', '.join(texts)})")


@dataclass(frozen=True, kw_only=True, repr=False)
class ExternalCall(SignedRequest):
    """One call whose result is supplied from outside: `Toolkit.resume(run, results={call.call_id: value})`.

    Its toolkit has signed it: a changed call, or one of a toolkit with another `secret_key`, takes no value.
    """

    words = "an external call"
    needs = "a result from outside", "results from outside"
    meta_key = "external_call"
    error = ResultRequiredError
    state = "waiting_for_result"
    decided_by = "results"
    expired_fix = "Pass a ToolError as its result, so that the model can go on"

    kind: Literal["external_call"] = "external_call"
    """What it is, as JSON data."""

    @classmethod
    def from_call(cls, call: Call) -> Self:
        """Return the external call for a call. Raises InvalidParametersError for arguments without a JSON form."""
        return cls(**_common_fields(call)).signed_by(call.secret_key)

    def _checks(self) -> list[bool]:
        return [*super()._checks(), self.kind == ExternalCall.kind]


PendingRequest: TypeAlias = ApprovalRequest | ExternalCall
"""A request of any kind. Of several, those of the first kind come first: callers that know no other ask for these."""

FIRST_KEYS: Final[Mapping[str, type[PendingRequest]]] = {kind.meta_key: kind for kind in get_args(PendingRequest)}
"""The kinds of requests, by their keys in the `meta` of a result; only one of the keys is there."""

FURTHER_KEY: Final = "further_requests"
"""The key of the other requests of a program."""

REQUEST_KEYS: Final = frozenset({*FIRST_KEYS, FURTHER_KEY})

_ARGUMENTS_PURPOSE: Final = "arguments of a call"


def read_request(data: Any) -> PendingRequest:
    """Return the request of any kind that is exported as JSON data. Raises ToolSpecError for any other data."""
    kind = str(data.get("kind")) if isinstance(data, Mapping) else ""
    return FIRST_KEYS.get(kind, ApprovalRequest).from_json(data)


def pending_result(*requests: PendingRequest) -> ToolResult:
    """Return the error result of a call that waits, with its requests.

    A program may wait for several calls, each with a request; their program is in the result once.
    """
    order = [*FIRST_KEYS]
    first, *further = ordered = sorted(requests, key=lambda request: order.index(request.meta_key))
    meta: JsonObject = {first.meta_key: first.to_json()}
    if further:
        meta[FURTHER_KEY] = [replace(other, program=None).to_json() for other in further]
    detail = ErrorDetail(code=first.error.code, message=_to_message(ordered))
    return ToolResult(error=detail, meta=meta, id=first.model_call_id)


def _to_message(requests: Sequence[PendingRequest]) -> str:
    if len(requests) == 1:
        return f"The call of {requests[0].tool!r} needs {requests[0].needs[0]}, which has been requested."
    needs = " or ".join(dict.fromkeys(request.needs[1] for request in requests))
    return f"{len(requests)} calls need {needs}, which have been requested."


def find_kind(result: ToolResult) -> type[PendingRequest] | None:
    """Return the kind of the request that a result waits for; None if it does not wait."""
    code = None if result.error is None else result.error.code
    return next((kind for key, kind in FIRST_KEYS.items() if key in result.meta and kind.error.code == code), None)


def pending_requests(meta: Mapping[str, Any]) -> list[PendingRequest]:
    """Return the requests in the `meta` of a result. Raises ToolSpecError for what is none."""
    first = next((kind.from_json(meta[key]) for key, kind in FIRST_KEYS.items() if key in meta), None)
    if first is None:
        return []
    further = meta.get(FURTHER_KEY, [])
    if not isinstance(further, list):
        raise ToolSpecError("These are not requests of calls that wait.")
    return [first, *[replace(read_request(data), program=first.program) for data in further]]


def without_requests(meta: Mapping[str, Any]) -> JsonObject:
    """Return the `meta` of a result that does not wait, without requests."""
    return {name: value for name, value in meta.items() if name not in REQUEST_KEYS}


def without_other_request(result: ToolResult, key: SecretKey) -> ToolResult:
    """Return the result of a call, without requests that cannot be resumed.

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


def arguments_digest(arguments: Mapping[str, Any], key: SecretKey) -> str:
    """Return the keyed digest of the exact arguments, secrets included: equal for equal arguments only."""
    try:
        revealed = reveal_secrets(arguments)
    except RecursionError:  # a circular reference: no tool that can be recorded accepts it
        revealed = reporting.type_placeholder(arguments)
    return key.digest(_ARGUMENTS_PURPOSE, reporting.as_json(revealed))


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
