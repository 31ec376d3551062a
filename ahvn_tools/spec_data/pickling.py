"""Pickles of specs: the function by import path or by value, the public parts of the spec, and its state."""

from __future__ import annotations

import contextvars
import functools
import io
import pickle
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ahvn_tools.binding import Binding
from ahvn_tools.errors import PickleError
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.execution.pickling import FunctionPath, is_picklable, pickler_class, to_path
from ahvn_tools.schema.secret_parameters import without_secret_defaults
from ahvn_tools.sources.injection import function_of
from ahvn_tools.spec_data.public_parts import bound_secrets, public_bindings, public_options, public_state, secret_keys
from ahvn_tools.state import StateKey

_is_pickling: contextvars.ContextVar[bool] = contextvars.ContextVar("is_pickling", default=False)
_loaded_specs: contextvars.ContextVar[list[tuple[Any, PickledSpec]]] = contextvars.ContextVar("loaded_specs")


@dataclass(frozen=True, kw_only=True, repr=False)
class PickledSpec:
    """The pickled parts: what rebuilds the template, and the changes to the spec since."""

    rebuild: Callable[..., Any]
    """Returns the template and the body for the pickled body, the bindings and these arguments."""
    arguments: Mapping[str, Any]
    body: Any
    """The function, or its import path as data has it."""
    bindings: Mapping[str, Binding]
    state: Mapping[str, Any]
    secrets: frozenset[StateKey]
    """Keys that were ever bound as secret; the values under them are left out."""
    extra_attributes: Mapping[str, Any]
    """Attributes that a subclass or a user set on the spec."""


def reduce_spec(spec: Any) -> tuple[Any, ...]:
    """Return what `__reduce_ex__` of a spec returns: its bytes by cloudpickle, or its state inside of another spec.

    Raises PickleError, which names the part that cannot be pickled.
    """
    if _is_pickling.get():
        return _new_spec, (type(spec),), spec.__getstate__()
    token = _is_pickling.set(True)
    try:
        return load_spec, (_dumps_without_secret_defaults(spec),)
    except Exception as error:  # a foreign __reduce__ may raise anything
        raise _pickle_error(spec, error) from error
    finally:
        _is_pickling.reset(token)


def _new_spec(cls: type) -> Any:
    """Return a spec without its parts; the `__new__` of a subclass may need what is not there yet."""
    return object.__new__(cls)


def load_spec(data: bytes) -> Any:
    """Load a spec from its bytes."""
    loaded: list[tuple[Any, PickledSpec]] = []
    token = _loaded_specs.set(loaded)
    try:
        spec = pickle.loads(data)  # noqa: S301  # the bytes are a part of a pickle that the caller chose to load
    finally:
        _loaded_specs.reset(token)
    for incomplete, pickled in loaded:
        incomplete.compiled, incomplete.body = _rebuild(pickled)
    return spec


def rebuild_after_load(spec: Any, pickled: PickledSpec) -> None:
    """Rebuild a spec when the whole pickle is loaded: specs that refer to each other are incomplete before."""
    _loaded_specs.get().append((spec, pickled))


def to_pickled_spec(
    compiled: CompiledTool,
    body: Any,
    state: Mapping[str, Any],
    secrets: Iterable[StateKey],
    extra_attributes: Mapping[str, Any],
) -> PickledSpec:
    """Return the parts of a spec to pickle."""
    template, secret = compiled.template, secret_keys(compiled, secrets)
    function = None if "tool" in template.rebuild_arguments else to_path(function_of(body))
    return PickledSpec(
        rebuild=template.rebuild,
        arguments={"options": public_options(compiled, bound_secrets(compiled)), **template.rebuild_arguments},
        body=function.to_data() if isinstance(function, FunctionPath) else function,
        bindings=public_bindings(compiled, state, secret),
        state=public_state(state, secret),
        secrets=secret,
        extra_attributes=extra_attributes,
    )


def _rebuild(pickled: PickledSpec) -> tuple[CompiledTool, Any]:
    body = FunctionPath(**pickled.body).load() if isinstance(pickled.body, dict) else pickled.body
    template, body = pickled.rebuild(body, bindings=pickled.bindings, **pickled.arguments)
    return CompiledTool(template, pickled.bindings), body


def _pickle_error(spec: Any, error: Exception) -> PickleError:
    """Return an error that names the state key, the constant, the attribute or the function that cannot be pickled."""
    parts, reason = spec.__getstate__(), f"cannot be pickled ({type(error).__name__})"
    for key in _unpicklable_keys(parts.state, set()):
        return PickleError(
            f"State key {key!r} of {spec.name!r} {reason}; remove it from the state, "
            "or bind it with secret=True or a resolver, which pickles leave out."
        )
    for name, binding in parts.bindings.items():
        if not is_picklable(binding):
            return PickleError(f"The bound value of parameter {name!r} of {spec.name!r} {reason}; bind another one.")
    for name, value in parts.extra_attributes.items():
        if not is_picklable(value):
            return PickleError(f"Attribute {name!r} of {spec.name!r} {reason}; remove it first.")
    owner = getattr(parts.body, "__self__", None)
    if owner is not None and not is_picklable(owner):
        fix = "add a __getstate__ that leaves out unpicklable attributes"
        return PickleError(f"The {type(owner).__name__} of method {spec.name!r} {reason}; {fix}.")
    return PickleError(f"The function of {spec.name!r} {reason}; make it importable.")


def _unpicklable_keys(state: Mapping[str, Any], seen: set[int], prefix: str = "") -> list[str]:
    keys: list[str] = []
    seen.add(id(state))
    for name, value in state.items():
        if id(value) in seen or is_picklable(value):
            continue
        inside = _unpicklable_keys(value, seen, f"{prefix}{name}.") if isinstance(value, dict) else []
        keys.extend(inside or [f"{prefix}{name}"])
    return keys


def _dumps_without_secret_defaults(spec: Any) -> bytes:
    buffer = io.BytesIO()
    _spec_pickler_class()(buffer).dump(spec)
    return buffer.getvalue()


@functools.cache
def _spec_pickler_class() -> type[Any]:
    """Return a pickler class that leaves secret defaults out of functions that are pickled by value."""
    base: Any = pickler_class()

    class SpecPickler(base):  # type: ignore[misc]  # cloudpickle is imported when it is needed
        def reducer_override(self, value: Any) -> Any:
            reduced = super().reducer_override(value)
            if reduced is NotImplemented or not isinstance(value, types.FunctionType):
                return reduced
            public = without_secret_defaults(value)
            return reduced if public is value else super().reducer_override(public)

    return SpecPickler
