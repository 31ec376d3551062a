"""What tools of an MCP server return: the parser of their results, and the tool that reads resources."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import InvalidResultError, ToolError
from ahvn_tools.mcp.client.client_settings import STRUCTURED_META_KEY
from ahvn_tools.mcp.client.errors import sanitize_text
from ahvn_tools.results import ToolResult, join_texts, media_blocks
from ahvn_tools.schema.jsonschema import compile_validator
from ahvn_tools.schema.limits import ValidationCost
from ahvn_tools.schema.output import Output, describes_object, to_object_schema

if TYPE_CHECKING:  # slow
    from mcp_types import CallToolResult, ReadResourceResult, Tool


class ResultParser:
    """Parses the results of one tool. Its output schema is compiled when the first result is checked."""

    def __init__(self, name: str, output_schema: Mapping[str, Any] | None = None) -> None:
        """The output schema may describe any value, as MCP allows since 2026-07-28."""
        self._name = name
        schema = None if output_schema is None else dict(output_schema)
        self._output = Output(schema=None if schema is None else to_object_schema(schema))
        self._is_wrapped = schema is not None and not describes_object(schema)

    def parse(self, call_result: Any) -> ToolResult:
        """Return the ToolResult of an MCP `CallToolResult`.

        The value is the structured content or its only member; without structured content the text; without text the
        content blocks. Structured content that is not an object is the value alone. An error result has the server's
        text, sanitized, its images and audio, and nothing else, because bound values are masked only in texts.

        Raises InvalidResultError for structured content that is missing, is not JSON, does not fit the output schema or
        would take too long to check; DefinitionError for an output schema with references that cannot be resolved.
        """
        if call_result.is_error:
            error = ErrorDetail(code=ToolError.code, message=_read_error(call_result) or "The tool failed.")
            return ToolResult(error=error, blocks=media_blocks(call_result.content) or None)
        structured = _find_structured(call_result)
        if self._is_wrapped and structured is not None:
            structured = {"result": structured}
            call_result = copy.copy(call_result)
            call_result.structured_content = structured
        if reason := self._find_error(structured):
            text = _read_text(call_result)
            note = f" The tool has run and answered: {text}" if text else ""  # a model that repeats it should know
            raise InvalidResultError(f"The result of {self._name!r} {reason}.{note}", tool=self._name)
        result = self._output.to_result(call_result)
        if not isinstance(structured, dict):
            value = result.value if structured is None else structured
            return replace(result, value=value, structured_content=None, _original=None)
        return replace(result, structured_content=structured)

    def _find_error(self, structured: Any) -> str | None:
        """Return what is wrong with structured content, without quoting it."""
        has_schema = self._output.schema_text is not None
        if structured is None:
            return "has no structured content, which its output schema requires" if has_schema else None
        try:
            text = json.dumps(structured, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            return "is not JSON"
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


def _find_structured(call_result: Any) -> Any:
    """Return the structured content, also one that an older revision of MCP does not allow."""
    structured = call_result.structured_content
    meta = getattr(call_result, "meta", None) or {}
    return meta.get(STRUCTURED_META_KEY) if structured is None else structured


def _read_text(call_result: Any) -> str:
    return sanitize_text(join_texts(call_result.content))


def _read_error(call_result: Any) -> str:
    text = _read_text(call_result)
    return f"{text}. {_USE_LEGACY}" if _NO_QUESTIONS in text else text


_NO_QUESTIONS: Final = "unavailable on 2026-07-28 connections"
"""What FastMCP says of a question that a tool asks with `ctx.elicit` in the newest protocol."""

_USE_LEGACY: Final = 'The host can allow it: add_mcp(…, mode="legacy"), or `mode: legacy` in a manifest.'

MAX_URI_CHARS: Final = 2_000
"""The maximum length of a URI."""


def make_resource_tool(name: str, server_name: str) -> Tool:
    """Return the definition of the tool."""
    from mcp_types import Tool, ToolAnnotations

    uri = {"type": "string", "maxLength": MAX_URI_CHARS, "description": "The URI, as a result of a tool has it."}
    return Tool(
        name=name,
        description=f"Read a resource of the MCP server {server_name!r} that a result of one of its tools refers to.",
        input_schema={"type": "object", "properties": {"uri": uri}, "required": ["uri"], "additionalProperties": False},
        annotations=ToolAnnotations(read_only_hint=True),
    )


def to_tool_result(read: ReadResourceResult) -> CallToolResult:
    """Return the contents of a resource as blocks of a result."""
    from mcp_types import CallToolResult, EmbeddedResource

    return CallToolResult(content=[EmbeddedResource(resource=content) for content in read.contents])
