"""Error codes: how a call failed, as a result or as an exception, for middleware that reports on calls."""

from __future__ import annotations

from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution import convert
from ahvn_tools.execution.call import Call
from ahvn_tools.results import ErrorDetail, ToolResult


def error_code(result: ToolResult) -> str | None:
    """Return the code of a failed result; None for a successful one."""
    if result.error is not None:
        return result.error.code
    return "cancelled" if result.is_interrupted else None


def exception_code(error: BaseException) -> str:
    """Return the code of an exception, or its type's name if it ends the program."""
    if isinstance(error, ToolCallError):
        return error.code
    if isinstance(error, Exception):
        return "tool_error"
    is_cancelled = type(error).__name__ in {"CancelledError", "GeneratorExit"}  # by name: asyncio need not be imported
    return "cancelled" if is_cancelled else type(error).__name__


def exception_result(call: Call, error: Exception) -> ToolResult:
    """Return the error result for an exception that an inner middleware raised."""
    if isinstance(error, ToolCallError):
        return ToolResult(error=convert.call_error_detail(error))
    return ToolResult(error=ErrorDetail(code="tool_error", message=f"A middleware of tool {call.name!r} failed."))
