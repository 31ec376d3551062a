"""Conversion of what a body did into the value that `call` returns, into a ToolResult, or into an ErrorDetail.

Error texts are short: no stack, no inputs, no bound values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from ahvn_tools.encoders.loaded_classes import is_for_graph, loaded_classes
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import (
    ApprovalRequiredError,
    CallCancelledError,
    CallRejectedError,
    InputRequiredError,
    InvalidResultError,
    LimitExceededError,
    PickleError,
    ResultRequiredError,
    SyncCallError,
    ToolCallError,
    ToolChangedError,
    ToolConnectionError,
    ToolError,
    ToolTimeoutError,
    clip,
    exception_text,
)
from ahvn_tools.execution.outcome import Outcome, is_cancellation, self_cancelled_error
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.redaction.values import HiddenValues
from ahvn_tools.results import ToolResult, media_blocks, unfinished_result

if TYPE_CHECKING:
    import logging

_ERRORS_WITH_THEIR_OWN_CODE: Final = (
    ApprovalRequiredError, CallCancelledError, CallRejectedError, InputRequiredError, InvalidResultError,
    LimitExceededError, ResultRequiredError, ToolChangedError, ToolConnectionError,
)  # fmt: skip

_ERRORS_WITHOUT_ITEMS: Final = (ApprovalRequiredError, InputRequiredError, LimitExceededError, ResultRequiredError)
"""Of what asks for something, and of too many items, no item is part of the result."""

MISSING_REQUIRED_CLIENT_CAPABILITY: Final = -32021
"""MCP's error code; `mcp_types` has it too, but importing it is slow."""


FindHidden = Callable[[], Mapping[str, HiddenValues]]
"""Returns values that no text may show, by name."""


def unwrap_value(plan: Plan, body: Body, returned: Any, values: Mapping[str, Any]) -> Any:
    """Return the value that `call` returns. Raises InvalidResultError, and ToolError for an error result."""
    if type(returned) is plan.exact_type:
        return returned
    result = plan.value_output.to_result(returned)
    if result.error is not None:
        raise ToolError(_mask_text(plan, body, result.error.message, values), tool=plan.name)
    return result.value


def to_result(
    plan: Plan,
    body: Body,
    outcome: Outcome,
    values: Arguments,
    started: float,
    *,
    is_served: bool = False,
    masks_errors: bool = False,
    find_hidden: FindHidden | None = None,
) -> ToolResult:
    """Return the result of an outcome. KeyboardInterrupt, SystemExit and the like are raised in a local caller.

    `find_hidden` returns what texts of errors may not show in addition to the secrets in `values`.
    """
    error = outcome.error
    if error is None:
        return returned_result(plan, body, outcome.value, values, started, find_hidden=find_hidden)
    if outcome.is_runner_error and isinstance(error, ToolCallError):
        detail = call_error_detail(error)
        if masks_errors and isinstance(error, ToolTimeoutError):
            detail = replace(detail, message=error.masked_message or detail.message).hold(error)
        return _unfinished(plan, outcome, detail, started)
    if not (is_served or isinstance(error, Exception) or is_cancellation(error)):
        raise error
    hidden = _hidden_values(plan, body, values, find_hidden)
    detail = body_error_detail(error, hidden, tool=plan.name, is_masked=masks_errors)
    return _unfinished(plan, outcome, detail, started)


def _hidden_values(
    plan: Plan, body: Body, values: Arguments, find_hidden: FindHidden | None
) -> Mapping[str, HiddenValues]:
    hidden = plan.hidden_values(values, body)
    for name, parts in {} if find_hidden is None else find_hidden().items():
        hidden.setdefault(name, HiddenValues()).extend(parts)
    return hidden


def _unfinished(plan: Plan, outcome: Outcome, detail: ErrorDetail, started: float) -> ToolResult:
    """Return the error result of a body, with the items that it made before."""
    if not outcome.made or isinstance(outcome.error, _ERRORS_WITHOUT_ITEMS):
        return error_result(detail, started)
    value, meta = items_so_far(plan, outcome.made), {"duration": perf_counter() - started}
    return unfinished_result(value, detail, is_raw=plan.output.is_raw, meta=meta)


def items_so_far(plan: Plan, made: Sequence[Any]) -> list[Any] | None:
    """Return the values of items as the whole result has them; None without items."""
    items = [*made] if plan.output.is_raw else [plan.output.to_chunk(item).value for item in made]
    return items or None


def error_result(detail: ErrorDetail, started: float) -> ToolResult:
    """Return an error result; `started` is the `perf_counter` value at the start of the call."""
    return ToolResult(error=detail, meta={"duration": perf_counter() - started})


def returned_result(
    plan: Plan, body: Body, returned: Any, values: Arguments, started: float, *, find_hidden: FindHidden | None = None
) -> ToolResult:
    """Return the result of what a body returned; a body may return an error result."""
    try:
        result = plan.output.to_result(returned)
    except ToolCallError as error:
        return error_result(call_error_detail(error), started)
    if result is returned:  # the body's own object, which it may use again
        result = replace(result, meta=dict(result.meta), is_last=True)
    if result.error is not None:
        message = _redact(result.error.message, _hidden_values(plan, body, values, find_hidden))
        detail = replace(result.error, message=message).hold(result.error.exception)
        result = replace(result, error=detail, blocks=media_blocks(result.blocks) or None)
    result.meta["duration"] = perf_counter() - started
    return result


def call_error_detail(error: ToolCallError) -> ErrorDetail:
    """Return the detail of an error that this package raised; its text is safe as it is."""
    _log_explanation(error)
    response, problems = error.mcp_response, error.problems
    return ErrorDetail(code=error.code, message=error.message, mcp_response=response, problems=problems).hold(error)


def body_error_detail(
    error: BaseException, bound_values: Mapping[str, Any], *, tool: str, is_masked: bool = False
) -> ErrorDetail:
    """Return the detail of what a body raised; the bound values are masked in its text.

    `is_masked` hides the text of every exception except ToolError.
    """
    detail = _body_error_detail(error, bound_values, tool, is_masked=is_masked)
    return detail.hold(self_cancelled_error(tool) if is_cancellation(error) else error)


def _body_error_detail(
    error: BaseException, bound_values: Mapping[str, Any], tool: str, *, is_masked: bool
) -> ErrorDetail:
    error = _without_groups(error)
    if is_cancellation(error):
        return ErrorDetail(code="cancelled", message="The tool cancelled itself.")
    if isinstance(error, _ERRORS_WITH_THEIR_OWN_CODE):
        _log_explanation(error, bound_values)
        message = _redact(error.message, bound_values)  # a body may raise them with its own text
        return ErrorDetail(code=error.code, message=message, mcp_response=error.mcp_response)
    if isinstance(error, PickleError | SyncCallError):  # only the developer can do something about it
        _log().warning("Tool %r failed: %s", tool, _redact(exception_text(error), bound_values))
        return ErrorDetail(code="tool_error", message=f"Error calling tool {tool!r}")
    if isinstance(error, ToolError) or _is_fastmcp_tool_error(error):
        if isinstance(error, ToolError) and error.explanation is not None:
            _log_explanation(error, bound_values)
            text = error.message
        else:
            text = exception_text(error)
        response = getattr(error, "mcp_response", None)  # a FastMCP ToolError has none
        return ErrorDetail(code="tool_error", message=_redact(text, bound_values), mcp_response=response)
    response = error if _is_missing_capability_error(error) else None
    if is_masked:
        summary = _redact(summarize_exception(error), bound_values)  # the host sees what the model does not
        if not is_for_graph(error):
            _log().error("Tool %r raised %s.", tool, summary)
        return ErrorDetail(code="tool_error", message=f"Error calling tool {tool!r}", mcp_response=response)
    message = _redact(body_error_text(error), bound_values)
    return ErrorDetail(code="tool_error", message=message, mcp_response=response)


def _without_groups(error: BaseException) -> BaseException:
    """Return the ToolError that a group has as its only exception, as asyncio.TaskGroup raises it; else the error."""
    inner = error
    while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
        inner = inner.exceptions[0]
    return inner if isinstance(inner, ToolError) or _is_fastmcp_tool_error(inner) else error


def _log_explanation(error: ToolCallError, bound_values: Mapping[str, Any] | None = None) -> None:
    """Log what the model does not read: what is wrong, and how the developer fixes it."""
    if error.explanation is not None:
        _log().warning("A call failed (%s). %s", error.code, _redact(error.explanation, bound_values or {}))


def body_error_text(error: BaseException) -> str:
    """Return the type and the text of an exception, not redacted."""
    text, kind = exception_text(error), type(error).__name__
    return f"{kind}: {text}" if text else kind


def summarize_exception(error: BaseException) -> str:
    """Return the type of an exception and where it was raised; its text may hold values and is left out."""
    place, kind = raised_place(error), type(error).__name__
    return f"{kind} ({place})" if place else kind


class WorkerTraceback(Exception):  # noqa: N818  # a traceback as the cause of an exception
    """Where in the worker an exception was raised: its traceback and its place. It is the cause of the exception."""

    def __str__(self) -> str:
        """Return the traceback, which starts on a new line."""
        return f"\n{self.args[0]}"


def raised_place(error: BaseException) -> str:
    """Return the file and the line where an exception was raised, such as `tools.py, line 7`; "" if unknown."""
    if isinstance(error.__cause__, WorkerTraceback):
        place: str = error.__cause__.args[1]
        return place
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno}"


def _log() -> logging.Logger:
    """Return the logger; logging is imported for calls that fail, and a fresh process starts faster without it."""
    import logging

    return logging.getLogger(__name__)


def _mask_text(plan: Plan, body: Body, text: str, values: Mapping[str, Any]) -> str:
    return _redact(text, plan.hidden_values(values, body))


def _redact(text: str, hidden: Mapping[str, Any]) -> str:
    """Return a text of a tool without what no text may show, cut."""
    from ahvn_tools.redaction.texts import redact  # only calls that fail need it

    return clip(redact(text, hidden))


def _is_missing_capability_error(error: BaseException) -> bool:
    """Return whether an exception is the one MCPError of a tool whose code MCP and FastMCP send to the client."""
    is_mcp_error = isinstance(error, loaded_classes("mcp.shared.exceptions", "MCPError"))
    return is_mcp_error and getattr(error, "code", None) == MISSING_REQUIRED_CLIENT_CAPABILITY


def _is_fastmcp_tool_error(error: BaseException) -> bool:
    return isinstance(error, loaded_classes("fastmcp.exceptions", "ToolError"))
