"""Approve: calls that run only after approval. A request is plain data, so it can be decided elsewhere and later."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any, Final

from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import (
    ApprovalRequiredError,
    CallRejectedError,
    InvalidParametersError,
    ToolCallError,
    ToolError,
    ToolSpecError,
)
from ahvn_tools.execution.call import ApprovalQuestion, BodyQuestions, Call, Next, QuestionApprover
from ahvn_tools.execution.convert import call_error_detail, error_result, summarize_exception
from ahvn_tools.execution.pipeline import inner_middleware, run_if_large_in_thread
from ahvn_tools.execution.threads import call_host_function
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware import reporting
from ahvn_tools.middleware.inbox import ApprovalAnswer, Inbox
from ahvn_tools.middleware.limit import COUNT_REQUEST
from ahvn_tools.middleware.pending import ApprovalRequest, arguments_digest, pending_result
from ahvn_tools.results import ToolResult

_TOO_LATE: Final = "the program that has made it no longer waits for the result"


CALL_QUESTION: Final = "make this call"
"""What the user of an MCP client is asked about a call as a whole."""


ApprovalDecision = bool | str | Mapping[str, Any] | ApprovalAnswer
"""True approves; False or a text, which is the reason, rejects; a mapping approves the call with these edits.

An argument that the mapping does not name stays as it is, and so does a `***` that it copies from the request.
"""

Approver = Callable[[ApprovalRequest], ApprovalDecision | Awaitable[ApprovalDecision]]
"""Decides on calls; sync or async."""

Remember = Callable[[ApprovalRequest], Awaitable[None]]
"""Remembers that a call was approved for always."""


class ApprovalMiddleware:
    """Runs calls only after they are approved. Middleware that changes arguments belongs outside of it.

    `when` selects the calls that need approval: all, none, or those for which a function is true. It is asked about the
    arguments as they were sent and, unless these need approval, about the JSON form of the validated ones. Nobody is
    asked about a call whose arguments the tool refuses, that lacks the value of a binding, or that exceeds a limit.

    Without an approver a call ends with the code `approval_required` and has its request, as JSON data, in
    `meta["approval"]`; `Toolkit.resume` continues it. A call that was approved that way runs.
    """

    def __init__(
        self, approver: Approver | None, when: Callable[[Call], bool] | bool, remember: Remember | None = None
    ) -> None:
        """`remember` is called for an approver's answer "always"."""
        self.approver, self.when, self.remember = approver, when, remember

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
                call.plan.check_bound_values(call.state_scopes)
            except ToolCallError as error:  # it cannot run, and no person is asked
                return call.scope.record_error(error, error_result(call_error_detail(error), perf_counter()))
        if when if isinstance(when, bool) else when(call):
            for layer in inner_middleware(next):
                if (count_request := getattr(layer, COUNT_REQUEST, None)) is not None:
                    await count_request(call)
            return await _decide(approver, call, next, self.remember)
        result = _with_request(call, await next(call if isinstance(when, bool) else _asking_again(call, when)))
        return await _decide(approver, call, next, self.remember) if _is_requested(call, result) else result


class RejectedCall(ApprovalMiddleware):
    """Ends a call that was rejected while it waited, so that the middleware outside of it sees that."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__(None, True)
        self.result = result

    async def __call__(self, call: Call, next: Next) -> ToolResult:  # noqa: A002, ARG002  # as above
        """Return the result; nothing runs."""
        return self.result


async def _ask(approver: Approver, call: Call, request: ApprovalRequest) -> ApprovalDecision:
    """Return the decision of an approver on a request for a call. Raises ToolError for what it raises."""
    try:
        decision: ApprovalDecision = await (
            approver(request, call) if isinstance(approver, Inbox) else call_host_function(approver, request)
        )
    except ToolCallError:
        raise
    except Exception as error:
        raise ToolError(
            f"The approver of tool {call.name!r} failed, so nothing was approved.",
            tool=call.name,
            explanation=f"The approver of tool {call.name!r} raised {summarize_exception(error)}.",
        ) from error
    return decision


async def _decide(
    approver: Approver | None,
    call: Call,
    next: Next,  # noqa: A002  # as in the middleware
    remember: Remember | None,
) -> ToolResult:
    """Let the approver decide on a call, and run it if it is approved; without one it waits.

    Without one, the user of an MCP client decides on what the rules of the toolkit ask.
    """
    request = ApprovalRequest.from_call(call)
    if approver is None:
        if call.question_approver is None or not call.scope.is_for_client:
            return pending_result(request)
        await BodyQuestions(call).aask(CALL_QUESTION, request.arguments)
        return _with_request(call, await next(replace(call, is_approved=True)))
    with call.scope.pause():
        decision = _in_time(call, await _ask(approver, call, request))
    if arguments_digest(call.arguments, call.secret_key) != request.digest:
        raise InvalidParametersError("The arguments changed while the call waited for approval.", tool=call.name)
    if isinstance(decision, Mapping):
        call = replace(call, arguments=request.merge_edits(decision, call.arguments))
        await _validate_edited(call)
    if decision is ApprovalAnswer.ALWAYS and request.suggested_rule is not None and remember is not None:
        await remember(request)
    if decision is True or isinstance(decision, Mapping | ApprovalAnswer):
        approved = replace(call, is_approved=True)
        return _with_request(approved, await next(approved))
    return rejected_result(rejection_text(call.name, decision))


def needs_approval(call: Call, next: Next) -> bool:  # noqa: A002  # that of another middleware
    """Return whether middleware inside of another one would ask about a call.

    A middleware that answers calls by itself must not answer such a call.
    """
    return not call.is_approved and any(
        middleware.when if isinstance(middleware.when, bool) else _selects(middleware.when, call)
        for middleware in inner_middleware(next)
        if isinstance(middleware, ApprovalMiddleware)
    )


def rejected_result(message: str) -> ToolResult:
    """Return the error result of a rejected call."""
    return ToolResult(error=ErrorDetail(code=CallRejectedError.code, message=message))


def rejection_text(tool: str, reason: object) -> str:
    """Return what a model reads of a rejected call; a `reason` that is no text is none."""
    ending = f": {reason}" if isinstance(reason, str) and reason else ". Do not try it again unless you are asked to."
    return f"The call of {tool!r} was rejected{ending}"


def lost_text(tool: str, reason: str) -> str:
    """Return what a model reads of a rejected call whose request was decided before; its result is not known."""
    ending = f": {reason}" if reason else ". Find out what it has done before you make it again."
    return f"The call of {tool!r} may have run already; its result was lost{ending}"


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

    async def decide(call: Call, question: ApprovalQuestion) -> None:
        decision = _in_time(call, await _ask(approver, call, ApprovalRequest.from_call(call, question)))
        if isinstance(decision, Mapping):
            raise ToolSpecError("An approver edits calls only, and not what a tool asks for: return True or a text.")
        if decision is not True and decision is not ApprovalAnswer.ALWAYS:
            raise CallRejectedError(rejection_text(call.name, decision), tool=call.name)

    return QuestionApprover(decide, asyncio.get_running_loop())


def _in_time(call: Call, decision: ApprovalDecision) -> ApprovalDecision:
    """Return a decision; a rejection if the program that has made the call no longer waits for its result."""
    is_late = call.scope.answer_by is not None and time.time() >= call.scope.answer_by
    return _TOO_LATE if is_late else decision
