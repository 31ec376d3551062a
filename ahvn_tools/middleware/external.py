"""External: the calls of tools whose result a frontend or another service supplies later, with `Toolkit.resume`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final, NoReturn, Protocol

from ahvn_tools.binding import StateScopes
from ahvn_tools.errors import ResultRequiredError, ToolCallError, ToolError, ToolkitError
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.execution.convert import body_error_detail, to_result
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.pipeline import run_if_large_in_thread
from ahvn_tools.execution.plan import Plan, result_required_error
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware.inbox import Inbox
from ahvn_tools.middleware.pending import ExternalCall, pending_result, without_requests
from ahvn_tools.results import ToolResult
from ahvn_tools.schema.keywords import WRAP_RESULT_KEY

RESULT_RULES: Final = "result_rules"
"""The attribute of a body that may raise ResultRequiredError, because only it knows whether its call waits."""


class ResultRules(Protocol):
    """What the result of one call may be, and how a user is asked for it."""

    def check(self, arguments: Mapping[str, Any], value: Any) -> Any:
        """Return the result that a value from outside is. Raises InvalidResultError."""

    def to_form(self, arguments: Mapping[str, Any]) -> tuple[str, JsonObject]:
        """Return the message and the form of MCP's elicitation that ask for it."""

    def read(self, arguments: Mapping[str, Any], answer: Any) -> Any:
        """Return the result that MCP's ElicitResult is. Raises ToolError."""


def find_rules(body: Any) -> ResultRules | None:
    """Return the rules of a body, if it has some."""
    rules: ResultRules | None = getattr(body, RESULT_RULES, None)
    return rules


async def _wait_for_result(call: Call, next: Next) -> ToolResult:  # noqa: A002  # that of a middleware
    """Run a call, and let it wait for its result if that has to be supplied.

    It is outside of the middleware that changes arguments for the body, as an approval is.
    """
    result = await next(call)
    if not _is_requested(call, result):
        return result
    waiting = pending_result(ExternalCall.from_call(call))
    return call.scope.record_error(result_required_error(call.name), waiting)


def waits_for_result(approver: Any) -> Middleware:
    """Return the middleware of a call that may wait: if the approver is an inbox, for the result that comes there."""
    if not isinstance(approver, Inbox):
        return _wait_for_result

    async def wait(call: Call, next: Next) -> ToolResult:  # noqa: A002  # as above
        result = await next(call)
        if not _is_requested(call, result):
            return result
        request, problem = ExternalCall.from_call(call), ""
        rules, message, schema = find_rules(call.body), None, _result_schema(call)
        if rules is not None:
            arguments = body_arguments(call.plan, call.arguments, call.state_scopes)
            message, schema = rules.to_form(arguments)
        while True:
            with call.scope.pause():
                decision = await approver.ask_for_result(request, call, message, schema, problem)
            try:
                if decision.is_accepted:
                    supplied = supply(call.plan, call.body, call.state_scopes, request, decision.value)
                elif rules is None:
                    text = "The result was not supplied" + (f": {decision.reason}" if decision.reason else ".")
                    supplied = Outcome(error=ToolError(text, tool=call.name))
                else:
                    supplied = Outcome(rules.read(arguments, _NoAnswer("cancel" if decision.is_late else "decline")))
                break
            except ToolkitError as error:
                problem = str(error)
        call.scope.error = call.scope.error_detail = None
        return await next(replace(call, supplied=supplied))

    return wait


@dataclass(frozen=True)
class _NoAnswer:
    """MCP's ElicitResult of a user who has not answered."""

    action: str


def _result_schema(call: Call) -> JsonObject:
    """Return the JSON Schema of the value that a call returns."""
    schema = call.definition.output_schema or {}
    if schema.get(WRAP_RESULT_KEY) is not True:
        return schema
    shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    return {**shared, **schema["properties"]["result"]}


async def supply_result(call: Call, next: Next) -> ToolResult:  # noqa: A002  # as above
    """Return the result that was supplied for a call; without one, run it.

    It is the innermost middleware: others see the result as if the body had returned it.
    """
    if call.supplied is None:
        is_external = call.plan.is_external
        run = replace(call, plan=call.plan.with_called_body(), body=_request_result) if is_external else call
        return await next(run)
    supplied, started = call.supplied, perf_counter()
    convert = functools.partial(to_result, call.plan, call.body, supplied, {}, started, masks_errors=call.masks_errors)
    return call.scope.record_error(supplied.error, await run_if_large_in_thread(call, supplied.value, convert))


def _request_result(*_arguments: Any, **_named: Any) -> NoReturn:
    """Request the result, in place of the body of an external tool: its arguments and bound values are valid."""
    raise ResultRequiredError("The result is supplied from outside.")


def _is_requested(call: Call, result: ToolResult) -> bool:
    """Return whether the body has requested a result of this call, and not of another one that it has made."""
    error = call.scope.error
    is_own = isinstance(error, ResultRequiredError) and error.tool in (call.name, None)
    return is_own and result.error is not None and result.error.code == ResultRequiredError.code


def may_wait(plan: Plan, body: Any) -> bool:
    """Return whether a call with this plan and body may wait for its result."""
    return plan.is_external or (plan.takes_context and hasattr(body, RESULT_RULES))


def body_arguments(plan: Plan, arguments: JsonObject, scopes: StateScopes) -> Mapping[str, Any]:
    """Return the arguments of the body by its own names. Raises ToolCallError."""
    return plan.to_args_kwargs(plan.prepare((), arguments, scopes))[1]


def supply(plan: Plan, body: Any, scopes: StateScopes, request: ExternalCall, value: Any) -> Outcome:
    """Return the outcome of a call for a value from outside. Raises ToolkitError for a value that the tool refuses."""
    rules = find_rules(body)
    try:
        if rules is not None:
            value = rules.check(body_arguments(plan, request.arguments, scopes), value)
        plan.output.to_result(value)
    except (ToolCallError, RecursionError) as error:
        problem = getattr(error, "problem", None) or getattr(error, "explanation", None) or str(error)
        raise ToolkitError(
            f"The value for the call {request.call_id!r} of {request.tool!r} is refused: {problem.rstrip('.')}. The "
            "call still waits."
        ) from None
    return Outcome(value)


def to_error_result(value: Any, request: ExternalCall, *, masks_errors: bool) -> ToolResult | None:
    """Return the error result that a value from outside is: an exception, or an error ToolResult; else None."""
    if isinstance(value, ToolResult) and value.is_error:
        return ToolResult(error=value.error, meta=without_requests(value.meta), blocks=value.blocks)
    if isinstance(value, Exception):
        detail = body_error_detail(value, {}, tool=request.tool, is_masked=masks_errors)
        return ToolResult(error=detail)
    return None
