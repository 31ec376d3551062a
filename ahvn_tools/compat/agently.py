"""Agently's tool manager: its names and its texts, over a `Toolkit`, which is at hand as `ToolManager().toolkit`."""

from __future__ import annotations

import copy
import inspect
import json
import logging
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel, fields
from pydantic_core import to_jsonable_python

from ahvn_tools import Secret, ToolContext, Toolkit, ToolResult, ToolSpec
from ahvn_tools.execution import to_async, to_sync
from ahvn_tools.schema import from_types

__all__ = ["AgentlyToolManager", "DataFormatter", "FunctionShifter", "ToolManager"]

Function = Callable[..., Any]
Kwargs = dict[str, Any]
"""A type, a `(type,)` or a `(type, description)` by name, as in `ahvn_tools.schema.from_types`."""

OTHERS = "<*>"
"""The key for all arguments that have no key."""


class DataFormatter:
    """Conversions of types and schemas."""

    @staticmethod
    def sanitize(value: Any, remain_type: bool = False) -> Any:
        """Return a type as data: the fields of a model, or a text, as in an annotation. A value becomes its JSON form.

        With `remain_type` other types than models stay types. Dicts, lists, tuples and sets stay what they are, also
        inside of each other, and what they contain is changed.
        """
        if isinstance(value, type) and issubclass(value, BaseModel):
            return {name: _describe_field(field, remain_type) for name, field in value.model_fields.items()}
        if isinstance(value, Mapping):
            return {str(name): DataFormatter.sanitize(item, remain_type) for name, item in value.items()}
        for kind in (list, tuple, set):
            if isinstance(value, kind):
                return kind(DataFormatter.sanitize(item, remain_type) for item in value)
        is_type = isinstance(value, type) or get_origin(value) is not None
        return value if remain_type and is_type else to_jsonable_python(value, fallback=inspect.formatannotation)

    @staticmethod
    def from_schema_to_kwargs_format(schema: Mapping[str, Any] | None) -> Kwargs | None:
        """Return the kwargs format of an object schema, or None if it names no argument.

        The description of an argument lists the keywords of its schema, without `type` and `title`. Raises KeyError for
        a schema without a type, TypeError for one of another type.
        """
        schema = schema or {"type": "object"}
        if "type" not in schema:
            raise KeyError(f"Cannot find key 'type' in input schema: {schema}")
        if schema["type"] != "object":
            raise TypeError(f"Input schema type is not 'object' but: {schema['type']}")
        properties = {**(schema.get("properties") or {}), OTHERS: schema.get("additionalProperties", False)}
        return {name: _describe_property(item) for name, item in properties.items() if item is not False} or None

    @staticmethod
    def from_kwargs_format_to_schema(kwargs: Kwargs, required: Collection[str] | Function = ()) -> dict[str, Any]:
        """Return the JSON Schema of arguments; `required` are names, or the function that takes the arguments."""
        schema = from_types(kwargs, required)
        return {**schema, "additionalProperties": schema["properties"].pop(OTHERS, False)}


def describe_parameters(func: Function) -> Kwargs:
    """Return the kwargs format of a function, without parameters that no caller sets: `*args` and a ToolContext."""
    return {
        OTHERS if item.kind is item.VAR_KEYWORD else item.name: _describe_parameter(item)
        for item in inspect.signature(func, eval_str=True).parameters.values()
        if item.kind is not item.VAR_POSITIONAL and ToolContext not in (item.annotation, *get_args(item.annotation))
    }


def _describe_parameter(parameter: inspect.Parameter) -> tuple[Any, str]:
    hint = Any if parameter.annotation is parameter.empty else parameter.annotation
    kind, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    texts = [getattr(item, "description", item) for item in metadata]
    if parameter.default is not parameter.empty and not Secret.is_in(hint):
        texts.append(f"Default: {parameter.default}")
    return kind, ";".join(text for text in texts if isinstance(text, str))


def _describe_field(field: fields.FieldInfo, remain_type: bool) -> tuple[Any, ...]:
    return DataFormatter.sanitize(field.annotation, remain_type), *filter(None, [field.description])


def _describe_property(schema: Any) -> tuple[Any, str]:
    keywords = schema if isinstance(schema, Mapping) else {}
    texts = [f"{key}: {value}" for key, value in keywords.items() if key not in {"type", "title"}]
    return keywords.get("type", Any), ";".join(texts)


Tags = str | Collection[str] | None


class FunctionShifter:
    """Changes how a function is called, and nothing else: arguments are not checked."""

    syncify = staticmethod(to_sync)
    asyncify = staticmethod(to_async)


class RegisteredTool(ToolSpec):
    """A function with the kwargs format that it was registered with, and the description of what it returns."""

    described: tuple[Kwargs, Any]


class ToolManager:
    """Tools by name. `toolkit` holds them, and does what has no name here: structured results, exports, bindings.

    `name` and `DEFAULT_SETTINGS` let Agently take the class: `plugin_manager.register("ToolManager", ToolManager)`.
    """

    name: ClassVar = "AgentlyToolManager"
    DEFAULT_SETTINGS: ClassVar[dict[str, Any]] = {}

    def __init__(self, settings: Any = None, *, toolkit: Toolkit | None = None) -> None:
        """`settings` are stored and not read. `toolkit` is a Toolkit with options, such as `middleware`.

        With its option `mask_errors=False` the text `Error: …` says what an exception says.
        """
        self.settings = settings
        self.toolkit = Toolkit("agently", mask_errors=False) if toolkit is None else toolkit

    @property
    def tool_funcs(self) -> Mapping[str, Function]:
        """The functions by name; of a tool of an MCP server an async function that calls it."""
        return MappingProxyType({tool.name: self._function(tool) for tool in self.toolkit})

    @property
    def tool_info(self) -> Mapping[str, dict[str, Any]]:
        """The descriptions of all tools by name."""
        return MappingProxyType({tool.name: _describe(tool) for tool in self.toolkit})

    @property
    def tag_mappings(self) -> Mapping[str, frozenset[str]]:
        """The names of the tools by tag."""
        tags = {tool.name: _tags(tool) for tool in self.toolkit}
        every = sorted(set[str]().union(*tags.values()))
        return MappingProxyType({tag: frozenset(name for name in tags if tag in tags[name]) for tag in every})

    def register(  # noqa: PLR0917  # as in Agently
        self, name: str, desc: str | None, kwargs: Kwargs | None, func: Function, returns: Any = None, tags: Tags = None
    ) -> None:
        """Register a function under a name; another tool of this name is replaced.

        `kwargs` describes all arguments of a call; None or an empty one: as the parameters of the function say. They
        are validated by its types, and passed on as JSON. Raises DefinitionError for a function that cannot take them.
        """
        kwargs = kwargs or describe_parameters(func)
        schema = DataFormatter.from_kwargs_format_to_schema(kwargs, required=func)
        tool = RegisteredTool.from_schema(name, schema, func, description=desc or "", output="raw")
        tool.described = copy.deepcopy((kwargs, returns))
        self.toolkit.add(tool, tags=tags or (), on_duplicate="replace")

    def tool_func(self, func: Function) -> Function:
        """Register the decorated function, described by its docstring and its annotations, and return it."""
        returns = DataFormatter.sanitize(get_type_hints(func).get("return"), remain_type=True)
        self.register(func.__name__, inspect.getdoc(func) or func.__name__, describe_parameters(func), func, returns)
        return func

    def tag(self, tool_names: str | Collection[str], tags: str | Collection[str]) -> None:
        """Add tags to tools. Raises ValueError for an unknown tool, and adds none then."""
        for name in [tool_names] if isinstance(tool_names, str) else tool_names:
            if name not in self.toolkit:
                raise ValueError(f"Cannot find tool named '{name}'")
        self.toolkit.tag(tool_names, *([tags] if isinstance(tags, str) else tags))

    def get_tool_info(self, tags: Tags = None) -> dict[str, dict[str, Any]]:
        """Return copies of the descriptions by name: of the tools that have one of these tags.

        Without tags, of the tools that are of no agent: those without a tag that starts with `agent-`.
        """
        is_shown = _are_of_no_agent if tags is None else set([tags] if isinstance(tags, str) else tags).intersection
        return {tool.name: _describe(tool) for tool in self.toolkit if is_shown(_tags(tool))}

    def get_tool_list(self, tags: Tags = None) -> list[dict[str, Any]]:
        """Return the descriptions of `get_tool_info` as a list."""
        return list(self.get_tool_info(tags).values())

    def get_tool_func(self, name: str, *, shift: Literal["sync", "async"] | None = None) -> Function | None:
        """Return the function of a tool, for sync or for async callers; None for an unknown name.

        Calls of a registered function are not checked, because they do not run through the toolkit. Raises
        ValueError for an unknown shift.
        """
        if shift not in {None, "sync", "async"}:
            raise ValueError(f"shift is 'sync', 'async' or None, not {shift!r}.")
        if name not in self.toolkit:
            return None
        function = self._function(self.toolkit[name])
        return {None: function, "sync": to_sync(function), "async": to_async(function)}[shift]

    def call_tool(self, name: str, kwargs: dict[str, Any]) -> Any:
        """Call a tool and return its value, or a text: `Can not find tool named '…'`, or `Error: …`."""
        return self._answer(name, self.toolkit.exec(name, kwargs))

    async def async_call_tool(self, name: str, kwargs: dict[str, Any]) -> Any:
        """Call a tool from async code and return what `call_tool` returns."""
        return self._answer(name, await self.toolkit.aexec(name, kwargs))

    def use_mcp(self, transport: Any, *, tags: Tags = None, **options: Any) -> None:
        """Register the tools of an MCP server, with its own tags, except for those of agents, and these.

        `transport` and the options are those of `Toolkit.add_mcp`.
        """
        self.toolkit.add_mcp(transport, **{"tags": tags or (), "on_duplicate": "replace", **options})

    async def async_use_mcp(self, transport: Any, *, tags: Tags = None, **options: Any) -> None:
        """Register the tools of an MCP server from async code, as `use_mcp` does."""
        await self.toolkit.aadd_mcp(transport, **{"tags": tags or (), "on_duplicate": "replace", **options})

    def _function(self, tool: ToolSpec) -> Function:
        async def call_mcp_tool(**arguments: Any) -> Any:
            return await self.async_call_tool(tool.name, arguments)

        call_mcp_tool.__name__ = tool.name
        return tool.function if tool.server_name is None else call_mcp_tool

    def _answer(self, name: str, result: ToolResult) -> Any:
        if result.error is not None and result.error.code == "not_found":
            return f"Can not find tool named '{name}'"
        if name in self.toolkit and self.toolkit[name].server_name is not None:
            return _to_value(name, result)
        return result.value if result.error is None else f"Error: {result.error.reason}"


def _are_of_no_agent(tags: Collection[str]) -> bool:
    return not any(tag.startswith("agent-") for tag in tags)


def _tags(tool: ToolSpec) -> set[str]:
    """Return the tags of a tool. A server may not give its tools to an agent: its tags of agents do not count."""
    meta = (tool.definition.meta or {}) if tool.server_name is not None else {}
    claimed = [part["tags"] for part in meta.values() if isinstance(part, dict) and isinstance(part.get("tags"), list)]
    return {tag for tag in tool.tags if _are_of_no_agent([tag]) or not any(tag in tags for tags in claimed)}


def _describe(tool: ToolSpec) -> dict[str, Any]:
    """Return the description of a tool, without bound parameters; of one that was not registered, from its schemas."""
    from_schemas = map(DataFormatter.from_schema_to_kwargs_format, (tool.input_schema, tool.output_schema))
    kwargs, returns = copy.deepcopy(tool.described) if isinstance(tool, RegisteredTool) else from_schemas
    shown = {name: item for name, item in (kwargs or {}).items() if name == OTHERS or name in tool.params}
    info = {"name": tool.name, "desc": tool.description, "kwargs": shown}
    return info if returns is None else {**info, "returns": returns}


def _to_value(name: str, result: ToolResult) -> Any:
    """Return the structured content as it is, or else the first content: parsed JSON, a text, or media as a dict.

    An error of the tool is `{"error": text}`. A call without an answer, or with one that its output schema does not
    allow, is None, and a warning in the log says why.
    """
    if result.error is not None and result.error.code in {"connection", "invalid_result", "timeout"}:
        logging.getLogger(__name__).warning("The call of the MCP tool %r returns None. %s", name, result.error.message)
        return None
    if result.error is not None:
        return {"error": result.error.message}
    if result.structured_content is not None or not result.content:
        return result.structured_content
    block = result.content[0]
    try:
        return json.loads(block.text) if block.type == "text" else block.model_dump()
    except ValueError:
        return block.text


AgentlyToolManager = ToolManager
