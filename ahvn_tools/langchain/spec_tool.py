"""SpecTool: a ToolSpec as a LangChain tool whose calls run through our own call path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar

from pydantic import ConfigDict, PrivateAttr, create_model

from ahvn_tools.context import ToolContext, current_context
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.encoders.loaded_classes import is_read_by_graph, loaded_classes
from ahvn_tools.errors import DefinitionError, InvalidResultError, near_misses
from ahvn_tools.formats import langchain
from ahvn_tools.results import ToolResult, as_readable
from ahvn_tools.sources.langchain_injection import InjectedKey, injected_keys, passing

try:
    from langchain_core.tools import BaseTool, ToolException
except ImportError as error:
    raise ImportError('LangChain tools need langchain-core: pip install "ahvn-tools[langchain]"') from error

__all__ = ["BaseTool", "FailedCallException", "SpecTool"]

_UNCHECKED = ConfigDict(arbitrary_types_allowed=True)
"""LangGraph reads the annotations of a model of injected arguments, and makes no instance of it."""

_OWN_FIELDS = frozenset({"name", "description", "args_schema", "response_format"})


class Spec(Protocol):
    """What is needed of a ToolSpec."""

    @property
    def definition(self) -> ToolDefinition:
        """The tool as models see it."""

    @property
    def compiled(self) -> Any:
        """The bindings, among other things."""

    @property
    def exec(self) -> Callable[..., ToolResult]:
        """Call from sync code."""

    @property
    def aexec(self) -> Callable[..., Awaitable[ToolResult]]:
        """Call from async code."""


class FailedCallException(ToolException):
    """A call that failed, with the text that the model reads."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__(result.text)
        self.result = result
        """The result, with the code of the error."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.result,)


class SpecTool(BaseTool):
    """A LangChain tool that calls a ToolSpec, from sync or async code: `spec.to_langchain()` makes one.

    Validation, timeouts and bound values are the work of the call path behind it. An argument that LangChain injects
    into the tool behind the spec is injected here, too, unless it was bound to something else.

    A subclass may make the spec itself, in its constructor. The options are fields of LangChain's BaseTool. Raises
    DefinitionError for an unknown option.
    """

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"

    _spec: Any = PrivateAttr()
    _injected: Mapping[str, InjectedKey] = PrivateAttr()

    def __init__(self, spec: Spec, /, **options: Any) -> None:
        super().__init__(**_to_fields(spec.definition, options))
        self._spec = spec
        self._injected = injected_keys(spec.compiled.bindings)

    @property
    def spec(self) -> Any:
        """The ToolSpec that is called."""
        return self._spec

    def get_input_schema(self, config: Any = None) -> Any:
        """Return a model of the arguments, in which LangGraph finds those to inject."""
        if not self._injected:
            return super().get_input_schema(config)
        parameters = self._spec.compiled.template.inputs.parameters
        fields: dict[str, Any] = {
            name: (key.annotation, ... if parameters[name].is_required else None)
            for name, key in self._injected.items()
        }
        return create_model(self.name, __config__=_UNCHECKED, **fields)

    def run(self, *args: Any, tool_call_id: str | None = None, **options: Any) -> Any:
        """Run a call as LangChain does; the ToolContext gets the id of the call."""
        with _set(_call_id, tool_call_id):
            return super().run(*args, tool_call_id=tool_call_id, **options)

    async def arun(self, *args: Any, tool_call_id: str | None = None, **options: Any) -> Any:
        """Run a call as `run` does."""
        with _set(_call_id, tool_call_id):
            return await super().arun(*args, tool_call_id=tool_call_id, **options)

    def _run(self, /, **arguments: Any) -> tuple[Any, Any]:
        """Run a call; the artifact is its value. Raises ToolException for an error."""
        call_id = _call_id.get()
        with passing(self._injected, arguments), _set(is_read_by_graph, True), self._context(call_id):
            if call_id is not None and hasattr(self._spec, "exec_as"):
                return _to_output(self._spec.exec_as(call_id, arguments))
            return _to_output(self._spec.exec(**arguments))

    async def _arun(self, /, **arguments: Any) -> tuple[Any, Any]:
        """Run a call as `_run` does."""
        call_id = _call_id.get()
        with passing(self._injected, arguments), _set(is_read_by_graph, True), self._context(call_id):
            if call_id is not None and hasattr(self._spec, "aexec_as"):
                return _to_output(await self._spec.aexec_as(call_id, arguments))
            return _to_output(await self._spec.aexec(**arguments))

    def _context(self, call_id: str | None) -> AbstractContextManager[None]:
        """Return the context of a call outside of a toolkit, which would make its own; none within another call."""
        if call_id is None or current_context.get() is not None or hasattr(self._spec, "exec_as"):
            return nullcontext()
        state = MappingProxyType(dict(self._spec.state))
        return _set(current_context, ToolContext(call_id=call_id, tool=self._spec.definition.name, state=state))


_call_id: ContextVar[str | None] = ContextVar("_call_id", default=None)
"""The id of the tool call that LangChain runs."""

Value = TypeVar("Value")


@contextmanager
def _set(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def _to_fields(definition: ToolDefinition, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the LangChain tool of a definition. Raises DefinitionError for an unknown option."""
    known = BaseTool.model_fields.keys() - _OWN_FIELDS
    for name in options:
        if name not in known:
            raise DefinitionError(f"A LangChain tool has no option {name!r}. {near_misses(name, sorted(known))}")
    (exported,) = langchain.export([definition])
    function = exported["function"]
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "args_schema": function["parameters"],
        "tags": sorted(definition.tags) or None,
        "metadata": definition.meta,
        "handle_tool_error": True,
        **options,
    }


def _to_output(result: ToolResult) -> tuple[Any, Any]:
    if isinstance(result.exception, loaded_classes("langgraph.errors", "GraphBubbleUp")):
        raise result.exception  # a LangGraph graph is interrupted, for example by a question to its user
    if isinstance(result.exception, InvalidResultError) and result.exception.graph_output is not None:
        return result.exception.graph_output, None  # a graph applies it
    readable = as_readable(result)
    if readable.is_error:
        raise FailedCallException(readable)
    return langchain.to_content(readable), result.value
