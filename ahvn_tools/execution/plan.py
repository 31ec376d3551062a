"""Plan: a recipe compiled for one set of bindings. It turns what a caller gives into what the body gets."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import ValidationError

from ahvn_tools.binding import Binding, StateScopes
from ahvn_tools.context import resolve_context, resolve_transport_context
from ahvn_tools.errors import BindError, InvalidParametersError, ToolkitError, UnboundStateError
from ahvn_tools.execution.outcome import is_awaitable
from ahvn_tools.redaction import MaskedValues, find_secrets, is_secret_name
from ahvn_tools.schema.inputs import BoundValueValidator, Parameter, ParameterKind
from ahvn_tools.state import MISSING, UNSET
from ahvn_tools.template import ToolTemplate, is_duration

Arguments = dict[str, Any]
Body = Callable[..., Any]

MAX_START_SECONDS = 30.0
"""How many seconds a worker process may take to start."""

_KEYWORD_KINDS = (ParameterKind.POSITIONAL_OR_KEYWORD, ParameterKind.KEYWORD_ONLY)


class BoundParameter:
    """One bound parameter, ready to be read and checked."""

    __slots__ = ("_check", "_exact_type", "_read", "binding", "parameter")

    def __init__(self, binding: Binding, parameter: Parameter, check: BoundValueValidator | None) -> None:
        self.binding = binding
        self.parameter = parameter
        self._read = binding.read if binding.key is None or binding.resolver is not None else binding.key.find
        self._exact_type = parameter.exact_type
        self._check = None if binding.is_constant else check

    def read_validated(self, scopes: StateScopes) -> Any:
        """Return what the body gets, or MISSING when its own default is to hold. Raises UnboundStateError."""
        value = self.read(scopes)
        if type(value) is self._exact_type:
            return value
        return self.validate(value)

    def read(self, scopes: StateScopes) -> Any:
        """Return the value as it stands, or MISSING. Raises UnboundStateError when reading it fails."""
        try:
            return self._read(scopes)
        except Exception as error:
            raise self.read_error(error) from error

    def with_value(self, value: Any) -> BoundParameter:
        """Return the parameter for one call: with this value, as it was read, or MISSING."""
        bound = copy.copy(self)
        bound._read = lambda _: value  # noqa: SLF001  # a copy of its own
        return bound

    def validate(self, value: Any) -> Any:
        """Return what the body gets for a value as it stands. Raises UnboundStateError, which does not show it."""
        if value is MISSING:
            return self._default_value()
        if self._check is None:
            return value
        try:
            return self._check(value)
        except Exception:  # noqa: BLE001  # a validator's own error would show the value
            raise self.unbound_error(
                f"it holds a {type(value).__name__} that does not fit {self.parameter.expected!r}"
            ) from None

    def _default_value(self) -> Any:
        if self.binding.is_value_removed:
            raise self.unbound_error("it is secret and did not travel with the pickle")
        given = self.binding.default_value()
        if given is not MISSING:
            return self.validate(given)
        default = self.parameter.default  # read once: it may be made for this call
        if default is not UNSET:
            return default
        if self.parameter.is_required or self.binding.is_constant:
            raise self.unbound_error("no state has that key")
        return MISSING

    def read_error(self, error: Exception) -> UnboundStateError:
        """Return the error for what reading the value raised. Its text may show values, unless it is our own."""
        if isinstance(error, BindError):
            return self._error(f". {error}")
        what = "reading it" if self.binding.resolver is None else "its resolver"
        return self.unbound_error(f"{what} raised {type(error).__name__}")

    def unbound_error(self, reason: str) -> UnboundStateError:
        """Return the error about this parameter."""
        if self.binding.is_constant:
            return self._error(f": {reason}; make the spec anew.")
        if self.binding.resolver is not None:
            return self._error(f": {reason}; look at the resolver of {self._key!r}.")
        return self._error(f": {reason}; set state key {self._key!r}.")

    @property
    def _key(self) -> str:
        return self.binding.key.text if self.binding.key else self.parameter.name

    def _error(self, ending: str) -> UnboundStateError:
        name, key = self.parameter.name, self._key
        return UnboundStateError(f"Parameter {name!r} is bound to {key!r}{ending}", parameter=name, key=key)


class Plan:
    """What a call needs, compiled once. A plan holds no state and no body, so specs share it."""

    __slots__ = (
        "_parameters",
        "_visible_names",
        "bound_parameters",
        "depends_on_context",
        "exact_type",
        "has_async_fast_path",
        "has_async_resolvers",
        "has_fast_path",
        "is_async",
        "is_isolated",
        "is_keyword_callable",
        "is_repeatable",
        "name",
        "output",
        "run_in_thread",
        "runs_in_caller_task",
        "runs_in_caller_thread",
        "secret_names",
        "takes_context",
        "timeout",
        "validate",
        "validate_fast",
    )  # fmt: skip

    def __init__(self, template: ToolTemplate, bindings: Mapping[str, Binding]) -> None:
        hidden = frozenset(bindings)
        inputs = template.inputs
        self.validate = inputs.validator(hidden)
        self.validate_fast = inputs.fast_validator(hidden)
        self.bound_parameters = tuple(
            BoundParameter(binding, inputs.parameters[name], inputs.bound_value_validator(name))
            for name, binding in bindings.items()
        )
        self._visible_names = tuple(p.property_name for p in inputs.parameters.values() if p.name not in hidden)
        self._parameters = tuple(inputs.parameters.values())
        self.secret_names = frozenset(
            name
            for p in self._parameters
            if p.is_secret or is_secret_name(p.property_name)
            for name in (p.property_name, p.name)
        )
        """The names of arguments that must not be shown; under an alias a caller may use either."""
        self.is_keyword_callable = all(p.kind in _KEYWORD_KINDS for p in self._parameters)
        resolvers = {binding.resolver for binding in bindings.values()}
        self.depends_on_context = resolve_context in resolvers
        """Whether what comes of a call may depend on its ToolContext."""
        self.takes_context = self.depends_on_context or resolve_transport_context in resolvers
        """Whether the body is given the ToolContext."""
        self.is_repeatable = template.is_repeatable
        """Whether the host says that a call may be made twice; None: the tool's annotations say."""
        self.has_async_resolvers = any(binding.is_async for binding in bindings.values())
        self.name = template.name
        self.output = template.output
        self.exact_type = template.output.exact_type
        self.timeout = template.timeout
        self.is_async = template.is_async
        self.is_isolated = template.isolation is not None
        """Whether the body runs in a worker process."""
        is_moved = self.is_isolated or template.timeout is not None
        self.runs_in_caller_task = template.is_coroutine and not is_moved
        self.runs_in_caller_thread = not template.is_async and not is_moved
        self.run_in_thread = template.run_in_thread
        is_bare = self.is_keyword_callable and self.validate_fast is not None
        self.has_fast_path = is_bare and self.runs_in_caller_thread and not self.has_async_resolvers
        """Whether a call is nothing but a quick validation, what is bound, and the body."""
        self.has_async_fast_path = is_bare and self.runs_in_caller_task and not bindings
        """Whether it is nothing but a quick validation and the body, awaited."""

    def with_timeout(self, timeout: float) -> Plan:
        """Return the plan of a call that may take so many seconds, or less where the tool's own limit is shorter.

        Raises ToolkitError for what is no number of seconds; with none left, the call is a timeout.
        """
        if not is_duration(timeout):
            raise ToolkitError(f"A timeout is a number of seconds, not {timeout!r}. Leave it out for none.")
        plan = copy.copy(self)
        plan.timeout = timeout if self.timeout is None else min(timeout, self.timeout)
        plan.runs_in_caller_thread = plan.runs_in_caller_task = plan.has_fast_path = plan.has_async_fast_path = False
        return plan

    def with_bound_values(self, values: Mapping[str, Any]) -> Plan:
        """Return the plan of one call whose bound values have been read already, by parameter."""
        plan = copy.copy(self)
        plan.bound_parameters = tuple(
            bound.with_value(values[bound.parameter.name]) if bound.parameter.name in values else bound
            for bound in self.bound_parameters
        )
        plan.has_async_resolvers = False
        return plan

    def prepare(
        self,
        positional: tuple[Any, ...],
        arguments: Arguments,
        scopes: StateScopes,
        resolved_values: Mapping[str, Any] | None = None,
    ) -> Arguments:
        """Return the body's arguments by name: the caller's, validated, and the bound ones from the state.

        `awaited` holds what async resolvers gave. Raises InvalidParametersError and UnboundStateError.
        """
        if positional:
            arguments = self.to_named_arguments(positional, arguments)
        try:
            values = self.validate(arguments) if self.validate_fast is None else self.validate_fast(arguments)[1]
        except ValidationError:
            values = self.validate(arguments)
        if self.bound_parameters:
            self.add_bound_values(values, scopes, resolved_values)
        if not self.is_keyword_callable:
            self._refuse_clashes(values)
        return values

    def add_bound_values(
        self, values: Arguments, scopes: StateScopes, resolved_values: Mapping[str, Any] | None = None
    ) -> None:
        """Add the bound parameters' values. Raises UnboundStateError."""
        for bound in self.bound_parameters:
            name = bound.parameter.name
            if resolved_values is not None and name in resolved_values:
                value = bound.validate(resolved_values[name])
            else:
                value = bound.read_validated(scopes)
            if value is not MISSING:
                values[name] = value

    async def arun_resolvers(self, scopes: StateScopes) -> Mapping[str, Any]:
        """Return the values that have to be awaited. Raises UnboundStateError when a resolver fails."""
        values: Arguments = {}
        for bound in self.bound_parameters:
            if not bound.binding.is_async:
                continue
            value = bound.read(scopes)
            try:
                values[bound.parameter.name] = await value if is_awaitable(value) else value
            except Exception as error:
                raise bound.read_error(error) from error
        return values

    def invoke(self, body: Callable[..., Any], values: Arguments) -> Any:
        """Call the body with its arguments."""
        if self.is_keyword_callable:
            return body(**values)
        positional, named = self.to_args_kwargs(values)
        return body(*positional, **named)

    @property
    def startup_seconds(self) -> float:
        """How many seconds a call may take beside its timeout: those until its worker process has started."""
        return MAX_START_SECONDS if self.is_isolated else 0.0

    def bound_values(self, values: Mapping[str, Any]) -> Arguments:
        """Return those of a call's values that were bound, for masking them in foreign texts."""
        return {
            bound.parameter.name: values[bound.parameter.name]
            for bound in self.bound_parameters
            if bound.parameter.name in values
        }

    def hidden_values(self, values: Mapping[str, Any]) -> Arguments:
        """Return those of a call's values that no text may show: the bound ones, and what is secret in the others."""
        bound = self.bound_values(values)
        hidden = find_secrets({name: value for name, value in values.items() if name not in bound}, self.secret_names)
        for name, value in bound.items():
            hidden.setdefault(name, MaskedValues()).append(value)
        return dict(hidden)

    def to_named_arguments(self, positional: tuple[Any, ...], arguments: Arguments) -> Arguments:
        """Return arguments by name; those by position fill the visible parameters. Raises InvalidParametersError."""
        if len(positional) > len(self._visible_names):
            raise InvalidParametersError(
                f"Invalid arguments: {len(positional)} by position, there are {len(self._visible_names)} parameters."
            )
        named = dict(zip(self._visible_names, positional, strict=False))
        twice = [name for name in named if name in arguments]
        if twice:
            raise InvalidParametersError(f"Invalid arguments: {twice[0]!r} was given twice, by position and by name.")
        return {**named, **arguments}

    def to_args_kwargs(self, values: Arguments) -> tuple[list[Any], Arguments]:
        """Return positional and named arguments; some bodies take some by position, or collect them."""
        if self.is_keyword_callable:
            return [], values
        positional: list[Any] = []
        named: Arguments = {}
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
                named[name] = values[name]
        return positional, named

    def _refuse_clashes(self, values: Arguments) -> None:
        """Refuse a collected keyword that is the name of a parameter: it would set it, bound or not."""
        names = {parameter.name for parameter in self._parameters}
        for parameter in self._parameters:
            if parameter.kind is ParameterKind.VAR_KEYWORD:
                for name in sorted(names.intersection(values.get(parameter.name, ())) - {parameter.name}):
                    raise InvalidParametersError(
                        f"Invalid arguments: {parameter.name!r} may not hold {name!r}, a parameter of its own."
                    )
