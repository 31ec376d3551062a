"""RegisteredToolFunction: a tool of the toolkit, and how its results become responses."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ahvn_tools import ToolDefinition, Toolkit, ToolResult, ToolSpec
from ahvn_tools.compat.agentscope.message import ToolUseBlock
from ahvn_tools.compat.agentscope.tool.response import ToolResponse, create_id, is_response, text_response
from ahvn_tools.errors import CallCancelledError, InvalidParametersError
from ahvn_tools.middleware import inline
from ahvn_tools.schema import iter_schemas

PostprocessFunction: TypeAlias = Callable[
    [ToolUseBlock, ToolResponse], ToolResponse | Awaitable[ToolResponse | None] | None
]

INTERRUPTION = "<system-info>The tool call has been interrupted by the user.</system-info>"


@dataclass(kw_only=True, eq=False)
class RegisteredToolFunction:
    """A tool as it was registered. Methods of the toolkit change it; an attribute that you set does not.

    Do not use one that was removed or replaced.
    """

    tool: Any
    """The tool in the toolkit."""
    original_func: Callable[..., Any] = field(repr=False)
    preset_kwargs: dict[str, Any] = field(repr=False)
    """Arguments that a model neither sees nor sets."""
    postprocess_func: PostprocessFunction | None = field(repr=False)
    given_schema: dict[str, Any] | None = field(repr=False)
    """The function schema that was passed, instead of one made from the signature."""
    extended_model: Any = None
    """The pydantic model whose fields the tool also takes."""
    kit: Toolkit = field(repr=False)
    """The toolkit that runs the tool."""
    is_single: bool
    """Whether a call returns one response: it runs in the task of its caller then, which is faster.

    A generator streams its responses out of a task of its own, as does a function that may return one. The last call
    says what a function without annotation returns.
    """

    @property
    def name(self) -> str:
        """The name that models use."""
        name: str = self.tool.name
        return name

    @property
    def group(self) -> str:
        """The group of the tool."""
        group: str = self.tool.group
        return group

    @property
    def mcp_name(self) -> str | None:
        """The name of the MCP client that the tool belongs to."""
        return getattr(self.original_func, "mcp_name", None)

    @property
    def original_name(self) -> str | None:
        """The name of the function, if the tool has another one."""
        function = getattr(self.original_func, "func", self.original_func)  # of a partial
        name = getattr(function, "__name__", getattr(function, "name", self.name))
        return None if name == self.name else name

    @property
    def json_schema(self) -> dict[str, Any]:
        """The function schema for a model, without presets and titles, and with the fields of the extended model."""
        return self.describe(self.tool.definition)

    extended_json_schema = json_schema

    def describe(self, definition: ToolDefinition) -> dict[str, Any]:
        """Return the function schema of this definition of the tool."""
        parameters: dict[str, Any] = definition.input_schema
        for schema in iter_schemas(parameters):
            schema.pop("title", None)
        function = {"name": definition.name, "parameters": parameters, "description": definition.description}
        if self.given_schema is None:
            parameters.pop("additionalProperties", None)
        else:
            function = {**self.given_schema["function"], **function}
        return {"type": "function", "function": {key: part for key, part in function.items() if part}}

    async def call(
        self, *, arguments: dict[str, Any], stream_print: bool | None = None
    ) -> AsyncGenerator[ToolResponse, None]:
        """Run the tool and yield its responses; with `stream_print`, print their texts, too."""
        tool_call = ToolUseBlock(type="tool_use", id=create_id(), name=self.name, input=arguments)
        async with aclosing(self.respond(tool_call)) as responses:
            async for response in responses:
                if stream_print and is_response(response):
                    print(to_text(response), flush=True)  # noqa: T201  # as requested
                yield response

    async def respond(self, tool_call: ToolUseBlock, *, is_traced: bool = False) -> AsyncGenerator[ToolResponse, None]:
        """Run a call and yield its responses, each as `postprocess_func` makes it.

        A call that is interrupted yields a response that says so. While the task is being cancelled, the next step
        raises CancelledError. The span of a call that `is_traced` has the id of the call.
        """
        name, arguments = tool_call["name"], tool_call.get("input")
        latest: ToolResponse | None = None
        result = ToolResult(is_last=False)
        in_task = self.is_single and not is_traced
        results = None if in_task else self.kit.astream(name, arguments, call_id=tool_call.get("id"))
        async with nullcontext() if results is None else aclosing(results):
            while not result.is_last:
                try:
                    result = await (self.kit.aexec(name, arguments) if results is None else anext(results))
                except asyncio.CancelledError:
                    yield _interrupt(latest)
                    if (task := asyncio.current_task()) is None or task.cancelling():
                        raise
                    return
                returned = [result.value] if not result.is_last and result.is_raw else []
                if in_task and result.error is None and isinstance(result.value, list):
                    returned = result.value  # of a generator, although the call before was none
                for response in returned:
                    latest = await self._postprocess(tool_call, _require_response(response))
                    yield latest
        if latest is not None:
            self.is_single = False
        elif not self.is_single and is_response(result.value):
            self.is_single = not self.tool.compiled.plan.takes_context
        last = self._to_last_response(result, latest)
        if last is not None:
            yield await self._postprocess(tool_call, last) if latest is None else last

    async def _postprocess(self, tool_call: ToolUseBlock, response: ToolResponse) -> ToolResponse:
        if self.postprocess_func is None:
            return response
        changed = self.postprocess_func(tool_call, response)
        return (await changed if inspect.isawaitable(changed) else changed) or response

    def _to_last_response(self, result: ToolResult, latest: ToolResponse | None) -> Any:
        """Return what follows the latest response, or None."""
        if result.error is not None and result.error.code == CallCancelledError.code:
            return _interrupt(latest)
        if result.error is not None and result.error.exception is not None:
            return self._to_error_response(result.error.exception, result.error.reason, latest)
        if not is_response(result.value) and not result.is_raw:
            return result.to_mcp()  # the tool returned a result of MCP
        if latest is None and isinstance(result.value, list) and result.value == [] and result.blocks == ():
            return None  # of a generator without items
        response = latest or _require_response(result.value)
        answer = result.meta.get("structured")
        if answer is not None:
            known = {"success": True, "response_msg": answer, "structured_output": answer.model_dump()}
            content = response.content or text_response("Successfully generated response.").content
            response = replace(response, content=content, metadata={**known, **(response.metadata or {})})
        response = response if response.is_last else replace(response, is_last=True)
        return None if response is latest else response

    def _to_error_response(self, error: BaseException, reason: str, latest: ToolResponse | None) -> ToolResponse:
        """Return what a model reads of an error: the reason, in which presets are masked."""
        if latest is not None:
            raise error
        if self.extended_model is not None and isinstance(error, InvalidParametersError):
            metadata = {"success": False, "response_msg": None}
            return text_response(f"Arguments Validation Error: {reason}", metadata=metadata)
        prefix = "Error" if self.mcp_name is None else "Error occurred when calling MCP tool"
        return text_response(f"{prefix}: {reason}")


class RegisteredTool(ToolSpec):
    """A tool with what the toolkit knows about it."""

    registered: RegisteredToolFunction


def registered_function(tool: Any) -> RegisteredToolFunction:
    """Return what was registered as this tool of a toolkit."""
    registered: RegisteredToolFunction = tool.registered
    return replace(registered, tool=tool)


@inline
def to_text(value: Any) -> str:
    """Return the texts of a response, or of all responses of a generator; no text for anything else."""
    responses = value if isinstance(value, list) else [value]
    blocks = [block for response in responses if is_response(response) for block in response.content]
    return "\n".join(str(block.get("text", f"[{block['type']}]")) for block in blocks)


def _interrupt(response: ToolResponse | None) -> ToolResponse:
    """Return the response of a call that was interrupted after this one."""
    notice = text_response(INTERRUPTION, stream=True, is_interrupted=True)
    return notice if response is None else replace(notice, content=[*response.content, *notice.content])


def _require_response(returned: Any) -> Any:
    """Return what a tool returned. Raises TypeError for anything but a response."""
    if not is_response(returned):
        raise TypeError(
            "The tool function must return a ToolResponse object, or an AsyncGenerator/Generator of ToolResponse "
            f"objects, but got {type(returned)}."
        )
    return returned
