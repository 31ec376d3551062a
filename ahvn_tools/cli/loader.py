"""FILE[:NAME]: where a command finds tools, and the toolkit that they make."""

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

from ahvn_tools.cli.errors import CommandError
from ahvn_tools.errors import ToolSpecError, near_misses
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit import Toolkit

_PACKAGE = Path(__file__).parents[1]

_MODULE_PREFIX = "_served_"
"""Stands before the name of a file that cannot be imported by its own."""


def load_toolkit(target: str) -> Toolkit:
    """Return the toolkit of a FILE[:NAME], or one made of the tools there.

    FILE is a Python file or a module that can be imported. NAME, dotted if need be, is a Toolkit, an instance of a
    ToolRegistry, a tool, or a list of these; without it the one Toolkit in FILE counts, else all of its tools. Raises
    CommandError.
    """
    place, name = _split_target(target)
    module = _load_module(place)
    try:
        return (
            _collect_toolkit(place, module) if name is None else _to_toolkit(name, _get_attribute(place, module, name))
        )
    except ToolSpecError as error:
        raise CommandError(f"{target}: {error}") from error


def _split_target(target: str) -> tuple[str, str | None]:
    """Return FILE and NAME; what no name could be, as behind the colon of a drive, belongs to FILE."""
    place, _, name = target.rpartition(":")
    is_name = all(part.isidentifier() for part in name.split("."))
    return (place, name) if place and is_name else (target, None)


# the module


def _load_module(location: str) -> ModuleType:
    file = Path(location)
    if file.suffix != ".py" and not file.is_file():
        return _import_module(location)
    if not file.is_file():
        raise CommandError(f"There is no file {location!r}.")
    return _load_file(location, file.resolve())


def _import_module(name: str) -> ModuleType:
    folder = Path.cwd()
    _extend_sys_path(folder)
    with _report_load_errors(name, folder):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise CommandError(f"There is no file and no module {name!r}, neither installed nor in {folder}.") from None


def _load_file(location: str, file: Path) -> ModuleType:
    """Import a file under its own name where that leads to it, so that it is one module to all; else under another."""
    _extend_sys_path(file.parent)
    with _report_load_errors(location, file.parent):
        if _is_importable(file):
            return importlib.import_module(file.stem)
        name = f"{_MODULE_PREFIX}{file.stem}"
        loader = SourceFileLoader(name, str(file))
        module = importlib.util.module_from_spec(ModuleSpec(name, loader, origin=str(file)))
        sys.modules[name] = module  # where pydantic and pickle look up what a module defines
        loader.exec_module(module)
        return module


def _is_importable(file: Path) -> bool:
    found = importlib.util.find_spec(file.stem) if file.stem.isidentifier() else None
    return found is not None and found.origin is not None and Path(found.origin).resolve() == file


def _extend_sys_path(folder: Path) -> None:
    """Let a file's neighbours be found. What serves it comes first: none of them is taken for a part of that."""
    importlib.import_module("ahvn_tools.mcp.server.app")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@contextlib.contextmanager
def _report_load_errors(location: str, folder: Path) -> Iterator[None]:
    """Run what loads a module, with its output on stderr. What goes wrong is told with the line where it did."""
    try:
        with _protect_standard_streams():
            yield
    except CommandError:
        raise
    except SystemExit as error:
        raise CommandError(
            f"{location} ended the process while it was loaded{_locate_error(error, folder)}."
        ) from error
    except Exception as error:
        told = error.msg if isinstance(error, SyntaxError) else error
        raise CommandError(
            f"{location} cannot be loaded: {type(error).__name__}: {told}{_locate_error(error, folder)}"
        ) from error


@contextlib.contextmanager
def _protect_standard_streams() -> Iterator[None]:
    """Keep stdout clean and stdin unread: over stdio they are the client's from the first byte."""
    sys.stdout.flush()
    kept = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept[0], 0)
        os.dup2(kept[1], 1)
        for descriptor in (nothing, *kept):
            os.close(descriptor)


def _locate_error(error: BaseException, folder: Path) -> str:
    """Say which line of the user's own it was: the last one in the folder."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({Path(error.filename).name}, line {error.lineno})"
    own = [frame for frame in extract_tb(error.__traceback__) if _is_user_file(Path(frame.filename), folder)]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""


def _is_user_file(file: Path, folder: Path) -> bool:
    return file.is_relative_to(folder) and not file.is_relative_to(_PACKAGE) and "site-packages" not in file.parts


# what is in it


def _collect_toolkit(location: str, module: ModuleType) -> Toolkit:
    """Return the one toolkit of a module, else one of all its tools."""
    members = _get_public_members(module)
    kits = {id(value): name for name, value in reversed(members.items()) if isinstance(value, Toolkit)}
    if len(kits) > 1:
        known = ", ".join(map(repr, reversed(kits.values())))
        raise CommandError(f"{location} has {len(kits)} toolkits: {known}. Say which: {location}:NAME.")
    if kits:
        kit: Toolkit = members[next(iter(kits.values()))]
        return kit
    tools = {id(value): value for value in members.values() if isinstance(value, ToolSpec | ToolRegistry)}
    if not tools:
        raise CommandError(
            f"{location} has no tools: it needs a Toolkit, functions with @tool, or an instance of a ToolRegistry."
        )
    return _to_toolkit(module.__name__, list(tools.values()))


def _get_public_members(module: ModuleType) -> dict[str, Any]:
    """Return what a module offers: what its `__all__` lists, else every name without an underscore before it."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    return {name: getattr(module, name) for name in names}


def _get_attribute(location: str, module: ModuleType, name: str) -> Any:
    thing: Any = module
    for part in name.split("."):
        if not hasattr(thing, part):
            known = [word for word in dir(thing) if not word.startswith("_")]
            raise CommandError(f"{location} has no {name!r}. {near_misses(part, known)}")
        thing = getattr(thing, part)
    return thing


def _to_toolkit(name: str, thing: Any) -> Toolkit:
    """Return a toolkit as it is; else one of a tool, of a registry's tools, or of a list or dict of these."""
    if isinstance(thing, Toolkit):
        return thing
    from ahvn_tools.toolkit.serve import to_toolkit

    kit = to_toolkit(list(thing.values()) if isinstance(thing, Mapping) else thing)
    kit.name = name.removeprefix(_MODULE_PREFIX)
    return kit
