"""Plan: what the calls of a tool need, and how a caller's arguments become the body's."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ahvn_tools.binding import Binding, EnvironmentVariable, StateScopes, WorkerResolver
from ahvn_tools.context import ToolContext, resolve_context, resolve_transport_context
from ahvn_tools.errors import (
    MISSING_VALUE,
    BindError,
    DefinitionError,
    InvalidParametersError,
    LimitExceededError,
    ResultRequiredError,
    ToolCallError,
    ToolkitError,
    UnboundStateError,
    near_misses,
)
from ahvn_tools.json_types import JsonObject, estimate_size
from ahvn_tools.redaction.names import is_secret_name
from ahvn_tools.redaction.values import HiddenValues, find_secrets
from ahvn_tools.schema.inputs import NOT_ACCEPTED, BoundValueValidator, Inputs, Parameter, ParameterKind
from ahvn_tools.schema.problems import unknown_arguments_error
from ahvn_tools.settings import Isolation, is_duration
from ahvn_tools.state import MISSING, UNSET, StateKey, copy_containers
from ahvn_tools.template import ToolTemplate

if TYPE_CHECKING:
    from concurrent.futures import Executor


_SESSION_OPTIONS: Final = frozenset({"state", "session_id", "roots", "audience", "id"})
"""Names that `session` does not take for keys of the state."""


class BoundParameter:
    """One bound parameter: reads its value at call time and validates it."""

    __slots__ = ("_check", "_exact_type", "_key", "_value", "binding", "is_resolved_by_worker", "parameter")

    def __init__(self, binding: Binding, parameter: Parameter, check: BoundValueValidator | None) -> None:
        self.binding = binding
        self.parameter = parameter
        self.is_resolved_by_worker = False
        """Whether its value is a WorkerResolver, which the worker calls."""
        self._key: StateKey | None = None if binding.resolver is not None else binding.key
        """The key, if the value is only looked up."""
        self._value: Any = UNSET
        """The value of one call, or MISSING; UNSET: it is read at each call."""
        self._exact_type = parameter.exact_type
        self._check = None if binding.is_constant else check

    def read_validated(self, scopes: StateScopes) -> Any:
        """Return the value for the body, or MISSING to leave it to the body's default. Raises UnboundStateError."""
        value = self.read(scopes)
        if type(value) is self._exact_type:
            return value
        return self.validate(value, scopes)

    def read(self, scopes: StateScopes) -> Any:
        """Return the value unvalidated, or MISSING. Raises UnboundStateError when reading it fails."""
        if self._value is not UNSET:
            return self._value
        try:
            return self.binding.read(scopes) if self._key is None else self._key.find(scopes)
        except Exception as error:
            raise self.to_unbound_error(error) from error

    def with_value(self, value: Any) -> BoundParameter:
        """Return the parameter for one call, with a value (or MISSING) that was read before."""
        bound = copy.copy(self)
        bound._value = value  # noqa: SLF001  # its own copy
        return bound

    def for_worker(self) -> BoundParameter:
        """Return the parameter for a body in a worker: a WorkerResolver is its own value, which is sent there."""
        resolver = self.binding.resolver
        if not isinstance(resolver, WorkerResolver):
            return self
        bound = self.with_value(resolver)
        bound._check = None  # noqa: SLF001  # its own copy
        bound.is_resolved_by_worker = True
        return bound

    def validate(self, value: Any, scopes: StateScopes = ()) -> Any:
        """Return the value for the body. Raises UnboundStateError, whose text does not show the value."""
        if value is MISSING:
            return self._default_value(scopes)
        if value is None and self.binding.is_required:
            raise self.unbound_error("it is required, and its value is None")
        if value is self.binding.stored_default:
            value = copy_containers(value)  # calls cannot change the default that the state holds for all of them
        if self._check is None:
            return value
        try:
            return self._check(value)
        except Exception:  # noqa: BLE001  # a validator's own error would show the value
            reason = f"it holds a {type(value).__name__} that does not fit {self.parameter.expected!r}"
            raise self.unbound_error(reason) from None

    def _default_value(self, scopes: StateScopes) -> Any:
        if self.binding.is_value_removed:
            is_secret, where = self.binding.is_secret, "was left out of the pickle or the data"
            raise self.unbound_error(f"it is secret and {where}" if is_secret else f"its value {where}")
        if (bound_default := self.binding.default_value()) is not MISSING:
            return self.validate(bound_default)
        if self.binding.is_required:
            raise self.unbound_error(f"it is required, and no state has that key{self._similar_key(scopes)}")
        default = self.parameter.default  # read once: it may be made for this call
        if default is not UNSET:
            return default
        if self.parameter.is_required:
            raise self.unbound_error(f"no state has that key{self._similar_key(scopes)}")
        return MISSING

    def _similar_key(self, scopes: StateScopes) -> str:
        """Return a text about the first key of the states that is similar to the missing one; "" without one."""
        names = [str(name) for scope in scopes for name in scope]
        near = near_misses(self._key_text.partition(".")[0], names) if names else ""
        return f" ({near[0].lower()}{near[1:]})" if near.startswith("Did") else ""

    def to_unbound_error(self, error: BaseException) -> UnboundStateError:
        """Return the error for what reading the value raised; only the text of a BindError is safe to show."""
        if isinstance(error, BindError):
            return self._error(f". {error}")
        what = "reading it" if self.binding.resolver is None else "its resolver"
        return self.unbound_error(f"{what} raised {type(error).__name__}")

    def unbound_error(self, reason: str) -> UnboundStateError:
        """Return the error about this parameter, with the fix."""
        if self.binding.is_constant:
            return self._error(f": {reason}; make the spec again.")
        if self.binding.resolver is not None:
            return self._error(f": {reason}; check the resolver of {self._key_text!r}.")
        in_mapping = f", in a mapping: session({{{key!r}: …}})" if (key := self._key_text) in _SESSION_OPTIONS else ""
        return self._error(f": {reason}; set state key {key!r}{in_mapping}.")

    @property
    def _key_text(self) -> str:
        return self.binding.key.text if self.binding.key else self.parameter.name

    def _error(self, ending: str) -> UnboundStateError:
        name, key = self.parameter.name, self._key_text
        explanation = f"Parameter {name!r} is bound to {key!r}{ending}"
        return UnboundStateError(MISSING_VALUE, parameter=name, key=key, explanation=explanation)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ItemLimits:
    """The limits of one call of a tool; None: no limit."""

    tool: str
    max_items: int | None
    max_bytes: int | None

    def make_counter(self) -> Callable[[Any], None]:
        """Return a function that counts an item. It raises LimitExceededError when there are too many."""
        items = size = 0

        def count(item: Any) -> None:
            nonlocal items, size
            items += 1
            if self.max_items is not None and items > self.max_items:
                raise self._error(f"more than {self.max_items} items", "max_items")
            if self.max_bytes is not None:
                size += estimate_size(item, self.max_bytes - size)
                if size > self.max_bytes:
                    raise self._error(f"items of more than {self.max_bytes} bytes", "max_bytes")

        return count

    def _error(self, amount: str, option: str) -> LimitExceededError:
        message = f"Tool {self.tool!r} made {amount}: ask it for fewer."
        return LimitExceededError(message, tool=self.tool, explanation=f"{message} Its host can raise `{option}`.")


Arguments = dict[str, Any]
Body = Callable[..., Any]

MAX_START_SECONDS = 30.0
"""Seconds that a worker process may take to start."""

_KEYWORD_KINDS = (ParameterKind.POSITIONAL_OR_KEYWORD, ParameterKind.KEYWORD_ONLY)


_NO_FAST_PATH: Final = MappingProxyType({"has_fast_path": False, "has_async_fast_path": False})
_NOT_IN_CALLER: Final = MappingProxyType(
    {**_NO_FAST_PATH, "runs_in_caller_thread": False, "runs_in_caller_task": False}
)


class Plan:
    """What the calls of a tool need, compiled once. A plan holds no state and no body, so specs share it."""

    def __init__(
        self, template: ToolTemplate, bindings: Mapping[str, Binding], refused_names: frozenset[str] = frozenset()
    ) -> None:
        hidden = frozenset(bindings)
        self.settings = template.settings
        """How calls run, as the tool and its toolkit say; a single call may have less time and another place."""
        self._inputs = inputs = template.inputs
        self._validator = inputs.validator(hidden)
        self._checks: tuple[Callable[[Arguments], None], ...] = ()
        self._validated: Arguments | None = None
        self._bound_check: Callable[[Arguments], None] | None = None
        self.validate_fast = inputs.fast_validator(hidden)
        self.bound_parameters = tuple(
            BoundParameter(binding, inputs.parameters[name], inputs.bound_value_validator(name))
            for name, binding in bindings.items()
        )
        self._visible_names = tuple(p.property_name for p in inputs.parameters.values() if p.name not in hidden)
        self._parameters = tuple(inputs.parameters.values())
        self._declared_names = inputs.parameters.keys()
        self._refuse_arguments(hidden, refused_names)
        self.secret_names = frozenset(
            name
            for p in self._parameters
            if p.is_secret or is_secret_name(p.property_name) or is_secret_name(p.body_name or p.name)
            for name in (p.property_name, p.name)
        )
        """The names of arguments that must not be logged; a caller may use a parameter's name or its alias."""
        self.secret_defaults = {
            p.name: p.fixed_default
            for p in self._parameters
            if p.name in self.secret_names and p.fixed_default is not UNSET
        }
        """What the body uses for secret arguments that a call leaves out."""
        self._set_place(template)
        self._takes_private_names = template.takes_private_names
        self._bound_names = hidden
        self._has_own_names = all(p.kind in _KEYWORD_KINDS and p.body_name is None for p in self._parameters)
        self.is_keyword_callable = self._has_own_names and not self._takes_private_names
        resolvers = {binding.resolver for binding in bindings.values()}
        self.depends_on_context = resolve_context in resolvers
        """Whether the result of a call may depend on its ToolContext."""
        self.takes_context = self.depends_on_context or resolve_transport_context in resolvers
        """Whether the body takes the ToolContext."""
        self.is_repeatable = template.is_repeatable
        """Whether the host says that a call may be repeated; None: the tool's annotations say so."""
        self.has_async_resolvers = _has_async_resolvers(self.bound_parameters)
        self.name = template.name
        self.output = template.output
        self.value_output = template.output.for_value()
        """The output for a caller that reads only the value of a result."""
        self.exact_type = template.output.exact_type
        self.timeout = self.seconds = self.settings.timeout
        """The timeout, and the seconds that are left of it; less if something ran before, as part of the call."""
        self.item_limits = ItemLimits(
            tool=template.name, max_items=self.settings.max_items, max_bytes=self.settings.max_bytes
        )
        self.is_async = template.is_async
        is_moved = self.settings.isolation is not None or self.settings.timeout is not None
        self.runs_in_caller_task = template.is_coroutine and not is_moved
        self.runs_in_caller_thread = not (template.is_async or is_moved)
        self.run_in_thread = self.settings.run_in_thread
        is_bare = self.is_keyword_callable and self.validate_fast is not None and not self.is_external
        self.has_fast_path = is_bare and self.runs_in_caller_thread and not self.has_async_resolvers
        """Whether a call needs only fast validation, bound values and the body."""
        reads_only_keys = all(
            bound.binding.resolver is None and bound.parameter.exact_type is not None for bound in self.bound_parameters
        )
        self.has_async_fast_path = is_bare and self.runs_in_caller_task and reads_only_keys
        """Whether a call needs only fast validation, plain bound values and awaiting the body."""

    def _refuse_arguments(self, hidden: frozenset[str], refused_names: frozenset[str]) -> None:
        """Set what is refused beyond the schema: any call while a parameter must be bound, and bound names."""
        unbound = self._inputs.parameters_without_schema - hidden
        self.unbound_parameter = next((p for p in self._parameters if p.name in unbound), None) if unbound else None
        """A parameter that must be bound before the tool is used, because its type has no schema."""
        if unbound:
            self.validate_fast = None  # `validate` refuses the call
        self._refused_names = refused_names and refused_names.difference(
            self._declared_names, _property_names(self._inputs)
        )

    def _set_place(self, template: ToolTemplate) -> None:
        """Set where the body runs, and what is sent there."""
        secret = {bound.parameter.name for bound in self.bound_parameters if bound.binding.is_secret}
        if self.settings.isolation is not None:
            self.bound_parameters = tuple(bound.for_worker() for bound in self.bound_parameters)
        self.is_external = template.is_external
        """Whether no call reaches the body, because its result is supplied from outside."""
        self.is_movable = template.is_movable and self.settings.run_in_thread
        """Whether the body can run in another process."""
        self.isolation: Isolation | None = self.settings.isolation
        """Where the body runs: in this process (None), in a worker `"process"`, or in a worker of the `"executor"`."""
        self.executor: Executor | None = None
        """The executor in which the body runs, if it does."""
        self.secret_keys: frozenset[StateKey] = frozenset()
        """State keys whose values are not sent there, in addition to those that this tool has bound as secret."""
        self.may_repeat = _may_repeat(template)
        """Whether a body may run again when its worker was lost."""
        self.sealed_names = frozenset(p.name for p in self._parameters if p.is_secret or p.name in secret)
        """The parameters whose values are marked secret."""

    def _with(self, **changes: Any) -> Plan:
        plan = copy.copy(self)
        vars(plan).update(changes)
        return plan

    def with_timeout(self, timeout: float) -> Plan:
        """Return the plan of a call that may take `timeout` seconds, or the tool's own timeout if that is shorter.

        Raises ToolkitError for a value that is not a number of seconds; with zero seconds the call times out.
        """
        if not is_duration(timeout):
            raise ToolkitError(f"A timeout is a number of seconds, not {timeout!r}. Omit it for no timeout.")
        seconds = timeout if self.timeout is None else min(timeout, self.timeout)
        return self._with(timeout=seconds, seconds=seconds, **_NOT_IN_CALLER)

    def with_seconds(self, seconds: float | None) -> Plan:
        """Return the plan of a call that has these seconds left of its timeout; None: as many as before."""
        if seconds is None:
            return self
        return self._with(seconds=seconds)

    def for_value(self) -> Plan:
        """Return the plan of a call whose caller reads only the value of its result."""
        if self.value_output is self.output:
            return self
        return self._with(output=self.value_output)

    def with_executor(self, executor: Executor, secret_keys: frozenset[StateKey] = frozenset()) -> Plan:
        """Return the plan of a call whose body runs in a worker of an executor.

        Values under `secret_keys` are not sent there. Raises DefinitionError for what is no executor, and for a body
        that runs only here.
        """
        validate_executor(executor)
        if not self.is_movable:
            raise DefinitionError(
                f"{self.name!r} cannot run in an executor: it runs in MCP, in FastMCP or in its event loop. Call it "
                "here, or submit a function that connects and calls it in the worker."
            )
        bound = tuple(item.for_worker() for item in self.bound_parameters)
        return self._with(
            isolation="executor",
            executor=executor,
            secret_keys=secret_keys,
            bound_parameters=bound,
            has_async_resolvers=_has_async_resolvers(bound),
            **_NOT_IN_CALLER,
        )

    def without_thread(self) -> Plan:
        """Return the plan of a call whose sync body runs in the event loop of its caller."""
        return self._with(run_in_thread=False)

    def with_secrets(self, names: frozenset[str]) -> Plan:
        """Return the plan of a call in which the arguments of these names are secret, too."""
        if not names:
            return self
        return self._with(secret_names=self.secret_names | names)

    def with_called_body(self) -> Plan:
        """Return the plan of a call of an external tool that reaches a body, in this process."""
        return self._with(is_external=False, isolation=None, executor=None)

    def without_names(self, names: Collection[str]) -> Plan:
        """Return the plan of one call that also has arguments of these names, which are not for the body."""
        validate = self._validator
        return self._with(
            _validator=lambda arguments: validate({key: arguments[key] for key in arguments if key not in names}),
            validate_fast=None,
            **_NO_FAST_PATH,
        )

    def with_check(self, check: Callable[[Arguments], None]) -> Plan:
        """Return the plan of one call that passes the validated arguments, by the names in the schema, to `check`."""
        return self._with(_checks=(*self._checks, check), validate_fast=None, **_NO_FAST_PATH)

    def with_bound_check(self, check: Callable[[Arguments], None]) -> Plan:
        """Return the plan of one call that passes the arguments of its body, the bound values too, to `check`."""
        return self._with(_bound_check=check, **_NO_FAST_PATH)

    def with_validated(self, values: Arguments) -> Plan:
        """Return the plan of one call whose arguments were validated before."""
        return self._with(_validated=values, _checks=(), validate_fast=None, **_NO_FAST_PATH)

    def with_bound_values(self, values: Mapping[str, Any]) -> Plan:
        """Return the plan of one call whose bound values were read before, by parameter."""
        read = (
            bound.with_value(values[bound.parameter.name]) if bound.parameter.name in values else bound
            for bound in self.bound_parameters
        )
        return self._with(bound_parameters=tuple(read), has_async_resolvers=False)

    def prepare(self, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes) -> Arguments:
        """Return the body's arguments by name: the caller's, validated, and the bound values.

        Raises InvalidParametersError and UnboundStateError; for an external tool, ResultRequiredError.
        """
        if positional:
            arguments = self.to_named_arguments(positional, arguments)
        try:
            values = self.validate(arguments) if self.validate_fast is None else self.validate_fast(arguments)[1]
        except NOT_ACCEPTED:
            values = self.validate(arguments)
        if self.is_external:
            raise result_required_error(self.name)
        if self.bound_parameters:
            self.add_bound_values(values, scopes)
        if not self.is_keyword_callable:
            self._refuse_clashes(values)
        return values

    def validate(self, arguments: Arguments) -> Arguments:
        """Return a caller's arguments, validated, by parameter. Raises InvalidParametersError."""
        if self.unbound_parameter is not None:
            self.require_bound()
        if self._refused_names and not self._refused_names.isdisjoint(arguments):
            names = [name for name in arguments if name in self._refused_names]
            raise unknown_arguments_error(names, self._visible_names)
        values = self._validator(arguments) if self._validated is None else dict(self._validated)
        for check in self._checks:
            check(self._name_as_sent(values, arguments))
        return values

    def check_arguments(self, positional: tuple[Any, ...], arguments: Arguments) -> Arguments:
        """Return a caller's arguments, validated, by parameter. Raises InvalidParametersError where `prepare` does."""
        values = self.validate(self.to_named_arguments(positional, arguments) if positional else arguments)
        if not self.is_keyword_callable:
            self._refuse_clashes(values)
        return values

    def check_bound_values(self, scopes: StateScopes) -> None:
        """Raise UnboundStateError for a bound value that is missing or does not fit; no resolver is called for it."""
        for bound in self.bound_parameters:
            if bound.binding.resolver is None or isinstance(bound.binding.resolver, EnvironmentVariable):
                bound.read_validated(scopes)

    def add_bound_values(self, values: Arguments, scopes: StateScopes) -> None:
        """Add the values of the bound parameters. Raises UnboundStateError."""
        for bound in self.bound_parameters:
            if (value := bound.read_validated(scopes)) is not MISSING:
                values[bound.parameter.name] = value
        if self._bound_check is not None:
            self._bound_check(values)

    def invoke(self, body: Callable[..., Any], values: Arguments) -> Any:
        """Call the body with its arguments."""
        if self.is_keyword_callable:
            return body(**values)
        positional, named = self.to_args_kwargs(values)
        return body(*positional, **named)

    def require_bound(self) -> None:
        """Raise DefinitionError if there is an `unbound_parameter`."""
        if self.unbound_parameter is not None:
            raise DefinitionError(self.unbound_text)

    @property
    def unbound_text(self) -> str:
        """What is wrong with the `unbound_parameter`, and how to fix it; empty if there is none."""
        if (parameter := self.unbound_parameter) is None:
            return ""
        return (
            f"Parameter {parameter.name!r} of {self.name!r} must be bound before the tool is used: its type "
            f"{parameter.expected!r} has no JSON form. Bind it, with bind({parameter.name!r}) or "
            f"preset={{{parameter.name!r}: …}}, or annotate it with a type that a model can send."
        )

    def bound_values(self, values: Mapping[str, Any]) -> Arguments:
        """Return the bound values of a call, to mask them in texts; not the ToolContext, which names the tool."""
        if not self.bound_parameters:
            return {}
        names = (bound.parameter.name for bound in self.bound_parameters)
        return {name: values[name] for name in names if name in values and not isinstance(values[name], ToolContext)}

    def readable_values(self, scopes: StateScopes) -> Arguments:
        """Return the bound values that are in the state or constant, unvalidated."""
        values: Arguments = {}
        for bound in self.bound_parameters:
            if bound.binding.resolver is None:
                with contextlib.suppress(ToolCallError):
                    values[bound.parameter.name] = bound.read(scopes)
        return {name: value for name, value in values.items() if value is not MISSING}

    @property
    def hidden_names(self) -> frozenset[str]:
        """The names of secret arguments, and of their secret members at any depth."""
        return self.secret_names | self._inputs.secret_names

    def hidden_values(self, values: Mapping[str, Any], body: Body) -> dict[str, HiddenValues]:
        """Return what no text may show: bound values, secrets in the others, and the instance or class of a method."""
        owner = None if inspect.isbuiltin(body) else getattr(body, "__self__", None)
        bound = {**({} if owner is None else {"self": owner}), **self.bound_values(values)}
        others = {**self.secret_defaults, **values}
        unbound = {name: value for name, value in others.items() if name not in bound}
        return find_secrets(unbound, self.hidden_names, bound.items())

    def to_named_arguments(self, positional: tuple[Any, ...], arguments: Arguments) -> Arguments:
        """Return the arguments by name; positional ones fill the visible parameters. Raises InvalidParametersError."""
        if len(positional) > len(self._visible_names):
            raise InvalidParametersError(
                f"Invalid arguments: {len(positional)} positional arguments for {len(self._visible_names)} parameters."
            )
        named = dict(zip(self._visible_names, positional, strict=False))
        twice = [name for name in named if name in arguments]
        if twice:
            raise InvalidParametersError(f"Invalid arguments: {twice[0]!r} was passed twice, by position and by name.")
        return {**named, **arguments}

    def to_args_kwargs(self, values: Arguments) -> tuple[list[Any], Arguments]:
        """Return the positional and keyword arguments of the body."""
        if self.is_keyword_callable:
            return [], values
        positional: list[Any] = [self._private_names()] if self._takes_private_names else []
        if self._has_own_names:
            return positional, values
        named: Arguments = {}
        if not values.keys() <= self._declared_names:  # an open schema
            named.update((name, value) for name, value in values.items() if name not in self._declared_names)
        collected = any(values.get(p.name) for p in self._parameters if p.kind is ParameterKind.VAR_POSITIONAL)
        for parameter in self._parameters:
            name, kind = parameter.name, parameter.kind
            if name not in values:
                continue
            if kind is ParameterKind.POSITIONAL_ONLY or (collected and kind is ParameterKind.POSITIONAL_OR_KEYWORD):
                positional.append(values[name])
            elif kind is ParameterKind.VAR_POSITIONAL:
                positional.extend(values[name])
            elif kind is ParameterKind.VAR_KEYWORD:
                named.update(values[name])
            else:
                named[parameter.body_name or name] = values[name]
        return positional, named

    def _private_names(self) -> frozenset[str]:
        """Return the body's names of the parameters that are bound or secret."""
        private = self._bound_names | self.secret_names
        return frozenset(p.body_name or p.name for p in self._parameters if p.name in private)

    def to_sendable_arguments(self, values: Arguments, arguments: Arguments) -> JsonObject:
        """Return validated arguments as JSON, by the names in the schema, without what a caller could not send.

        A secret parameter's default is left out. A value without a JSON form is the one in `arguments`.
        """
        sendable: JsonObject = {}
        for parameter in self._parameters:
            name, value = parameter.property_name, values.get(parameter.name, MISSING)
            is_default = name not in arguments and parameter.name not in arguments
            if value is MISSING or (is_default and not self.secret_names.isdisjoint((name, parameter.name))):
                continue
            sendable[name] = _to_json(value, arguments.get(name, arguments.get(parameter.name)))
        others = {name: value for name, value in values.items() if name not in self._declared_names}
        return {**sendable, **_to_json(others, others)}

    def name_by_property(self, values: Arguments) -> Arguments:
        """Return validated arguments by the names in the schema, with the defaults of a function."""
        names = {parameter.name: parameter.property_name for parameter in self._parameters}
        return {names.get(name, name): value for name, value in values.items()}

    def _name_as_sent(self, values: Arguments, arguments: Arguments) -> Arguments:
        """Return validated arguments by the names in the schema, without defaults, if these are known."""
        known = {name for p in self._parameters for name in (p.name, p.property_name)}
        has_other_alias = not arguments.keys() <= known
        return {
            p.property_name: values[p.name]
            for p in self._parameters
            if p.name in values and (has_other_alias or p.name in arguments or p.property_name in arguments)
        }

    def _refuse_clashes(self, values: Arguments) -> None:
        """Refuse a variadic keyword with the name of a parameter: it would set that parameter, even a bound one."""
        names = {name for p in self._parameters for name in (p.name, p.body_name) if name is not None}
        for parameter in self._parameters:
            if parameter.kind is ParameterKind.VAR_KEYWORD:
                for name in sorted(self._refused_names.intersection(values.get(parameter.name, ()))):
                    raise InvalidParametersError(f"Invalid arguments: {parameter.name!r} may not contain {name!r}.")
                for name in sorted(names.intersection(values.get(parameter.name, ())) - {parameter.name}):
                    raise InvalidParametersError(
                        f"Invalid arguments: {parameter.name!r} may not contain {name!r}, which is another parameter."
                    )


def _to_json(value: Any, sent: Any) -> Any:
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, ValueError):
        return sent


def validate_executor(executor: Executor) -> Executor:
    """Return an executor of the host. Raises DefinitionError for anything else."""
    from concurrent.futures import Executor  # slow, and few calls need it

    if not isinstance(executor, Executor):
        raise DefinitionError(
            "An executor is a concurrent.futures.Executor, such as ProcessPoolExecutor or one of ahvn_tools.executors, "
            f"not a {type(executor).__name__}."
        )
    return executor


def result_required_error(tool: str) -> ResultRequiredError:
    """Return the error of a call whose result must come from outside."""
    return ResultRequiredError(
        f"The result of {tool!r} is supplied from outside, and nothing here waits for it.",
        tool=tool,
        explanation=f"{tool!r} is external. Run the model's answer with `run = kit.run(answer)`, and supply the result "
        "with `kit.resume(run, results={call_id: value})`; the call is in `run.pending`.",
    )


def _property_names(inputs: Inputs) -> list[str]:
    """Return the names of all parameters in the schema."""
    return [parameter.property_name for parameter in inputs.parameters.values()]


def _has_async_resolvers(bound_parameters: tuple[BoundParameter, ...]) -> bool:
    return any(bound.binding.is_async and not bound.is_resolved_by_worker for bound in bound_parameters)


def _may_repeat(template: ToolTemplate) -> bool:
    if template.is_repeatable is not None:
        return template.is_repeatable
    hints = template.annotations or {}
    return hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True
