"""Which annotations have serializers that are not pydantic's."""

from __future__ import annotations

from typing import Any, Final

from ahvn_tools.schema.core_schema import NON_SCHEMA_KEYS, is_foreign
from ahvn_tools.schema.keywords import iter_objects

_SKIPPED_KEYS: Final = NON_SCHEMA_KEYS - {"serialization"}


def has_own_serializers(core_schema: Any) -> bool:
    """Whether a core schema has a serializer or a computed field that is not pydantic's."""
    objects = iter_objects(core_schema, _SKIPPED_KEYS)
    return any(_is_own(node) for node in objects if isinstance(node.get("type"), str))  # others are fields by names


def _is_own(node: Any) -> bool:
    serialization = node.get("serialization")
    function = serialization.get("function") if isinstance(serialization, dict) else None
    return is_foreign(function) or bool(node.get("computed_fields")) or "serialization_exclude_if" in node
