"""JSON Schema as data: made of functions or types, or explicit; validated, repaired and translated for providers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ahvn_tools.schema.keywords import iter_schemas

if TYPE_CHECKING:
    from ahvn_tools.schema.generated import from_types

__all__ = ["from_types", "iter_schemas"]


def __getattr__(name: str) -> Any:
    """Import the function at its first use (PEP 562): pydantic is slow to import, and most code does not need it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ahvn_tools.schema import generated

    return getattr(generated, name)
