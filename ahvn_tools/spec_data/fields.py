"""Fields of the data of a tool: how they are read, and the import paths in them."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, Self

from ahvn_tools.errors import SourceError, ToolSpecError, near_misses, quote_name
from ahvn_tools.execution.pickling import is_importable_elsewhere
from ahvn_tools.execution.plan import CompiledTool
from ahvn_tools.json_types import JsonObject
from ahvn_tools.trust import Trust

_WORDS: Final[Mapping[type, str]] = {
    dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a whole number",
}  # fmt: skip

MAX_DEPTH: Final = 200
"""How deep data is nested at most. Validators and copies of deeper data fail at their own limits."""


def error(problem: str) -> SourceError:
    """Return the error about data of a tool."""
    return SourceError(f"This is not the data of a tool as to_dict() writes it: {problem}")


def read_json(value: Any) -> JsonObject:
    """Return a copy of data, which nobody else can change. Raises SourceError for what is no object, or too deep."""
    try:
        plain = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as reason:
        raise error(f"it is not JSON ({type(reason).__name__}). Pass what json.loads() returns.") from reason
    if _is_too_deep(plain):
        raise error(f"it is nested deeper than {MAX_DEPTH} levels.")
    checked: JsonObject = read(plain, "", dict)
    return checked


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        parts = [part for part in level if isinstance(part, dict | list)]
        level = [member for part in parts for member in (part.values() if isinstance(part, dict) else part)]
    return any(isinstance(part, dict | list) for part in level)


def join(path: str, name: object) -> str:
    """Return the path of a member, as errors name it."""
    return f"{path}.{name}" if path else str(name)


def read_object(value: Any, path: str, required: Collection[str] = (), optional: Collection[str] = ()) -> JsonObject:
    """Return an object that has all required fields and no unknown ones. Raises SourceError."""
    read(value, path, dict)
    known = [*required, *optional]
    for name in value:
        if name not in known:
            raise error(f"unknown field {quote_name(join(path, name))}. {near_misses(name, known)}")
    for name in required:
        if name not in value:
            raise error(f"the field {join(path, name)!r} is missing. Write the data again with to_dict().")
    checked: JsonObject = value
    return checked


def read_true(fields: JsonObject, path: str, name: str) -> None:
    """Raise SourceError for a field that is there and not true: its absence means false."""
    if fields.get(name, True) is not True:
        raise error(f"{join(path, name)!r} can only be true: leave it out instead.")


def read(value: Any, path: str, kind: type) -> Any:
    """Return a value that is of one JSON type. Raises SourceError."""
    if type(value) is not kind:
        raise error(f"{quote_name(path) if path else 'it'} must be {_WORDS[kind]}, not {type(value).__name__}.")
    return value


_MAIN_MODULES = frozenset({"__main__", "__mp_main__"})
"""What Python calls a program that runs. `acme.__main__` is one, too: its import runs it."""


@dataclass(frozen=True)
class FunctionPath:
    """The module that defines a function, and the function's name there; or that of the spec that was made from it."""

    module: str
    qualname: str

    @classmethod
    def of(cls, function: Any, subject: str) -> Self:
        """Return the path of a function; `subject` is what it is, for the error.

        Raises ToolSpecError for a function that another process cannot import, with the fix.
        """
        module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
        if isinstance(function, functools.partial):
            raise ToolSpecError(f"{subject} is a partial, which has no import path: write a function with `def`.")
        owner = getattr(function, "__self__", None)
        if inspect.ismethod(function) and not isinstance(owner, type):
            raise ToolSpecError(
                f"{subject} is a method of one {type(owner).__name__}, and an instance is not data: make it a "
                "function, a classmethod or a staticmethod of a module, or pickle it with ahvn_tools.dumps()."
            )
        if not isinstance(module, str) or not isinstance(qualname, str):
            kind = type(function).__name__
            raise ToolSpecError(f"{subject} is a {kind}, which has no import path: write a function with `def`.")
        if "<" in qualname:
            what = "a lambda" if qualname.endswith("<lambda>") else "defined inside of a function"
            raise ToolSpecError(f"{subject} is {what}, which has no import path: define it with `def` in a module.")
        if _is_program(module):
            raise ToolSpecError(
                f"{subject} is defined in __main__, which is another program elsewhere: move it to a module."
            )
        if not is_importable_elsewhere(module):
            raise ToolSpecError(
                f"{subject} was loaded from a file that no other process can import by name: install it as a package."
            )
        found = _resolve(sys.modules.get(module), qualname)
        is_same_method = inspect.ismethod(function) and found == function  # each access makes a new object
        if found is not function and not is_same_method:
            raise ToolSpecError(
                f"{subject} is not what {module}.{qualname} leads to: give it that name in its module, or decorate "
                "it so that functools.wraps keeps the names of what it wraps."
            )
        return cls(module, qualname)

    @classmethod
    def read(cls, data: Any, path: str) -> Self:
        """Return the path that data has. Raises SourceError."""
        read_object(data, path, ("module", "qualname"))
        return cls.read_names(data, path)

    @classmethod
    def read_names(cls, data: JsonObject, path: str) -> Self:
        """Return the path that two fields of an object have. Raises SourceError."""
        for name in ("module", "qualname"):
            parts = read(data[name], join(path, name), str).split(".")
            if not all(part.isidentifier() for part in parts):
                raise error(f"{join(path, name)!r} must be names joined by dots.")
        if _is_program(data["module"]):
            raise error(f"{join(path, 'module')!r} is __main__, which is another program here: use a module.")
        return cls(data["module"], data["qualname"])

    def to_data(self) -> JsonObject:
        """Return the path as JSON."""
        return {"module": self.module, "qualname": self.qualname}

    def require_trust(self, trust: Trust) -> None:
        """Raise SourceError unless the module may be imported, also if it is imported already."""
        trust.require_module(self.module)

    def load(self) -> Callable[..., Any]:
        """Import the function. Raises SourceError, also if the name leads to what another module defines.

        The caller has checked that the module is trusted.
        """
        module = _import(self.module)
        try:
            found = _resolve(module, self.qualname)
        except Exception as reason:  # a module or a class may compute its attributes
            raise SourceError(f"{self.module}.{self.qualname} cannot be read: {type(reason).__name__}.") from reason
        if found is None:
            raise SourceError(
                f"Module {self.module!r} has no {self.qualname!r} in this process: load the data where it has one, or "
                "write it again with to_dict()."
            )
        own = (getattr(found, "__module__", None), getattr(found, "__qualname__", None))
        if own != (self.module, self.qualname):  # `acme.os.system` is not code of `acme`
            raise SourceError(
                f"{self.module}.{self.qualname} is not defined there: name the module that defines it, as "
                "to_dict() does."
            )
        function: Callable[..., Any] = found
        return function


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as reason:
        raise SourceError(f"Module {name!r} cannot be imported: {type(reason).__name__}: {reason}") from reason


def _is_program(module: str) -> bool:
    return module.rpartition(".")[2] in _MAIN_MODULES


def _resolve(module: ModuleType | None, qualname: str) -> Any:
    """Return what a name of a module leads to, or the function of that spec; None if it leads nowhere.

    Only classes are on the way, as in each `__qualname__`: reading an attribute of an object could run its code.
    """
    *owners, last = qualname.split(".")
    found: Any = module
    for name in owners:
        found = getattr(found, name, None)
        if not isinstance(found, type):
            return None
    found = getattr(found, last, None)
    return found.function if isinstance(getattr(found, "compiled", None), CompiledTool) else found
