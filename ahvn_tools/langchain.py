"""A tool as a LangChain tool whose calls run through our own call path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from pydantic import PrivateAttr

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.encoders.loaded_classes import loaded_classes
from ahvn_tools.errors import DefinitionError, near_misses
from ahvn_tools.formats import langchain
from ahvn_tools.results import ToolResult, as_readable

try:
    from langchain_core.tools import BaseTool, ToolException
except ImportError as error:
    raise ImportError('LangChain tools need langchain-core: pip install "ahvn-tools[langchain]"') from error

_OWN_FIELDS = frozenset({"name", "description", "args_schema", "response_format"})


class FailedCallException(ToolException):
    """A call that failed, with the text that the model reads."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__(result.text)
        self.result = result
        """The result, with the code of the error."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.result,)


class SpecTool(BaseTool):
    """A LangChain tool that calls a tool of ours, from sync or async code.

    Validation, timeouts and bound values are the work of the call path behind it.
    """

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"

    _run_spec: Callable[..., ToolResult] = PrivateAttr()
    _arun_spec: Callable[..., Awaitable[ToolResult]] = PrivateAttr()

    def _run(self, /, **arguments: Any) -> tuple[Any, Any]:
        """Run a call; the artifact is its value. Raises ToolException for an error."""
        return _to_output(self._run_spec(**arguments))

    async def _arun(self, /, **arguments: Any) -> tuple[Any, Any]:
        """Run a call as `_run` does."""
        return _to_output(await self._arun_spec(**arguments))


def to_langchain_tool(
    definition: ToolDefinition,
    run: Callable[..., ToolResult],
    arun: Callable[..., Awaitable[ToolResult]],
    options: Mapping[str, Any],
) -> SpecTool:
    """Return the LangChain tool of a definition. Raises DefinitionError for an option that BaseTool does not have."""
    known = BaseTool.model_fields.keys() - _OWN_FIELDS
    for name in options:
        if name not in known:
            raise DefinitionError(f"A LangChain tool has no option {name!r}. {near_misses(name, sorted(known))}")
    (exported,) = langchain.export([definition])
    function = exported["function"]
    fields = {"tags": sorted(definition.tags) or None, "metadata": definition.meta, "handle_tool_error": True}
    tool = SpecTool(
        name=function["name"],
        description=function.get("description", ""),
        args_schema=function["parameters"],
        **{**fields, **options},
    )
    tool._run_spec, tool._arun_spec = run, arun  # noqa: SLF001  # pydantic accepts no private attribute in its constructor
    return tool


def _to_output(result: ToolResult) -> tuple[Any, Any]:
    if isinstance(result.exception, loaded_classes("langgraph.errors", "GraphBubbleUp")):
        raise result.exception  # a LangGraph graph is interrupted, for example by a question to its user
    readable = as_readable(result)
    if readable.is_error:
        raise FailedCallException(readable)
    return langchain.to_content(readable), result.value
