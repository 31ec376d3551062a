"""The error codes of results and exceptions."""

from __future__ import annotations

import asyncio

from ahvn_tools import ToolError, ToolResult
from ahvn_tools.middleware.error_codes import error_code, exception_code


def test_the_code_of_a_result_is_that_of_its_error():
    assert error_code(ToolResult(1)) is None
    assert error_code(ToolResult(is_interrupted=True)) == "cancelled"


def test_every_exception_has_a_code():
    errors = [ToolError("no"), ValueError("no"), asyncio.CancelledError(), GeneratorExit(), KeyboardInterrupt()]
    assert [exception_code(error) for error in errors] == [
        "tool_error", "tool_error", "cancelled", "cancelled", "KeyboardInterrupt",
    ]  # fmt: skip
