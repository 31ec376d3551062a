"""ToolSpec: one tool, with mutable state and parameters that are bound to it."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Self, Unpack

from ahvn_tools.binding import Binding, StateScopes, bindable_parameters
from ahvn_tools.errors import BindError, DefinitionError, near_misses
from ahvn_tools.execution import direct_call
from ahvn_tools.execution.outcome import is_self_cancellation, self_cancelled_error
from ahvn_tools.execution.plan import CompiledTool
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolResult
from ahvn_tools.schema.inputs import NOT_ACCEPTED
from ahvn_tools.sources.injection import InjectedBody
from ahvn_tools.sources.options import ToolOptions
from ahvn_tools.spec_exports import P, R
from ahvn_tools.spec_sources import OWN_ATTRIBUTES, ToolSources
from ahvn_tools.state import UNSET, StateKey, copy_state
from ahvn_tools.template import ToolTemplate

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from ahvn_tools import pickling
    from ahvn_tools.execution.call import Call

Function = Callable[..., Any]


class ToolSpec(ToolSources[P, R]):
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

    _secrets: frozenset[StateKey] = frozenset()
    """Keys that were ever bound as secret here: the values under them stay secret after `unbind`."""

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
                "Create a ToolSpec with from_function (or @tool), from_code, from_mcp, from_client or from_server."
            )
        self._lock = threading.Lock()
        self.compiled = compiled or CompiledTool(template, template.bindings)
        """The current template, bindings and plan. For code built on specs; each change makes a new object."""
        if compiled is None:
            self.compiled.refuse_unsealable(template.bindings)
        self.body: Function = body
        """The callable that runs the calls, with every parameter, unbound and unchecked. For code built on specs."""
        self.state_scopes: StateScopes = ({},)
        """The states that bound parameters are looked up in, in this order. For code built on specs."""
        self._adapter = None

    @property
    def name(self) -> str:
        """The name that models use to call the tool."""
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
        return self.compiled.template.timeout

    @property
    def function(self) -> Function:
        """The function that the spec, or its FastMCP tool, was made from; else the body."""
        body = self.body.function if isinstance(self.body, InjectedBody) else self.body
        function: Function = getattr(self.compiled.template.tool, "fn", body)
        return function

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
    ) -> ToolSpec[..., R]:
        """Hide a parameter from the model and fill it from the state at call time. Return the spec.

        `state_key` is a dotted key (`user.id`, `items[0].name`), the parameter's name by default. `default` is stored
        in the state if the key has no value, and remembered. `resolver`, sync or async, returns the value instead; it
        is called at each call without arguments, or with the state. No pickle contains `secret` values.

        Raises BindError for a parameter that the tool does not have or that cannot be taken out of its input schema,
        StateKeyError for a malformed key.
        """
        parameters = self.compiled.template.inputs.parameters
        if (parameter := parameters.get(param)) is None:
            near = near_misses(param, bindable_parameters(parameters, self.compiled.bindings))
            raise BindError(f"{self.name!r} has no parameter {param!r}. {near}")
        self._refuse_constant(param)
        self.compiled.refuse_unsealable([param])
        binding = Binding.create(param, state_key, default, resolver, is_secret=secret or parameter.is_secret)
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

    def replace_template(self, template: ToolTemplate, body: Function) -> None:
        """Become another tool; bindings stay where it has a parameter of that name. For code that imports tools."""
        with self._lock:
            parameters, bindings = template.inputs.parameters, self.compiled.bindings.values()
            own = {item.parameter: item for item in bindings if item.key is not None and item.parameter in parameters}
            self.compiled, self.body = CompiledTool(template, {**template.bindings, **own}), body

    def transform(self, **options: Unpack[ToolOptions]) -> ToolSpec[..., R]:
        """Return a copy of the spec with other options, such as `description` or `arguments`; see `ToolOptions`.

        `arguments` maps an argument to its change: `{"query": {"name": "text", "description": "…"}}`. From then on
        calls, bindings and exports use the new name, and the body gets its own. Bindings and state are copied.

        Raises DefinitionError for an option that does not fit.
        """
        changes: dict[str, Any] = {name: value for name, value in options.items() if name != "binds"}
        twin: ToolSpec[..., R] = self.clone()
        twin.compiled = twin.compiled.with_options(changes, twin.body)
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

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle with cloudpickle, which can pickle any function, whichever pickler is used."""
        from ahvn_tools import pickling

        return pickling.reduce_spec(self)

    def __getstate__(self) -> pickling.PickledSpec:
        """Return the parts that are pickled: no secret, no plan, no connection."""
        from ahvn_tools import pickling

        others = {name: value for name, value in self.__dict__.items() if name not in OWN_ATTRIBUTES}
        return pickling.to_pickled_spec(self.compiled, self.body, self.state, self._secrets, others)

    def __setstate__(self, pickled: pickling.PickledSpec) -> None:
        """Rebuild the spec from its pickled parts."""
        from ahvn_tools import pickling

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


def validate_spec_class(spec_class: Any) -> type[ToolSpec]:
    """Return a class of specs. Raises DefinitionError for what is no subclass of ToolSpec."""
    if not (isinstance(spec_class, type) and issubclass(spec_class, ToolSpec)):
        raise DefinitionError(
            f"spec_class must be a subclass of ToolSpec, not {spec_class!r}. Derive one: class MySpec(ToolSpec)."
        )
    return spec_class
