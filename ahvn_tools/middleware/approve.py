"""Approve: calls that somebody has to allow. What is asked for is data, so that it can be asked anywhere, and later."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from ahvn_tools.errors import ApprovalRequiredError, InvalidParametersError, ToolSpecError
from ahvn_tools.execution.call import Call, Middleware, Next, inline
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.middleware import redaction
from ahvn_tools.results import ErrorDetail, ToolResult

JsonObject = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ApprovalRequest:
    """One call that waits to be allowed: bound to the tool as it is, the exact arguments and the session."""

    call_id: str
    tool: str
    fingerprint: str
    """Of what the model was shown of the tool."""
    arguments: JsonObject
    """As the model gave them, what is secret as `***`."""
    secrets: tuple[str, ...] = ()
    """The names of those among them in which something is hidden."""
    digest: str
    """SHA-256, in hex, over the exact arguments."""
    session_id: str | None = None

    @classmethod
    def from_call(cls, call: Call) -> Self:
        """Return the request for a call. Raises InvalidParametersError for arguments without a JSON form."""
        exact, masked = redaction.as_json(call.arguments), redaction.redact_arguments(call)
        if not isinstance(exact, dict):
            raise InvalidParametersError("Invalid arguments: they have no JSON form to be allowed in.", tool=call.name)
        return cls(
            call_id=call.id,
            tool=call.name,
            fingerprint=call.definition.fingerprint,
            arguments=masked,
            secrets=tuple(name for name, value in exact.items() if masked.get(name) != value),
            digest=redaction.arguments_digest(call.arguments),
            session_id=call.session_id,
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the request that `to_json` gave. Raises ToolSpecError for what is none."""
        wrong = ToolSpecError("This is no approval request. Pass what `ApprovalRequest.to_json()` gave.")
        try:
            request = cls(**{**data, "secrets": tuple(data.get("secrets", ()))})
        except (TypeError, AttributeError):
            raise wrong from None
        texts = (request.call_id, request.tool, request.fingerprint, request.digest, request.session_id or "")
        if all(isinstance(text, str) for text in texts) and isinstance(request.arguments, dict):
            return request
        raise wrong

    def to_json(self) -> JsonObject:
        """Return it as JSON data, to be kept or sent."""
        return {**asdict(self), "secrets": list(self.secrets)}

    def restore_masked(self, arguments: Mapping[str, Any], original: Mapping[str, Any]) -> JsonObject:
        """Return an approver's arguments; what is in them as the request shows it stands for what was asked for."""
        return dict(_restore_masked(dict(arguments), self.arguments, original))


ApprovalDecision = bool | str | Mapping[str, Any]
"""True allows; False rejects, as does a text, which is the reason; a mapping allows with these arguments instead.

What stands in it as `***` in the request may stay so: the tool gets what the model gave.
"""

Approver = Callable[[ApprovalRequest], ApprovalDecision | Awaitable[ApprovalDecision]]
"""Somebody who allows calls or rejects them, sync or async."""


def approve(approver: Approver | None = None, *, when: Callable[[Call], bool] | None = None) -> Middleware:
    """Return a middleware that lets calls through when they are allowed.

    `when` says which have to be; others may ask for it in their body, by `ToolContext.require_approval`.

    Without an approver a call ends with the code `approval_required`, and its request, as JSON data, is
    `meta["approval"]`: `Toolkit.resume` goes on with it. A call that was allowed so passes.
    """

    async def ask(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        if call.is_approved:
            return await next(call)
        if when is None or when(call):
            return await decided(call, next)
        made = await next(call)
        return await decided(call, next) if _is_requested_by_body(call, made) else made

    async def decided(call: Call, next: Next) -> ToolResult:  # noqa: A002  # as above
        request = ApprovalRequest.from_call(call)
        if approver is None:
            message = f"The call of {call.name!r} needs an approval, which has been asked for."
            detail = ErrorDetail(code=ApprovalRequiredError.code, message=message)
            return ToolResult(error=detail, meta={"approval": request.to_json()}, id=call.id)
        answer = await _ask_approver(approver, request)
        if isinstance(answer, Mapping):
            return await next(replace(call, arguments=request.restore_masked(answer, call.arguments), is_approved=True))
        return (
            await next(replace(call, is_approved=True)) if answer is True else rejected_result(call.name, answer or "")
        )

    return inline(ask) if approver is None else ask


def _is_requested_by_body(call: Call, result: ToolResult) -> bool:
    """Tell whether the body has asked for an approval of this very call; not one that it made may have."""
    raised = call.scope.error
    is_its_own = isinstance(raised, ApprovalRequiredError) and raised.tool == call.name
    return is_its_own and result.error is not None and result.error.code == ApprovalRequiredError.code


async def _ask_approver(approver: Approver, request: ApprovalRequest) -> ApprovalDecision:
    told: Any
    if inspect.iscoroutinefunction(approver):
        told = approver(request)
    else:  # it may wait for a person, and no loop with it
        told = (await run_in_thread(lambda _: approver(request))).get()
    answer: ApprovalDecision = await told if inspect.isawaitable(told) else told
    return answer


def _restore_masked(approved: Any, masked: Any, original: Any) -> Any:
    if approved == masked:
        return original
    if isinstance(approved, dict) and isinstance(masked, dict) and isinstance(original, Mapping):
        return {
            key: _restore_masked(part, masked[key], original[key]) if key in masked and key in original else part
            for key, part in approved.items()
        }
    if (
        isinstance(approved, list)
        and isinstance(masked, list)
        and isinstance(original, list)
        and len(approved) == len(masked)
    ):
        return [_restore_masked(*parts) for parts in zip(approved, masked, original, strict=True)]
    return approved


def rejected_result(tool: str, reason: str | bool = "") -> ToolResult:
    """Return what a rejected call came to."""
    told = f": {reason}" if isinstance(reason, str) and reason else ". Do not try it again unless you are asked to."
    return ToolResult(error=ErrorDetail(code="rejected", message=f"The call of {tool!r} was rejected{told}"))
