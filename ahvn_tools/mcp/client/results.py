"""Answers: what a server says to a call, as our result. What it says is checked, and never guessed at."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ahvn_tools.errors import InvalidResultError, ToolError
from ahvn_tools.mcp.trust import invisible
from ahvn_tools.redaction import clip
from ahvn_tools.results import ErrorDetail, ToolResult
from ahvn_tools.schema.complexity import ValidationCost
from ahvn_tools.schema.jsonschema import compile_validator
from ahvn_tools.schema.output import Output

MAX_ERROR_CHARS = 2_000
"""The text of a server's error is cut after this many characters."""


def sanitize_text(text: str, max_chars: int = MAX_ERROR_CHARS) -> str:
    """Return a text of a server's as it may be shown: hidden characters written out, cut after `most` characters."""
    return clip(invisible.escape(text[:max_chars]) + text[max_chars:], max_chars)


class ResultParser:
    """The answers of one tool, by its output schema. The schema is compiled when the first answer is checked."""

    def __init__(self, name: str, output_schema: Mapping[str, Any] | None = None) -> None:
        """Raises DefinitionError for an output schema that is no object's."""
        self._name = name
        self._output = Output(schema=None if output_schema is None else dict(output_schema))

    def parse(self, call_result: Any) -> ToolResult:
        """Return the result of a `CallToolResult`.

        The value is the structured content, or its one property; without it the text; without a text the blocks.
        Structured content that is no object is the value alone. An error has the server's text, capped and cleaned, and
        nothing else: bound values are masked in texts, and in no other part. Raises InvalidResultError for structured
        content that the output schema refuses, or would take too long to check, that is missing, or that is no JSON;
        DefinitionError for an output schema with references that cannot be followed.
        """
        if call_result.is_error:
            return ToolResult(error=ErrorDetail(code=ToolError.code, message=_error_text(call_result)))
        structured = call_result.structured_content
        if reason := self._find_error(structured):
            raise InvalidResultError(f"The answer of {self._name!r} {reason}.", tool=self._name)
        made = self._output.to_result(call_result)
        return replace(made, structured_content=structured if isinstance(structured, dict) else None)

    def _find_error(self, structured: Any) -> str | None:
        """Return what is wrong with structured content, in no words of the server's."""
        has_schema = self._output.schema_text is not None
        if structured is None:
            return "has no structured content, which its output schema promises" if has_schema else None
        try:
            text = json.dumps(structured, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            return "is no JSON"
        if has_schema and self._validation_cost.exceeds_limit(structured, text):
            return "would take too long to check against its output schema"
        if has_schema and not self._validator.is_valid(structured):
            return "does not fit its output schema"
        return None

    @functools.cached_property
    def _validation_cost(self) -> ValidationCost:
        return ValidationCost(self._output.schema or {})

    @functools.cached_property
    def _validator(self) -> Any:
        return compile_validator(self._output.schema or {})


def _error_text(call_result: Any) -> str:
    texts = [block.text for block in call_result.content if getattr(block, "type", None) == "text"]
    return sanitize_text("\n".join(texts)) or "The tool failed."
