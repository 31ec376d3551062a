"""A toolkit as one YAML file: `load` makes the toolkit of a manifest or of any source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ahvn_tools.manifest.loader import load

if TYPE_CHECKING:
    from ahvn_tools.manifest.schema import json_schema

__all__ = ["json_schema", "load"]


def __getattr__(name: str) -> Any:
    """Import the function at its first use (PEP 562): YAML is slow to import."""
    if name != "json_schema":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ahvn_tools.manifest.schema import json_schema

    return json_schema
