"""How values are pickled for another process: by cloudpickle, and functions by their import paths if possible."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import io
import sys
from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Self

from ahvn_tools.errors import PickleError, ToolSpecError
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.json_types import JsonObject

if TYPE_CHECKING:  # few processes load data
    from ahvn_tools.trust import Trust

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
        if is_program(module):
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

    def to_data(self) -> JsonObject:
        """Return the path as JSON."""
        return {"module": self.module, "qualname": self.qualname}

    def require_trust(self, trust: Trust) -> None:
        """Raise SourceError unless the module may be imported, also if it is imported already."""
        trust.require_module(self.module)

    def load(self) -> Any:
        """Import the function. Raises PickleError, also if the name leads to what another module defines."""
        try:
            module = importlib.import_module(self.module)
        except (Exception, SystemExit) as reason:
            name = type(reason).__name__
            raise PickleError(f"Module {self.module!r} cannot be imported: {name}: {reason}") from reason
        try:
            found = _resolve(module, self.qualname)
        except Exception as reason:  # a module or a class may compute its attributes
            raise PickleError(f"{self.module}.{self.qualname} cannot be read: {type(reason).__name__}.") from reason
        if found is None:
            raise PickleError(
                f"Module {self.module!r} has no {self.qualname!r} in this process: load the tool where it has one, or "
                "write it again."
            )
        own = (getattr(found, "__module__", None), getattr(found, "__qualname__", None))
        if own != (self.module, self.qualname):  # `acme.os.system` is not code of `acme`
            raise PickleError(
                f"{self.module}.{self.qualname} is not defined there: name the module that defines it, as "
                "to_dict() does."
            )
        return found


def is_program(module: str) -> bool:
    """Return whether the import of a module runs a program."""
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


def to_path(function: Any) -> Any:
    """Return the import path of a function, and what has none as it is."""
    try:
        return FunctionPath.of(function, "The function")
    except ToolSpecError:
        return function


_modules_by_value: set[str] = set()
"""Modules and packages that no other process can import under their names."""


def pickle_by_value(module: ModuleType) -> None:
    """Pickle what this module defines by value from now on, because no other process can import it by its name."""
    _modules_by_value.add(module.__name__)
    if (cloudpickle := _imported_cloudpickle()) is not None:
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


def dumps(value: Any, max_bytes: int | None = None, *, keeps_file_names: bool = False) -> bytes:
    """Pickle a value; functions and classes that cannot be imported go by value.

    `keeps_file_names`: their code names its files, which a process of this computer can read, and no other may learn.
    Raises what pickling raises, and SizeLimitError for a pickle of more than `max_bytes`.
    """
    buffer = _LimitedBuffer(max_bytes)
    pickler_class(keeps_file_names)(buffer).dump(value)
    return buffer.getvalue()


@functools.cache
def pickler_class(keeps_file_names: bool = False) -> type[Any]:
    """Return cloudpickle's pickler class; without the table, its version 3.1 makes a second `dataclasses.MISSING`."""
    import cloudpickle

    for name in _modules_by_value & sys.modules.keys():
        cloudpickle.register_pickle_by_value(sys.modules[name])
    own: dict[type[Any], Callable[[Any], Any]] = {type(dataclasses.MISSING): lambda _: "MISSING"}
    if keeps_file_names:
        own[CodeType] = _reduce_code
    table = ChainMap(own, cloudpickle.Pickler.dispatch_table)
    return type("_Pickler", (cloudpickle.Pickler,), {"dispatch_table": table})


def _reduce_code(code: CodeType) -> Any:
    """Return how cloudpickle makes a code, which gives each the same file name, and the name of its file."""
    import cloudpickle

    return _restore_code, (cloudpickle.Pickler.dispatch_table[CodeType](code), code.co_filename)


def _restore_code(reduced: tuple[Callable[..., CodeType], tuple[Any, ...]], file_name: str) -> CodeType:
    make, arguments = reduced
    return make(*arguments).replace(co_filename=file_name)


def is_importable_elsewhere(module: str) -> bool:
    """Return whether another process that has the code of a module can import it by its name."""
    cloudpickle = _imported_cloudpickle()
    by_value = set() if cloudpickle is None else cloudpickle.list_registry_pickle_by_value()
    return not any(f"{module}.".startswith(f"{name}.") for name in _modules_by_value | by_value)


def _imported_cloudpickle() -> Any:
    """Return cloudpickle if it is imported; wait for another thread that imports it now."""
    return importlib.import_module("cloudpickle") if "cloudpickle" in sys.modules else None


def is_picklable(value: Any) -> bool:
    """Return whether a value can be pickled."""
    try:
        dumps(value)
    except Exception:  # noqa: BLE001  # a user's __reduce__ may raise anything
        return False
    return True
