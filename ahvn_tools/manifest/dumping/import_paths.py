"""Import paths: where another process finds a function, a tool or a registry by name."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

from ahvn_tools.json_types import JsonObject
from ahvn_tools.manifest.dumping.code_sources import find_code
from ahvn_tools.manifest.dumping.problems import UndumpableError
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.spec import ToolSpec


def function_location(function: Any, folder: Path) -> tuple[JsonObject, Any]:
    """Return the location of a function in a source of a manifest, and the object of that name.

    The object is the function itself or a tool that was made from it. Raises UndumpableError.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if module not in sys.modules or not name or "<" in name:
        kind = "a lambda" if "<lambda>" in name else "a function inside another one" if "<" in name else "an object"
        raise UndumpableError(f"{kind} has no import path: define the function at the top level of a module")
    found = _find(sys.modules[module], name)
    if found is not function and getattr(found, "function", None) is not function:
        raise UndumpableError(f"{module}:{name} is another object now: give each function its own name")
    return module_location(module, name, folder), found


def registry_location(instance: ToolRegistry, folder: Path) -> JsonObject:
    """Return the location of an instance of a ToolRegistry: of a name in its module, or of its class.

    Raises UndumpableError.
    """
    cls = type(instance)
    module = sys.modules.get(cls.__module__)
    for name, value in vars(module).items() if module is not None else ():
        if value is instance:
            return module_location(cls.__module__, name, folder)
    if "<" in cls.__qualname__ or module is None or _find(module, cls.__qualname__) is not cls:
        raise UndumpableError(f"the class {cls.__qualname__!r} has no import path: define it at the top of a module")
    if cls.__module__.startswith("ahvn_tools.builtins."):
        raise UndumpableError(
            f"{cls.__qualname__!r} is a built-in with arguments: write a manifest with the source `builtins`, or make "
            "the toolkit in code"
        )
    if inspect.signature(cls).parameters:
        raise UndumpableError(
            f"{cls.__qualname__!r} is made with arguments: assign the instance to a name in {cls.__module__!r}"
        )
    return module_location(cls.__module__, cls.__qualname__, folder)


def object_location(tool: ToolSpec, folder: Path) -> tuple[JsonObject, Any] | None:
    """Return the location of the name in a module that has a tool, and the dict or list there that has it among others.

    The last module that has it is most likely the one that defines it. None if no loaded module has it.
    """
    for module_name, module in reversed(list(sys.modules.items())):
        if module_name.partition(".")[0] == "ahvn_tools":
            continue
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is tool:
                return module_location(module_name, name, folder), None
            members = value.values() if type(value) is dict else value if type(value) is list else ()
            if not name.startswith("__") and any(member is tool for member in members):
                return module_location(module_name, name, folder), value
    return None


def module_location(module: str, name: str, folder: Path) -> JsonObject:
    """Return a name in a module as a source: by its file where that is in or below the folder, or by its code.

    Raises UndumpableError for a module without a file that others cannot import.
    """
    if (code := find_code(module)) is not None:
        return {"code": code}
    file = getattr(sys.modules[module], "__file__", None)
    path = None if file is None else Path(file).resolve()
    is_hidden = module in {"__main__", "__mp_main__"} or module.startswith("_")
    if path is None and is_hidden:
        raise UndumpableError(f"{name!r} is defined in no file: write it to a module")
    is_beside = path is not None and path.is_relative_to(folder) and "site-packages" not in path.parts
    if path is not None and (is_hidden or (is_beside and "." not in module and path.stem != "__init__")):
        return {"path": f"{path.relative_to(folder).as_posix() if is_beside else path}:{name}"}
    return {"module": f"{module}:{name}"}


def object_path(value: Any) -> str:
    """Return the import path, `module:name`, of a function that a manifest names. Raises UndumpableError."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if (
        module not in sys.modules
        or module == "__main__"
        or "<" in name
        or _find(sys.modules[module], name) is not value
    ):
        raise UndumpableError("it has no import path: define it at the top level of a module")
    return f"{module}:{name}"


def _find(owner: Any, name: str) -> Any:
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner
