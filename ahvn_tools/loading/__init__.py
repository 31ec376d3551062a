"""Where tools are found: Python files and modules, folders, code, MCP servers, OpenAPI and definition files.

Each sibling reads one kind of source: `read(location, options) -> Contents`. `kinds` chooses the sibling.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ahvn_tools.loading.definitions import to_seconds
    from ahvn_tools.sources.yaml_file import read_yaml

__all__ = ["read_yaml", "to_seconds"]

_MODULES = {"read_yaml": "sources.yaml_file", "to_seconds": "loading.definitions"}


def __getattr__(name: str) -> Any:
    """Import a function at its first use (PEP 562): a plain file is read without YAML."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"ahvn_tools.{_MODULES[name]}"), name)
