"""JSON Schema as data: made of functions or types, or explicit; validated, repaired and translated for providers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ahvn_tools.lazy import lazy_names
from ahvn_tools.schema.keywords import iter_schemas

if TYPE_CHECKING:
    from ahvn_tools.schema.generated import from_types

__all__ = ["from_types", "iter_schemas"]

__getattr__ = lazy_names(__name__, {"from_types": ".generated"})  # pydantic is slow to import
