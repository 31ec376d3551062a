"""Answers: what a server says to a call, as our result. What it says is checked, and never guessed at."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ahvn_tools.errors import InvalidResultError, ToolError
from ahvn_tools.mcp import hidden
from ahvn_tools.mcp.effort import Effort
from ahvn_tools.redaction import clip
from ahvn_tools.results import ErrorDetail, ToolResult
from ahvn_tools.schema.jsonschema import compiled
from ahvn_tools.schema.output import Output

LONGEST_ERROR = 2_000
"""The text of a server's error is cut after this many characters."""


def cleaned(text: str, most: int = LONGEST_ERROR) -> str:
    """Return a text of a server's as it may be shown: hidden characters written out, cut after `most` characters."""
    return clip(hidden.escaped(text[:most]) + text[most:], most)


class Answers:
    """The answers of one tool, by its output schema. The schema is compiled when the first answer is checked."""

    def __init__(self, name: str, output_schema: Mapping[str, Any] | None = None) -> None:
        """Raises DefinitionError for an output schema that is no object's."""
        self._name = name
        self._output = Output(schema=None if output_schema is None else dict(output_schema))

    def result(self, answer: Any) -> ToolResult:
        """Return the result of a `CallToolResult`.

        The value is the structured content, or its one property; without it the text; without a text the blocks.
        Structured content that is no object is the value alone. An error has the server's text, capped and cleaned, and
        nothing else: bound values are masked in texts, and in no other part. Raises InvalidResultError for structured
        content that the output schema refuses, or would take too long to check, that is missing, or that is no JSON;
        DefinitionError for an output schema with references that cannot be followed.
        """
        if answer.is_error:
            return ToolResult(error=ErrorDetail(code=ToolError.code, message=_told(answer)))
        structured = answer.structured_content
        if reason := self._fault(structured):
            raise InvalidResultError(f"The answer of {self._name!r} {reason}.", tool=self._name)
        made = self._output.result(answer)
        return replace(made, structured_content=structured if isinstance(structured, dict) else None)

    def _fault(self, structured: Any) -> str | None:
        """Return what is wrong with structured content, in no words of the server's."""
        has_schema = self._output.schema_text is not None
        if structured is None:
            return "has no structured content, which its output schema promises" if has_schema else None
        try:
            text = json.dumps(structured, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            return "is no JSON"
        if has_schema and self._effort.is_too_much(structured, text):
            return "would take too long to check against its output schema"
        if has_schema and not self._validator.is_valid(structured):
            return "does not fit its output schema"
        return None

    @functools.cached_property
    def _effort(self) -> Effort:
        return Effort(self._output.schema or {})

    @functools.cached_property
    def _validator(self) -> Any:
        return compiled(self._output.schema or {})


def _told(answer: Any) -> str:
    texts = [block.text for block in answer.content if getattr(block, "type", None) == "text"]
    return cleaned("\n".join(texts)) or "The tool failed."
