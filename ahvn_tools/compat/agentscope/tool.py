"""Tools as in AgentScope: the toolkit, its groups and responses, and functions that it comes with."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import logging
import operator
import os
import pickle
import re
import secrets
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Mapping
from contextlib import aclosing, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, TypedDict, get_args

import ahvn_tools
from ahvn_tools import Call, Next, ToolDefinition, ToolResult, ToolSpec
from ahvn_tools.compat.agentscope.message import OutputBlock, ToolUseBlock, local_time, to_block
from ahvn_tools.compat.agentscope.module import StateModule
from ahvn_tools.compat.agentscope.tracing import trace_toolkit
from ahvn_tools.errors import CallCancelledError, DefinitionError, InvalidParametersError, ToolError
from ahvn_tools.schema import iter_schemas

if TYPE_CHECKING:
    from mcp.types import CallToolResult
    from pydantic import BaseModel

    from ahvn_tools.compat.agentscope import MCPClientBase

__all__ = [
    "RegisteredToolFunction", "ToolGroup", "ToolResponse", "Toolkit", "execute_python_code", "execute_shell_command",
    "insert_text_file", "view_text_file", "write_text_file",
]  # fmt: skip

log = logging.getLogger(__name__)


def create_id() -> str:
    """Return the local time to the millisecond and six random hexadecimal digits."""
    return f"{local_time()}_{secrets.token_hex(3)}"


@dataclass
class ToolResponse:
    """Content blocks, and metadata for the host; each response of a streaming tool replaces the one before.

    >>> from ahvn_tools.compat.agentscope import TextBlock, ToolResponse
    >>> ToolResponse([TextBlock(type="text", text="3")]).content
    [{'type': 'text', 'text': '3'}]
    """

    content: list[OutputBlock]

    metadata: dict[str, Any] | None = None
    """Data for the host; models do not read it."""

    stream: bool = False
    """Whether the response is one of several."""

    is_last: bool = True

    is_interrupted: bool = False
    """Whether the call was cancelled before its end."""

    id: str = field(default_factory=create_id)
    """When the response was made, and random digits."""


def is_response(value: Any) -> bool:
    """Return whether a value is a response: a ToolResponse of this package, or one of AgentScope itself."""
    kind = type(value)
    return issubclass(kind, ToolResponse) or (
        hasattr(kind, "__dataclass_fields__") and kind.__dataclass_fields__.keys() >= _FIELDS
    )


_FIELDS = ToolResponse.__dataclass_fields__.keys()


def text_response(text: str, **fields: Any) -> ToolResponse:
    """Return a response of one text."""
    return ToolResponse([{"type": "text", "text": text}], **fields)


class ResponseStream(AsyncGenerator[ToolResponse, None]):
    """An async generator that may also be awaited, which returns it. The tool runs while it is iterated."""

    def __init__(self, responses: AsyncGenerator[ToolResponse, None]) -> None:
        self._responses = responses

    def __await__(self) -> Generator[None, None, Self]:
        yield from ()
        return self

    def __anext__(self) -> Any:
        """Return the next response."""
        return self._responses.__anext__()

    def asend(self, value: None) -> Any:
        """Return the next response."""
        return self._responses.asend(value)

    def athrow(self, *error: Any) -> Any:
        """Raise an error at the place where the generator waits."""
        return self._responses.athrow(*error)

    def aclose(self) -> Any:
        """End the call."""
        return self._responses.aclose()


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
    kit: ahvn_tools.Toolkit = field(repr=False)
    """The toolkit that runs the tool."""
    is_single: bool
    """Whether a call returns one response: it runs in the task of its caller then, which is faster.

    A generator streams its responses out of a task of its own, as does a function that may return one. The last call
    says what a function without annotation returns.
    """
    is_native: bool = False
    """Whether the tool was added as a tool of the core: what it returns becomes one response."""

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
        name, arguments = tool_call["name"], self._without_extras(tool_call.get("input"))
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
                returned = [result.value] if not result.is_last and result.is_raw and not self.is_native else []
                if in_task and result.error is None and isinstance(result.value, list) and not self.is_native:
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

    def _without_extras(self, arguments: Any) -> Any:
        """Return the arguments without those that the extended model ignores, as pydantic does."""
        ignores = (
            self.extended_model is not None and self.extended_model.model_config.get("extra", "ignore") == "ignore"
        )
        if not ignores or not isinstance(arguments, dict):
            return arguments
        known = self.tool.definition.input_schema["properties"]
        return {name: value for name, value in arguments.items() if name in known}

    async def _postprocess(self, tool_call: ToolUseBlock, response: ToolResponse) -> ToolResponse:
        if self.postprocess_func is None:
            return response
        changed = self.postprocess_func(tool_call, response)
        return (await changed if inspect.isawaitable(changed) else changed) or response

    def _to_last_response(self, result: ToolResult, latest: ToolResponse | None) -> Any:
        """Return what follows the latest response, or None."""
        if result.error is not None and result.error.code == CallCancelledError.code:
            return _interrupt(latest)
        if result.error is not None and (self.is_native or result.error.exception is not None):
            return self._to_error_response(result.error.exception, result.error.reason, latest)
        if not is_response(result.value) and not result.is_raw and not self.is_native:
            return result.to_mcp()  # the tool returned a result of MCP
        if latest is None and isinstance(result.value, list) and result.value == [] and result.blocks == ():
            return None  # of a generator without items
        response = latest or (to_response(result.to_mcp()) if self.is_native else _require_response(result.value))
        answer = result.meta.get("structured")
        if answer is not None:
            known = {"success": True, "response_msg": answer, "structured_output": answer.model_dump()}
            content = response.content or text_response("Successfully generated response.").content
            response = replace(response, content=content, metadata={**known, **(response.metadata or {})})
        response = response if response.is_last else replace(response, is_last=True)
        return None if response is latest else response

    def _to_error_response(self, error: BaseException | None, reason: str, latest: ToolResponse | None) -> ToolResponse:
        """Return what a model reads of an error: the reason, in which presets are masked."""
        if latest is not None and error is not None:
            raise error
        if self.extended_model is not None and isinstance(error, InvalidParametersError):
            metadata = {"success": False, "response_msg": None}
            return text_response(f"Arguments Validation Error: {reason}", metadata=metadata)
        prefix = "Error" if self.mcp_name is None else "Error occurred when calling MCP tool"
        return text_response(f"{prefix}: {reason}")


class RegisteredTool(ToolSpec):
    """A tool with what the toolkit knows about it."""

    registered: RegisteredToolFunction


def registered_function(tool: Any, kit: ahvn_tools.Toolkit) -> RegisteredToolFunction:
    """Return what was registered as this tool of a toolkit, or what describes a tool of the core."""
    if hasattr(tool, "registered"):
        registered: RegisteredToolFunction = tool.registered
        return replace(registered, tool=tool)
    return RegisteredToolFunction(
        tool=tool, kit=kit, original_func=tool.function, preset_kwargs={}, postprocess_func=None, given_schema=None,
        is_single=True, is_native=True,
    )  # fmt: skip


def to_text(value: Any) -> str:
    """Return the texts of a response, or of all responses of a generator; no text for anything else."""
    responses = value if isinstance(value, list) else [value]
    blocks = [block for response in responses if is_response(response) for block in response.content]
    return "\n".join(str(block.get("text", f"[{block['type']}]")) for block in blocks)


def to_response(sent: CallToolResult) -> ToolResponse:
    """Return a result of MCP as a response; its `meta` becomes the metadata."""
    return ToolResponse([to_block(block) for block in sent.content], metadata=dict(sent.meta or {}) or None)


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


def from_schema(function: Any, schema: Any, presets: dict[str, Any], options: dict[str, Any]) -> ToolSpec:
    """Return the tool that a function schema describes; its name is that of the function if this has one.

    Raises ValueError for a schema that is none, or that does not fit the function.
    """
    match schema:
        case {"type": "function", "function": {"parameters": {"properties": dict()}}}:
            schema = _without_presets(schema, presets, function)
            options["binds"] = bind_hidden(function, presets, schema["function"]["parameters"]["properties"])
        case {"type": "function", "function": dict()}:
            options["binds"] = bind_hidden(function, presets, ())
        case _:
            raise ValueError('A json_schema is {"type": "function", "function": {"name": …, "parameters": {…}}}.')
    named = {"name": function_name(function)} if function_name(function) else {}
    body = getattr(function, "body", function) if hasattr(function, "mcp_name") else function
    try:
        return RegisteredTool.from_openai({**schema, "function": schema["function"] | named}, body, **options)
    except DefinitionError as error:
        raise ValueError(f"The json_schema cannot be used. {error}") from error


def function_name(function: Any) -> str | None:
    """Return the name of a function, also of one in a partial; None for a lambda and an object without a name."""
    function = function.func if isinstance(function, functools.partial) else function
    name = getattr(function, "__name__", getattr(function, "name", None))
    return name if isinstance(name, str) and re.fullmatch(r"[\w-]+", name) else None


def named_parameters(function: Callable[..., Any]) -> set[str]:
    """Return the names of the parameters of a function without `**kwargs`."""
    return {name for name, one in _parameters(function).items() if one.kind is not one.VAR_KEYWORD}


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except ValueError:
        return {}  # the error of the tool says what is wrong


def _without_presets(schema: dict[str, Any], presets: dict[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    """Return a function schema without the presets that are parameters of the function."""
    hidden = named_parameters(function) & presets.keys()
    parameters = dict(schema["function"]["parameters"])
    parameters["properties"] = {name: item for name, item in parameters["properties"].items() if name not in hidden}
    if isinstance(required := parameters.get("required"), list):
        parameters["required"] = [name for name in required if name not in hidden]
    return {**schema, "function": {**schema["function"], "parameters": parameters}}


def bind_hidden(
    function: Callable[..., Any], presets: dict[str, Any], properties: Collection[str] | None = None
) -> dict[str, str]:
    """Return the option `binds` for presets that no argument could be; in `presets`, put those of `**kwargs` together.

    `properties` are the names of the arguments, by default those of the parameters.
    """
    named = named_parameters(function)
    names = named if properties is None else {*properties}
    variadic = [name for name in _parameters(function) if name not in named]
    others = [name for name in presets if name not in named | names]
    if variadic and others and not hasattr(function, "mcp_name"):  # a server takes what it says, and no more
        fixed = function.keywords if isinstance(function, functools.partial) else {}
        of_partial = {name: value for name, value in fixed.items() if name not in named}
        presets[variadic[0]] = of_partial | {name: presets.pop(name) for name in others}
    return {name: name for name in presets if name in {*named, *variadic} - names}


BASIC_GROUP: Final = "basic"

RESET_DESCRIPTION: Final = """\
Choose the groups of tools that you need now. Each call sets the state of all groups: a group that you do not set to \
true is switched off, even if it is active now. The answer has the notes about the active groups, which you must follow.

The active groups are named at the end of this text. If none is named, none is active."""


@dataclass(frozen=True)
class ToolGroup:
    """Several tools that are switched on and off together, as they are now; methods of the toolkit change it."""

    name: str

    active: bool

    description: str
    """What the group is for."""

    notes: str | None = None
    """How to use its tools, for a model while the group is active."""


def to_names(parameter: str, names: Any) -> list[str]:
    """Return one name or a list of names as a list. Raises TypeError for anything else."""
    if not isinstance(names, str | list):
        raise TypeError(f"The {parameter} must be a list of strings, but got {type(names)}.")
    return [names] if isinstance(names, str) else names


NamesakeStrategy = Literal["raise", "override", "skip", "rename"]

SKILL_INSTRUCTION: Final = (
    "# Agent Skills\n"
    "A skill is a folder with instructions, scripts and other files for one kind of task. "
    "Before you use a skill, read its `SKILL.md` file."
)
SKILL_TEMPLATE: Final = '## {name}\n{description}\nThe instructions are in "{dir}/SKILL.md".'

BACKGROUND: Final = (
    "The toolkit of the core has calls in the background: toolkit.kit.start(name, arguments), and for a model "
    "toolkit.kit.add(*toolkit.kit.background_tools())."
)
"""What replaces `async_execution` and the methods for its tasks."""

Handler: TypeAlias = Callable[..., ResponseStream]
Middleware: TypeAlias = Callable[[dict[str, Any], Handler], AsyncGenerator[ToolResponse, None]]


class AgentSkill(TypedDict):
    """A folder of instructions for an agent."""

    name: str
    description: str
    dir: str


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

    def __init__(self, agent_skill_instruction: str | None = None, agent_skill_template: str | None = None) -> None:
        """The two texts are for `get_agent_skill_prompt`; the template has `{name}`, `{description}` and `{dir}`."""
        super().__init__()
        self._kit = ahvn_tools.Toolkit("agentscope", mask_errors=False)
        self._lock = threading.RLock()
        """Held while tools are changed, and while groups are listed or changed."""
        self._skills = ahvn_tools.Toolkit("skills")
        """Has the agent skills. An agent reads their files with its own tools, so `read_skill` is none of these."""
        self._skill_instruction = agent_skill_instruction or SKILL_INSTRUCTION
        self._skill_template = agent_skill_template or SKILL_TEMPLATE
        self._middlewares: list[Middleware] = []
        self._is_traced = False
        self._schemas: tuple[list[ToolDefinition], bytes] = [], pickle.dumps([])
        """The definitions of the last `get_json_schemas`, and its answer."""

    def __getattr__(self, name: str) -> Any:
        """Say where calls in the background are."""
        advice = f". {BACKGROUND}" if name in {"view_task", "wait_task", "cancel_task"} else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{advice}", name=name, obj=self)

    @property
    def kit(self) -> ahvn_tools.Toolkit:
        """The toolkit of the core that holds the tools. What is added to it is a tool here, too."""
        return self._kit

    @property
    def skills(self) -> dict[str, AgentSkill]:
        """The agent skills by name. It is a copy."""
        skills = self._skills.skills.values()
        return {one.name: AgentSkill(name=one.name, description=one.description, dir=one.location) for one in skills}

    @property
    def tools(self) -> dict[str, RegisteredToolFunction]:
        """The tools by name, those of inactive groups too. It is a copy."""
        return {tool.name: registered_function(tool, self._kit) for tool in self._kit}

    async def _reset_by_call(self, call: Call, _next: Next) -> ToolResult:
        """Answer a model's call of `reset_equipped_tools`: a middleware."""
        return ToolResult(await self.reset_equipped_tools(**call.arguments))

    def register_tool_function(  # noqa: PLR0917  # as callers pass them
        self, tool_func: Callable[..., Any] | ToolSpec, group_name: str = BASIC_GROUP,
        preset_kwargs: dict[str, Any] | None = None, func_name: str | None = None, func_description: str | None = None,
        json_schema: dict[str, Any] | None = None, include_long_description: bool = True,
        include_var_positional: bool = False, include_var_keyword: bool = False,
        postprocess_func: PostprocessFunction | None = None, namesake_strategy: NamesakeStrategy = "raise",
        async_execution: bool = False,
    ) -> None:  # fmt: skip
        """Register a function that returns or yields responses, or a ToolSpec. Nothing that is passed is changed.

        `preset_kwargs` are arguments that a model neither sees nor sets. `json_schema` is the function schema, instead
        of one made from the signature and the docstring. `postprocess_func` gets each response of a call, and returns
        another one or None. `namesake_strategy` decides about a name that is taken. `async_execution=True` is refused:
        the toolkit of the core has calls in the background.

        Raises ValueError for an unknown group or strategy, a name that is taken or is none, and a preset that does not
        fit, and for a `json_schema` that is none or does not fit the function.
        """
        if async_execution:
            raise ValueError(f"async_execution is not available. {BACKGROUND}")
        if func_name and not re.fullmatch(r"[\w-]+", func_name):
            raise ValueError(f"func_name is a name, not {func_name!r}. Pass a description as func_description=….")
        if isinstance(tool_func, ToolSpec):
            if json_schema is not None or postprocess_func is not None:
                raise ValueError("A ToolSpec has its own: leave out json_schema and postprocess_func.")
            changes = {"name": func_name, "description": func_description, "preset": preset_kwargs}
            given = {name: option for name, option in changes.items() if option}
            self._add(tool_func, [func_name or tool_func.name], group_name, namesake_strategy, given)
            return
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
                schemas = [registered_function(self._kit[each.name], self._kit).describe(each) for each in definitions]
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
        if hasattr(tool, "registered"):
            tool.registered.extended_model = model

    async def register_mcp_client(  # noqa: PLR0917  # as callers pass them
        self, mcp_client: MCPClientBase, group_name: str = BASIC_GROUP, enable_funcs: list[str] | None = None,
        disable_funcs: list[str] | None = None, preset_kwargs_mapping: dict[str, dict[str, Any]] | None = None,
        postprocess_func: PostprocessFunction | None = None, namesake_strategy: NamesakeStrategy = "raise",
        execution_timeout: float | None = None, *, wrap_tool_result: bool = True,
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
        before = self._skills.skills.keys()
        self._skills.add_skills(Path(skill_dir))
        if self._skills.skills.keys() == before:
            raise ValueError(f"The agent skill in {skill_dir!r} is already registered in the toolkit.")

    def remove_agent_skill(self, name: str) -> None:
        """Remove an agent skill. An unknown name is ignored."""
        if name in self._skills.skills:
            self._skills.remove_skills(name)

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
            return ResponseStream(registered_function(tool, self._kit).respond(tool_call, is_traced=self._is_traced))
        problem = f"FunctionInactiveError: The function {name!r} is in the inactive group {tool.group!r}."
        advice = "Activate the tool group by calling 'reset_equipped_tools' first to use this tool."
        return ResponseStream(_answer(f"{problem} {advice}"))

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
        names = to_names("group_names", group_names)
        if BASIC_GROUP in names:
            log.warning("The 'basic' tool group is always active, skipping it.")
        with self._lock:
            self._kit.set_groups({name: active for name in self.groups if name in names})

    def remove_tool_groups(self, group_names: str | list[str]) -> None:
        """Remove groups with their tools. Unknown names are ignored. Raises ValueError for the basic group."""
        names = to_names("group_names", group_names)
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


def _call_middleware(middleware: Middleware, handler: Handler, **kwargs: Any) -> ResponseStream:
    return ResponseStream(middleware(kwargs, handler))


async def _answer(text: str) -> AsyncGenerator[ToolResponse, None]:
    yield text_response(text)


KEPT_BYTES = 200_000
"""How much of stdout, and of stderr, is returned: the beginning and the end of a longer output."""

_TAG = re.compile("<(?=/?(?:returncode|stdout|stderr)>)")
_PROXY = re.compile("(?:http|https|ftp|all|no)_proxy", re.IGNORECASE)


async def execute_python_code(code: str, timeout: float = 300, **kwargs: Any) -> ToolResponse:  # noqa: ARG001  # ignored
    """Execute Python code in a new process, and return its return code, standard output and standard error.

    Args:
        code: The Python code. Print what you need.
        timeout: Seconds after which the code and all that it started are stopped.
    """
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return await _execute([sys.executable, "-u", _write_script(folder, code)], timeout, "code")


async def execute_shell_command(command: str, timeout: float = 300, **kwargs: Any) -> ToolResponse:  # noqa: ARG001  # ignored
    """Execute a shell command, and return its return code, standard output and standard error.

    Args:
        command: The command line.
        timeout: Seconds after which the command and all that it started are stopped.
    """
    return await _execute(["/bin/sh", "-c", command], timeout, "command")


def _write_script(folder: str, code: str) -> str:
    script = Path(folder, "code.py")
    script.write_text(code, "utf-8", errors="surrogatepass")
    return str(script)


async def _execute(program: list[str], timeout: float, what: str) -> ToolResponse:
    from ahvn_tools.builtins import Confinement, ProcessLimits, arun_process, clean_environment  # few programs need it

    proxies = [name for name, value in os.environ.items() if _PROXY.fullmatch(name) and "@" not in value]
    try:
        done = await arun_process(
            program, folder=Path.cwd(), confinement=Confinement(sandbox="none"),
            limits=ProcessLimits(timeout=timeout, file_bytes=None, kept_bytes=KEPT_BYTES, spooled_bytes=0),
            environment=clean_environment("VIRTUAL_ENV", *proxies, HOME=str(Path.home()), PYTHONUTF8="1"),
        )  # fmt: skip
    except (ToolError, FileNotFoundError) as error:  # the latter: the current folder was removed
        return _to_output_response(-1, "", str(error))
    stderr = done.stderr.text
    if done.ended_by == "timeout":
        late = f"TimeoutError: The {what} execution exceeded the timeout of {timeout} seconds."
        stderr = f"{stderr}\n{late}" if stderr else late
    if done.ended_by == "stopped":
        stderr += f"The {what} ended the process that watched it, and was ended itself."
    return _to_output_response(-1 if done.exit_code is None else done.exit_code, done.stdout.text, stderr)


def _to_output_response(returncode: int, stdout: str, stderr: str) -> ToolResponse:
    parts = {"returncode": returncode, "stdout": stdout, "stderr": stderr}
    text = "".join(f"<{name}>{_TAG.sub('&lt;', str(part))}</{name}>" for name, part in parts.items())
    return text_response(text, metadata=parts)


VARIABLE = "AGENTSCOPE_DANGEROUS_TEXT_IO"
"""What happens to a call: `deny` blocks it, `warn` (the default) logs a warning, `allow` only runs it."""
BLOCKED = "Blocked by policy: raw OS file access is disabled. Use FileSystem service tools instead."

REST_HINT = "Go on with execute_python_code, such as: print(list(open(FILE))[{line} - 1][{character} - 1:][:2000])"
"""These functions read whole lines only."""


async def view_text_file(file_path: str, ranges: list[int] | None = None) -> ToolResponse:
    """View a text file with the numbers of its lines.

    Args:
        file_path: The path of the file.
        ranges: The first and the last line to view, as in [1, 100]; negative ones count from the end, so that
            [-100, -1] are the last 100 lines. Without it, the whole file.
    """
    return await _call_file_tool("view_text_file", file_path, ranges=ranges)


async def write_text_file(file_path: str, content: str, ranges: list[int] | None = None) -> ToolResponse:
    """Create a text file, replace its whole content, or replace some of its lines.

    Args:
        file_path: The path of the file.
        content: The new text.
        ranges: The first and the last line that the content replaces, as in [1, 100]; negative ones count from the end.
            Without it, the whole file is replaced.
    """
    return await _call_file_tool("write_text_file", file_path, content=content, ranges=ranges)


async def insert_text_file(file_path: str, content: str, line_number: int) -> ToolResponse:
    """Insert lines into a text file.

    Args:
        file_path: The path of the file.
        content: The new lines.
        line_number: The number of the line before which the content is inserted, from 1; the number of lines plus 1
            inserts it at the end.
    """
    return await _call_file_tool("insert_text_file", file_path, content=content, line_number=line_number)


async def _call_file_tool(tool: str, file_path: str, **arguments: Any) -> ToolResponse:
    from ahvn_tools.builtins import Workspace  # few programs need it

    policy = os.environ.get(VARIABLE, "").strip().lower()
    policy = policy if policy in {"deny", "allow"} else "warn"
    metadata = {
        "dangerous_io": True, "policy": policy, "tool": tool, "path": file_path, "blocked": policy == "deny",
        "reason": "bypass_filesystem",
    }  # fmt: skip
    if policy == "deny":
        return text_response(BLOCKED, metadata=metadata)
    if policy == "warn":
        log.warning("%s uses %.500r outside of any workspace. Set %s to deny or allow.", tool, file_path, VARIABLE)
    if not _has_current_folder():
        return text_response("Error: The current folder does not exist any more.", metadata=metadata)
    files = Workspace([".", "/"], approve="never", hard_links="allow")
    files.rest_hint = REST_HINT
    path = _expand(file_path)
    result = await files.toolspec(tool).aexec(uri=path, **arguments)
    text = result.text if result.error is None else _error_text(tool, path, result.text)
    return text_response(text, metadata=metadata)


def _has_current_folder() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _expand(path: Any) -> Any:
    if not isinstance(path, str | os.PathLike):  # the tool says what it is
        return path
    return os.path.expanduser(path)  # noqa: PTH111  # Path would change the spelling of other paths


def _error_text(tool: str, path: Any, text: str) -> str:
    if tool == "write_text_file":
        return f"Error: {text.removeprefix('InvalidArgumentError: ')}"
    if text.startswith("InvalidArgument"):
        return text
    has_path = isinstance(path, str) and os.path.lexists(path)  # Path raises for some paths
    if has_path and not os.path.isfile(path):  # noqa: PTH113  # as above
        return f"Error: The path {path} is not a file."
    return f"Error: The file {path} does not exist." if text.startswith("There is no file") else f"Error: {text}"
