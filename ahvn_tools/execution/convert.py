"""Settling: what a body came to, as the value that `call` gives or as a ToolResult."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

from ahvn_tools.errors import CallCancelledError, ToolCallError, ToolError
from ahvn_tools.execution import failure
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.redaction import clip, redact
from ahvn_tools.results import ErrorDetail, ToolResult


def unwrap_value(plan: Plan, body: Body, returned: Any, values: Mapping[str, Any]) -> Any:
    """Return what `call` gives for what a body returned. Raises InvalidResultError; for an error result, ToolError."""
    if type(returned) is plan.exact_type:
        return returned
    made = plan.output.to_result(returned)
    if made.error is not None:
        raise ToolError(_mask_text(plan, body, made.error.message, values), tool=plan.name)
    return made.value


def to_result(
    plan: Plan,
    body: Body,
    outcome: Outcome,
    values: Arguments,
    started: float,
    *,
    is_served: bool = False,
    shows_errors: bool = False,
) -> ToolResult:
    """Return the result of an outcome. A local caller gets KeyboardInterrupt, SystemExit and their like raised."""
    error = outcome.error
    if error is None:
        return success_result(plan, body, outcome.value, values, started)
    if outcome.is_runner_error and isinstance(error, ToolCallError):
        return error_result(failure.call_error_detail(error), started)
    if not (is_served or isinstance(error, Exception) or failure.is_cancellation(error)):
        raise error
    is_masked = is_served and not shows_errors
    return error_result(
        failure.body_error_detail(error, _hidden_values(plan, body, values), tool=plan.name, is_masked=is_masked),
        started,
    )


def error_result(detail: ErrorDetail, started: float) -> ToolResult:
    """Return an error result."""
    return ToolResult(error=detail, meta={"duration": perf_counter() - started})


def success_result(plan: Plan, body: Body, returned: Any, values: Arguments, started: float) -> ToolResult:
    """Return the result of what a body returned."""
    try:
        made = plan.output.to_result(returned)
    except ToolCallError as invalid:
        return error_result(failure.call_error_detail(invalid), started)
    if made is returned:  # the body's own object: it may be used again
        made = replace(made, meta=dict(made.meta), is_last=True)
    if made.error is not None:
        message = _mask_text(plan, body, made.error.message, values)
        made = replace(made, error=ErrorDetail(code=made.error.code, message=message), blocks=None)
    made.meta["duration"] = perf_counter() - started
    return made


def _mask_text(plan: Plan, body: Body, text: str, values: Mapping[str, Any]) -> str:
    return clip(redact(text, _hidden_values(plan, body, values)))


def _hidden_values(plan: Plan, body: Body, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what no text may show: bound parameters, secret ones, and the instance (or class) of a method."""
    owner = getattr(body, "__self__", None)
    hidden = plan.hidden_values(values)
    return hidden if owner is None or inspect.isbuiltin(body) else {"self": owner, **hidden}


def normalize_cancellation(plan: Plan, outcome: Outcome) -> Outcome:
    """Return the outcome as `call` raises it: a body's own cancellation would be taken for the caller's."""
    if outcome.error is not None and failure.is_cancellation(outcome.error):
        return Outcome(error=self_cancelled_error(plan))
    return outcome


def self_cancelled_error(plan: Plan) -> CallCancelledError:
    """Return the error of a tool that cancelled itself."""
    return CallCancelledError(f"Tool {plan.name!r} cancelled itself; nobody had cancelled the call.", tool=plan.name)
