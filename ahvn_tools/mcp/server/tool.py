"""A spec as a FastMCP tool: FastMCP shows the definition, the spec's own call path runs the call."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastmcp.tools import Tool
from fastmcp.tools.base import ToolResult as FastMCPResult
from mcp_types import Icon, ToolAnnotations
from mcp_types import Tool as WireTool
from pydantic import PrivateAttr

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats.mcp import to_listed_tool
from ahvn_tools.results import ErrorDetail, ToolResult, to_sendable
from ahvn_tools.schema.jsonschema import compile_validator

CallHandler = Callable[[dict[str, Any]], Awaitable[ToolResult]]

RESERVED_META_PREFIX: Final = "io.modelcontextprotocol/"
"""What the names of the protocol's own metadata begin with."""


class SpecTool(Tool):
    """A FastMCP tool whose `run` is a spec's.

    What FastMCP does not do for a tool of its own, the spec does: arguments are validated, timeouts hold, bound values
    are filled in, errors are masked.
    """

    _run_spec: CallHandler = PrivateAttr()

    async def run(self, arguments: dict[str, Any]) -> FastMCPResult:
        """Run the call. An error is a result with `is_error`; nothing a tool does ends the server."""
        result = to_sendable(await self._run_spec(arguments))
        if not result.is_error and not self._fits_output_schema(result):
            message = f"Tool {self.name!r} returned what its output schema refuses."
            result = ToolResult(error=ErrorDetail(code="invalid_result", message=message), meta=result.meta)
        # what is made of the value is known to be writable: FastMCP need not look at it again
        make = FastMCPResult.model_construct if result.blocks is None else FastMCPResult
        return make(
            content=result.content,
            structured_content=result.structured_content,
            meta=_drop_reserved_meta(result.meta) or None,
            is_error=result.is_error,
        )

    def _fits_output_schema(self, result: ToolResult) -> bool:
        if self.output_schema is None:
            return result.structured_content is None or isinstance(result.structured_content, dict)
        return result.structured_content is not None and bool(self._validator.is_valid(result.structured_content))

    @functools.cached_property
    def _validator(self) -> Any:
        return compile_validator(self.output_schema or {})


def _drop_reserved_meta(meta: dict[str, Any]) -> dict[str, Any]:
    """Return metadata without what the protocol says of the server that it is from: this is another one."""
    return {key: value for key, value in meta.items() if not key.startswith(RESERVED_META_PREFIX)}


def to_fastmcp_tool(definition: ToolDefinition, run: CallHandler, *, timeout: float | None = None) -> SpecTool:
    """Return the FastMCP tool of a definition; `run` gets the arguments as the client sent them."""
    said = definition.memoize(_to_client_fields)
    annotations, icons = said["annotations"], said["icons"]
    tool = SpecTool(
        name=said["name"],
        version=said["version"],
        title=said["title"],
        description=said["description"] or None,
        icons=[Icon.model_validate(icon) for icon in icons] if icons else None,
        tags=set(said["tags"]),
        meta=said["meta"],
        parameters=said["input_schema"],
        output_schema=said["output_schema"],
        annotations=ToolAnnotations.model_validate(annotations) if annotations else None,
        timeout=timeout,
    )
    tool._run_spec = run  # noqa: SLF001  # pydantic takes no private attribute in its constructor
    return tool


def _to_client_fields(definition: ToolDefinition) -> dict[str, Any]:
    """Return what a client is told of a definition, as JSON."""
    return {
        "name": definition.name,
        "version": definition.version,
        "title": definition.title,
        "description": definition.description,
        "icons": definition.icons,
        "tags": sorted(definition.tags),
        "meta": definition.meta,
        "input_schema": definition.input_schema,
        "output_schema": definition.output_schema,
        "annotations": definition.annotations,
    }


def to_mcp_tool(definition: ToolDefinition) -> WireTool:
    """Return MCP's form of a definition, as `tools/list` sends it."""
    return WireTool.model_validate(to_listed_tool(definition))
