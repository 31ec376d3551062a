"""A toolkit as one YAML file: `load` makes the toolkit of a manifest or of any source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ahvn_tools.lazy import lazy_names
from ahvn_tools.manifest.loader import load

if TYPE_CHECKING:
    from ahvn_tools.manifest.schema import json_schema

__all__ = ["json_schema", "load"]

__getattr__ = lazy_names(__name__, {"json_schema": ".schema"})  # YAML is slow to import
