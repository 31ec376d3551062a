"""Toolkit: tools in groups that are switched on and off, with the responses of their calls."""

from __future__ import annotations

import copy
import functools
import inspect
import operator
import pickle
import re
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, get_args

import ahvn_tools
from ahvn_tools import Call, Next, ToolDefinition, ToolResult, ToolSpec
from ahvn_tools.compat.agentscope.message import ToolUseBlock
from ahvn_tools.compat.agentscope.tool.function_spec import bind_hidden, from_schema
from ahvn_tools.compat.agentscope.tool.groups import BASIC_GROUP, RESET_DESCRIPTION, ToolGroups, to_names
from ahvn_tools.compat.agentscope.tool.registered_function import (
    PostprocessFunction,
    RegisteredTool,
    RegisteredToolFunction,
    registered_function,
    to_text,
)
from ahvn_tools.compat.agentscope.tool.response import ResponseStream, ToolResponse, text_response
from ahvn_tools.compat.agentscope.tracing import trace_toolkit

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ahvn_tools.compat.agentscope import MCPClientBase

NamesakeStrategy = Literal["raise", "override", "skip", "rename"]

SKILL_INSTRUCTION: Final = (
    "# Agent Skills\n"
    "A skill is a folder with instructions, scripts and other files for one kind of task. "
    "Before you use a skill, read its `SKILL.md` file."
)
SKILL_TEMPLATE: Final = '## {name}\n{description}\nThe instructions are in "{dir}/SKILL.md".'

_FRONT_MATTER: Final = re.compile(r"\ufeff?---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)

Handler: TypeAlias = Callable[..., ResponseStream]
Middleware: TypeAlias = Callable[[dict[str, Any], Handler], AsyncGenerator[ToolResponse, None]]


class AgentSkill(TypedDict):
    """A folder of instructions for an agent."""

    name: str
    description: str
    dir: str


class Toolkit(ToolGroups):
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

    def __init__(self, agent_skill_instruction: str | None = None, agent_skill_template: str | None = None) -> None:
        """The two texts are for `get_agent_skill_prompt`; the template has `{name}`, `{description}` and `{dir}`."""
        super().__init__()
        self.skills: dict[str, AgentSkill] = {}
        """The agent skills by name."""
        self._skill_instruction = agent_skill_instruction or SKILL_INSTRUCTION
        self._skill_template = agent_skill_template or SKILL_TEMPLATE
        self._middlewares: list[Middleware] = []
        self._is_traced = False
        self._schemas: tuple[list[ToolDefinition], bytes] = [], pickle.dumps([])
        """The definitions of the last `get_json_schemas`, and its answer."""

    @property
    def tools(self) -> dict[str, RegisteredToolFunction]:
        """The tools by name, those of inactive groups too. It is a copy."""
        return {tool.name: registered_function(tool) for tool in self._kit}

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
            texts = {"name": "reset_equipped_tools", "description": RESET_DESCRIPTION}
            spec, schema = self._kit.groups_tool(**{**texts, **options}), None
        elif schema is not None:
            spec = from_schema(function, schema, presets, options)
        else:
            binds = bind_hidden(function, presets)
            options |= {"convert": False, "description_separator": "\n", "binds": binds}
            spec = RegisteredTool.from_function(function, **options)
        plan, returned = spec.compiled.plan, getattr(function, "__annotations__", {}).get("return", Any)
        says_what = returned is not Any and returned != "Any"
        spec.registered = RegisteredToolFunction(
            tool=spec, kit=self._kit, original_func=function, preset_kwargs=dict(preset_kwargs),
            postprocess_func=postprocess, given_schema=copy.deepcopy(schema),
            is_single=says_what and not (plan.output.is_stream or plan.takes_context),
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
            for name in group_names or []:
                self._require_group(name)
            kit = self._kit if group_names is None else self._kit.select(groups=group_names)
            definitions = kit.definitions()
            known, answer = self._schemas
            if len(known) != len(definitions) or not all(map(operator.is_, known, definitions)):
                schemas = [registered_function(self._kit[each.name]).describe(each) for each in definitions]
                self._schemas = definitions, (answer := pickle.dumps(schemas))
            copies: list[dict[str, Any]] = pickle.loads(answer)  # noqa: S301  # made here; faster than a deepcopy
            return copies

    def set_extended_model(
        self, finish_function_name: str | None = None, structured_model: type[BaseModel] | None = None, *,
        func_name: str | None = None, model: type[BaseModel] | None = None,
    ) -> None:  # fmt: skip
        """Let a tool also take the fields of a pydantic model, as the structured answer of an agent; None undoes it.

        `func_name` and `model` are other names of the two parameters.

        The fields are validated first. The last response of a call has the instance as `metadata["response_msg"]`,
        unless the function sets it, and its dict as `metadata["structured_output"]`. Raises TypeError for something
        else than a model, ValueError for an unknown tool and for a field that is also a parameter of the tool.
        """
        from pydantic import BaseModel  # slow, and few toolkits need it

        name = finish_function_name or func_name
        model = structured_model or model
        is_model = isinstance(model, type) and issubclass(model, BaseModel)
        if model is not None and not is_model:
            raise TypeError(f"The structured_model must be a pydantic model, but got {model!r}.")
        if name is None or name not in self._kit:
            raise ValueError(f"Tool function {name!r} not found in the toolkit.")
        tool: Any = self._kit[name]
        self._kit.finish_with(name, model)
        tool.registered.extended_model = model

    async def register_mcp_client(  # noqa: PLR0917  # as callers pass them
        self, mcp_client: MCPClientBase, group_name: str = BASIC_GROUP, enable_funcs: list[str] | None = None,
        disable_funcs: list[str] | None = None, preset_kwargs_mapping: dict[str, dict[str, Any]] | None = None,
        postprocess_func: PostprocessFunction | None = None, *, wrap_tool_result: bool = True,
        namesake_strategy: NamesakeStrategy = "raise", execution_timeout: float | None = None,
    ) -> None:  # fmt: skip
        """Register the tools of an MCP server.

        `execution_timeout` is in seconds, for each call. Without `wrap_tool_result` a call yields MCP's CallToolResult.
        Raises ValueError for tools in `enable_funcs` that the server does not have, and for a tool that is also in
        `disable_funcs`. If one tool cannot be registered, none is.
        """
        names = [tool.name for tool in await mcp_client.list_tools()]
        enabled = names if enable_funcs is None else to_names("enable_funcs", enable_funcs)
        disabled = to_names("disable_funcs", disable_funcs or [])
        mapping = preset_kwargs_mapping or {}
        timeout: Any = execution_timeout
        if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
            raise ValueError(f"execution_timeout is a number of seconds above 0, not {timeout!r}.")
        if unknown := {*enabled, *mapping} - set(names):
            raise ValueError(f"The MCP client {mcp_client.name!r} has no tools {sorted(unknown)}. Known: {names}.")
        if enable_funcs is not None and (both := set(enabled) & set(disabled)):
            raise ValueError(f"Tools are both in enable_funcs and in disable_funcs: {sorted(both)}.")
        chosen = [name for name in names if name in enabled and name not in disabled]
        callable_function = mcp_client.get_callable_function
        functions = [await callable_function(name, wrap_tool_result, execution_timeout) for name in chosen]
        staged = ahvn_tools.Toolkit("mcp", on_duplicate="rename")
        for function in functions:
            spec, added = self._make(
                function, function.json_schema, mapping.get(function.name, {}), postprocess_func, {}
            )
            staged.add(spec, **added)
        self._add(staged, [tool.name for tool in staged], group_name, namesake_strategy, {})

    async def remove_mcp_clients(self, client_names: str | list[str]) -> None:
        """Remove the tools of MCP clients. The clients stay connected."""
        names = to_names("client_names", client_names)
        with self._lock:
            self._kit.remove(*[name for name, function in self.tools.items() if function.mcp_name in names])

    remove_mcp_servers = remove_mcp_clients

    def register_agent_skill(self, skill_dir: str) -> None:
        """Add a folder with a `SKILL.md` file, whose YAML front matter has `name` and `description`.

        Raises ValueError for another folder, and for a name that is taken.
        """
        import yaml  # few programs need it

        path = Path(skill_dir, "SKILL.md")
        if not path.is_file():
            raise ValueError(f"The skill directory {skill_dir!r} has no SKILL.md file.")
        found = _FRONT_MATTER.match(path.read_text("utf-8"))
        data = yaml.safe_load(found[1]) if found else None
        texts = data if isinstance(data, dict) else {}
        if not (texts.get("name") and texts.get("description")):
            raise ValueError(
                f"The SKILL.md file in {skill_dir!r} must have a YAML front matter with `name` and `description`."
            )
        name, description = str(texts["name"]), str(texts["description"])
        if name in self.skills:
            raise ValueError(f"An agent skill with name {name!r} is already registered in the toolkit.")
        self.skills[name] = AgentSkill(name=name, description=description, dir=str(skill_dir))

    def remove_agent_skill(self, name: str) -> None:
        """Remove an agent skill. An unknown name is ignored."""
        self.skills.pop(name, None)

    def get_agent_skill_prompt(self) -> str | None:
        """Return the text about all agent skills for a system prompt, or None if there is none.

        A skill is no tool: the agent reads its files, for example with `view_text_file`.
        """
        texts = [self._skill_template.format(**skill) for skill in self.skills.values()]
        return "\n".join([self._skill_instruction, *texts]) if texts else None

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
        if name not in self._kit:
            return ResponseStream(_answer(f"FunctionNotFoundError: Cannot find the function named {name}"))
        tool = self._kit[name]
        if tool.group == BASIC_GROUP or self._kit.groups.get(tool.group):
            return ResponseStream(registered_function(tool).respond(tool_call, is_traced=self._is_traced))
        problem = f"FunctionInactiveError: The function {name!r} is in the inactive group {tool.group!r}."
        advice = "Activate the tool group by calling 'reset_equipped_tools' first to use this tool."
        return ResponseStream(_answer(f"{problem} {advice}"))

    def state_dict(self) -> dict[str, Any]:
        """Return the active groups, all groups, and the group of each tool, as JSON data without presets."""
        return {**super().state_dict(), "tools": {name: function.group for name, function in self.tools.items()}}


def _call_middleware(middleware: Middleware, handler: Handler, **kwargs: Any) -> ResponseStream:
    return ResponseStream(middleware(kwargs, handler))


async def _answer(text: str) -> AsyncGenerator[ToolResponse, None]:
    yield text_response(text)
