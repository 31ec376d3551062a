"""ToolSpec: one tool, with mutable state and parameters that are bound to it."""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Generator,
    Hashable,
    Iterable,
    Mapping,
    MutableMapping,
)
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, Unpack, overload

from typing_extensions import ParamSpec, TypeVar

from ahvn_tools import formats
from ahvn_tools.binding import Binding, StateScopes, bindable_parameters
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import BindError, DefinitionError, StateKeyError, ToolSpecError, near_misses
from ahvn_tools.execution import direct_call
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.execution.outcome import is_self_cancellation, self_cancelled_error
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolResult
from ahvn_tools.schema.annotations import caller_locals
from ahvn_tools.schema.dialects.normalize import normalize
from ahvn_tools.schema.dialects.strict import to_strict
from ahvn_tools.schema.inputs import NOT_ACCEPTED
from ahvn_tools.settings import ToolOptions
from ahvn_tools.sources import code as code_source
from ahvn_tools.sources import function as function_source
from ahvn_tools.sources.injection import function_of
from ahvn_tools.state import UNSET, StateKey, copy_containers, copy_state
from ahvn_tools.template import ToolTemplate

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from fastmcp.tools import Tool
    from mcp_types import Tool as WireTool

    from ahvn_tools.execution.call import Call
    from ahvn_tools.formats import FormatName, sdk_types
    from ahvn_tools.langchain import SpecTool
    from ahvn_tools.mcp.client.remote_server import RemoteServer
    from ahvn_tools.sources.http.options import HTTPToolOptions
    from ahvn_tools.sources.langchain import LangChainTool
    from ahvn_tools.sources.openapi.options import OpenAPIOptions
    from ahvn_tools.spec_data import pickling

Function = Callable[..., Any]

P = ParamSpec("P", default=...)
"""The parameters of a call, for type checkers; `...` where they cannot know them."""

R = TypeVar("R", default=Any)
"""What a call returns, for type checkers; Any where its JSON form has another type than the function's own."""

_OWN_ATTRIBUTES = frozenset({"_lock", "compiled", "body", "state_scopes", "_secrets", "_adapter"})
"""The attributes of each spec; others were set by a subclass or a user."""


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


def _docstring(spec: ToolSpec) -> str:
    """Return the docstring of a tool; of one that has no definition yet, the description: any program may read it."""
    return spec.docstring if spec.compiled.is_usable else spec.compiled.template.texts.description


def _signature(spec: ToolSpec) -> inspect.Signature:
    from ahvn_tools.signature import python_signature  # few processes need it

    return python_signature(spec.definition)


def _show_docstring_of_tool(spec_class: type[ToolSpec[..., Any]]) -> None:
    """Let instances of the class have the docstring of their tool; the class keeps its own."""
    docstring = _InstanceAttribute(_docstring, "__doc__", vars(spec_class).get("__doc__"))
    spec_class.__doc__ = docstring  # type: ignore[assignment]  # it reads as a str


class ToolSpec(Generic[P, R]):
    """One tool: define it once, bind what the model must not see, call it anywhere, export it to any model.

    >>> def greet(name: str, tone: str = "plain") -> str:
    ...     '''Greet a person.'''
    ...     return f"{tone}: hello, {name}"
    >>> spec = ToolSpec.from_function(greet).bind("tone", "style.tone", "warm")
    >>> spec(name="Ann")
    'warm: hello, Ann'
    >>> spec.state["style"]["tone"] = "formal"
    >>> spec(name="Ann")
    'formal: hello, Ann'
    >>> list(spec.params)
    ['name']

    For type checkers, `ToolSpec[P, R]` has the parameters of its calls and the type of their value. Both are unknown
    unless `@tool` made the spec.
    """

    __signature__ = _InstanceAttribute(_signature, "__signature__")

    _secrets: frozenset[StateKey] = frozenset()
    """Keys that were ever bound as secret here: the values under them stay secret after `unbind`."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Let instances of the class have the docstring of their tool."""
        super().__init_subclass__(**options)
        _show_docstring_of_tool(cls)

    def __init__(
        self,
        template: ToolTemplate | None = None,
        body: Function | None = None,
        *,
        compiled: CompiledTool | None = None,
    ) -> None:
        """Take a source's template and body, and the compiled tool if it is shared. Users call a `from_…` method."""
        if not isinstance(template, ToolTemplate) or body is None:
            raise DefinitionError(
                "Create a ToolSpec with from_function (or @tool), from_code, from_mcp, afrom_client or from_server."
            )
        self._lock = threading.Lock()
        self.compiled = compiled or CompiledTool(template, template.bindings)
        """The current template, bindings and plan. For code built on specs; each change makes a new object."""
        if compiled is None and template.bindings:
            self.compiled.refuse_unsealable(template.bindings)
        self.body: Function = body
        """The callable that runs the calls, with every parameter, unbound and unchecked. For code built on specs."""
        self.state_scopes: StateScopes = ({},)
        """The states that bound parameters are looked up in, in this order. For code built on specs."""
        self._adapter: tuple[CompiledTool, Tool] | None = None
        """The FastMCP tool for the current `compiled`, if there is one."""

    @classmethod
    def from_function(cls, func: Function, **options: Unpack[ToolOptions]) -> Self:
        """Make a spec from a callable of any kind. Options: see `ToolOptions`.

        A parameter whose type has no JSON form must be bound, now or later, before the spec is called or exported.
        Raises DefinitionError for an object that cannot be a tool, and for an unknown option.
        """
        return cls(*function_source.build_template(func, options, namespace=caller_locals()))

    @classmethod
    def from_schema(  # type: ignore[misc]  # Python itself refuses the options of these two names
        cls, name: str, input_schema: JsonObject, function: Function | None = None, **options: Unpack[ToolOptions]
    ) -> Self:
        """Make a spec from a JSON Schema and a function that takes its properties as `**arguments`.

        The schema alone validates; the function gets the JSON, without what a call leaves out, and may name some of the
        properties, and a ToolContext, in its signature. With `external=True` there is no function. Options: see
        `ToolOptions`.

        Raises DefinitionError for a schema that does not describe an object or refers to something outside of it, for
        a function that does not take its properties, and for an option that means nothing here.
        """
        from ahvn_tools.sources import json_schema

        return cls(*json_schema.build_template(name, input_schema, function, options, namespace=caller_locals()))

    @classmethod
    def from_openai(
        cls, definition: Mapping[str, Any], function: Function | None = None, **options: Unpack[ToolOptions]
    ) -> Self:
        """Make a spec from a tool as OpenAI takes it and a function that takes its arguments, as `from_schema` does.

        `definition` is an item of a request's `tools`, for Chat Completions or for the Responses API. It is read once,
        and not changed. The options `name` and `description` replace its own. Raises DefinitionError for another dict,
        and as `from_schema` does.

        >>> from ahvn_tools import ToolSpec
        >>> parameters = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        >>> definition = {"type": "function", "function": {"name": "greet", "parameters": parameters}}
        >>> ToolSpec.from_openai(definition, lambda name: f"Hello, {name}!").call(name="Ann")
        'Hello, Ann!'
        """
        from ahvn_tools.sources import json_schema

        return cls(*json_schema.build_openai_template(definition, function, options, namespace=caller_locals()))

    @classmethod
    def from_code(
        cls,
        code: str,
        func_name: str | None = None,
        env: Mapping[str, Any] | None = None,
        **options: Unpack[ToolOptions],
    ) -> Self:
        """Execute source code and make a spec from the function it defines. The code can do whatever this process can.

        `func_name` chooses among several functions, `env` holds names that the code may use. Raises DefinitionError
        (a ValueError) when the code defines no function, several without `func_name`, or none of that name.
        """
        return cls(*code_source.build_template(code, func_name, env, options))

    @classmethod
    def from_mcp(cls, tool: Tool | WireTool, *, client: Any = None, **options: Unpack[ToolOptions]) -> Self:
        """Make a spec from a FastMCP Tool of any kind, or from an `mcp.types.Tool`.

        The latter is called through `client`; without one everything works except calls.
        """
        from ahvn_tools.mcp.client.borrowed_client import ClientToolBody
        from ahvn_tools.sources import mcp as mcp_source

        if client is None:
            return cls(*mcp_source.build_template(tool, options))
        output_schema = options.get("output_schema", tool.output_schema)
        return cls(*mcp_source.build_template(tool, options, ClientToolBody(client, tool.name, output_schema)))

    @classmethod
    async def afrom_client(cls, client: Any, tool_name: str, **options: Unpack[ToolOptions]) -> Self:
        """Make a spec from a tool of a connected MCP client. A call may take `timeout` seconds, 30 by default.

        Raises ToolLookupError for a name that the server does not list, ToolConnectionError when it does not answer.
        """
        from ahvn_tools.mcp.client.borrowed_client import find_tool

        return cls.from_mcp(await find_tool(client, tool_name), client=client, **options)

    @classmethod
    def from_server(
        cls, server: RemoteServer, *, timeout: float | None = 30, names: Collection[str] | None = None
    ) -> dict[str, Self]:
        """Make specs from all tools of an MCP server, by their names there: `from_server(mcp.connect("…"))`.

        `timeout`, in seconds, applies to each call. With `names`, only these tools are made, which is faster. Raises
        DefinitionError if `timeout` is not a number of seconds, ToolLookupError for a name that no tool has.
        """
        templates = server.templates(timeout=timeout, names=names)
        return {name: cls(template, body) for name, (template, body) in templates.items()}

    @classmethod
    def from_http(  # type: ignore[misc]  # Python itself refuses the option of this name
        cls, name: str, api_url: str, **options: Unpack[HTTPToolOptions]
    ) -> Self:
        """Make a spec that sends an HTTP request: `from_http("user", "https://api.example/users/{user_id}")`.

        Arguments are sent in the path, then in the query, or as the JSON body of POST, PUT and PATCH. Options: see
        `HTTPToolOptions`; a call may take `timeout` seconds, 30 by default. Without `input_schema`, the arguments are
        those that the URL and the options name. Raises DefinitionError.
        """
        from ahvn_tools.sources.http import options as http_options

        return cls(*http_options.build_from_url(name, api_url, options))

    @classmethod
    def from_openapi(cls, document: Mapping[str, Any], **options: Unpack[OpenAPIOptions]) -> dict[str, Self]:
        """Make specs from the operations of an OpenAPI 3 document, by name. Options: see `OpenAPIOptions`.

        An operation that cannot be a tool is left out, and the log says why; `ahvn_tools.load` reads files and URLs.
        Raises SourceError for a document without tools, and for options that do not fit it.

        >>> from ahvn_tools import ToolSpec
        >>> list_pets = {"operationId": "listPets", "parameters": [{"name": "limit", "in": "query"}]}
        >>> document = {"openapi": "3.1.0", "paths": {"/pets": {"get": list_pets}}}
        >>> specs = ToolSpec.from_openapi(document, base_url="https://pets.example/v1")
        >>> specs["listPets"].input_schema["properties"]
        {'limit': {}}
        """
        from ahvn_tools.sources.openapi.source import read_tools

        tools = read_tools(document, options).tools
        return {name: cls(template, body) for name, (template, body) in tools.items()}

    @classmethod
    def from_langchain(cls, tool: LangChainTool, **options: Unpack[ToolOptions]) -> Self:
        """Make a spec from a LangChain tool. LangChain itself is not imported.

        An argument that LangChain injects is bound to the state key of its own name; `binds` names another. The value
        of a call is the artifact if there is one. Raises DefinitionError for another object.
        """
        from ahvn_tools.sources import langchain as langchain_source

        return cls(*langchain_source.build_template(tool, options))

    @property
    def name(self) -> str:
        """The name that models use to call the tool."""
        return self.compiled.template.name

    @property
    def __name__(self) -> str:
        """The name of the tool, as a function has one."""
        return self.compiled.template.name

    @property
    def title(self) -> str | None:
        """The name that user interfaces display."""
        return self.compiled.template.title

    @property
    def description(self) -> str:
        """What the tool does."""
        return self.compiled.template.texts.description

    @property
    def tags(self) -> frozenset[str]:
        """The labels that a toolkit selects by."""
        return self.compiled.template.tags

    @property
    def timeout(self) -> float | None:
        """How many seconds a call may take; None: no limit."""
        return self.compiled.template.settings.timeout

    @property
    def function(self) -> Function:
        """The function that the spec, or its FastMCP tool, was made from; else the body."""
        function: Function = getattr(self.compiled.template.tool, "fn", function_of(self.body))
        return function

    @property
    def source(self) -> str | None:
        """The source code that the spec was made from; None for a spec from another source."""
        return self.compiled.template.source

    @property
    def server_name(self) -> str | None:
        """The MCP server from which a toolkit has imported the tool, as in its `servers`; None for other tools."""
        return None

    @property
    def is_connected(self) -> bool:
        """Whether the MCP client that calls go through is connected.

        False without a client, and True for a tool that needs none or whose server connects again by itself.
        """
        is_connected: bool = getattr(self.body, "is_connected", True)
        return is_connected

    @property
    def definition(self) -> ToolDefinition:
        """What a model sees of the tool: a frozen value without the bound parameters.

        Raises DefinitionError while a parameter whose type has no JSON form is not bound.
        """
        return self.compiled.definition

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
    def state(self) -> MutableMapping[str, Any]:
        """The values of bound parameters, read at each call. Change it in place or replace it."""
        state: MutableMapping[str, Any] = self.state_scopes[0]  # type: ignore[assignment]  # a spec sets no other
        return state

    @state.setter
    def state(self, state: Mapping[str, Any]) -> None:
        if not isinstance(state, Mapping):
            raise TypeError(f"state must be a mapping such as a dict, not {type(state).__name__}.")
        self.state_scopes = (state,)

    @property
    def binds(self) -> Mapping[str, str]:
        """Read-only mapping: bound parameter to dotted state key."""
        return self.compiled.state_keys

    def bind(
        self,
        param: str,
        state_key: str | None = None,
        default: Any = UNSET,
        *,
        resolver: Callable[..., Any] | None = None,
        secret: bool = False,
        required: bool = False,
    ) -> ToolSpec[..., R]:
        """Hide a parameter from the model and fill it from the state at call time. Return the spec.

        `state_key` is a dotted key (`user.id`, `items[0].name`), the parameter's name by default. `default` is stored
        in the state if the key has no value, and remembered. `resolver`, sync or async, returns the value instead; it
        is called at each call without arguments, or with the state. No pickle contains `secret` values. `required`: a
        call without a value, or with None, fails with `unbound_state`, also where the parameter is optional.

        Raises BindError for a parameter that the tool does not have or that cannot be taken out of its input schema,
        StateKeyError for a malformed key.
        """
        parameters = self.compiled.template.inputs.parameters
        if (parameter := parameters.get(param)) is None:
            near = near_misses(param, bindable_parameters(parameters, self.compiled.bindings))
            raise BindError(f"{self.name!r} has no parameter {param!r}. {near}")
        self._refuse_constant(param)
        self.compiled.refuse_unsealable([param])
        is_secret = secret or parameter.is_secret
        binding = Binding.create(param, state_key, default, resolver, is_secret=is_secret, is_required=required)
        self._add_binding(binding, default)
        return self

    def _add_binding(self, binding: Binding, default: Any) -> None:
        with self._lock:
            binding.store_default(default, self.state)
            if binding.is_secret and binding.key is not None:
                self._secrets |= {binding.key}
            self.compiled = self.compiled.with_binding(binding)

    def unbind(self, param: str) -> Self:
        """Make a parameter visible to the model again; its value stays in the state. Ignore one that is not bound.

        Raises BindError for a parameter that was fixed when the tool was made, or whose type has no JSON form.
        """
        self._refuse_constant(param)
        if param in self.compiled.template.inputs.parameters_without_schema:
            raise BindError(f"Parameter {param!r} of {self.name!r} must stay bound: its type has no JSON form.")
        with self._lock:
            self.compiled = self.compiled.without_binding(param)
        return self

    def _refuse_constant(self, param: str) -> None:
        binding = self.compiled.bindings.get(param)
        if binding is not None and binding.is_constant:
            raise BindError(
                f"Parameter {param!r} of {self.name!r} was fixed when the tool was made; make a tool without it."
            )
        method = self.function
        if inspect.ismethod(method) and param == next(iter(inspect.signature(method.__func__).parameters), None):
            raise BindError(
                f"Parameter {param!r} of {self.name!r} is the instance of its method; use the tool of another instance."
            )

    def _replace_template(self, template: ToolTemplate, body: Function) -> None:
        """Become another tool; bindings stay where it has a parameter of that name. For code that imports tools."""
        with self._lock:
            parameters, bindings = template.inputs.parameters, self.compiled.bindings.values()
            own = {item.parameter: item for item in bindings if item.key is not None and item.parameter in parameters}
            self.compiled, self.body = CompiledTool(template, {**template.bindings, **own}), body

    def transform(self, *, preset: Mapping[str, Any] | None = None, **options: Unpack[ToolOptions]) -> ToolSpec[..., R]:
        """Return a copy of the spec with other options, such as `description` or `arguments`; see `ToolOptions`.

        `arguments` maps an argument to its change: `{"query": {"name": "text", "description": "…"}}`. From then on
        calls, bindings and exports use the new name, and the body gets its own. `preset` maps an argument to its value
        in every call. Bindings and state are copied.

        Raises DefinitionError for an option that does not fit, BindError for a preset that does not.
        """
        changes: dict[str, Any] = {name: value for name, value in options.items() if name != "binds"}
        twin: ToolSpec[..., R] = self.clone()
        twin.compiled = twin.compiled.with_options(changes, twin.body)
        for binding in twin.compiled.preset_bindings(twin.name, preset or {}).values():
            twin.compiled = twin.compiled.with_binding(binding)
        for param, state_key in options.get("binds", {}).items():
            twin.bind(param, state_key)
        return twin

    def clone(self) -> Self:
        """Return a copy of the same class with separate bindings and state, nested containers included."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._lock = threading.Lock()
        twin.state_scopes = (copy_state(self.state),)
        twin._adapter = None
        return twin

    def _clear_cache(self) -> None:
        """Compile the tool again. No change requires it: the compiled form is never stale."""
        with self._lock:
            self.compiled = self.compiled.copy()

    def call(self, /, *args: P.args, **arguments: P.kwargs) -> R:
        """Call from sync code and return the value; positional arguments fill the visible parameters in order.

        Raises the function's own exception unchanged, or a ToolCallError: InvalidParametersError, UnboundStateError,
        InvalidResultError, ToolTimeoutError. Works inside a running event loop too.
        """
        plan = self.compiled.made_plan or self.compiled.plan
        if not plan.has_fast_path or args:
            return direct_call.call(plan, self.body, args, arguments, self.state_scopes)
        try:
            values = plan.validate_fast(arguments)[1]  # type: ignore[misc]  # such a plan has one
        except NOT_ACCEPTED:
            values = plan.validate(arguments)
        if plan.bound_parameters:
            plan.add_bound_values(values, self.state_scopes)
        return direct_call.call_body(plan, self.body, values)

    __call__ = call

    async def acall(self, /, *args: P.args, **arguments: P.kwargs) -> R:
        """Call from async code and return the value. Raises as `call` does."""
        plan = self.compiled.made_plan or self.compiled.plan
        if not plan.has_async_fast_path or args:
            return await direct_call.acall(plan, self.body, args, arguments, self.state_scopes)
        try:
            values = plan.validate_fast(arguments)[1]  # type: ignore[misc]  # such a plan has one
        except NOT_ACCEPTED:
            values = plan.validate(arguments)
        if plan.bound_parameters:
            plan.add_bound_values(values, self.state_scopes)
        try:
            returned = await self.body(**values)
        except BaseException as error:
            if is_self_cancellation(error):
                raise self_cancelled_error(plan.name) from None
            raise
        if type(returned) is plan.exact_type:
            return returned
        return await direct_call.aunwrap_value(plan, self.body, returned, values)

    def exec(self, /, *args: P.args, **arguments: P.kwargs) -> ToolResult:
        """Call from sync code and return a ToolResult, an error result for any Exception.

        KeyboardInterrupt and SystemExit are raised: they concern this process and not the call.
        """
        return direct_call.execute(self.compiled.plan, self.body, args, arguments, self.state_scopes)

    async def aexec(self, /, *args: P.args, **arguments: P.kwargs) -> ToolResult:
        """Call from async code and return a ToolResult, as `exec` does."""
        return await direct_call.aexecute(self.compiled.plan, self.body, args, arguments, self.state_scopes)

    def validate(self, /, *args: P.args, **arguments: P.kwargs) -> ToolResult:
        """Check arguments as a call does, and run nothing: no body, and no resolver of a bound value.

        The `value` is what the visible parameters would get, as JSON by the names in the schema, with defaults but
        those of secret parameters. `meta["changed"]` are JSON pointers to what is passed on in another form than it was
        sent, repaired or converted. Otherwise it is an error result, with the places in `error.problems`.

        >>> from ahvn_tools import ToolSpec
        >>> def wait(seconds: int, *, reason: str = "none") -> None: ...
        >>> checked = ToolSpec.from_function(wait).validate(seconds="5")
        >>> checked.value, checked.meta["changed"]
        ({'seconds': 5, 'reason': 'none'}, ['/seconds'])
        """
        return direct_call.validate(self.compiled.plan, args, arguments)

    def submit(self, executor: Executor, /, *args: P.args, **arguments: P.kwargs) -> Future[ToolResult]:
        """Start a call whose body runs in a worker of an executor, and return a Future of its ToolResult.

        Any `concurrent.futures.Executor` will do; those of `ahvn_tools.executors` can also end a body that runs. The
        arguments are validated and the state is read here, and now. The result is as that of `exec`: an error of the
        tool, or the loss of its worker, is an error result. Cancelling the Future cancels the call. Raises
        DefinitionError for what is no executor.
        """
        from ahvn_tools.execution import submission  # few calls need it

        plan = self.compiled.plan.with_executor(executor)
        return submission.submit(plan, self.body, args, arguments, self.state_scopes)

    def stream(self, /, *args: P.args, **arguments: P.kwargs) -> Generator[ToolResult, None, None]:
        """Call from sync code; yield one result per item as it is made, then the whole result with `is_last=True`."""
        from ahvn_tools.execution import pipeline  # it imports asyncio

        return pipeline.stream((), self._make_call(args, arguments))

    def astream(self, /, *args: P.args, **arguments: P.kwargs) -> AsyncGenerator[ToolResult, None]:
        """Call from async code and yield results as `stream` does."""
        from ahvn_tools.execution import pipeline

        return pipeline.astream((), self._make_call(args, arguments))

    async def _serve(self, arguments: JsonObject) -> ToolResult:
        """Run the call of an MCP client: nothing is raised."""
        from ahvn_tools.execution import pipeline

        return await pipeline.aexecute((), self._make_call((), arguments, is_served=True))

    def _make_call(self, args: tuple[Any, ...], arguments: JsonObject, *, is_served: bool = False) -> Call:
        from ahvn_tools.execution.call import Call

        self.compiled.plan.require_bound()
        return Call(
            id=f"call_{os.urandom(16).hex()}",
            name=self.name,
            positional=args,
            arguments=arguments,
            is_served=is_served,
            masks_errors=is_served,
            plan=self.compiled.plan,
            body=self.body,
            state_scopes=self.state_scopes,
            describe=lambda: self.definition,
        )

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
        from ahvn_tools import html  # only a notebook needs it
        from ahvn_tools.signature import definition_html

        if not self.compiled.is_usable:
            return html.lines([html.code(self.name), self.compiled.plan.unbound_text])
        return definition_html(self.definition, self.binds)

    def to_function(self) -> Callable[..., Any]:
        """Return a Python function with the definition's signature that calls the tool."""
        from ahvn_tools.signature import to_function

        return to_function(self.definition, self.call)

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
        from ahvn_tools.mcp.server.components import to_fastmcp_tool

        return to_fastmcp_tool(self.definition, self._serve, timeout=self.compiled.template.settings.timeout)

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
            from ahvn_tools.schema.keywords import to_plain

            schema = to_plain(schema)
        return {
            "type": "function",
            "name": definition.name,
            "description": definition.description,
            "parameters": schema,
            "strict": strict_schema is not None,
            **fields,
        }

    def to_dict(self, *, values: bool = False) -> JsonObject:
        """Return the tool as JSON data, from which `from_dict` makes it again where its code can be imported.

        The data has the definition, the options, the bindings and where the code is: an import path, the text of
        `from_code`, or the request of `from_http` and `from_openapi`. It has no state, and no values of bindings
        without `values`; with it, defaults and fixed arguments that are JSON and not secret.

        Raises ToolSpecError, with the fix, for a part that is not data, such as a method, a lambda or a connection.

        >>> from html import escape
        >>> from ahvn_tools import ToolSpec
        >>> data = ToolSpec.from_function(escape).to_dict()
        >>> data["code"]
        {'kind': 'function', 'module': 'html', 'qualname': 'escape'}
        >>> ToolSpec.from_dict(data, trust=["html"]).call("<b>")
        '&lt;b&gt;'
        """
        from ahvn_tools.spec_data import tool_data

        if attributes := self.__dict__.keys() - _OWN_ATTRIBUTES:
            raise ToolSpecError(
                f"Attribute {min(attributes)!r} of {self.__name__!r} is not part of the data: delete it first, "
                "and set it again after from_dict()."
            )
        return tool_data.write(
            self.compiled,
            self.body,
            self.state,
            self._secrets,
            spec_class=None if type(self) is ToolSpec else _full_name(type(self)),
            with_values=values,
        )

    @classmethod
    def from_dict(cls, data: JsonObject, *, trust: Iterable[str | os.PathLike[str]] = ()) -> Self:
        """Make a spec from the data of `to_dict`. Its state has the defaults that are in the data, and nothing else.

        `trust` lists what may be imported and used: modules (`"acme.tools"`, `"acme.*"`), `"<code>"` for a text,
        environment variables (`"${API_KEY}"`) and servers (`"https://api.example"`). Nothing is by default, not even a
        module that is imported already: the data was stored or sent, and says itself which code runs. A source of
        `load` is named by the caller, so that there the default is all.

        Raises SourceError for what is not trusted, for data that is not as `to_dict` wrote it, and for code whose
        definition differs from that of the data, with the differences.
        """
        from ahvn_tools.spec_data.tool_data import load

        template, body, secret_keys = load(data, trust, [_full_name(base) for base in cls.__mro__])
        spec = cls(template, body)
        spec._secrets = secret_keys
        for binding in spec.compiled.bindings.values():
            with contextlib.suppress(StateKeyError):  # a key in a list that the state does not have: the binding has it
                binding.store_default(copy_containers(binding.default), spec.state)
        return spec

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle with cloudpickle, which can pickle any function, whichever pickler is used."""
        from ahvn_tools.spec_data import pickling

        return pickling.reduce_spec(self)

    def __getstate__(self) -> pickling.PickledSpec:
        """Return the parts that are pickled: no secret, no plan, no connection."""
        from ahvn_tools.spec_data import pickling

        others = {name: value for name, value in self.__dict__.items() if name not in _OWN_ATTRIBUTES}
        return pickling.to_pickled_spec(self.compiled, self.body, self.state, self._secrets, others)

    def __setstate__(self, pickled: pickling.PickledSpec) -> None:
        """Rebuild the spec from its pickled parts."""
        from ahvn_tools.spec_data import pickling

        self._lock = threading.Lock()
        self.state_scopes = (dict(pickled.state),)
        self._secrets = pickled.secrets
        self._adapter = None
        self.__dict__.update(pickled.extra_attributes)
        pickling.rebuild_after_load(self, pickled)

    def __copy__(self) -> Self:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.clone()

    def __repr__(self) -> str:
        binds = f" binds={dict(self.binds)}" if self.binds else ""
        return f"<{type(self).__name__} {self.name!r}{binds}>"


_show_docstring_of_tool(ToolSpec)


def validate_spec_class(spec_class: Any) -> type[ToolSpec]:
    """Return a class of specs. Raises DefinitionError for what is no subclass of ToolSpec."""
    if not (isinstance(spec_class, type) and issubclass(spec_class, ToolSpec)):
        raise DefinitionError(
            f"spec_class must be a subclass of ToolSpec, not {spec_class!r}. Derive one: class MySpec(ToolSpec)."
        )
    return spec_class


def _full_name(spec_class: type) -> str:
    return f"{spec_class.__module__}.{spec_class.__qualname__}"


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
