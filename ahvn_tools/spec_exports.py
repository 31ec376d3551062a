"""ToolExports: the forms in which a tool is exported: schemas, texts, functions, MCP tools and provider formats."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

from typing_extensions import ParamSpec, TypeVar

from ahvn_tools import formats
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.execution.plan import CompiledTool
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolResult
from ahvn_tools.schema.dialects.normalize import normalize
from ahvn_tools.schema.dialects.strict import to_strict
from ahvn_tools.state import UNSET

if TYPE_CHECKING:
    from fastmcp.tools import Tool
    from mcp_types import Tool as WireTool

    from ahvn_tools.formats import FormatName, sdk_types
    from ahvn_tools.langchain import SpecTool

P = ParamSpec("P", default=...)
"""The parameters of a call, for type checkers; `...` where they cannot know them."""

R = TypeVar("R", default=Any)
"""What a call returns, for type checkers; Any where its JSON form has another type than the function's own."""


class _InstanceAttribute:
    """A special attribute of instances, such as `__doc__`, whose class has another one or none."""

    def __init__(self, read: Callable[[Any], Any], name: str, of_class: Any = UNSET) -> None:
        self._read = read
        self._name = name
        self._of_class = of_class

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is not None:
            return self._read(instance)
        if self._of_class is UNSET:
            raise AttributeError(f"type object {owner.__name__!r} has no attribute {self._name!r}")
        return self._of_class


def _docstring(spec: ToolExports[Any, Any]) -> str:
    """Return the docstring of a tool; of one that has no definition yet, the description: any program may read it."""
    return spec.docstring if spec.compiled.is_usable else spec.compiled.template.texts.description


def _signature(spec: ToolExports[Any, Any]) -> inspect.Signature:
    from ahvn_tools.signature import python_signature  # few processes need it

    return python_signature(spec.definition)


class ToolExports(Generic[P, R]):
    """Base class of ToolSpec. Exports are made from the definition, except the FastMCP tool, which also makes calls."""

    __signature__ = _InstanceAttribute(_signature, "__signature__")

    def __init_subclass__(cls, **options: Any) -> None:
        """Let instances of the class have the docstring of their tool."""
        super().__init_subclass__(**options)
        of_class = vars(cls).get("__doc__")
        docstring = _InstanceAttribute(_docstring, "__doc__", of_class)
        cls.__doc__ = docstring  # type: ignore[assignment]  # it reads as a str

    compiled: CompiledTool
    _adapter: tuple[CompiledTool, Tool] | None
    """The FastMCP tool for the current `compiled`, if there is one."""

    @property
    def definition(self) -> ToolDefinition:
        """What a model sees of the tool: a frozen value without the bound parameters.

        Raises DefinitionError while a parameter whose type has no JSON form is not bound.
        """
        return self.compiled.definition

    @abstractmethod
    def call(self, /, *args: P.args, **arguments: P.kwargs) -> R:
        """Call the tool from sync code and return its value."""

    @abstractmethod
    def exec(self, /, *args: P.args, **arguments: P.kwargs) -> ToolResult:
        """Call the tool from sync code and return a ToolResult."""

    @abstractmethod
    async def aexec(self, /, *args: P.args, **arguments: P.kwargs) -> ToolResult:
        """Call the tool from async code and return a ToolResult."""

    @abstractmethod
    async def _serve(self, arguments: JsonObject) -> ToolResult: ...

    @property
    @abstractmethod
    def binds(self) -> Mapping[str, str]:
        """Read-only mapping: bound parameter to dotted state key."""

    @property
    def source(self) -> str | None:
        """The source code that the spec was made from; None for a spec from another source."""
        return self.compiled.template.source

    @property
    def input_schema(self) -> JsonObject:
        """A fresh copy of the JSON Schema of the visible parameters."""
        schema: JsonObject = self.definition.input_schema
        return schema

    @property
    def params(self) -> JsonObject:
        """A fresh copy of the properties of `input_schema`."""
        properties: JsonObject = self.input_schema.get("properties", {})
        return properties

    @property
    def output_schema(self) -> JsonObject | None:
        """A fresh copy of the JSON Schema of `structured_content`; None when the tool has no output schema."""
        schema: JsonObject | None = self.definition.output_schema
        return schema

    @property
    def examples(self) -> list[JsonObject] | None:
        """The sample calls, the object that was passed; a copy without bound parameters if there are any. Or None."""
        template, bindings = self.compiled.template, self.compiled.bindings
        return template.visible_examples(frozenset(bindings)) or None if bindings else template.examples

    @property
    def __name__(self) -> str:
        """The name of the tool, as a function has one."""
        return self.compiled.template.name

    @property
    def docstring(self) -> str:
        """A Google-style docstring made from the definition."""
        from ahvn_tools import text

        return text.docstring(self.definition)

    @property
    def code(self) -> str:
        """A Python function definition made from the definition; always valid Python."""
        from ahvn_tools import text

        return text.code(self.definition)

    def signature(self, /, **arguments: Any) -> str:
        """Return a call as text: `search(query='example', limit=10)`."""
        from ahvn_tools import text

        return text.signature(self.definition, arguments)

    def to_prompt(self) -> str:
        """Return the tool as one item of a list for a model: its signature and its docstring."""
        from ahvn_tools import text

        return text.prompt(self.definition)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the signature, the description, the parameters and what is bound to which key."""
        from ahvn_tools.signature import python_signature
        from ahvn_tools.spec_html import spec_html, unusable_html  # only a notebook needs it

        if not self.compiled.is_usable:
            return unusable_html(self.compiled.plan)
        definition = self.definition
        return spec_html(definition, python_signature(definition), self.binds)

    def to_function(self) -> Callable[..., Any]:
        """Return a Python function with the definition's signature that calls the tool."""
        from ahvn_tools import text

        return text.function(self.definition, self.call)

    @property
    def tool(self) -> Tool:
        """The FastMCP tool that the spec was made from; else one whose `run` calls the spec."""
        return self.compiled.template.tool or self.binded

    @property
    def binded(self) -> Tool:
        """The FastMCP tool without the bound parameters."""
        compiled, adapter = self.compiled, self._adapter
        if adapter is None or adapter[0] is not compiled:
            adapter = self._adapter = (compiled, self.to_fastmcp())
        return adapter[1]

    def to_fastmcp(self) -> Tool:
        """Return a FastMCP tool to serve; each call uses the spec's bindings and state of that moment."""
        from ahvn_tools.mcp.server.tool import to_fastmcp_tool

        return to_fastmcp_tool(self.definition, self._serve, timeout=self.compiled.template.timeout)

    def to_langchain(self, **options: Any) -> SpecTool:
        """Return a LangChain tool; each call uses the spec's bindings and state of that moment.

        Its name, description and schema are those of `to("langchain")`. In a ToolMessage, the content is what models
        read, and the artifact is the value. The options are fields of LangChain's BaseTool. By default a model reads an
        error; with `handle_tool_error=False` an error is a ToolException.

        Needs the extra `langchain`. Raises DefinitionError for an unknown option.
        """
        from ahvn_tools.langchain import SpecTool

        return SpecTool(self, **options)

    def to_mcp(self) -> WireTool:
        """Return the definition as an `mcp.types.Tool`."""
        from mcp_types import Tool

        from ahvn_tools.formats.mcp import to_listed_tool

        return Tool.model_validate(to_listed_tool(self.definition))

    @overload
    def to(
        self, format: Literal["anthropic"], /, *, read_only: bool = ..., **options: Any
    ) -> sdk_types.AnthropicTool: ...
    @overload
    def to(self, format: Literal["gemini"], /, *, read_only: bool = ..., **options: Any) -> sdk_types.GeminiTool: ...
    @overload
    def to(self, format: Literal["mistral"], /, *, read_only: bool = ..., **options: Any) -> sdk_types.MistralTool: ...
    @overload
    def to(self, format: Literal["openai"], /, *, read_only: bool = ..., **options: Any) -> sdk_types.OpenAITool: ...
    @overload
    def to(
        self, format: Literal["openai-responses"], /, *, read_only: bool = ..., **options: Any
    ) -> sdk_types.OpenAIResponsesTool: ...
    @overload
    def to(self, format: FormatName | str, /, *, read_only: bool = ..., **options: Any) -> JsonObject: ...
    def to(self, format: str, /, *, read_only: bool = False, **options: Any) -> Any:  # noqa: A002  # the word for it
        """Return this tool in a provider's format, such as `"openai"`; the options are those of the format's `export`.

        Each export is a new object. With `read_only`, it is the same object until the tool changes: a dict that refuses
        changes at any depth with a TypeError.

        Raises ToolLookupError for an unknown format, with similar names; ToolSpecError for options that add an entry
        that is not a tool (Bedrock's `cache_point`), because the result is the entry of one tool.
        """
        options = self._export_options(format, options)
        if not read_only:
            return _export(self.definition, format, options)
        key = (format, _options_key(options)) if options else format
        return self.definition.share(key, _export_read_only, format, options)

    def _export_options(self, format: str, options: dict[str, Any]) -> dict[str, Any]:  # noqa: A002, ARG002  # as above
        """Return the options of an export, with those that the tool has itself."""
        return options

    def to_jsonschema(self, *, strict: bool | None = None, plain: bool = False, **fields: Any) -> JsonObject:
        """Return the tool as a flat function-calling object (`type`, `name`, `parameters` …), with `fields` added.

        Strict, which is the default: optional parameters become nullable and required, objects are closed. A schema
        that cannot be strict without a change of meaning is returned unchanged, with `strict` False.

        `plain`: the schema without titles, `additionalProperties` and empty `required`, at any depth, and not strict.

        Raises ToolSpecError for `strict=True` with `plain=True`.
        """
        if plain and strict:
            raise ToolSpecError("A strict schema needs additionalProperties: remove strict=True, or plain=True.")
        definition = self.definition
        is_strict = not plain if strict is None else strict
        strict_schema = to_strict(normalize(definition.input_schema)[0])[0] if is_strict else None
        schema = definition.input_schema if strict_schema is None else strict_schema
        if plain:
            from ahvn_tools.schema.plain import to_plain  # few exports need it

            schema = to_plain(schema)
        return {
            "type": "function",
            "name": definition.name,
            "description": definition.description,
            "parameters": schema,
            "strict": strict_schema is not None,
            **fields,
        }


def _export(definition: ToolDefinition, format: str, options: Mapping[str, Any]) -> JsonObject:  # noqa: A002  # as above
    entries = formats.export(format, [definition], options)
    if len(entries) != 1:
        raise ToolSpecError(f"This export has more entries than the tool: use `formats.get({format!r}).export(…)`.")
    return entries[0]


def _export_read_only(definition: ToolDefinition, format: str, options: Mapping[str, Any]) -> Any:  # noqa: A002
    from ahvn_tools.formats.read_only import to_read_only

    return to_read_only(_export(definition, format, options))


def _options_key(options: Mapping[str, Any]) -> Hashable:
    from ahvn_tools.formats.read_only import options_key

    return options_key(options)
