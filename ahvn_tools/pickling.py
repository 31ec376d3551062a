"""How a spec travels: the function by import path or by value, state without secrets, nothing that is compiled."""

from __future__ import annotations

import contextvars
import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ahvn_tools.binding import Binding
from ahvn_tools.errors import PickleError
from ahvn_tools.execution.compiled import CompiledTool
from ahvn_tools.execution.pickling import ImportPath, dumps, is_picklable, to_import_path
from ahvn_tools.state import MISSING, UNSET, StateKey, without_keys

_is_pickling: contextvars.ContextVar[bool] = contextvars.ContextVar("is_packing", default=False)
_load_callbacks: contextvars.ContextVar[list[Callable[[], None]]] = contextvars.ContextVar("arriving")


@dataclass(frozen=True, kw_only=True, repr=False)
class PickledSpec:
    """What goes over: enough to make the recipe again, and what was done to the spec since."""

    rebuild: Callable[..., Any]
    body: Any
    options: Mapping[str, Any]
    rebuild_arguments: Mapping[str, Any]
    bindings: Mapping[str, Binding]
    state: Mapping[str, Any]
    secrets: frozenset[StateKey]
    """Keys that were ever bound as secret; what is under them stays behind."""
    extra_attributes: Mapping[str, Any]
    """Attributes that a subclass or a user put on the spec."""


def is_pickling() -> bool:
    """Tell whether a spec is being pickled as a part of another one (or of itself)."""
    return _is_pickling.get()


def dump_spec(spec: Any) -> bytes:
    """Pickle a spec by cloudpickle. Raises PickleError, which names what cannot be pickled."""
    token = _is_pickling.set(True)
    try:
        return dumps(spec)
    except Exception as error:  # a foreign __reduce__ may raise anything
        raise _pickle_error(spec, error) from error
    finally:
        _is_pickling.reset(token)


def load_spec(data: bytes) -> Any:
    """Make the spec again from its bytes."""
    arriving: list[Callable[[], None]] = []
    token = _load_callbacks.set(arriving)
    try:
        spec = pickle.loads(data)  # noqa: S301  # the bytes are a part of a pickle that the caller chose to load
    finally:
        _load_callbacks.reset(token)
    for finish in arriving:
        finish()
    return spec


def call_after_load(finish: Callable[[], None]) -> None:
    """Call `finish` when everything has come over: functions that name each other's specs arrive half made."""
    _load_callbacks.get().append(finish)


def to_pickled_spec(
    compiled: CompiledTool,
    body: Any,
    state: Mapping[str, Any],
    secrets: Iterable[StateKey],
    extra_attributes: Mapping[str, Any],
) -> PickledSpec:
    """Return what of a spec goes over."""
    recipe = compiled.template
    bound = (*recipe.bindings.values(), *compiled.bindings.values())
    secret = frozenset(secrets) | {binding.key for binding in bound if binding.is_secret and binding.key is not None}
    return PickledSpec(
        rebuild=recipe.rebuild,
        body=to_import_path(body) if "tool" not in recipe.rebuild_arguments else None,
        options=recipe.options,
        rebuild_arguments=recipe.rebuild_arguments,
        bindings={name: _without_secrets(binding, state, secret) for name, binding in compiled.bindings.items()},
        state=without_keys(state, secret),
        secrets=secret,
        extra_attributes=extra_attributes,
    )


def _without_secrets(binding: Binding, state: Mapping[str, Any], secrets: Iterable[StateKey]) -> Binding:
    """Return a binding as it travels: what is secret of it stays behind."""
    if binding.is_secret:
        return binding.without_value() if _has_value(binding, state) else binding
    if binding.key is None or binding.default is UNSET:
        return binding
    steps = binding.key.steps
    inside = [
        StateKey("", ("default", *key.steps[len(steps) :])) for key in secrets if key.steps[: len(steps)] == steps
    ]
    return replace(binding, default=without_keys({"default": binding.default}, inside).get("default", UNSET))


def _has_value(binding: Binding, state: Mapping[str, Any]) -> bool:
    if binding.resolver is not None or binding.is_value_removed:
        return True
    try:
        return binding.read((state,)) is not MISSING
    except Exception:  # noqa: BLE001  # a property may raise anything; that is not nothing
        return True


def rebuild_compiled(pickled: PickledSpec) -> tuple[CompiledTool, Any]:
    """Make recipe, bindings and body again."""
    body = pickled.body.load() if isinstance(pickled.body, ImportPath) else pickled.body
    recipe, body = pickled.rebuild(body, pickled.options, bindings=pickled.bindings, **pickled.rebuild_arguments)
    return CompiledTool(recipe, pickled.bindings), body


def _pickle_error(spec: Any, error: Exception) -> PickleError:
    """Return an error that names the state key, the constant, the attribute or the function that cannot be pickled."""
    sent, kind = spec.__getstate__(), type(error).__name__
    for key in _unpicklable_keys(sent.state, set()):
        return PickleError(
            f"State key {key!r} of {spec.name!r} cannot be pickled ({kind}); "
            "take it out of the state before, or bind it with secret=True or a resolver, which stay behind."
        )
    for name, binding in sent.bindings.items():
        if not is_picklable(binding):
            return PickleError(f"What parameter {name!r} of {spec.name!r} is bound to cannot be pickled ({kind}).")
    for name, value in sent.extra_attributes.items():
        if not is_picklable(value):
            return PickleError(f"Attribute {name!r} of {spec.name!r} cannot be pickled ({kind}); take it off before.")
    owner = getattr(sent.body, "__self__", None)
    if owner is not None and not is_picklable(owner):
        return PickleError(
            f"The {type(owner).__name__} whose method {spec.name!r} is cannot be pickled ({kind}); "
            "give it a __getstate__ that leaves out what cannot travel."
        )
    return PickleError(f"What {spec.name!r} was made from cannot be pickled ({kind}); make it importable.")


def _unpicklable_keys(state: Mapping[str, Any], seen: set[int], prefix: str = "") -> list[str]:
    bad: list[str] = []
    seen.add(id(state))
    for name, value in state.items():
        if id(value) in seen or is_picklable(value):
            continue
        inside = _unpicklable_keys(value, seen, f"{prefix}{name}.") if isinstance(value, dict) else []
        bad.extend(inside or [f"{prefix}{name}"])
    return bad
