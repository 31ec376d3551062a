"""Failure: what is told of a call that went wrong. Short, without a stack, without inputs and bound values."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ahvn_tools.errors import (
    ApprovalRequiredError,
    CallCancelledError,
    InvalidResultError,
    LimitExceededError,
    ToolCallError,
    ToolChangedError,
    ToolConnectionError,
    ToolError,
)
from ahvn_tools.redaction import clip, redact
from ahvn_tools.results import ErrorDetail

log = logging.getLogger(__name__)


def call_error_detail(error: ToolCallError) -> ErrorDetail:
    """Describe an error of ours: its text is safe as it is."""
    return ErrorDetail(code=error.code, message=error.message)


def body_error_detail(
    error: BaseException, bound_values: Mapping[str, Any], *, tool: str, is_masked: bool = False
) -> ErrorDetail:
    """Describe what a body raised. Values bound in the call are masked in its text.

    `is_masked` (a served tool) hides the text of everything but a ToolError.
    """
    if is_cancellation(error):
        return ErrorDetail(code="cancelled", message="The tool cancelled itself.")
    if isinstance(error, ApprovalRequiredError | CallCancelledError | ToolChangedError):  # texts of ours
        return call_error_detail(error)
    if isinstance(error, ToolConnectionError | InvalidResultError | LimitExceededError):
        return ErrorDetail(code=error.code, message=clip(redact(error.message, bound_values)))
    if isinstance(error, ToolError) or _is_fastmcp_tool_error(error):
        return ErrorDetail(code="tool_error", message=clip(redact(_safe_str(error), bound_values)))
    if is_masked:
        log.error("Tool %r raised %s.", tool, summarize_exception(error))  # the host is told what the client is not
        return ErrorDetail(code="tool_error", message=f"Error calling tool {tool!r}")
    text = _safe_str(error)
    kind = type(error).__name__
    return ErrorDetail(code="tool_error", message=clip(redact(f"{kind}: {text}" if text else kind, bound_values)))


def summarize_exception(error: BaseException) -> str:
    """Say what was raised, and where: not with which text, which may hold values."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"
    return f"{type(error).__name__}{place}"


def is_cancellation(error: BaseException) -> bool:
    """Tell whether an exception is asyncio's CancelledError; asyncio is not imported for the answer."""
    module = sys.modules.get("asyncio")
    return module is not None and isinstance(error, module.CancelledError)


def _is_fastmcp_tool_error(error: BaseException) -> bool:
    module = sys.modules.get("fastmcp.exceptions")
    return module is not None and isinstance(error, module.ToolError)


def _safe_str(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # an exception's own __str__ may raise anything
        return "its text cannot be read"
