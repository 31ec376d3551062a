"""Where tools are found: Python files and modules, folders, code, MCP servers, HTTP and OpenAPI.

Each sibling reads one kind of source: `read(location, options) -> Contents`. `kinds` chooses the sibling.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ahvn_tools.loading.contents import Contents
    from ahvn_tools.loading.kinds import read_source
    from ahvn_tools.loading.read_options import ReadOptions
    from ahvn_tools.sources.yaml_file import read_yaml
    from ahvn_tools.trust import Trust

__all__ = ["Contents", "ReadOptions", "Trust", "read_source", "read_yaml"]

_MODULES = {
    "Contents": "loading.contents", "ReadOptions": "loading.read_options", "Trust": "trust",
    "read_source": "loading.kinds", "read_yaml": "sources.yaml_file",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a name at its first use (PEP 562): a plain file is read without YAML."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"ahvn_tools.{_MODULES[name]}"), name)
