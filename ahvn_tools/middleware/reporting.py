"""Reports of calls, for logs, spans and metrics: how a call ended, and what it received and returned.

Arguments and results are reported without secrets and bound values.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Collection, Iterator
from typing import Any, Final

from pydantic_core import to_jsonable_python

from ahvn_tools.encoders.loaded_classes import is_for_graph
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import (
    ApprovalRequiredError,
    InputRequiredError,
    InvalidResultError,
    ResultRequiredError,
    ToolCallError,
    clip,
)
from ahvn_tools.execution.call import Call
from ahvn_tools.execution.convert import body_error_text
from ahvn_tools.redaction.texts import JsonRedactor, Mask, mask_named, redact
from ahvn_tools.redaction.values import reveal_secrets
from ahvn_tools.results import ToolResult, whole_value

MAX_FRAMES: Final = 50
"""The maximum number of frames of one exception, the innermost ones."""


def format_exception(error: BaseException) -> str:
    """Return the tracebacks of an exception, of what caused it and of the members of a group, in indented lines.

    No variables. The text is not redacted.
    """
    report = "".join(traceback.TracebackException.from_exception(error, limit=-MAX_FRAMES, compact=True).format())
    return "\n".join(f"  {to_single_line(clip(line))}" for line in report.splitlines())


def to_single_line(text: str) -> str:
    """Return text with line breaks and other unprintable characters escaped."""
    return "".join(part if part.isprintable() else part.encode("unicode_escape").decode() for part in text)


MAX_LOGGED_CHARS: Final = 4_000
"""The maximum length of an argument or a result in a log or span."""


_WAITING: Final = frozenset({ApprovalRequiredError.code, ResultRequiredError.code})


def error_code(result: ToolResult) -> str | None:
    """Return the code of a failed result; None for a successful one, and for one that a LangGraph graph takes over."""
    if result.error is not None:
        return None if is_for_graph(result.exception) else result.error.code
    return "cancelled" if result.is_interrupted else None


def is_waiting(call: Call, code: str | None) -> bool:
    """Return whether a call with this code has not failed: it waits for an approval, an answer or its result."""
    return code in _WAITING or (call.is_served and code == InputRequiredError.code)


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
    message = error.message if isinstance(error, ToolCallError) else f"A middleware of tool {call.name!r} failed."
    return ToolResult(error=ErrorDetail(code=exception_code(error), message=message).hold(error))


def make_redactor(call: Call, mask: Mask = str, *, fixed_keys: Collection[str] = ()) -> JsonRedactor:
    """Return what replaces, in JSON, a call's bound values and secret arguments, and then what a mask finds."""
    has_chunks = call.emit is not None or call.plan.output.is_stream
    return JsonRedactor(call.hidden_values(), mask, has_chunks=has_chunks, fixed_keys=fixed_keys)


def redact_arguments(call: Call, mask: Mask = str) -> Any:
    """Return a call's arguments as JSON, with `***` for every argument or member that is secret by mark or by name."""
    return redact_json(call, as_json(call.arguments), mask)


def redact_json(call: Call, value: Any, mask: Mask = str) -> Any:
    """Return JSON without the call's bound values, with `***` for members that are secret by mark or by name."""
    return make_redactor(call, mask)(mask_named(value, call.plan.hidden_names))


def redact_result(call: Call, result: ToolResult, mask: Mask = str) -> str:
    """Return a result's text, redacted and cut; for an interrupted call its partial value rather than the error.

    The text of what the body raised is included even if the model does not receive it.
    """
    has_value = result.error is None or (result.is_interrupted and result.value is not None)
    content = _public_value(result) if has_value else _error_text(call, result)
    return as_text(make_redactor(call, mask)(content if isinstance(content, str) else as_json(content)))


def _public_value(result: ToolResult) -> Any:
    """Return the value; of a raw one what models read of it, or `<type>` if they cannot read it."""
    if not result.is_raw:
        return result.value
    whole = whole_value(result)
    return type_placeholder(result.value) if isinstance(whole, InvalidResultError) else whole


def redact_traceback(call: Call, error: BaseException) -> str:
    """Return a line break and the traceback of an exception, redacted; "" for a ToolCallError without a cause."""
    if isinstance(error, ToolCallError) and error.__cause__ is None:
        return ""
    return "\n" + redact(format_exception(error), call.hidden_values())


def _error_text(call: Call, result: ToolResult) -> str:
    error, is_of_body = result.exception, result.error is call.scope.error_detail
    if error is None or not is_of_body or isinstance(error, ToolCallError):
        return result.text
    return body_error_text(error)


def as_json(value: Any) -> Any:
    """Return the JSON form of any value; `<type>` for one that has none."""
    try:
        return json.loads(json.dumps(to_jsonable_python(value, fallback=type_placeholder, bytes_mode="base64")))
    except Exception:  # noqa: BLE001  # a foreign class, or a circular reference: reporting must not fail the call
        return type_placeholder(value)


def received_as_json(value: Any, sent: Any) -> Any:
    """Return the JSON form of a validated argument, secrets included; of an iterator, what was sent."""
    return sent if isinstance(value, Iterator) else as_json(reveal_secrets(value))


def as_text(value: Any, max_chars: int = MAX_LOGGED_CHARS) -> str:
    """Return JSON as text, a str unchanged; cut after `max_chars` characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return clip(text.encode("utf-8", "backslashreplace").decode(), max_chars)


def type_placeholder(value: Any) -> str:
    """Return `<type>`, which represents a value without a JSON form."""
    return f"<{type(value).__name__}>"
