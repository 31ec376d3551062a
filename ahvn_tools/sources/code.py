"""Source code as a source: it is executed, and one of the functions that it defines becomes the tool."""

from __future__ import annotations

import inspect
import itertools
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import DefinitionError, near_misses
from ahvn_tools.settings import validate_options
from ahvn_tools.sources import function
from ahvn_tools.template import ToolTemplate

_module_numbers = itertools.count(1)


def build_template(
    code: str, func_name: str | None, env: Mapping[str, Any] | None, options: Mapping[str, Any]
) -> tuple[ToolTemplate, Callable[..., Any]]:
    """Execute `code` and return the template and the body of the function it defines.

    The code runs in a new module that contains the builtins and `env`. It can do whatever this process can do.

    Raises DefinitionError (a ValueError) when the code defines no function, several without `func_name`, or none of
    that name; and any exception of the code itself.
    """
    if not isinstance(code, str):
        raise DefinitionError(f"code must be a str, not a {type(code).__name__}; use from_function for a function.")
    options = validate_options(options)
    module = new_module(code)
    vars(module).update({name: value for name, value in (env or {}).items() if name not in _MODULE_ATTRIBUTES})
    name = module.__name__
    sys.modules[name] = module
    try:
        exec(compile(code, f"{name}.py", "exec", dont_inherit=True), vars(module))  # noqa: S102  # the purpose
        chosen = _choose_function(module, f"{name}.py", func_name)
        source_function = None if env else next(key for key, value in vars(module).items() if value is chosen)
        template, body = function.build_template(chosen, options, source=code, source_function=source_function)
        template.output.resolve()
        return template, body
    finally:
        sys.modules.pop(name, None)


def new_module(code: str, name: str | None = None) -> types.ModuleType:
    """Return an empty module to run code in, with a new name unless one is given."""
    if name is None:
        import hashlib  # slow to import

        digest = hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        name = f"tool_code_{digest}_{next(_module_numbers)}"
    module = types.ModuleType(name)
    module.__file__ = f"{module.__name__}.py"
    loader: Any = types.SimpleNamespace(get_source=lambda _name: code)  # tracebacks quote the lines of the code
    module.__loader__ = loader
    return module


def _choose_function(module: types.ModuleType, file: str, func_name: str | None) -> Callable[..., Any]:
    defined = _find_defined(module, file)
    if func_name is not None:
        _refuse_tools({func_name: vars(module).get(func_name)})
        if func_name not in defined:
            raise DefinitionError(f"The code defines no function {func_name!r}. {near_misses(func_name, defined)}")
        return defined[func_name]
    public = _unique_functions({name: value for name, value in defined.items() if not name.startswith("_")} or defined)
    if not public:
        _refuse_tools(vars(module))
        raise DefinitionError("The code defines no function; write one with `def` or `async def`.")
    if len(public) > 1:
        raise DefinitionError(
            f"The code defines several functions ({', '.join(public)}); choose one with func_name='…'."
        )
    return next(iter(public.values()))


def find_functions(module: types.ModuleType) -> dict[str, Callable[..., Any]]:
    """Return the public functions that a module of `new_module` defines, each under its first name."""
    defined = _find_defined(module, str(module.__file__))
    return _unique_functions({name: value for name, value in defined.items() if not name.startswith("_")})


def _find_defined(module: types.ModuleType, file: str) -> dict[str, Callable[..., Any]]:
    return {name: value for name, value in vars(module).items() if _is_defined_in(file, value)}


def _refuse_tools(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if not isinstance(value, type) and isinstance(getattr(value, "definition", None), ToolDefinition):
            raise DefinitionError(
                f"The code decorates {name!r} with @tool itself; remove the decorator and pass its options here."
            )


def _unique_functions(functions: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Return each function once, under its first name."""
    first: dict[int, str] = {}
    return {name: value for name, value in functions.items() if first.setdefault(id(value), name) == name}


def _is_defined_in(file: str, value: Any) -> bool:
    """Return whether a value is a function of the code, or a decorator's wrapper of one."""
    if isinstance(value, type) or not callable(value):
        return False
    inner = inspect.unwrap(value)
    return inspect.isfunction(inner) and inner.__code__.co_filename == file


_MODULE_ATTRIBUTES = frozenset({"__name__", "__file__", "__loader__", "__spec__", "__package__", "__cached__"})
"""Names that an `env` such as `globals()` must not replace in the code's module."""
