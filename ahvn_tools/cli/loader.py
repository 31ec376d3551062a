"""Load the toolkit that FILE[:NAME] on the command line refers to."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from ahvn_tools.errors import ToolSpecError, near_misses
from ahvn_tools.mcp.server.standard_streams import redirect_descriptor
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit import Toolkit

_PACKAGE = Path(__file__).parents[1]

_MODULE_PREFIX = "_served_"
"""The prefix of the module name of a file that cannot be imported under its own name."""


class CommandError(Exception):
    """A failure that ends the command with this message to its user, without a traceback."""


def load_toolkit(target: str) -> Toolkit:
    """Return the toolkit of a FILE[:NAME], or a new one with the tools there.

    FILE is a Python file or an importable module. NAME, which may be dotted, is a Toolkit, an instance of a
    ToolRegistry, a tool, or a list of these. Without NAME it is the only Toolkit in FILE, else all tools there. Raises
    CommandError.
    """
    location, name = _split_target(target)
    module = _load_module(location)
    try:
        if name is None:
            return _collect_toolkit(location, module)
        return _to_toolkit(name, _get_attribute(location, module, name))
    except ToolSpecError as error:
        raise CommandError(f"{target}: {error}") from error


def _split_target(target: str) -> tuple[str, str | None]:
    """Return FILE and NAME. What cannot be a name, such as the rest after the colon of a drive, belongs to FILE."""
    location, _, name = target.rpartition(":")
    is_name = all(part.isidentifier() for part in name.split("."))
    return (location, name) if location and is_name else (target, None)


def _load_module(location: str) -> ModuleType:
    file = Path(location).resolve()
    is_file = file.is_file()
    if not is_file and file.suffix == ".py":
        raise CommandError(f"There is no file {location!r}.")
    folder = file.parent if is_file else Path.cwd()
    importlib.import_module("ahvn_tools.toolkit.serve")  # before a module in the folder can hide a part of the server
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        with _protect_standard_streams():
            return _load_file(file) if is_file else _import_module(location, folder)
    except CommandError:
        raise
    except SystemExit as error:
        raise CommandError(f"{location} exited while it was loaded{_locate_error(error, folder)}.") from error
    except Exception as error:
        message = error.msg if isinstance(error, SyntaxError) else error
        raise CommandError(
            f"{location} cannot be loaded: {type(error).__name__}: {message}{_locate_error(error, folder)}"
        ) from error


def _import_module(name: str, folder: Path) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise CommandError(f"There is no file and no module {name!r}, neither installed nor in {folder}.") from None


def _load_file(file: Path) -> ModuleType:
    """Import a file under its own name if that name leads to it, so that it is loaded once; else under another."""
    if _is_importable(file):
        return importlib.import_module(file.stem)
    name = f"{_MODULE_PREFIX}{file.stem}"
    loader = SourceFileLoader(name, str(file))
    module = importlib.util.module_from_spec(ModuleSpec(name, loader, origin=str(file)))
    sys.modules[name] = module  # pydantic and pickle look up there what a module defines
    loader.exec_module(module)
    return module


def _is_importable(file: Path) -> bool:
    spec = importlib.util.find_spec(file.stem) if file.stem.isidentifier() else None
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == file


@contextlib.contextmanager
def _protect_standard_streams() -> Iterator[None]:
    """Write nothing to stdout and read nothing from stdin: over stdio they belong to the client."""
    sys.stdout.flush()
    with (
        Path(os.devnull).open() as empty,
        redirect_descriptor(0, to=empty.fileno()),
        redirect_descriptor(1, to=2),
    ):
        try:
            yield
        finally:
            sys.stdout.flush()


def _locate_error(error: BaseException, folder: Path) -> str:
    """Return the file and line of an error: the innermost ones in the user's folder."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({Path(error.filename).name}, line {error.lineno})"
    frames = [frame for frame in extract_tb(error.__traceback__) if _is_user_file(Path(frame.filename), folder)]
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def _is_user_file(file: Path, folder: Path) -> bool:
    return file.is_relative_to(folder) and not file.is_relative_to(_PACKAGE) and "site-packages" not in file.parts


def _collect_toolkit(location: str, module: ModuleType) -> Toolkit:
    """Return the only toolkit of a module, else one of all its tools."""
    members = _get_public_members(module)
    kits = {id(value): name for name, value in reversed(members.items()) if isinstance(value, Toolkit)}
    if len(kits) > 1:
        names = ", ".join(map(repr, reversed(kits.values())))
        raise CommandError(f"{location} has {len(kits)} toolkits: {names}. Choose one: {location}:NAME.")
    if kits:
        kit: Toolkit = members[next(iter(kits.values()))]
        return kit
    tools = {id(value): value for value in members.values() if isinstance(value, ToolSpec | ToolRegistry)}
    if not tools:
        raise CommandError(
            f"{location} has no tools: add a Toolkit, functions with @tool, or an instance of a ToolRegistry."
        )
    return _to_toolkit(module.__name__, list(tools.values()))


def _get_public_members(module: ModuleType) -> dict[str, Any]:
    """Return the members that `__all__` lists, else those whose names do not start with an underscore."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    return {name: getattr(module, name) for name in names}


def _get_attribute(location: str, module: ModuleType, name: str) -> Any:
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            known = [word for word in dir(value) if not word.startswith("_")]
            raise CommandError(f"{location} has no {name!r}. {near_misses(part, known)}")
        value = getattr(value, part)
    return value


def _to_toolkit(name: str, value: Any) -> Toolkit:
    """Return a toolkit unchanged, else a new one of a tool, of a registry's tools, or of a list or dict of these."""
    if isinstance(value, Toolkit):
        return value
    from ahvn_tools.toolkit.serve import to_toolkit  # slow: a toolkit does not need it

    kit = to_toolkit(list(value.values()) if isinstance(value, Mapping) else value)
    kit.name = name.removeprefix(_MODULE_PREFIX)
    return kit
