"""ToolCall, ToolResult, errors, and the formats that read and write them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, assert_type

from ahvn_tools import ToolCall, ToolCallError, ToolError, ToolResult, ToolSpecError, formats
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import InvalidParametersError, LimitExceededError, ToolTimeoutError
from ahvn_tools.formats import openai

result = ToolResult("text", meta={"duration": 0.5})
assert_type(result.value, Any)
assert_type(result.structured_content, dict[str, Any] | None)
assert_type(result.error, ErrorDetail | Any)
assert_type(result.is_error, bool)
assert_type(result.text, str)
assert_type(result.meta, dict[str, Any])
assert_type(result.is_last, bool)
assert_type(result.is_interrupted, bool)
assert_type(result.id, str | None)
assert_type(replace(result, value=1), ToolResult)

if result.is_error:
    print(result.error.code, result.error.message)
if result.error is not None:
    assert_type(result.error.code, str | Any)
    assert_type(result.error.message, str | Any)

call = ToolCall(id="c1", name="add", arguments={"a": 1})
assert_type(call.arguments, dict[str, Any])
assert_type(call.error, str | None)

assert_type(openai.calls({"tool_calls": []}), list[ToolCall])
assert_type(openai.results([(call, result)]), list[dict[str, Any]])
assert_type(openai.choice("auto", parallel=False), dict[str, Any])
assert_type(formats.get("anthropic").calls("{}"), list[ToolCall])
assert_type(formats.get("anthropic").message([ToolCall(id="c1", name="ping")], text="Hm."), list[dict[str, Any]])
assert_type(openai.message([], legacy=True), list[dict[str, Any]])
assert_type(formats.choose_format(object(), "openai"), str)

try:
    raise LimitExceededError("Too many calls.")
except (InvalidParametersError, ToolTimeoutError, LimitExceededError) as error:
    assert_type(error.code, str)

for family in (ToolCallError, ToolSpecError):
    assert issubclass(family, Exception)
assert isinstance(ToolError("The disk is full."), ToolCallError)
assert isinstance(ToolTimeoutError("Too slow.", timeout=1.0), TimeoutError)
