"""How a spec travels: the function by import path or by value, state without secrets, nothing that is compiled."""

from __future__ import annotations

import contextvars
import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ahvn_tools.binding import Binding
from ahvn_tools.errors import PickleError
from ahvn_tools.execution.pickles import Path, dumped, is_picklable, reference
from ahvn_tools.execution.sealed import Sealed
from ahvn_tools.state import MISSING, UNSET, Key, without_keys

_is_packing: contextvars.ContextVar[bool] = contextvars.ContextVar("is_packing", default=False)
_arriving: contextvars.ContextVar[list[Callable[[], None]]] = contextvars.ContextVar("arriving")


@dataclass(frozen=True, kw_only=True, repr=False)
class Parcel:
    """What goes over: enough to make the recipe again, and what was done to the spec since."""

    remake: Callable[..., Any]
    body: Any
    options: Mapping[str, Any]
    hints: Mapping[str, Any]
    bindings: Mapping[str, Binding]
    state: Mapping[str, Any]
    secrets: frozenset[Key]
    """Keys that were ever bound as secret; what is under them stays behind."""
    others: Mapping[str, Any]
    """Attributes that a subclass or a user put on the spec."""


def is_packing() -> bool:
    """Tell whether a spec is being pickled as a part of another one (or of itself)."""
    return _is_packing.get()


def packed(spec: Any) -> bytes:
    """Pickle a spec by cloudpickle. Raises PickleError, which names what cannot be pickled."""
    token = _is_packing.set(True)
    try:
        return dumped(spec)
    except Exception as error:  # a foreign __reduce__ may raise anything
        raise _explained(spec, error) from error
    finally:
        _is_packing.reset(token)


def unpacked(data: bytes) -> Any:
    """Make the spec again from its bytes."""
    arriving: list[Callable[[], None]] = []
    token = _arriving.set(arriving)
    try:
        spec = pickle.loads(data)  # noqa: S301  # the bytes are a part of a pickle that the caller chose to load
    finally:
        _arriving.reset(token)
    for finish in arriving:
        finish()
    return spec


def when_whole(finish: Callable[[], None]) -> None:
    """Call `finish` when everything has come over: functions that name each other's specs arrive half made."""
    _arriving.get().append(finish)


def parcel(
    sealed: Sealed, body: Any, state: Mapping[str, Any], secrets: Iterable[Key], others: Mapping[str, Any]
) -> Parcel:
    """Return what of a spec goes over."""
    recipe = sealed.recipe
    bound = (*recipe.bindings.values(), *sealed.bindings.values())
    secret = frozenset(secrets) | {binding.key for binding in bound if binding.is_secret and binding.key is not None}
    return Parcel(
        remake=recipe.remake,
        body=reference(body) if "tool" not in recipe.hints else None,
        options=recipe.options,
        hints=recipe.hints,
        bindings={name: _sent(binding, state, secret) for name, binding in sealed.bindings.items()},
        state=without_keys(state, secret),
        secrets=secret,
        others=others,
    )


def _sent(binding: Binding, state: Mapping[str, Any], secrets: Iterable[Key]) -> Binding:
    """Return a binding as it travels: what is secret of it stays behind."""
    if binding.is_secret:
        return binding.left_behind() if _has_value(binding, state) else binding
    if binding.key is None or binding.default is UNSET:
        return binding
    steps = binding.key.steps
    inside = [Key("", ("default", *key.steps[len(steps) :])) for key in secrets if key.steps[: len(steps)] == steps]
    return replace(binding, default=without_keys({"default": binding.default}, inside).get("default", UNSET))


def _has_value(binding: Binding, state: Mapping[str, Any]) -> bool:
    if binding.resolver is not None or binding.is_left_behind:
        return True
    try:
        return binding.read((state,)) is not MISSING
    except Exception:  # noqa: BLE001  # a property may raise anything; that is not nothing
        return True


def opened(parcel: Parcel) -> tuple[Sealed, Any]:
    """Make recipe, bindings and body again."""
    body = parcel.body.find() if isinstance(parcel.body, Path) else parcel.body
    recipe, body = parcel.remake(body, parcel.options, bindings=parcel.bindings, **parcel.hints)
    return Sealed(recipe, parcel.bindings), body


def _explained(spec: Any, error: Exception) -> PickleError:
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
    for name, value in sent.others.items():
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
