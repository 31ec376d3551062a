"""ToolSpec: one tool, with mutable state and parameters bound to it."""

from __future__ import annotations

import copyreg
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Self, Unpack

from pydantic_core import ValidationError

from ahvn_tools import execution, text
from ahvn_tools.binding import Binding, StateScopes, bindable_parameters
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import BindError, DefinitionError, ToolSpecError, near_misses
from ahvn_tools.execution import sync_call
from ahvn_tools.execution.compiled import CompiledTool
from ahvn_tools.results import ToolResult
from ahvn_tools.schema.annotations import caller_locals
from ahvn_tools.schema.dialects.strict import to_strict as strict_schema
from ahvn_tools.sources import code as code_source
from ahvn_tools.sources import function as function_source
from ahvn_tools.sources.injection import InjectedBody
from ahvn_tools.sources.options import ToolOptions
from ahvn_tools.state import UNSET, StateKey, copy_containers, copy_state
from ahvn_tools.template import ToolTemplate

if TYPE_CHECKING:
    from fastmcp.tools import Tool
    from mcp_types import Tool as WireTool

    from ahvn_tools import pickling
    from ahvn_tools.mcp.client.remote_server import RemoteServer

JsonObject = dict[str, Any]
Function = Callable[..., Any]


class ToolSpec:
    """One tool: define it once, bind what the model must not see, call it anywhere, show it to any model.

    >>> def greet(name: str, tone: str = "plain") -> str:
    ...     '''Greet somebody.'''
    ...     return f"{tone}: hello, {name}"
    >>> spec = ToolSpec.from_function(greet).bind("tone", "style.tone", "warm")
    >>> spec(name="Ann")
    'warm: hello, Ann'
    >>> spec.state["style"]["tone"] = "formal"
    >>> spec(name="Ann")
    'formal: hello, Ann'
    >>> list(spec.params)
    ['name']
    """

    _secrets: frozenset[StateKey] = frozenset()
    """Keys that were ever bound as secret here: unbinding makes nothing in the state public."""

    def __init__(
        self,
        template: ToolTemplate | None = None,
        body: Function | None = None,
        *,
        compiled: CompiledTool | None = None,
    ) -> None:
        """Take what a source yields (and the sealed recipe where one is shared); the `from_…` doors make specs."""
        if not isinstance(template, ToolTemplate) or body is None:
            raise DefinitionError(
                "A ToolSpec is made by one of its doors: from_function (or @tool), from_code, from_mcp, from_client."
            )
        self._lock = threading.Lock()
        self._compiled = compiled or CompiledTool(template, template.bindings)
        self._body: Function = body
        self._state: MutableMapping[str, Any] = {}
        self._adapter: tuple[CompiledTool, Tool] | None = None
        self.examples = template.examples

    # doors in

    @classmethod
    def from_function(cls, func: Function, /, **options: Unpack[ToolOptions]) -> Self:
        """Make a spec from a callable of any kind. Options: see `ToolOptions`.

        Raises DefinitionError for what cannot be a tool, and for an unknown option.
        """
        return cls(*function_source.build_template(func, options, namespace=caller_locals()))

    @classmethod
    def from_code(
        cls,
        code: str,
        func_name: str | None = None,
        env: Mapping[str, Any] | None = None,
        **options: Unpack[ToolOptions],
    ) -> Self:
        """Execute code text and make a spec from the function it defines. Trust the code: it can do what you can do.

        `func_name` chooses among several functions, `env` gives names that the code may use. Raises DefinitionError
        (a ValueError) when there is no function, more than one to choose from, or none of that name (seed 003, 3.3).
        """
        return cls(*code_source.build_template(code, func_name, env, options))

    @classmethod
    def from_mcp(cls, tool: Tool | WireTool, *, client: Any = None, **options: Unpack[ToolOptions]) -> Self:
        """Make a spec from a FastMCP Tool of any kind, or from an `mcp.types.Tool`.

        The latter is called through `client`; without one everything but calling works.
        """
        from ahvn_tools.mcp.client.borrowed_client import make_body
        from ahvn_tools.sources import mcp as mcp_source

        if client is None:
            return cls(*mcp_source.build_template(tool, options))
        promised = options.get("output_schema") or tool.output_schema
        return cls(*mcp_source.build_template(tool, options, make_body(client, tool.name, output_schema=promised)))

    @classmethod
    async def from_client(cls, client: Any, tool_name: str, **options: Unpack[ToolOptions]) -> Self:
        """Make a spec from a tool of a connected MCP client. Calls are limited to 30 seconds unless `timeout` is given.

        Raises ToolLookupError for a name that the server does not list, ToolConnectionError when it cannot be asked.
        """
        import asyncio

        from ahvn_tools.mcp.client.borrowed_client import find_tool, make_body
        from ahvn_tools.sources import mcp as mcp_source

        tool = await find_tool(client, tool_name)
        promised = options.get("output_schema") or tool.output_schema
        send = make_body(client, tool_name, asyncio.get_running_loop(), output_schema=promised)
        return cls(*mcp_source.build_template(tool, options, send))

    @classmethod
    def from_server(cls, server: RemoteServer, *, timeout: float | None = 30) -> dict[str, Self]:
        """Make specs from all tools of an MCP server, by their names there: `from_server(mcp.connect("…"))`.

        `timeout`, in seconds, is for each call. Raises DefinitionError for one that is none.
        """
        return {name: cls(recipe, body) for name, (recipe, body) in server.templates(timeout=timeout).items()}

    # what it is

    @property
    def compiled(self) -> CompiledTool:
        """What its calls go by now: recipe, bindings and plan. For what is built on specs; a change makes a new one."""
        return self._compiled

    @property
    def body(self) -> Function:
        """What runs its calls, with every parameter. For what is built on specs: nothing is bound or checked here."""
        return self._body

    @property
    def state_scopes(self) -> StateScopes:
        """The states that its calls ask, in their order. For what is built on specs."""
        return (self._state,)

    @property
    def name(self) -> str:
        """The name that models call it by."""
        return self._compiled.template.name

    @property
    def title(self) -> str | None:
        """The name that people are shown."""
        return self._compiled.template.title

    @property
    def description(self) -> str:
        """What it does."""
        return self._compiled.template.texts.description

    @property
    def tags(self) -> frozenset[str]:
        """Its tags."""
        return self._compiled.template.tags

    @property
    def timeout(self) -> float | None:
        """Seconds a call may take; None: no limit."""
        return self._compiled.template.timeout

    @property
    def function(self) -> Function:
        """The function it was made from, or that the FastMCP tool it was made from runs; else what runs its calls."""
        body = self._body.function if isinstance(self._body, InjectedBody) else self._body
        function: Function = getattr(self._compiled.template.tool, "fn", body)
        return function

    @property
    def source(self) -> str | None:
        """The code text it was made from; None for a spec that was made otherwise."""
        return self._compiled.template.source

    @property
    def definition(self) -> ToolDefinition:
        """What a model is shown of it: a frozen value without the bound parameters."""
        return self._compiled.definition

    @property
    def input_schema(self) -> JsonObject:
        """A fresh copy of the JSON Schema of its visible parameters."""
        schema: JsonObject = self.definition.input_schema
        return schema

    @property
    def params(self) -> JsonObject:
        """A fresh copy of the properties of `input_schema` (seed 003, 6.1)."""
        properties: JsonObject = self.input_schema.get("properties", {})
        return properties

    @property
    def output_schema(self) -> JsonObject | None:
        """A fresh copy of the JSON Schema of `structured_content`; None when nothing is promised."""
        schema: JsonObject | None = self.definition.output_schema
        return schema

    # binding and state

    @property
    def state(self) -> MutableMapping[str, Any]:
        """The values that bound parameters are read from, at each call. Change it in place or replace it."""
        return self._state

    @state.setter
    def state(self, state: MutableMapping[str, Any]) -> None:
        if not isinstance(state, Mapping):
            raise TypeError(f"state must be a mapping such as a dict, not {type(state).__name__}.")
        self._state = state

    @property
    def binds(self) -> Mapping[str, str]:
        """A read-only view: bound parameter -> dotted state key."""
        return self._compiled.state_keys

    def bind(
        self,
        param: str,
        state_key: str | None = None,
        default: Any = UNSET,
        *,
        resolver: Callable[..., Any] | None = None,
        secret: bool = False,
    ) -> Self:
        """Take a parameter away from the model and fill it from the state at call time. Return the spec.

        `state_key` is a dotted key (`user.id`, `items[0].name`), the parameter's name by default. `default` is stored
        in the state when nothing is there, and remembered. `resolver`, sync or async, gives the value instead; it is
        called at each call with nothing, or with the state. `secret` values are in no pickle.

        Raises BindError for a parameter that the tool does not have, StateKeyError for a malformed key.
        """
        parameter = self._compiled.template.inputs.parameters.get(param)
        if parameter is None:
            near = near_misses(
                param, bindable_parameters(self._compiled.template.inputs.parameters, self._compiled.bindings)
            )
            raise BindError(f"{self.name!r} has no parameter {param!r}. {near}")
        self._refuse_constant(param)
        binding = Binding.create(param, state_key, default, resolver, is_secret=secret or parameter.is_secret)
        with self._lock:
            binding.store_default(default, self._state)
            if binding.is_secret and binding.key is not None:
                self._secrets |= {binding.key}
            self._compiled = self._compiled.with_binding(binding)
        return self

    def unbind(self, param: str) -> Self:
        """Give a parameter back to the model; the state keeps its value. A parameter that is not bound stays so.

        Raises BindError for one that was fixed when the tool was made, or whose type has no JSON form.
        """
        self._refuse_constant(param)
        if param in self._compiled.template.inputs.parameters_without_schema:
            raise BindError(
                f"{param!r} of {self.name!r} cannot be shown to a model: its type has no JSON form. Keep it bound."
            )
        with self._lock:
            self._compiled = self._compiled.without_binding(param)
        return self

    def _refuse_constant(self, param: str) -> None:
        binding = self._compiled.bindings.get(param)
        if binding is not None and binding.is_constant:
            raise BindError(f"{param!r} of {self.name!r} was fixed when the tool was made; make a tool without it.")
        method = self.function
        if inspect.ismethod(method) and param == next(iter(inspect.signature(method.__func__).parameters), None):
            raise BindError(f"{param!r} of {self.name!r} is what its method belongs to; take the tool of another one.")

    def replace_template(self, template: ToolTemplate, body: Function) -> None:
        """Be another tool from now on, with what is bound here where it has that parameter. For what imports tools."""
        with self._lock:
            kept = {name: made for name, made in self._compiled.bindings.items() if made.key is not None}
            known = {name: made for name, made in kept.items() if name in template.inputs.parameters}
            self._compiled, self._body = CompiledTool(template, {**template.bindings, **known}), body
            self.examples = template.examples

    def clone(self) -> Self:
        """Return a copy of the same class with its own bindings, state and examples, nested containers included."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._lock = threading.Lock()
        twin._state = copy_state(self._state)
        twin._adapter = None
        twin.examples = copy_containers(self.examples)
        return twin

    def _clear_cache(self) -> None:
        """Drop what is compiled (seed 003, 9.3). Nothing needs it: no change leaves anything stale."""
        with self._lock:
            self._compiled = self._compiled.recompile()

    # doors of a call

    def call(self, /, *args: Any, **arguments: Any) -> Any:
        """Call from sync code and return the value; positional arguments fill the visible parameters in order.

        Raises the function's own exception unchanged, or a ToolCallError: InvalidParametersError, UnboundStateError,
        InvalidResultError, ToolTimeoutError. Works inside a running event loop too.
        """
        plan = self._compiled.plan
        if plan.has_fast_path and not args:  # the short way: nothing to spread or to carry over a bridge
            try:
                values = plan.validate_fast(arguments)[1]  # type: ignore[misc]  # a simple plan has one
            except ValidationError:
                values = plan.validate(arguments)
            if plan.bound_parameters:
                plan.add_bound_values(values, (self._state,))
            return sync_call.call_body(plan, self._body, values)
        return sync_call.call(plan, self._body, args, arguments, (self._state,))

    __call__ = call

    async def acall(self, /, *args: Any, **arguments: Any) -> Any:
        """Call from async code and return the value. Raises as `call` does."""
        plan = self._compiled.plan
        if not plan.has_async_fast_path or args:
            return await execution.async_call.acall(plan, self._body, args, arguments, (self._state,))
        try:  # the short way, as in `call`
            values = plan.validate_fast(arguments)[1]  # type: ignore[misc]  # a simple plan has one
        except ValidationError:
            values = plan.validate(arguments)
        try:
            returned = await self._body(**values)
        except execution.async_call.CancelledError as error:
            raise execution.async_call.cancellation_error(plan, error) from None
        if type(returned) is plan.exact_type:
            return returned
        return await execution.async_call.aunwrap_value(plan, self._body, returned, values)

    def exec(self, /, *args: Any, **arguments: Any) -> ToolResult:
        """Call from sync code and return a ToolResult, an error result for whatever exception came of it.

        KeyboardInterrupt and SystemExit are raised: they are about this process and not about the call.
        """
        return sync_call.execute(self._compiled.plan, self._body, args, arguments, (self._state,))

    async def aexec(self, /, *args: Any, **arguments: Any) -> ToolResult:
        """Call from async code and return a ToolResult, as `exec` does."""
        return await execution.async_call.aexecute(self._compiled.plan, self._body, args, arguments, (self._state,))

    def stream(self, /, *args: Any, **arguments: Any) -> Generator[ToolResult, None, None]:
        """Call from sync code and yield one result per item as it is made, then one with `is_last=True`: the whole."""
        return execution.stream_call.stream(self._compiled.plan, self._body, args, arguments, (self._state,))

    def astream(self, /, *args: Any, **arguments: Any) -> AsyncGenerator[ToolResult, None]:
        """Call from async code and yield results as `stream` does."""
        return execution.stream_call.astream(self._compiled.plan, self._body, args, arguments, (self._state,))

    async def _serve(self, arguments: JsonObject) -> ToolResult:
        """Run a call that came over a wire: nothing it does is raised."""
        return await execution.async_call.aexecute(
            self._compiled.plan, self._body, (), arguments, (self._state,), is_served=True
        )

    # doors out

    @property
    def tool(self) -> Tool:
        """The FastMCP tool: the one it was made from, else one whose `run` goes through the spec's own call path."""
        given = self._compiled.template.tool
        return given if given is not None else self.binded

    @property
    def binded(self) -> Tool:
        """The FastMCP tool without the bound parameters (seed 003, 9.2)."""
        sealed, adapter = self._compiled, self._adapter
        if adapter is None or adapter[0] is not sealed:
            adapter = self._adapter = (sealed, self.to_fastmcp())
        return adapter[1]

    @property
    def docstring(self) -> str:
        """A google-style docstring made from the definition."""
        return text.docstring(self.definition)

    @property
    def code(self) -> str:
        """A Python function definition made from the definition; always valid Python."""
        return text.code(self.definition)

    def signature(self, /, **arguments: Any) -> str:
        """Return a call as text: `search(query='example', limit=10)`."""
        return text.signature(self.definition, arguments)

    def to_prompt(self) -> str:
        """Return the tool as an item of a list for a model: its call and its docstring."""
        return text.prompt(self.definition)

    def to_function(self) -> Function:
        """Return a Python function with the definition's signature that calls the spec."""
        return text.function(self.definition, self.call)

    def to_mcp(self) -> WireTool:
        """Return the definition as an `mcp.types.Tool`."""
        from ahvn_tools.mcp.server.tool import to_mcp_tool

        return to_mcp_tool(self.definition)

    def to_fastmcp(self) -> Tool:
        """Return a FastMCP tool to serve: calls go through the spec, with its bindings and state as they are then."""
        from ahvn_tools.mcp.server.tool import to_fastmcp_tool

        return to_fastmcp_tool(self.definition, self._serve, timeout=self.timeout)

    def to(self, format: str, /, **options: Any) -> JsonObject:  # noqa: A002  # the word for it
        """Return this tool as a format writes it down, such as `"openai"`; the options are those of its `export`.

        Raises ToolLookupError for an unknown format, with near misses; ToolSpecError for options that add an entry of
        their own to the export (Bedrock's `cache_point`), which one tool alone cannot carry.
        """
        from ahvn_tools import formats

        made, *beside = formats.get(format).export([self.definition], **options)
        if beside:
            raise ToolSpecError(f"This export has entries beside the tool. Use `formats.get({format!r}).export(…)`.")
        return made

    def to_jsonschema(self, *, strict: bool = True, **fields: Any) -> JsonObject:
        """Return the flat function-calling form of seed 003, 7.3, with `fields` added.

        Strict: optional parameters become nullable and required, objects are closed. A schema that cannot be strict
        without changing its meaning is given as it is, with `strict` False.
        """
        definition = self.definition
        made = strict_schema(definition.input_schema)[0] if strict else None
        return {
            "type": "function",
            "name": definition.name,
            "description": definition.description,
            "parameters": definition.input_schema if made is None else made,
            "strict": made is not None,
            **fields,
        }

    # travelling

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle through cloudpickle, so that any pickler can carry any function."""
        from ahvn_tools import pickling

        if pickling.is_pickling():
            return copyreg.__newobj__, (type(self),), self.__getstate__()  # type: ignore[attr-defined]  # public, but not in typeshed
        return pickling.load_spec, (pickling.dump_spec(self),)

    def __getstate__(self) -> pickling.PickledSpec:
        """Return what goes over: no secret, no plan, no connection."""
        from ahvn_tools import pickling

        own = ("_lock", "_compiled", "_body", "_state", "_secrets", "_adapter")
        others = {name: value for name, value in self.__dict__.items() if name not in own}
        return pickling.to_pickled_spec(self._compiled, self._body, self._state, self._secrets, others)

    def __setstate__(self, pickled: pickling.PickledSpec) -> None:
        """Make the spec again from what came over."""
        from ahvn_tools import pickling

        def finish() -> None:
            self._compiled, self._body = pickling.rebuild_compiled(pickled)

        self._lock = threading.Lock()
        self._state = dict(pickled.state)
        self._secrets = pickled.secrets
        self._adapter = None
        self.__dict__.update(pickled.extra_attributes)
        pickling.call_after_load(finish)

    def __copy__(self) -> Self:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.clone()

    def __repr__(self) -> str:
        binds = f" binds={dict(self.binds)}" if self.binds else ""
        return f"<{type(self).__name__} {self.name!r}{binds}>"
