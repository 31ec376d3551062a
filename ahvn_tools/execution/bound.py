"""BoundParameter: one bound parameter of a plan."""

from __future__ import annotations

import copy
from typing import Any

from ahvn_tools.binding import Binding, StateScopes, WorkerResolver
from ahvn_tools.errors import MISSING_VALUE, BindError, UnboundStateError
from ahvn_tools.schema.inputs import BoundValueValidator, Parameter
from ahvn_tools.state import MISSING, UNSET, StateKey, copy_containers


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
        return self.validate(value)

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

    def validate(self, value: Any) -> Any:
        """Return the value for the body. Raises UnboundStateError, whose text does not show the value."""
        if value is MISSING:
            return self._default_value()
        if value is self.binding.stored_default:
            value = copy_containers(value)  # calls cannot change the default that the state holds for all of them
        if self._check is None:
            return value
        try:
            return self._check(value)
        except Exception:  # noqa: BLE001  # a validator's own error would show the value
            reason = f"it holds a {type(value).__name__} that does not fit {self.parameter.expected!r}"
            raise self.unbound_error(reason) from None

    def _default_value(self) -> Any:
        if self.binding.is_value_removed:
            is_secret, where = self.binding.is_secret, "was left out of the pickle or the data"
            raise self.unbound_error(f"it is secret and {where}" if is_secret else f"its value {where}")
        if (bound_default := self.binding.default_value()) is not MISSING:
            return self.validate(bound_default)
        default = self.parameter.default  # read once: it may be made for this call
        if default is not UNSET:
            return default
        if self.parameter.is_required:
            raise self.unbound_error("no state has that key")
        return MISSING

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
        return self._error(f": {reason}; set state key {self._key_text!r}.")

    @property
    def _key_text(self) -> str:
        return self.binding.key.text if self.binding.key else self.parameter.name

    def _error(self, ending: str) -> UnboundStateError:
        name, key = self.parameter.name, self._key_text
        explanation = f"Parameter {name!r} is bound to {key!r}{ending}"
        return UnboundStateError(MISSING_VALUE, parameter=name, key=key, explanation=explanation)
