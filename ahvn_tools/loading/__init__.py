"""Where tools are found: Python files and modules, folders, packages, code, MCP servers, OpenAPI and definition files.

Each sibling reads one kind of source: `read(location, options) -> Contents`. `kinds` chooses the sibling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ahvn_tools.loading.definitions import to_seconds

__all__ = ["to_seconds"]


def __getattr__(name: str) -> Any:
    """Import the function at its first use (PEP 562): a plain file is read without YAML."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ahvn_tools.loading import definitions

    return getattr(definitions, name)
