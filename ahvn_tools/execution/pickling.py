"""Pickles: values by cloudpickle, functions by import path or by value."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import io
import sys
from collections import ChainMap
from dataclasses import dataclass
from typing import Any

from ahvn_tools.errors import PickleError


@dataclass(frozen=True)
class ImportPath:
    """A function that the other side finds by importing: itself, or inside the spec that stands in its place."""

    module: str
    qualname: str

    def load(self) -> Any:
        """Import the function. Raises PickleError when it is not there."""
        found = _resolve_qualname(importlib.import_module(self.module), self.qualname)
        if found is None:
            raise PickleError(f"Module {self.module!r} has no {self.qualname!r} here; load the spec where it has.")
        return getattr(found, "function", found)


def dumps(value: Any) -> bytes:
    """Pickle a value; functions and classes that nobody else could import go by value. Raises what pickling raises."""
    buffer = io.BytesIO()
    _pickler_class()(buffer).dump(value)
    return buffer.getvalue()


@functools.cache
def _pickler_class() -> type[Any]:
    """Return cloudpickle's pickler, which by value makes a second `dataclasses.MISSING` (up to its version 3.1)."""
    import cloudpickle

    missing = {type(dataclasses.MISSING): lambda _: "MISSING"}
    table = ChainMap(missing, cloudpickle.Pickler.dispatch_table)
    return type("_Pickler", (cloudpickle.Pickler,), {"dispatch_table": table})


def to_import_path(body: Any) -> Any:
    """Return the import path of a function whose name leads to the spec around it; cloudpickle sees to all others."""
    module, qualname = getattr(body, "__module__", None), getattr(body, "__qualname__", "")
    if module in (None, "__main__", "__mp_main__") or module not in sys.modules or "<" in qualname:
        return body
    found = _resolve_qualname(sys.modules[module], qualname)
    return ImportPath(module, qualname) if found is not body and getattr(found, "function", None) is body else body


def _resolve_qualname(owner: Any, qualname: str) -> Any:
    for name in qualname.split("."):
        owner = getattr(owner, name, None)
    return owner


def is_picklable(value: Any) -> bool:
    """Tell whether a value can be pickled."""
    try:
        dumps(value)
    except Exception:  # noqa: BLE001  # a foreign __reduce__ may raise anything; the answer is no
        return False
    return True
