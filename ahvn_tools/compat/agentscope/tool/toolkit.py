"""Toolkit: tools in groups that are switched on and off, with the responses of their calls."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Collection
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import ahvn_tools
from ahvn_tools import Call, Next, ToolResult, ToolSpec
from ahvn_tools.compat.agentscope.message import ToolUseBlock
from ahvn_tools.compat.agentscope.module import StateModule
from ahvn_tools.compat.agentscope.tool.registered_function import (
    PostprocessFunction,
    RegisteredTool,
    RegisteredToolFunction,
    registered_function,
    to_text,
)
from ahvn_tools.compat.agentscope.tool.response import ResponseStream, ToolResponse, text_response
from ahvn_tools.compat.agentscope.tracing import trace_toolkit
from ahvn_tools.errors import DefinitionError, ToolLookupError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ahvn_tools.compat.agentscope import MCPClientBase

logger = logging.getLogger(__name__)

BASIC_GROUP: Final = "basic"

NamesakeStrategy = Literal["raise", "override", "skip", "rename"]

Handler: TypeAlias = Callable[..., ResponseStream]
Middleware: TypeAlias = Callable[[dict[str, Any], Handler], AsyncGenerator[ToolResponse, None]]


@dataclass(frozen=True)
class ToolGroup:
    """Several tools that are switched on and off together, as they are now; methods of the toolkit change it."""

    name: str

    active: bool

    description: str
    """What the group is for."""

    notes: str | None = None
    """How to use its tools, for a model while the group is active."""


class Toolkit(StateModule):
    """The tools of an agent. They are shown to a model and called while their group is active.

    >>> import asyncio
    >>> from ahvn_tools.compat.agentscope import TextBlock, Toolkit, ToolResponse, ToolUseBlock
    >>> def add(a: int, b: int) -> ToolResponse:
    ...     '''Add two numbers.'''
    ...     return ToolResponse([TextBlock(type="text", text=str(a + b))])
    >>> toolkit = Toolkit()
    >>> toolkit.register_tool_function(add, preset_kwargs={"b": 1})
    >>> toolkit.get_json_schemas()[0]["function"]["parameters"]["required"]
    ['a']
    >>> async def call():
    ...     block = ToolUseBlock(type="tool_use", id="1", name="add", input={"a": 2})
    ...     async for response in await toolkit.call_tool_function(block):
    ...         print(response.content)
    >>> asyncio.run(call())
    [{'type': 'text', 'text': '3'}]
    """

    def __init__(self) -> None:
        super().__init__()
        self._kit = ahvn_tools.Toolkit("agentscope", mask_errors=False)
        self._lock = threading.RLock()
        """Held while tools are changed, and while groups are listed or changed."""
        self._middlewares: list[Middleware] = []

    @property
    def tools(self) -> dict[str, RegisteredToolFunction]:
        """The tools by name, those of inactive groups too. It is a copy."""
        return {tool.name: registered_function(tool) for tool in self._kit}

    @property
    def groups(self) -> dict[str, ToolGroup]:
        """The groups by name, without the basic one. It is a copy."""
        with self._lock:
            views = [self._kit.group(name) for name in self._kit.groups if name != BASIC_GROUP]
            return {view.name: ToolGroup(view.name, view.active, view.description, view.notes) for view in views}

    def create_tool_group(
        self, group_name: str, description: str, active: bool = False, notes: str | None = None
    ) -> None:
        """Define a group; `notes` are for a model while it is active. Raises ValueError for a name that is taken."""
        with self._lock:
            if group_name in self._kit.groups:
                raise ValueError(f"Tool group {group_name!r} is already registered in the toolkit.")
            self._kit.add_group(group_name, description, active=active, notes=notes)

    def update_tool_groups(self, group_names: str | list[str], active: bool) -> None:
        """Switch groups on or off. Unknown names are ignored, and the basic group stays active."""
        names = _to_names("group_names", group_names)
        if BASIC_GROUP in names:
            logger.warning("The 'basic' tool group is always active, skipping it.")
        with self._lock:
            self._kit.set_groups({name: active for name in self.groups if name in names})

    def remove_tool_groups(self, group_names: str | list[str]) -> None:
        """Remove groups with their tools. Unknown names are ignored. Raises ValueError for the basic group."""
        names = _to_names("group_names", group_names)
        if BASIC_GROUP in names:
            raise ValueError("Cannot remove the default 'basic' tool group.")
        with self._lock:
            for name in self.groups.keys() & names:
                self._kit.remove_group(name)

    def get_activated_notes(self) -> str:
        """Return the notes of the active groups, for a system prompt."""
        active = [group for group in self.groups.values() if group.active and group.notes]
        return "\n".join(f"## About Tool Group {group.name!r}\n{group.notes}" for group in active)

    get_tool_group_notes = get_activated_notes

    async def reset_equipped_tools(self, /, **groups: Any) -> ToolResponse:
        """Activate exactly those groups whose argument is true. Register this method to let a model do so.

        Invalid arguments change nothing; the response says what is wrong.
        """
        with self._lock:
            known = self.groups
            for name, active in groups.items():
                if name not in known:
                    return text_response(f"Invalid arguments: there is no tool group {name!r}.")
                if not isinstance(active, bool):
                    problem = f"the argument {name} should be a bool value, but got {type(active)}."
                    return text_response(f"Invalid arguments: {problem}")
            self._kit.set_groups({name: groups.get(name, False) for name in known})
        active_names = ", ".join(repr(name) for name in known if groups.get(name, False))
        if not active_names:
            return text_response("All tool groups are now deactivated currently.")
        notes = self.get_activated_notes()
        advice = f" You MUST follow these notes to use these tools:\n<notes>{notes}</notes>" if notes else ""
        return text_response(f"Now tool groups {active_names} are activated.{advice}")

    async def _reset_by_call(self, call: Call, _next: Next) -> ToolResult:
        """Answer a model's call of `reset_equipped_tools`: a middleware."""
        return ToolResult(await self.reset_equipped_tools(**call.arguments))

    def register_tool_function(  # noqa: PLR0917  # as callers pass them
        self, tool_func: Callable[..., Any], group_name: str = BASIC_GROUP,
        preset_kwargs: dict[str, Any] | None = None, func_description: str | None = None,
        json_schema: dict[str, Any] | None = None, include_long_description: bool = True,
        include_var_positional: bool = False, include_var_keyword: bool = False,
        postprocess_func: PostprocessFunction | None = None, *, func_name: str | None = None,
        namesake_strategy: NamesakeStrategy = "raise",
    ) -> None:  # fmt: skip
        """Register a function that returns or yields responses. Nothing that is passed is changed.

        `preset_kwargs` are arguments that a model neither sees nor sets. `json_schema` is the function schema, instead
        of one made from the signature and the docstring. `postprocess_func` gets each response of a call, and returns
        another one or None. `namesake_strategy` decides about a name that is taken.

        Raises ValueError for an unknown group or strategy, a name that is taken and a preset that does not fit, and
        TypeError for a `json_schema` that is none.
        """
        options: dict[str, Any] = {
            "name": func_name or None, "description": func_description or None,
            "include_long_description": include_long_description,
        }  # fmt: skip
        schema = getattr(tool_func, "json_schema", None) if json_schema is None else json_schema
        if schema is None:
            options |= {"include_var_positional": include_var_positional, "include_var_keyword": include_var_keyword}
        spec, added = self._make(tool_func, schema, preset_kwargs or {}, postprocess_func, options)
        self._add(spec, [spec.name], group_name, namesake_strategy, added)

    def _make(
        self, function: Callable[..., Any], schema: Any, preset_kwargs: dict[str, Any],
        postprocess: PostprocessFunction | None, options: dict[str, Any],
    ) -> tuple[ToolSpec, dict[str, Any]]:  # fmt: skip
        """Return a tool, and the options with which it is added."""
        spec: Any
        if not isinstance(preset_kwargs, dict):
            raise TypeError(f"The presets of a tool must be a dict, but got {type(preset_kwargs)}.")
        presets, middleware = dict(preset_kwargs), []
        options = {name: option for name, option in options.items() if option is not None}
        options |= {"output": "raw", "render": to_text}
        owner = getattr(function, "__self__", None)
        if isinstance(owner, Toolkit) and function == owner.reset_equipped_tools:
            if owner is not self or presets:
                raise ValueError("Register reset_equipped_tools in its own toolkit, and without preset_kwargs.")
            middleware = [self._reset_by_call]
            spec, schema = self._kit.groups_tool(**{"name": "reset_equipped_tools", **options}), None
        elif schema is not None:
            spec = _from_schema(function, schema, presets, options)
        else:
            binds = _bind_hidden(function, presets)
            options |= {"convert": False, "description_separator": "\n", "binds": binds}
            spec = RegisteredTool.from_function(function, **options)
        spec.registered = RegisteredToolFunction(
            tool=spec, kit=self._kit, original_func=function, preset_kwargs=dict(preset_kwargs),
            postprocess_func=postprocess, given_schema=copy.deepcopy(schema),
        )  # fmt: skip
        return spec, {"preset": presets, "middleware": middleware}

    def _add(
        self, tools: ToolSpec | ahvn_tools.Toolkit, names: list[str], group_name: str, namesake_strategy: str,
        options: Any,
    ) -> None:  # fmt: skip
        """Add all of these tools or none."""
        if namesake_strategy not in get_args(NamesakeStrategy):
            raise ValueError(f"namesake_strategy is one of {get_args(NamesakeStrategy)}, not {namesake_strategy!r}.")
        with self._lock:
            self._require_group(group_name)
            taken = [name for name in names if name in self._kit]
            if taken and namesake_strategy == "raise":
                raise ValueError(f"A function with name {taken[0]!r} is already registered in the toolkit.")
            policies = {"override": "replace", "skip": "keep"}
            on_duplicate: Any = policies.get(namesake_strategy, "rename")
            self._kit.add(tools, group=group_name, on_duplicate=on_duplicate, **options)

    def remove_tool_function(self, tool_name: str, allow_not_exist: bool = True) -> None:
        """Remove a tool. Raises ValueError for an unknown one unless `allow_not_exist`."""
        with self._lock:
            if tool_name in self._kit:
                self._kit.remove(tool_name)
            elif not allow_not_exist:
                raise ValueError(f"Tool function {tool_name!r} does not exist in the toolkit.")

    def clear(self) -> None:
        """Remove all tools and groups."""
        with self._lock:
            self._kit.remove(*self.tools)
            self.remove_tool_groups(list(self.groups))

    def get_json_schemas(self, group_names: list[str] | None = None) -> list[dict[str, Any]]:
        """Return the function schemas of the tools in active groups, or in those of the named groups that are active.

        Raises ValueError for an unknown group.
        """
        with self._lock:
            names = list(self._kit.groups) if group_names is None else group_names
            for name in names:
                self._require_group(name)
            return [registered_function(tool).json_schema for tool in self._kit.select(groups=names)]

    def set_extended_model(self, finish_function_name: str, structured_model: type[BaseModel] | None) -> None:
        """Let a tool also take the fields of a pydantic model, as the structured answer of an agent; None undoes it.

        The fields are validated first. The last response of a call has the instance as `metadata["response_msg"]`,
        unless the function sets it, and its dict as `metadata["structured_output"]`. Raises TypeError for something
        else than a model, ValueError for an unknown tool and for a field that is also a parameter of the tool.
        """
        from pydantic import BaseModel  # slow, and few toolkits need it

        is_model = isinstance(structured_model, type) and issubclass(structured_model, BaseModel)
        if structured_model is not None and not is_model:
            raise TypeError(f"The structured_model must be a pydantic model, but got {structured_model!r}.")
        if finish_function_name not in self._kit:
            raise ValueError(f"Tool function {finish_function_name!r} not found in the toolkit.")
        tool: Any = self._kit[finish_function_name]
        self._kit.finish_with(finish_function_name, structured_model)
        tool.registered.extended_model = structured_model

    async def register_mcp_client(  # noqa: PLR0917  # as callers pass them
        self, client: MCPClientBase, /, group_name: str = BASIC_GROUP, enable_funcs: list[str] | None = None,
        disable_funcs: list[str] | None = None, preset_kwargs_mapping: dict[str, dict[str, Any]] | None = None,
        postprocess_func: PostprocessFunction | None = None, *, wrap_tool_result: bool = True,
        namesake_strategy: NamesakeStrategy = "raise", execution_timeout: float | None = None,
    ) -> None:  # fmt: skip
        """Register the tools of an MCP server.

        `execution_timeout` is in seconds, for each call. Without `wrap_tool_result` a call yields MCP's CallToolResult.
        Raises ValueError for tools in `enable_funcs` that the server does not have, and for a tool that is also in
        `disable_funcs`. If one tool cannot be registered, none is.
        """
        names = [tool.name for tool in await client.list_tools()]
        enabled = names if enable_funcs is None else _to_names("enable_funcs", enable_funcs)
        disabled = _to_names("disable_funcs", disable_funcs or [])
        mapping = preset_kwargs_mapping or {}
        timeout: Any = execution_timeout
        if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
            raise ValueError(f"execution_timeout is a number of seconds above 0, not {timeout!r}.")
        if unknown := {*enabled, *mapping} - set(names):
            raise ValueError(f"The MCP client {client.name!r} has no tools {sorted(unknown)}. Known: {names}.")
        if enable_funcs is not None and (both := set(enabled) & set(disabled)):
            raise ValueError(f"Tools are both in enable_funcs and in disable_funcs: {sorted(both)}.")
        chosen = [name for name in names if name in enabled and name not in disabled]
        functions = [await client.get_callable_function(name, wrap_tool_result, execution_timeout) for name in chosen]
        staged = ahvn_tools.Toolkit("mcp", on_duplicate="rename")
        for function in functions:
            spec, added = self._make(
                function, function.json_schema, mapping.get(function.name, {}), postprocess_func, {}
            )
            staged.add(spec, **added)
        self._add(staged, [tool.name for tool in staged], group_name, namesake_strategy, {})

    async def remove_mcp_clients(self, client_names: str | list[str]) -> None:
        """Remove the tools of MCP clients. The clients stay connected."""
        names = _to_names("client_names", client_names)
        with self._lock:
            self._kit.remove(*[name for name, function in self.tools.items() if function.mcp_name in names])

    remove_mcp_servers = remove_mcp_clients

    def register_middleware(self, middleware: Middleware) -> None:
        """Wrap all calls, inside of the middleware that is there.

        It is an async generator function `(kwargs, next_handler)`, where `kwargs` is `{"tool_call": …}`, and yields
        what it makes of `async for response in await next_handler(**kwargs)`.
        """
        if not any(map(inspect.isasyncgenfunction, (middleware, getattr(middleware, "__call__", None)))):  # noqa: B004  # the method
            raise TypeError(f"A middleware must be an async generator function, not {middleware!r}.")
        self._middlewares.append(middleware)

    @trace_toolkit
    def call_tool_function(self, tool_call: ToolUseBlock) -> ResponseStream:
        """Call a tool and yield its responses, each of which replaces the one before.

        An exception before the first response becomes a text, `Error: …`; a later one is raised. If its task is
        cancelled while the tool runs, a call yields a response with `is_interrupted`, and raises CancelledError when
        the next one is asked for, unless the task goes on, as after `asyncio.wait_for`.
        """
        handler: Handler = self._call
        for middleware in reversed(self._middlewares):
            handler = functools.partial(_call_middleware, middleware, handler)
        return handler(tool_call=tool_call)

    def _call(self, tool_call: ToolUseBlock) -> ResponseStream:
        name = tool_call["name"]
        try:
            function = registered_function(self._kit[name])
        except ToolLookupError:
            return ResponseStream(_answer(f"FunctionNotFoundError: Cannot find the function named {name}"))
        if self._kit.groups.get(function.group):
            return ResponseStream(function.respond(tool_call))
        problem = f"FunctionInactiveError: The function {name!r} is in the inactive group {function.group!r}."
        advice = "Activate the tool group by calling 'reset_equipped_tools' first to use this tool."
        return ResponseStream(_answer(f"{problem} {advice}"))

    def state_dict(self) -> dict[str, Any]:
        """Return the active groups, all groups, and the group of each tool, as JSON data without presets."""
        groups = list(self.groups.values())
        return {
            **super().state_dict(),
            "active_groups": [group.name for group in groups if group.active],
            "groups": [asdict(group) for group in groups],
            "tools": {name: function.group for name, function in self.tools.items()},
        }

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Activate exactly the groups in `active_groups`; groups of the state that do not exist are defined.

        Functions cannot be loaded: register them. Raises ValueError for other data, and with `strict` for other keys.
        """
        from pydantic import TypeAdapter

        active = state_dict.get("active_groups") if isinstance(state_dict, dict) else None  # type: ignore[redundant-expr]  # it was saved elsewhere
        if not isinstance(active, list):
            raise ValueError(  # noqa: TRY004  # as callers expect
                "The state_dict for toolkit must be a dictionary with active_groups key and its value must be a list, "
                f"but got {type(state_dict)}."
            )
        expected = self.state_dict()
        if strict and (extra := state_dict.keys() - expected):
            raise ValueError(
                f"Get additional keys in the state_dict: {sorted(extra, key=repr)}. Expected: {list(expected)}."
            )
        groups = TypeAdapter(list[ToolGroup]).validate_python(state_dict.get("groups", []))
        if any(group.name in {"", BASIC_GROUP} for group in groups):
            raise ValueError(f"A group in the state_dict has no name, or that of the group {BASIC_GROUP!r}.")
        super().load_state_dict(state_dict, strict)
        with self._lock:
            known = {BASIC_GROUP, *self._kit.groups}
            for group in groups:
                if group.name not in known:
                    self._kit.add_group(group.name, group.description, notes=group.notes)
            self._kit.set_groups({name: name in active for name in self._kit.groups if name != BASIC_GROUP})

    def _require_group(self, name: str) -> None:
        if name not in self._kit.groups:
            raise ValueError(f"Tool group {name!r} not found.")


def _to_names(parameter: str, names: Any) -> list[str]:
    if not isinstance(names, str | list):
        raise TypeError(f"The {parameter} must be a list of strings, but got {type(names)}.")
    return [names] if isinstance(names, str) else names


def _call_middleware(middleware: Middleware, handler: Handler, **kwargs: Any) -> ResponseStream:
    return ResponseStream(middleware(kwargs, handler))


async def _answer(text: str) -> AsyncGenerator[ToolResponse, None]:
    yield text_response(text)


def _from_schema(function: Any, schema: Any, presets: dict[str, Any], options: dict[str, Any]) -> ToolSpec:
    """Return the tool that a function schema describes. Raises TypeError for a schema that is none."""
    match schema:
        case {"type": "function", "function": {"parameters": {"properties": dict(properties)}}}:
            options["binds"] = _bind_hidden(function, presets, properties)
        case {"type": "function", "function": dict()}:
            options["binds"] = _bind_hidden(function, presets, ())
        case _:
            raise TypeError('A json_schema is {"type": "function", "function": {"name": …, "parameters": {…}}}.')
    try:
        return RegisteredTool.from_openai(schema, function, **options)
    except DefinitionError as error:
        raise TypeError(f"The json_schema cannot be used. {error}") from error


def _bind_hidden(
    function: Callable[..., Any], presets: dict[str, Any], properties: Collection[str] | None = None
) -> dict[str, str]:
    """Return the option `binds` for presets that no argument could be; in `presets`, put those of `**kwargs` together.

    `properties` are the names of the arguments, by default those of the parameters.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return {}  # the error of the tool says what is wrong
    named = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
    names = named if properties is None else {*properties}
    variadic = [parameter.name for parameter in parameters if parameter.name not in named]
    others = [name for name in presets if name not in named | names]
    if variadic and others and not hasattr(function, "mcp_name"):  # a server takes what it says, and no more
        fixed = function.keywords if isinstance(function, functools.partial) else {}
        of_partial = {name: value for name, value in fixed.items() if name not in named}
        presets[variadic[0]] = of_partial | {name: presets.pop(name) for name in others}
    return {name: name for name in presets if name in {*named, *variadic} - names}
