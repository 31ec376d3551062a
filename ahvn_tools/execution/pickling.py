"""How values are pickled for another process: by cloudpickle, and functions inside a spec by import path.

No pickle and no data of a tool has the values of secret parameters that are bound.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import io
import sys
from collections import ChainMap
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ahvn_tools.errors import PickleError
from ahvn_tools.execution.plan import CompiledTool
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.argument_changes import ArgumentChanges
from ahvn_tools.schema.keywords import remove_secret_defaults
from ahvn_tools.state import StateKey


@dataclass(frozen=True)
class ImportPath:
    """Where to import a function: the name leads to the function itself, or to a spec that was made from it."""

    module: str
    qualname: str

    def load(self) -> Any:
        """Import the function. Raises PickleError when the module has no such name."""
        owner = _resolve_qualname(importlib.import_module(self.module), self.qualname)
        if owner is None:
            raise PickleError(
                f"Module {self.module!r} has no {self.qualname!r} in this process: load the spec where it has one."
            )
        return getattr(owner, "function", owner)


_modules_by_value: set[str] = set()
"""Modules and packages that no other process can import under their names."""


def pickle_by_value(module: ModuleType) -> None:
    """Pickle what this module defines by value from now on, because no other process can import it by its name."""
    _modules_by_value.add(module.__name__)
    if (cloudpickle := sys.modules.get("cloudpickle")) is not None:
        cloudpickle.register_pickle_by_value(module)


class SizeLimitError(Exception):
    """A pickle is larger than its limit."""


class _LimitedBuffer(io.BytesIO):
    """A buffer that refuses more bytes than its limit, so that a huge value is not copied."""

    def __init__(self, max_bytes: int | None) -> None:
        super().__init__()
        self._max_bytes = max_bytes

    def write(self, data: Any) -> int:
        """Append the data. Raises SizeLimitError."""
        if self._max_bytes is not None and self.tell() + memoryview(data).nbytes > self._max_bytes:
            raise SizeLimitError
        return super().write(data)


def dumps(value: Any, max_bytes: int | None = None) -> bytes:
    """Pickle a value; functions and classes that cannot be imported go by value.

    Raises what pickling raises, and SizeLimitError for a pickle of more than `max_bytes`.
    """
    buffer = _LimitedBuffer(max_bytes)
    pickler_class()(buffer).dump(value)
    return buffer.getvalue()


@functools.cache
def pickler_class() -> type[Any]:
    """Return cloudpickle's pickler class; without the table, its version 3.1 makes a second `dataclasses.MISSING`."""
    import cloudpickle

    for name in _modules_by_value & sys.modules.keys():
        cloudpickle.register_pickle_by_value(sys.modules[name])
    missing = {type(dataclasses.MISSING): lambda _: "MISSING"}
    table = ChainMap(missing, cloudpickle.Pickler.dispatch_table)
    return type("_Pickler", (cloudpickle.Pickler,), {"dispatch_table": table})


def is_importable_elsewhere(module: str) -> bool:
    """Return whether another process that has the code of a module can import it by its name."""
    return module.partition(".")[0] not in _modules_by_value


def to_import_path(body: Any) -> Any:
    """Return the import path of a function whose name leads to a spec made from it; other functions as they are."""
    module, qualname = getattr(body, "__module__", None), getattr(body, "__qualname__", "")
    if module in (None, "__main__", "__mp_main__") or module not in sys.modules or "<" in qualname:
        return body
    if not is_importable_elsewhere(module):
        return body
    owner = _resolve_qualname(sys.modules[module], qualname)
    return ImportPath(module, qualname) if owner is not body and getattr(owner, "function", None) is body else body


def _resolve_qualname(owner: Any, qualname: str) -> Any:
    for name in qualname.split("."):
        owner = getattr(owner, name, None)
    return owner


def is_picklable(value: Any) -> bool:
    """Return whether a value can be pickled."""
    try:
        dumps(value)
    except Exception:  # noqa: BLE001  # a user's __reduce__ may raise anything
        return False
    return True


def bound_secrets(compiled: CompiledTool) -> frozenset[str]:
    """Return the bound parameters that are marked, named or bound as secret."""
    secret_names = compiled.plan.secret_names
    return frozenset(name for name, item in compiled.bindings.items() if item.is_secret or name in secret_names)


def secret_keys(compiled: CompiledTool, secrets: Iterable[StateKey]) -> frozenset[StateKey]:
    """Return the keys that are or were bound as secret."""
    bound = (*compiled.template.bindings.values(), *compiled.bindings.values())
    return frozenset(secrets) | {item.key for item in bound if item.is_secret and item.key is not None}


def removed_defaults(compiled: CompiledTool) -> frozenset[str]:
    """Return the parameters with a default in the option `arguments` that `without_secret_values` leaves out."""
    return bound_secrets(compiled) & _changes(compiled).defaults().keys()


def without_secret_values(compiled: CompiledTool) -> dict[str, Any]:
    """Return the options; those that have defaults or examples of secret parameters are copies without them."""
    options, secret = dict(compiled.template.options), bound_secrets(compiled)
    if secret and options.get("arguments"):
        changes = _changes(compiled)
        options["arguments"] = {
            name: {
                key: value
                for key, value in change.items()
                if key not in ("default", "examples") or changes.new_name(name) not in secret
            }
            for name, change in changes.by_name.items()
        }
    if secret and compiled.template.examples:
        options["examples"] = compiled.template.visible_examples(secret)
    if isinstance(options.get("input_schema"), dict):
        options["input_schema"] = _without_secret_defaults(options["input_schema"], compiled, secret)
    return options


def _changes(compiled: CompiledTool) -> ArgumentChanges:
    return ArgumentChanges.parse(compiled.template.options.get("arguments"))


def _without_secret_defaults(schema: JsonObject, compiled: CompiledTool, secret: frozenset[str]) -> JsonObject:
    schema, parameters = copy.deepcopy(schema), compiled.template.inputs.parameters
    remove_secret_defaults(
        schema, [item.property_name for name, item in parameters.items() if item.is_secret or name in secret]
    )
    for name in secret & parameters.keys():
        node = schema.get("properties", {}).get(parameters[name].property_name)
        if isinstance(node, dict):
            node.pop("examples", None)  # of a property that a model sees, they stay
    return schema
