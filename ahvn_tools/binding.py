"""Binding: the source of a parameter that is hidden from the model."""

from __future__ import annotations

import inspect
import os
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ahvn_tools.errors import BindError
from ahvn_tools.state import MISSING, UNSET, StateKey, copy_containers, may_have

StateScopes = Sequence[Mapping[str, Any]]
"""States in lookup order: a session's, a toolkit's, the spec's own."""


@dataclass(frozen=True)
class EnvironmentVariable:
    """A resolver that reads an environment variable. It does not block, and its pickle has the name alone."""

    name: str
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False, compare=False)

    def __call__(self) -> str:
        """Return the value. Raises BindError if there is none."""
        if not (value := self.environment.get(self.name)):
            raise BindError(f"The environment variable {self.name!r} is not set: set it.")
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the environment: the process that loads it has its own."""
        return EnvironmentVariable, (self.name,)


@dataclass(frozen=True)
class WorkerResolver:
    """A resolver that is called where the body runs: for connections, and for secrets that only the worker has.

    In a call with `isolation`, the function is sent instead of its value. It takes no argument, may be async, and must
    be importable in the worker, or picklable. In a call in this process it is a resolver as any other.

    >>> from ahvn_tools import ToolSpec, WorkerResolver
    >>> def connect() -> dict:
    ...     return {"ann": 3}
    >>> def count(name: str, database: dict) -> int:
    ...     return database[name]
    >>> ToolSpec.from_function(count).bind("database", resolver=WorkerResolver(connect)).call(name="ann")
    3
    """

    function: Callable[[], Any] = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse a function that needs an argument. Raises BindError."""
        if not callable(self.function):
            raise BindError(f"WorkerResolver takes a function without arguments, not a {type(self.function).__name__}.")
        if _takes_state("WorkerResolver", self.function):
            raise BindError("The function of a WorkerResolver takes no argument: the state is not where the body runs.")

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function."""
        return _is_async(self.function)

    def __call__(self) -> Any:
        """Return what the function returns."""
        return self.function()


@dataclass(frozen=True, kw_only=True, slots=True)
class Binding:
    """The source of one parameter: a state key, a resolver, or a constant (then `key` is None)."""

    parameter: str
    key: StateKey | None = None
    default: Any = field(default=UNSET, repr=False)
    """The constant, or the value to use if no state has the key."""
    stored_default: Any = field(default=UNSET, repr=False, compare=False)
    """The default in the state of a toolkit. Each call gets a copy, because sessions share that state."""
    is_copied: bool = False
    """Whether each call gets its own copy of the containers in the constant."""
    resolver: Callable[..., Any] | None = field(default=None, repr=False)
    """Returns the value at call time; called without arguments, or with the state if it takes one argument."""
    is_secret: bool = False
    is_required: bool = False
    """Whether a call without a value fails, also if the parameter is optional."""
    takes_state: bool = False
    is_value_removed: bool = False
    """Whether a pickle or data left the value out; then the function's own default is not used either."""

    @classmethod
    def constant(cls, parameter: str, value: Any, *, is_secret: bool = False, is_copied: bool = False) -> Binding:
        """Return a binding to a value that is not read from the state."""
        return cls(parameter=parameter, default=value, is_secret=is_secret, is_copied=is_copied)

    @classmethod
    def create(
        cls,
        parameter: str,
        state_key: str | None,
        default: Any,
        resolver: Callable[..., Any] | None,
        *,
        is_secret: bool,
        is_required: bool = False,
    ) -> Binding:
        """Return the binding for `bind`; the key is the parameter's name by default.

        Raises BindError for a resolver and a default together, and for a resolver that takes more than the state;
        StateKeyError for a malformed key.
        """
        key = StateKey.from_name(parameter) if state_key is None else StateKey.parse(state_key)
        if resolver is None:
            default = copy_containers(default)
            return cls(parameter=parameter, key=key, default=default, is_secret=is_secret, is_required=is_required)
        if default is not UNSET:
            raise BindError(f"{parameter!r} cannot have a resolver and a default; return the default in the resolver.")
        if not callable(resolver):
            raise BindError(f"The resolver of {parameter!r} is not callable; pass a function, or bind a state key.")
        takes_state = _takes_state(parameter, resolver)
        return cls(
            parameter=parameter,
            key=key,
            resolver=resolver,
            is_secret=is_secret,
            is_required=is_required,
            takes_state=takes_state,
        )

    @property
    def is_constant(self) -> bool:
        """Whether the binding itself contains the value."""
        return self.key is None

    @property
    def is_empty(self) -> bool:
        """Whether there is never a value, so that the body's own default applies."""
        return self.is_constant and self.default is UNSET and self.resolver is None

    @property
    def is_async(self) -> bool:
        """Whether the resolver is a coroutine function."""
        return self.resolver.is_async if isinstance(self.resolver, WorkerResolver) else _is_async(self.resolver)

    def read(self, scopes: StateScopes) -> Any:
        """Return the current value, or MISSING. Raises what a resolver or a property raises."""
        if self.resolver is None:
            value = MISSING if self.key is None else self.key.find(scopes)
            return self.default_value() if value is MISSING else value
        value = self.resolver(chain_scopes(scopes)) if self.takes_state else self.resolver()
        if inspect.iscoroutine(value) and not self.is_async:
            value.close()
            raise BindError(f"The resolver of {self.parameter!r} returned a coroutine; define it with `async def`.")
        return value

    def may_have_value(self, state: Mapping[str, Any]) -> bool:
        """Return whether a call could get a value here, from the state or otherwise; reading it may raise."""
        if self.resolver is not None or self.is_value_removed or self.default is not UNSET:
            return True
        return self.key is not None and may_have(state, self.key)

    def default_value(self) -> Any:
        """Return the constant, the default, or MISSING. A default is copied, so that calls cannot change it."""
        if self.default is UNSET:
            return MISSING
        return copy_containers(self.default) if self.is_copied or self.key is not None else self.default

    def with_stored_default(self, state: MutableMapping[str, Any]) -> Binding:
        """Store a copy of the default in the state of a toolkit, and return the binding that knows the copy.

        Raises StateKeyError.
        """
        stored = copy_containers(self.default)
        self.store_default(stored, state)
        return replace(self, stored_default=stored)

    def store_default(self, default: Any, state: MutableMapping[str, Any]) -> None:
        """Store a default in the state if it has no value under the key. Raises StateKeyError."""
        if self.key is not None and default is not UNSET and self.key.read(state) is MISSING:
            self.key.write(state, default)

    def without_value(self) -> Binding:
        """Return the binding of a secret for pickling: without its default, constant and resolver.

        The name of an environment variable is no secret.
        """
        if isinstance(self.resolver, EnvironmentVariable):
            return self
        return replace(self, default=UNSET, stored_default=UNSET, resolver=None, is_value_removed=True)


def bindable_parameters(parameters: Iterable[str], bindings: Mapping[str, Binding]) -> list[str]:
    """Return the parameters that may be bound: all that were not fixed when the tool was made."""
    return [name for name in parameters if not (name in bindings and bindings[name].is_constant)]


def chain_scopes(scopes: StateScopes) -> Mapping[str, Any]:
    """Return the states as one mapping, in lookup order, for resolvers and ToolContext."""
    return scopes[0] if len(scopes) == 1 else ChainMap(*map(dict, scopes))


def _is_async(resolver: Callable[..., Any] | None) -> bool:
    return resolver is not None and (
        inspect.iscoroutinefunction(resolver) or inspect.iscoroutinefunction(getattr(resolver, "__call__", None))  # noqa: B004  # the method itself is needed
    )


def _takes_state(parameter: str, resolver: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(resolver).parameters.values()
    except (ValueError, TypeError):
        return False
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(required) > 1 or any(p.kind is p.KEYWORD_ONLY for p in required):
        raise BindError(f"The resolver of {parameter!r} must take no argument, or one argument: the state.")
    return bool(required)
