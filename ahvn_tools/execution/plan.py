"""Plan: a recipe compiled for one set of bindings. It turns what a caller gives into what the body gets."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import ValidationError

from ahvn_tools.binding import Binding, Layers
from ahvn_tools.context import of_call, of_carrier
from ahvn_tools.errors import BindError, InvalidParametersError, ToolkitError, UnboundStateError
from ahvn_tools.execution.outcome import is_awaitable
from ahvn_tools.recipe import Recipe, is_waited
from ahvn_tools.redaction import Parts, is_secret_name, secret_parts
from ahvn_tools.schema.parameters import Check, Kind, Parameter
from ahvn_tools.state import MISSING, UNSET

Arguments = dict[str, Any]
Body = Callable[..., Any]

START_LIMIT = 30.0
"""How many seconds a worker process may take to start."""

_BY_NAME = (Kind.POSITIONAL_OR_KEYWORD, Kind.KEYWORD_ONLY)


class Bound:
    """One bound parameter, ready to be read and checked."""

    __slots__ = ("_check", "_exact", "_read", "binding", "parameter")

    def __init__(self, binding: Binding, parameter: Parameter, check: Check | None) -> None:
        self.binding = binding
        self.parameter = parameter
        self._read = binding.read if binding.key is None or binding.resolver is not None else binding.key.find
        self._exact = parameter.exact
        self._check = None if binding.is_constant else check

    def value(self, layers: Layers) -> Any:
        """Return what the body gets, or MISSING when its own default is to hold. Raises UnboundStateError."""
        value = self.read(layers)
        if type(value) is self._exact:
            return value
        return self.checked(value)

    def read(self, layers: Layers) -> Any:
        """Return the value as it stands, or MISSING. Raises UnboundStateError when reading it fails."""
        try:
            return self._read(layers)
        except Exception as error:
            raise self.unread(error) from error

    def pinned(self, value: Any) -> Bound:
        """Return the parameter for one call: with this value, as it was read, or MISSING."""
        bound = copy.copy(self)
        bound._read = lambda _: value  # noqa: SLF001  # a copy of its own
        return bound

    def checked(self, value: Any) -> Any:
        """Return what the body gets for a value as it stands. Raises UnboundStateError, which does not show it."""
        if value is MISSING:
            return self._absent()
        if self._check is None:
            return value
        try:
            return self._check(value)
        except Exception:  # noqa: BLE001  # a validator's own error would show the value
            raise self.unbound(
                f"it holds a {type(value).__name__} that does not fit {self.parameter.expected!r}"
            ) from None

    def _absent(self) -> Any:
        if self.binding.is_left_behind:
            raise self.unbound("it is secret and did not travel with the pickle")
        given = self.binding.given()
        if given is not MISSING:
            return self.checked(given)
        default = self.parameter.default  # read once: it may be made for this call
        if default is not UNSET:
            return default
        if self.parameter.is_required or self.binding.is_constant:
            raise self.unbound("no state has that key")
        return MISSING

    def unread(self, error: Exception) -> UnboundStateError:
        """Return the error for what reading the value raised. Its text may show values, unless it is our own."""
        if isinstance(error, BindError):
            return self._error(f". {error}")
        what = "reading it" if self.binding.resolver is None else "its resolver"
        return self.unbound(f"{what} raised {type(error).__name__}")

    def unbound(self, reason: str) -> UnboundStateError:
        """Return the error about this parameter."""
        if self.binding.is_constant:
            return self._error(f": {reason}; make the spec anew.")
        if self.binding.resolver is not None:
            return self._error(f": {reason}; look at the resolver of {self._key!r}.")
        return self._error(f": {reason}; set state key {self._key!r}.")

    @property
    def _key(self) -> str:
        return self.binding.key.text if self.binding.key else self.parameter.name

    def _error(self, told: str) -> UnboundStateError:
        name, key = self.parameter.name, self._key
        return UnboundStateError(f"Parameter {name!r} is bound to {key!r}{told}", parameter=name, key=key)


class Plan:
    """What a call needs, compiled once. A plan holds no state and no body, so specs share it."""

    __slots__ = (
        "_parameters",
        "_visible",
        "accept",
        "bound",
        "depends_on_context",
        "exact",
        "has_awaited",
        "is_async",
        "is_coroutine",
        "is_direct",
        "is_isolated",
        "is_named",
        "is_repeatable",
        "is_simple",
        "is_simple_coroutine",
        "name",
        "output",
        "quick",
        "run_in_thread",
        "secrets",
        "takes_context",
        "timeout",
    )  # fmt: skip

    def __init__(self, recipe: Recipe, bindings: Mapping[str, Binding]) -> None:
        hidden = frozenset(bindings)
        inputs = recipe.inputs
        self.accept = inputs.validator(hidden)
        self.quick = inputs.quick(hidden)
        self.bound = tuple(
            Bound(binding, inputs.parameters[name], inputs.check(name)) for name, binding in bindings.items()
        )
        self._visible = tuple(p.property_name for p in inputs.parameters.values() if p.name not in hidden)
        self._parameters = tuple(inputs.parameters.values())
        self.secrets = frozenset(
            name
            for p in self._parameters
            if p.is_secret or is_secret_name(p.property_name)
            for name in (p.property_name, p.name)
        )
        """The names of arguments that must not be shown; under an alias a caller may use either."""
        self.is_named = all(p.kind in _BY_NAME for p in self._parameters)
        resolvers = {binding.resolver for binding in bindings.values()}
        self.depends_on_context = of_call in resolvers
        """Whether what comes of a call may depend on its ToolContext."""
        self.takes_context = self.depends_on_context or of_carrier in resolvers
        """Whether the body is given the ToolContext."""
        self.is_repeatable = recipe.is_repeatable
        """Whether the host says that a call may be made twice; None: the tool's annotations say."""
        self.has_awaited = any(binding.is_awaited for binding in bindings.values())
        self.name = recipe.name
        self.output = recipe.output
        self.exact = recipe.output.exact
        self.timeout = recipe.timeout
        self.is_async = recipe.is_async
        self.is_isolated = recipe.isolation is not None
        """Whether the body runs in a worker process."""
        is_moved = self.is_isolated or recipe.timeout is not None
        self.is_coroutine = recipe.is_coroutine and not is_moved
        self.is_direct = not recipe.is_async and not is_moved
        self.run_in_thread = recipe.run_in_thread
        is_bare = self.is_named and self.quick is not None
        self.is_simple = is_bare and self.is_direct and not self.has_awaited
        """Whether a call is nothing but a quick validation, what is bound, and the body."""
        self.is_simple_coroutine = is_bare and self.is_coroutine and not bindings
        """Whether it is nothing but a quick validation and the body, awaited."""

    def within(self, timeout: float) -> Plan:
        """Return the plan of a call that may take so many seconds, or less where the tool's own limit is shorter.

        Raises ToolkitError for what is no number of seconds; with none left, the call is a timeout.
        """
        if not is_waited(timeout):
            raise ToolkitError(f"A timeout is a number of seconds, not {timeout!r}. Leave it out for none.")
        plan = copy.copy(self)
        plan.timeout = timeout if self.timeout is None else min(timeout, self.timeout)
        plan.is_direct = plan.is_coroutine = plan.is_simple = plan.is_simple_coroutine = False
        return plan

    def pinned(self, values: Mapping[str, Any]) -> Plan:
        """Return the plan of one call whose bound values have been read already, by parameter."""
        plan = copy.copy(self)
        plan.bound = tuple(
            bound.pinned(values[bound.parameter.name]) if bound.parameter.name in values else bound
            for bound in self.bound
        )
        plan.has_awaited = False
        return plan

    def prepare(
        self,
        positional: tuple[Any, ...],
        arguments: Arguments,
        layers: Layers,
        awaited: Mapping[str, Any] | None = None,
    ) -> Arguments:
        """Return the body's arguments by name: the caller's, validated, and the bound ones from the state.

        `awaited` holds what async resolvers gave. Raises InvalidParametersError and UnboundStateError.
        """
        if positional:
            arguments = self.named(positional, arguments)
        try:
            values = self.accept(arguments) if self.quick is None else self.quick(arguments)[1]
        except ValidationError:
            values = self.accept(arguments)
        if self.bound:
            self.fill(values, layers, awaited)
        if not self.is_named:
            self._refuse_clashes(values)
        return values

    def fill(self, values: Arguments, layers: Layers, awaited: Mapping[str, Any] | None = None) -> None:
        """Add the bound parameters' values. Raises UnboundStateError."""
        for bound in self.bound:
            name = bound.parameter.name
            if awaited is not None and name in awaited:
                value = bound.checked(awaited[name])
            else:
                value = bound.value(layers)
            if value is not MISSING:
                values[name] = value

    async def resolve(self, layers: Layers) -> Mapping[str, Any]:
        """Return the values that have to be awaited. Raises UnboundStateError when a resolver fails."""
        values: Arguments = {}
        for bound in self.bound:
            if not bound.binding.is_awaited:
                continue
            value = bound.read(layers)
            try:
                values[bound.parameter.name] = await value if is_awaitable(value) else value
            except Exception as error:
                raise bound.unread(error) from error
        return values

    def invoke(self, body: Callable[..., Any], values: Arguments) -> Any:
        """Call the body with its arguments."""
        if self.is_named:
            return body(**values)
        positional, named = self.spread(values)
        return body(*positional, **named)

    @property
    def headroom(self) -> float:
        """How many seconds a call may take beside its timeout: those until its worker process has started."""
        return START_LIMIT if self.is_isolated else 0.0

    def bound_values(self, values: Mapping[str, Any]) -> Arguments:
        """Return those of a call's values that were bound, for masking them in foreign texts."""
        return {
            bound.parameter.name: values[bound.parameter.name] for bound in self.bound if bound.parameter.name in values
        }

    def hidden_values(self, values: Mapping[str, Any]) -> Arguments:
        """Return those of a call's values that no text may show: the bound ones, and what is secret in the others."""
        bound = self.bound_values(values)
        hidden = secret_parts({name: value for name, value in values.items() if name not in bound}, self.secrets)
        for name, value in bound.items():
            hidden.setdefault(name, Parts()).append(value)
        return dict(hidden)

    def named(self, positional: tuple[Any, ...], arguments: Arguments) -> Arguments:
        """Return arguments by name; those by position fill the visible parameters. Raises InvalidParametersError."""
        if len(positional) > len(self._visible):
            raise InvalidParametersError(
                f"Invalid arguments: {len(positional)} by position, there are {len(self._visible)} parameters."
            )
        named = dict(zip(self._visible, positional, strict=False))
        twice = [name for name in named if name in arguments]
        if twice:
            raise InvalidParametersError(f"Invalid arguments: {twice[0]!r} was given twice, by position and by name.")
        return {**named, **arguments}

    def spread(self, values: Arguments) -> tuple[list[Any], Arguments]:
        """Return positional and named arguments; some bodies take some by position, or collect them."""
        if self.is_named:
            return [], values
        positional: list[Any] = []
        named: Arguments = {}
        collected = any(values.get(p.name) for p in self._parameters if p.kind is Kind.VAR_POSITIONAL)
        for parameter in self._parameters:
            name, kind = parameter.name, parameter.kind
            if name not in values:
                continue
            if kind is Kind.POSITIONAL_ONLY or (collected and kind is Kind.POSITIONAL_OR_KEYWORD):
                positional.append(values[name])
            elif kind is Kind.VAR_POSITIONAL:
                positional.extend(values[name])
            elif kind is Kind.VAR_KEYWORD:
                named.update(values[name])
            else:
                named[name] = values[name]
        return positional, named

    def _refuse_clashes(self, values: Arguments) -> None:
        """Refuse a collected keyword that is the name of a parameter: it would set it, bound or not."""
        names = {parameter.name for parameter in self._parameters}
        for parameter in self._parameters:
            if parameter.kind is Kind.VAR_KEYWORD:
                for name in sorted(names.intersection(values.get(parameter.name, ())) - {parameter.name}):
                    raise InvalidParametersError(
                        f"Invalid arguments: {parameter.name!r} may not hold {name!r}, a parameter of its own."
                    )
