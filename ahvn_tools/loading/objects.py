"""Objects as a source: tools, registries, toolkits, modules and MCP servers, and lists and dicts of these."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ahvn_tools.errors import SourceError
from ahvn_tools.loading import members
from ahvn_tools.loading.contents import Contents
from ahvn_tools.loading.options import ReadOptions


def read(location: Any, options: ReadOptions) -> Contents:  # noqa: ARG001  # the shape of a reader
    """Return what an object contains. Nothing is run for it. Raises SourceError for what is no tool."""
    if isinstance(location, ModuleType):
        contents = members.read_module(location, location.__name__)
        if contents.is_empty:
            raise SourceError(f"The module {location.__name__!r} has no tools: pass one of its members.")
        return contents
    return members.read_object(location, _name(location), "The source")


def _name(value: Any) -> str:
    """Return the name of a toolkit of an object: its own, that of its class for a registry."""
    for name in (getattr(value, "name", None), getattr(value, "__name__", None)):
        if isinstance(name, str) and name:
            return name
    return "tools" if isinstance(value, list | tuple | dict | set) else type(value).__name__
