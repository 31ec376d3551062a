"""Plan: a recipe compiled for one set of bindings. It turns what a caller gives into what the body gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ahvn_tools.binding import Binding, Layers
from ahvn_tools.errors import InvalidParametersError, UnboundStateError
from ahvn_tools.execution.outcome import is_awaitable
from ahvn_tools.recipe import Recipe
from ahvn_tools.schema.parameters import Check, Kind, Parameter
from ahvn_tools.state import MISSING, UNSET

Arguments = dict[str, Any]

_BY_NAME = (Kind.POSITIONAL_OR_KEYWORD, Kind.KEYWORD_ONLY)


class Bound:
    """One bound parameter, ready to be read and checked."""

    __slots__ = ("binding", "check", "parameter")

    def __init__(self, binding: Binding, parameter: Parameter, check: Check | None) -> None:
        self.binding = binding
        self.parameter = parameter
        self.check = check

    def read(self, layers: Layers) -> Any:
        """Return the value as it stands, or MISSING. Raises UnboundStateError when reading it fails."""
        try:
            return self.binding.read(layers)
        except Exception as error:
            raise self.unbound(f"reading it raised {type(error).__name__}") from error

    def checked(self, value: Any) -> Any:
        """Return what the body gets for a value. Raises UnboundStateError, which does not show it."""
        if self.check is None or self.binding.is_constant:
            return value
        try:
            return self.check(value)
        except Exception:  # noqa: BLE001  # a validator's own error would show the value
            raise self.unbound(
                f"it holds a {type(value).__name__} that does not fit {self.parameter.expected!r}"
            ) from None

    def unbound(self, reason: str) -> UnboundStateError:
        """Return the error about this parameter."""
        name, key = self.parameter.name, self.binding.key.text if self.binding.key else self.parameter.name
        fix = f"set state key {key!r}" if not self.binding.is_constant else "make the spec anew"
        if self.binding.is_secret:
            reason += " (it is secret, so no pickle carries it)"
        return UnboundStateError(f"Parameter {name!r} is bound to {key!r}: {reason}; {fix}.", parameter=name, key=key)


class Plan:
    """What a call needs, compiled once. A plan holds no state and no body, so specs share it."""

    __slots__ = (
        "_bound", "_parameters", "_visible", "accept", "exact", "has_awaited", "is_async", "is_coroutine", "is_direct",
        "is_named", "is_simple", "name", "output", "run_in_thread", "timeout",
    )  # fmt: skip

    def __init__(self, recipe: Recipe, bindings: Mapping[str, Binding]) -> None:
        hidden = frozenset(bindings)
        inputs = recipe.inputs
        self.accept = inputs.validator(hidden)
        self._bound = tuple(
            Bound(binding, inputs.parameters[name], inputs.check(name)) for name, binding in bindings.items()
        )
        self._visible = tuple(p.property_name for p in inputs.parameters.values() if p.name not in hidden)
        self._parameters = tuple(inputs.parameters.values())
        self.is_named = all(p.kind in _BY_NAME for p in self._parameters)
        self.has_awaited = any(binding.is_awaited for binding in bindings.values())
        self.name = recipe.name
        self.output = recipe.output
        self.exact = recipe.output.exact
        self.timeout = recipe.timeout
        self.is_async = recipe.is_async
        self.is_coroutine = recipe.is_coroutine and recipe.timeout is None and not self.has_awaited
        self.is_direct = not recipe.is_async and recipe.timeout is None and not self.has_awaited
        self.run_in_thread = recipe.run_in_thread
        self.is_simple = self.is_direct and self.is_named and not bindings
        """Whether a call is nothing but `body(**accept(arguments))`."""

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
        values = self.accept(self._named(positional, arguments) if positional else arguments)
        for bound in self._bound:
            name = bound.parameter.name
            value = awaited[name] if awaited is not None and name in awaited else bound.read(layers)
            if value is not MISSING:
                values[name] = bound.checked(value)
            elif bound.parameter.default is not UNSET:
                values[name] = bound.parameter.default
            elif bound.parameter.is_required or bound.binding.is_constant:
                raise bound.unbound("no state has that key")
        return values

    async def resolve(self, layers: Layers) -> Mapping[str, Any]:
        """Return the values that have to be awaited. Raises UnboundStateError when a resolver fails."""
        values: Arguments = {}
        for bound in self._bound:
            if not bound.binding.is_awaited:
                continue
            value = bound.read(layers)
            try:
                values[bound.parameter.name] = await value if is_awaitable(value) else value
            except Exception as error:
                raise bound.unbound(f"its resolver raised {type(error).__name__}") from error
        return values

    def invoke(self, body: Callable[..., Any], values: Arguments) -> Any:
        """Call the body with its arguments."""
        if self.is_named:
            return body(**values)
        positional, named = self._spread(values)
        return body(*positional, **named)

    def bound_values(self, values: Arguments) -> Arguments:
        """Return those of a call's values that were bound, for masking them in foreign texts."""
        return {
            bound.parameter.name: values[bound.parameter.name]
            for bound in self._bound
            if bound.parameter.name in values
        }

    def _named(self, positional: tuple[Any, ...], arguments: Arguments) -> Arguments:
        if len(positional) > len(self._visible):
            raise InvalidParametersError(
                f"Invalid arguments: {len(positional)} by position, there are {len(self._visible)} parameters."
            )
        named = dict(zip(self._visible, positional, strict=False))
        twice = [name for name in named if name in arguments]
        if twice:
            raise InvalidParametersError(f"Invalid arguments: {twice[0]!r} was given twice, by position and by name.")
        return {**named, **arguments}

    def _spread(self, values: Arguments) -> tuple[list[Any], Arguments]:
        """Return positional and named arguments, for bodies that take some by position or collect them."""
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
                named.update(self._collected(name, values[name]))
            else:
                named[name] = values[name]
        return positional, named

    def _collected(self, name: str, values: Arguments) -> Arguments:
        for other in self._parameters:
            if other.name in values and other.name != name:
                raise InvalidParametersError(
                    f"Invalid arguments: {name!r} may not hold {other.name!r}, a parameter of its own."
                )
        return values
