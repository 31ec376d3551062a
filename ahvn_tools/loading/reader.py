"""Reads a source of any kind but a manifest."""

from __future__ import annotations

import importlib
from typing import Any

from ahvn_tools.errors import SourceError
from ahvn_tools.loading.contents import Contents
from ahvn_tools.loading.kinds import Kind
from ahvn_tools.loading.options import ReadOptions

_READERS: dict[Kind, str] = {
    "code": "code",
    "definition": "definitions",
    "folder": "folder",
    "module": "python_modules",
    "object": "objects",
    "openapi": "openapi",
    "package": "packages",
    "python": "python_modules",
    "server": "servers",
    "wire": "wire_file",
}
"""The module of this package that reads a kind, imported when it is needed: most are slow."""


def read(kind: Kind, location: Any, options: ReadOptions) -> Contents:
    """Return what a source contains. Raises SourceError when it cannot be loaded."""
    if kind not in _READERS:
        raise SourceError(f"{location!r}: sources of the kind {kind!r} cannot be loaded.")
    if isinstance(location, str):
        options.require_readable(location)
    module = importlib.import_module(f"ahvn_tools.loading.{_READERS[kind]}")
    contents: Contents = module.read(location, options)
    return contents
