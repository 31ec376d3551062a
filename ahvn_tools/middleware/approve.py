"""Approve: calls that somebody has to allow. What is asked for is data, so that it can be asked anywhere, and later."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from ahvn_tools.errors import ToolSpecError
from ahvn_tools.execution.call import Call, Middleware, Next, inline
from ahvn_tools.middleware import shown
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
    def of(cls, call: Call) -> Self:
        """Return the request for a call."""
        exact, masked = shown.as_json(call.arguments), shown.arguments(call)
        return cls(
            call_id=call.id,
            tool=call.name,
            fingerprint=call.definition.fingerprint,
            arguments=masked,
            secrets=tuple(name for name, value in exact.items() if masked.get(name) != value),
            digest=shown.digest(call.arguments),
            session_id=call.session_id,
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the request that `to_json` gave. Raises ToolSpecError for what is none."""
        try:
            return cls(**{**data, "secrets": tuple(data.get("secrets", ()))})
        except TypeError:
            raise ToolSpecError("This is no approval request. Pass what `ApprovalRequest.to_json()` gave.") from None

    def to_json(self) -> JsonObject:
        """Return it as JSON data, to be kept or sent."""
        return {**asdict(self), "secrets": list(self.secrets)}


Answer = bool | str | Mapping[str, Any]
"""True allows; False rejects, as does a text, which is the reason; a mapping allows with these arguments instead."""

Approver = Callable[[ApprovalRequest], Answer | Awaitable[Answer]]
"""Somebody who allows calls or rejects them, sync or async."""


def approve(approver: Approver | None = None, *, when: Callable[[Call], bool] | None = None) -> Middleware:
    """Return a middleware that lets calls through when they are allowed; `when` says which have to be.

    Without an approver a call ends with the code `approval_required`, and its request, as JSON data, is
    `meta["approval"]`: `Toolkit.resume` goes on with it. A call that was allowed so passes.
    """

    async def ask(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        if call.is_approved or (when is not None and not when(call)):
            return await next(call)
        request = ApprovalRequest.of(call)
        if approver is None:
            message = f"The call of {call.name!r} needs an approval, which has been asked for."
            detail = ErrorDetail(code="approval_required", message=message)
            return ToolResult(error=detail, meta={"approval": request.to_json()}, id=call.id)
        answer = approver(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Mapping):
            return await next(replace(call, arguments=dict(answer)))
        return await next(call) if answer is True else rejected(call.name, answer or "")

    return inline(ask) if approver is None else ask


def rejected(tool: str, reason: str | bool = "") -> ToolResult:
    """Return what a rejected call came to."""
    told = f": {reason}" if isinstance(reason, str) and reason else ". Do not try it again unless you are asked to."
    return ToolResult(error=ErrorDetail(code="rejected", message=f"The call of {tool!r} was rejected{told}"))
