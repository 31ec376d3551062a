"""How a spec travels: the function by import path or by value, state without secrets, nothing that is compiled."""

from __future__ import annotations

import contextvars
import importlib
import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ahvn_tools.binding import Binding
from ahvn_tools.errors import PickleError
from ahvn_tools.execution.sealed import Sealed
from ahvn_tools.state import without_keys

_is_packing: contextvars.ContextVar[bool] = contextvars.ContextVar("is_packing", default=False)


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """What goes over: enough to make the recipe again, and what was done to the spec since."""

    remake: Callable[..., Any]
    body: Any
    options: Mapping[str, Any]
    hints: Mapping[str, Any]
    bindings: Mapping[str, Binding]
    state: Mapping[str, Any]
    others: Mapping[str, Any]
    """Attributes that a subclass or a user put on the spec."""


@dataclass(frozen=True)
class Path:
    """A function that the other side finds by importing: itself, or inside the spec that stands in its place."""

    module: str
    qualname: str

    def find(self) -> Any:
        """Import the function."""
        found = _walk(importlib.import_module(self.module), self.qualname)
        return getattr(found, "function", found)


def is_packing() -> bool:
    """Tell whether a spec is being pickled as a part of another one (or of itself)."""
    return _is_packing.get()


def packed(spec: Any) -> bytes:
    """Pickle a spec by cloudpickle. Raises PickleError, which names what cannot be pickled."""
    import cloudpickle

    token = _is_packing.set(True)
    try:
        return bytes(cloudpickle.dumps(spec))
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise _explained(spec, error, cloudpickle.dumps) from error
    finally:
        _is_packing.reset(token)


def unpacked(data: bytes) -> Any:
    """Make the spec again from its bytes."""
    return pickle.loads(data)  # noqa: S301  # the bytes are a part of a pickle that the caller chose to load


def parcel(sealed: Sealed, body: Any, state: Mapping[str, Any], others: Mapping[str, Any]) -> Parcel:
    """Return what of a spec goes over."""
    recipe = sealed.recipe
    secret = [binding.key for binding in sealed.bindings.values() if binding.is_secret and binding.key is not None]
    return Parcel(
        remake=recipe.remake,
        body=_reference(body) if "tool" not in recipe.hints else None,
        options=recipe.options,
        hints=recipe.hints,
        bindings={name: binding.without_secret() for name, binding in sealed.bindings.items()},
        state=without_keys(state, secret),
        others=others,
    )


def opened(parcel: Parcel) -> tuple[Sealed, Any]:
    """Make recipe, bindings and body again."""
    body = parcel.body.find() if isinstance(parcel.body, Path) else parcel.body
    recipe, body = parcel.remake(body, parcel.options, bindings=parcel.bindings, **parcel.hints)
    return Sealed(recipe, parcel.bindings), body


def _reference(body: Any) -> Any:
    """Return the import path of a function whose name leads to the spec around it; cloudpickle sees to all others."""
    module, qualname = getattr(body, "__module__", None), getattr(body, "__qualname__", "")
    if module in (None, "__main__", "__mp_main__") or module not in sys.modules or "<" in qualname:
        return body
    found = _walk(sys.modules[module], qualname)
    return Path(module, qualname) if found is not body and getattr(found, "function", None) is body else body


def _walk(owner: Any, qualname: str) -> Any:
    for name in qualname.split("."):
        owner = getattr(owner, name, None)
    return owner


def _explained(spec: Any, error: Exception, dumps: Callable[[Any], bytes]) -> PickleError:
    """Return an error that names the state key, the constant or the function that cannot be pickled."""
    sent = spec.__getstate__()
    for key in _unpicklable_keys(sent.state, dumps):
        return PickleError(
            f"State key {key!r} of {spec.name!r} cannot be pickled ({type(error).__name__}); "
            "take it out of the state before, or bind it with secret=True or a resolver, which stay behind."
        )
    for name, binding in sent.bindings.items():
        if not _is_picklable(binding, dumps):
            return PickleError(
                f"What parameter {name!r} of {spec.name!r} is bound to cannot be pickled ({type(error).__name__})."
            )
    return PickleError(f"The function of {spec.name!r} cannot be pickled: {type(error).__name__}; make it importable.")


def _unpicklable_keys(state: Mapping[str, Any], dumps: Callable[[Any], bytes], prefix: str = "") -> list[str]:
    bad: list[str] = []
    for name, value in state.items():
        if _is_picklable(value, dumps):
            continue
        inside = _unpicklable_keys(value, dumps, f"{prefix}{name}.") if isinstance(value, dict) else []
        bad.extend(inside or [f"{prefix}{name}"])
    return bad


def _is_picklable(value: Any, dumps: Callable[[Any], bytes]) -> bool:
    try:
        dumps(value)
    except Exception:  # noqa: BLE001  # a foreign __reduce__ may raise anything; the answer is no
        return False
    return True
