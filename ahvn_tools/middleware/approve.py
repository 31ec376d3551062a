"""Approve: calls that run only after approval. A request is plain data, so it can be decided elsewhere and later."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from ahvn_tools.errors import ApprovalRequiredError, InvalidParametersError, ToolSpecError
from ahvn_tools.execution.call import Call, Middleware, Next, inline
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware import reporting
from ahvn_tools.redaction import reveal_secrets
from ahvn_tools.results import ErrorDetail, ToolResult


@dataclass(frozen=True, kw_only=True)
class ApprovalRequest:
    """One call that waits for approval. It identifies the tool's definition, the exact arguments and the session."""

    call_id: str
    tool: str
    fingerprint: str
    """The fingerprint of the tool's definition."""
    arguments: JsonObject
    """The model's arguments, with `***` for secrets."""
    secrets: tuple[str, ...] = ()
    """The names of the arguments that contain a masked value."""
    digest: str
    """SHA-256, in hex, over the exact arguments."""
    session_id: str | None = None

    @classmethod
    def from_call(cls, call: Call) -> Self:
        """Return the request for a call. Raises InvalidParametersError for arguments without a JSON form."""
        exact, masked = reporting.as_json(call.arguments), reporting.redact_arguments(call)
        if not isinstance(exact, dict):
            raise InvalidParametersError("Invalid arguments: they have no JSON form.", tool=call.name)
        return cls(
            call_id=call.id,
            tool=call.name,
            fingerprint=call.definition.fingerprint,
            arguments=masked,
            secrets=tuple(name for name, value in exact.items() if masked.get(name) != value),
            digest=arguments_digest(call.arguments),
            session_id=call.session_id,
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the request that `to_json` exported. Raises ToolSpecError for any other data."""
        wrong = ToolSpecError("This is not an approval request. Pass the result of `ApprovalRequest.to_json()`.")
        try:
            request = cls(**{**data, "secrets": tuple(data.get("secrets", ()))})
        except (TypeError, AttributeError):
            raise wrong from None
        texts = (request.call_id, request.tool, request.fingerprint, request.digest, request.session_id or "")
        if all(isinstance(text, str) for text in texts) and isinstance(request.arguments, dict):
            return request
        raise wrong

    def to_json(self) -> JsonObject:
        """Return the request as JSON data, to store or send."""
        return {**asdict(self), "secrets": list(self.secrets)}

    def restore_masked(self, arguments: Mapping[str, Any], original: Mapping[str, Any]) -> JsonObject:
        """Return an approver's arguments, with the original values where they equal the request's masked ones."""
        return dict(_restore_masked(dict(arguments), self.arguments, original))


ApprovalDecision = bool | str | Mapping[str, Any]
"""True approves; False or a text, which is the reason, rejects; a mapping approves the call with these arguments.

A `***` that the mapping copies from the request is replaced by the model's value.
"""

Approver = Callable[[ApprovalRequest], ApprovalDecision | Awaitable[ApprovalDecision]]
"""Decides on calls; sync or async."""


def approve(approver: Approver | None = None, *, when: Callable[[Call], bool] | None = None) -> Middleware:
    """Return middleware that runs calls only after they are approved.

    `when` selects the calls that need approval: all by default. Other calls may request it in their body, with
    `ToolContext.require_approval`.

    Without an approver a call ends with the code `approval_required` and has its request, as JSON data, in
    `meta["approval"]`; `Toolkit.resume` continues it. A call that was approved that way runs.
    """

    async def approve_call(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        if call.is_approved:
            return await next(call)
        if when is None or when(call):
            return await decide(call, next)
        result = await next(call)
        return await decide(call, next) if _is_requested_by_body(call, result) else result

    async def decide(call: Call, next: Next) -> ToolResult:  # noqa: A002  # as above
        request = ApprovalRequest.from_call(call)
        if approver is None:
            message = f"The call of {call.name!r} needs an approval, which has been requested."
            detail = ErrorDetail(code=ApprovalRequiredError.code, message=message)
            return ToolResult(error=detail, meta={"approval": request.to_json()}, id=call.id)
        decision = await _ask(approver, request)
        if isinstance(decision, Mapping):
            arguments = request.restore_masked(decision, call.arguments)
            return await next(replace(call, arguments=arguments, is_approved=True))
        if decision is True:
            return await next(replace(call, is_approved=True))
        return rejected_result(call.name, decision or "")

    return inline(approve_call) if approver is None else approve_call


def rejected_result(tool: str, reason: str | bool = "") -> ToolResult:
    """Return the error result of a rejected call."""
    ending = f": {reason}" if isinstance(reason, str) and reason else ". Do not try it again unless you are asked to."
    return ToolResult(error=ErrorDetail(code="rejected", message=f"The call of {tool!r} was rejected{ending}"))


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hex, of the exact arguments, secrets included: equal for equal arguments only."""
    try:
        revealed = reveal_secrets(arguments)
    except RecursionError:  # a circular reference: no tool that can be recorded accepts it
        revealed = reporting.type_placeholder(arguments)
    exact = json.dumps(reporting.as_json(revealed), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(exact.encode("utf-8", "surrogatepass")).hexdigest()


def _is_requested_by_body(call: Call, result: ToolResult) -> bool:
    """Return whether the body requested approval of this call, and not of another call that it made."""
    error = call.scope.error
    is_own = isinstance(error, ApprovalRequiredError) and error.tool == call.name
    return is_own and result.error is not None and result.error.code == ApprovalRequiredError.code


async def _ask(approver: Approver, request: ApprovalRequest) -> ApprovalDecision:
    answer: Any
    if inspect.iscoroutinefunction(approver):
        answer = approver(request)
    else:  # it may wait for a person, which must not block the event loop
        answer = (await run_in_thread(lambda _: approver(request))).get()
    decision: ApprovalDecision = await answer if inspect.isawaitable(answer) else answer
    return decision


def _restore_masked(approved: Any, masked: Any, original: Any) -> Any:
    if approved == masked:
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
