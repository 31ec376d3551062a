"""A toolkit as one YAML file: `load` makes the toolkit of a manifest or of any source."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ahvn_tools.manifest.loader import load

if TYPE_CHECKING:
    from ahvn_tools.manifest.schema import json_schema
    from ahvn_tools.manifest.toolset_files import select_agent

__all__ = ["json_schema", "load", "select_agent"]

_MODULES = {"json_schema": "schema", "select_agent": "toolset_files"}
"""The module of each function that is imported when it is first used: YAML is slow to import."""


def __getattr__(name: str) -> Any:
    """Import a function at its first use (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
