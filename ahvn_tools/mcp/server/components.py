"""A tool definition as a FastMCP tool whose calls run through our own call path."""

from __future__ import annotations

import base64
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from fastmcp.exceptions import PromptError, ResourceError
from fastmcp.prompts import Message, Prompt, PromptResult
from fastmcp.resources import Resource, ResourceContent, ResourceResult
from fastmcp.tools import Tool
from fastmcp.tools.base import InputRequiredToolResult
from fastmcp.tools.base import ToolResult as FastMCPResult
from fastmcp.utilities.tasks import TaskConfig, TaskMode
from mcp.shared.exceptions import MCPError
from mcp_types import (
    BlobResourceContents,
    GetPromptResult,
    InputRequiredResult,
    ReadResourceResult,
    ResourceLink,
    TextContent,
)
from mcp_types import Prompt as WirePrompt
from pydantic import PrivateAttr

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution.pipeline import MAX_CHARS_ON_LOOP
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.invisible import escape
from ahvn_tools.json_types import exceeds_size
from ahvn_tools.results import ToolResult, describe_link, sent_meta, to_sendable, whole_value
from ahvn_tools.schema.jsonschema import compile_validator

CallHandler = Callable[[dict[str, Any]], Awaitable[ToolResult]]

RESERVED_META_PREFIX: Final = "io.modelcontextprotocol/"
"""The prefix of the protocol's own metadata."""


class ServedTool(Tool):
    """A FastMCP tool that calls a tool of ours.

    FastMCP runs the `run` of a Tool subclass as it is. Validation, timeouts, bound values and masked errors are the
    work of the call path behind it.
    """

    _run_spec: CallHandler = PrivateAttr()

    async def run(self, arguments: dict[str, Any]) -> FastMCPResult:
        """Run a call. An error is a result with `is_error`; nothing that a tool does ends the server.

        Raises the MCPError by which a tool says that its client lacks a capability.
        """
        result = await self._run_spec(arguments)
        response = None if result.error is None else result.error.mcp_response
        if isinstance(response, InputRequiredResult):
            return InputRequiredToolResult(response)
        if isinstance(response, MCPError):
            raise response
        if exceeds_size([whole_value(result), result.structured_content, result.blocks], MAX_CHARS_ON_LOOP):
            converted: FastMCPResult = (await run_in_thread(lambda _: self._convert(result))).get()
            return converted
        return self._convert(result)

    def _convert(self, result: ToolResult) -> FastMCPResult:
        result = to_sendable(result)
        if not result.is_error and not self._fits_output_schema(result):
            message = f"Tool {self.name!r} returned a value that does not fit its output schema."
            result = ToolResult(error=ErrorDetail(code="invalid_result", message=message), meta=result.meta)
        return to_fastmcp_result(result)

    def _fits_output_schema(self, result: ToolResult) -> bool:
        if self.output_schema is None:
            return result.structured_content is None or isinstance(result.structured_content, dict)
        return result.structured_content is not None and bool(self._validator.is_valid(result.structured_content))

    @functools.cached_property
    def _validator(self) -> Any:
        return compile_validator(self.output_schema or {})


def to_fastmcp_result(result: ToolResult) -> FastMCPResult:
    """Return a result that can be sent as FastMCP's."""
    # blocks that were made from the value are valid: FastMCP need not validate them again
    create = FastMCPResult.model_construct if result.blocks is None else FastMCPResult
    return create(
        content=result.content,
        structured_content=result.structured_content,
        meta=_without_reserved(sent_meta(result)),
        is_error=result.is_error,
    )


def _without_reserved(meta: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return metadata without the protocol's own: that comes from another server, and does not describe this one."""
    return {key: value for key, value in (meta or {}).items() if not key.startswith(RESERVED_META_PREFIX)} or None


def to_fastmcp_tool(
    definition: ToolDefinition, run: CallHandler, *, timeout: float | None = None, task_mode: TaskMode = "forbidden"
) -> ServedTool:
    """Return the FastMCP tool of a definition; `run` receives the arguments as the client sent them."""
    task_config = TaskConfig(mode=task_mode)
    tool = ServedTool(**definition.memoize(_to_json_fields), timeout=timeout, task_config=task_config)
    tool._run_spec = run  # noqa: SLF001  # pydantic accepts no private attribute in its constructor
    return tool


def _to_json_fields(definition: ToolDefinition) -> dict[str, Any]:
    """Return the fields of a definition that FastMCP's tool has, as JSON."""
    return {
        "name": definition.name,
        "version": definition.version,
        "title": definition.title,
        "description": definition.description or None,
        "icons": definition.icons or None,
        "tags": sorted(definition.tags),
        "meta": definition.meta,
        "parameters": definition.input_schema,
        "output_schema": definition.output_schema,
        "annotations": definition.annotations or None,
    }


ReadResource = Callable[[], Awaitable[ReadResourceResult]]
"""Reads one resource. Raises ToolCallError."""


class LinkedResource(Resource):
    """A resource of a server behind this one."""

    _read_linked: ReadResource = PrivateAttr()

    async def read(self) -> ResourceResult:
        """Return the contents. Raises ResourceError."""
        try:
            read = await self._read_linked()
        except ToolCallError as error:
            raise ResourceError(error.message) from None
        return ResourceResult(
            contents=[
                ResourceContent(
                    base64.b64decode(item.blob) if isinstance(item, BlobResourceContents) else item.text,
                    mime_type=item.mime_type,
                    meta=_without_reserved(item.meta),
                )
                for item in read.contents
            ]
        )


def to_fastmcp_resource(uri: str, read: ReadResource, **fields: Any) -> LinkedResource | None:
    """Return the resource of a URI; None for a URI that FastMCP does not know as one."""
    try:
        resource = LinkedResource.model_validate({"uri": uri, "name": uri[:100], **fields})
    except ValueError:
        return None
    resource._read_linked = read  # noqa: SLF001  # pydantic accepts no private attribute in its constructor
    return resource


def to_listed_resource(uri: str, fields: Mapping[str, Any]) -> LinkedResource | None:
    """Return a resource as it is listed, with these fields of FastMCP's class."""
    return to_fastmcp_resource(uri, _refuse_reading, **fields)


async def _refuse_reading() -> ReadResourceResult:
    raise NotImplementedError("A listed resource is looked up again when it is read.")


GetPrompt = Callable[[dict[str, str]], Awaitable[GetPromptResult]]
"""Returns the messages of a prompt for some arguments. Raises ToolCallError."""


class PassedPrompt(Prompt):
    """A prompt of a server behind this one."""

    _get_messages: GetPrompt = PrivateAttr()

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """Return the messages, with their invisible characters escaped. Raises PromptError."""
        known = {argument.name for argument in self.arguments or ()}
        sent = {name: value for name, value in (arguments or {}).items() if name in known}
        if len(sent) < len(arguments or {}):
            raise PromptError(f"The prompt {self.name!r} takes these arguments: {sorted(known)}.")
        try:
            result = await self._get_messages(sent)
        except ToolCallError as error:
            raise PromptError(error.message) from None
        messages = [Message(_to_content(message.content), message.role) for message in result.messages]
        return PromptResult(messages, escape(result.description) if result.description else None)


def _to_content(content: Any) -> Any:
    """Return the content of a message; FastMCP has none for a link."""
    if isinstance(content, ResourceLink):
        return TextContent(type="text", text=escape(describe_link(content)))
    return TextContent(type="text", text=escape(content.text)) if isinstance(content, TextContent) else content


def to_fastmcp_prompt(prompt: WirePrompt, get_messages: GetPrompt) -> PassedPrompt:
    """Return the FastMCP prompt of a prompt, by its name here."""
    passed = PassedPrompt.model_validate(prompt.model_dump(exclude_none=True))
    passed._get_messages = get_messages  # noqa: SLF001  # pydantic accepts no private attribute in its constructor
    return passed
