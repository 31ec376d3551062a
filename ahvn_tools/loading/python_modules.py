"""Python as a source: files, modules, and code."""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import textwrap
from pathlib import Path
from types import MethodWrapperType, ModuleType
from typing import Any

from ahvn_tools.errors import SourceError, near_misses
from ahvn_tools.execution.pickling import pickle_by_value
from ahvn_tools.loading import members
from ahvn_tools.loading.contents import Contents
from ahvn_tools.loading.module_import import (
    import_file,
    import_module,
    require_trusted_file,
    require_trusted_module,
    running_code_of,
)
from ahvn_tools.loading.read_options import ReadOptions
from ahvn_tools.sources.code import find_functions, new_module

_MCP_IMPORT = re.compile(rb"^\s*(?:from|import)\s+(?:mcp|fastmcp)\b", re.MULTILINE)


def read(location: str, options: ReadOptions) -> Contents:
    """Return the toolkit or the tools of a `FILE[:NAME]`. Raises SourceError.

    FILE is a Python file or an importable module. NAME, which may be dotted, is anything that `load` takes as an
    object. Without NAME it is the only Toolkit in FILE, else all tools there.
    """
    file, name = split_location(location)
    if name is not None:
        return members.read_object(read_member(file, name, options), name, location)
    try:
        module = _import(file, options)
    except SourceError as error:
        if error.__cause__ is None or not _imports_mcp(Path(file)):
            raise
        message = f"{str(error).rstrip('.')}. If it starts an MCP server, write mcp:{file}."
        raise SourceError(message, file=error.file, line=error.line) from error.__cause__
    contents = members.read_module(module, file)
    if contents.is_empty:
        hint = f" If it starts an MCP server, write mcp:{file}." if file.endswith(".py") else ""
        raise SourceError(
            f"{file} has no tools: add a Toolkit, functions with @tool, a ToolRegistry or a FastMCP server, or name "
            f"what you mean: {file}:NAME.{hint}",
            file=file,
        )
    return contents


def check(location: str, options: ReadOptions) -> None:
    """Raise SourceError unless a `FILE[:NAME]` may be imported. Nothing runs."""
    file, _ = split_location(location)
    path = options.resolve(file)
    if path.is_file():
        require_trusted_file(path, options, file)
    elif _is_module(file):
        require_trusted_module(file, options)
    else:
        raise SourceError(f"There is no file {file!r}.", file=file)


def check_code(_location: str, options: ReadOptions) -> None:
    """Raise SourceError unless code that is a text may be run."""
    options.trust.require_code()


def _imports_mcp(path: Path) -> bool:
    """Return whether a Python file imports what starts an MCP server."""
    return path.suffix == ".py" and path.is_file() and _MCP_IMPORT.search(path.read_bytes()) is not None


def read_member(file: str, name: str, options: ReadOptions) -> Any:
    """Return the object that a `FILE:NAME` refers to. Raises SourceError.

    For a document it must be of that file or module: trust in it is none in what it has imported, such as `os.system`.
    """
    module = _import(file, options)
    if options.own_folder is not None:
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            _require_own(find_attribute(file, module, ".".join(parts[:count])), module, options)
    return find_attribute(file, module, name)


def _require_own(value: Any, module: ModuleType, options: ReadOptions) -> None:
    """Raise SourceError for a function, class or module that is no part of a module, and not trusted itself."""
    owner = _find_owner(value)
    if owner is None or f"{owner}.".startswith(f"{module.__name__}.") or _is_part(value, owner, module):
        return
    file = getattr(sys.modules.get(owner), "__file__", None)
    if file is None or not options.trust.trusts_file(Path(file)):
        options.trust.require_module(owner, options.folder.resolve())


def _is_part(value: Any, owner: str, module: ModuleType) -> bool:
    """Return whether something is written in a C module of which `module` is the public name, such as `operator`."""
    names = sys.stdlib_module_names
    is_standard = module.__name__ in names and owner in names and not isinstance(value, ModuleType)
    return is_standard or owner == f"_{module.__name__}"


def _find_owner(value: Any) -> str | None:
    """Return the name of the module that defines a function or a class; None for other objects."""
    if isinstance(value, ModuleType):
        return value.__name__
    if not (inspect.isroutine(value) or isinstance(value, type | MethodWrapperType)):
        return None
    return str(getattr(value, "__module__", None) or "builtins")


def split_location(location: str) -> tuple[str, str | None]:
    """Return FILE and NAME. What cannot be a name, such as the rest after the colon of a drive, belongs to FILE."""
    file, _, name = location.rpartition(":")
    is_name = all(part.isidentifier() for part in name.split("."))
    return (file, name) if file and is_name else (location, None)


def _import(file: str, options: ReadOptions) -> ModuleType:
    path = options.resolve(file)
    if path.is_file():
        return import_file(path, options, file)
    if not _is_module(file):
        raise SourceError(f"There is no file {file!r}.", file=file)
    return import_module(file, options)


def _is_module(file: str) -> bool:
    return all(part.isidentifier() for part in file.split(".")) and not file.endswith(".py")


def find_attribute(file: str, module: ModuleType, name: str) -> Any:
    """Return a member of a module by its dotted name. Raises SourceError."""
    value: Any = module
    for part in name.split("."):
        with running_code_of(f"{file}:{name}"):  # it may be a property
            if not hasattr(value, part):
                known = [word for word in dir(value) if not word.startswith("_")]
                raise SourceError(f"{file} has no {name!r}. {near_misses(part, known)}", file=file)
            value = getattr(value, part)
    return value


_CODE_NAME = "code"


def read_code(location: str, options: ReadOptions) -> Contents:
    """Return what code defines: as a file would, or all of its public functions if there is no tool among it.

    The code can do whatever this process can do. The same text is run once. Raises SourceError.
    """
    options.trust.require_code()
    code = textwrap.dedent(location)
    name = f"_loaded_code_{hashlib.sha256(code.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
    with running_code_of(_CODE_NAME):
        if name not in sys.modules:
            _run(name, code)
    module = sys.modules[name]
    contents = members.read_module(module, _CODE_NAME)
    if not contents.is_empty:
        return Contents(name=_CODE_NAME, toolkit=contents.toolkit, tools=contents.tools, servers=contents.servers)
    functions = find_functions(module)
    if not functions:
        raise SourceError("The code defines no tool and no function: write one with `def` or `async def`.")
    return members.read_object(functions, _CODE_NAME, "The code")


def _run(name: str, code: str) -> None:
    module = new_module(code, name)
    sys.modules[name] = module  # pydantic looks up there what a module defines
    try:
        exec(compile(code, f"{name}.py", "exec", dont_inherit=True), vars(module))  # noqa: S102  # the purpose
    except BaseException:
        del sys.modules[name]
        raise
    pickle_by_value(module)
