"""Serializers of other code: which results are converted without them, so that nothing can block."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any, Final
from uuid import UUID

from ahvn_tools.schema.core_schema import NON_SCHEMA_KEYS, is_foreign
from ahvn_tools.schema.keywords import iter_objects

MAX_PLAIN_PARTS: Final = 10_000
"""A value with more parts takes long to convert."""

_PLAIN_TYPES: Final = frozenset({
    str, int, float, bool, type(None), bytes, bytearray, Decimal, UUID, date, datetime, time, timedelta,
    PosixPath, PurePosixPath, PureWindowsPath, WindowsPath,
})  # fmt: skip
_SEQUENCE_TYPES: Final = frozenset({list, tuple, set, frozenset})
_OPEN_TYPES: Final = frozenset({"any", "is-instance", "is-subclass", "callable", "function-plain", "custom-error"})
_CLASS_TYPES: Final = frozenset({"model", "dataclass", "enum"})
_SKIPPED_KEYS: Final = NON_SCHEMA_KEYS - {"serialization"}


class Serializers:
    """The serializers in the core schema of an annotation; None: any value is serialized by its own type."""

    def __init__(self, core_schema: Any) -> None:
        objects = () if core_schema is None else iter_objects(core_schema, _SKIPPED_KEYS)
        nodes = [node for node in objects if isinstance(node.get("type"), str)]  # others are fields by their names
        self.run_foreign_code = any(map(_runs_foreign_code, nodes))
        """Whether there is a serializer or a computed field that is not pydantic's."""
        self._is_open = any(node.get("type") in _OPEN_TYPES for node in nodes)
        self._classes = frozenset(node["cls"] for node in nodes if node.get("type") in _CLASS_TYPES)

    def may_block(self, value: Any) -> bool:
        """Whether converting a value runs code of a foreign class, or takes long."""
        if self.run_foreign_code:
            return True
        pending, remaining = [value], MAX_PLAIN_PARTS
        while pending:
            part = pending.pop()
            if type(part) in _PLAIN_TYPES:
                continue
            members = self._members(part)
            if members is None or len(members) > remaining:
                return True
            remaining -= len(members)
            if not {*map(type, members)} <= _PLAIN_TYPES:
                pending.extend(members)
        return False

    def _members(self, value: Any) -> Collection[Any] | None:
        """Return what is in a container, or in an instance of a class of the annotation; None for any other value."""
        kind = type(value)
        if kind is dict:
            return value.values() if {*map(type, value)} <= _PLAIN_TYPES else None
        if kind in _SEQUENCE_TYPES:
            return value  # type: ignore[no-any-return]  # it is one of these
        if kind not in self._classes:
            return None
        if not self._is_open:
            return ()
        extra = getattr(value, "__pydantic_extra__", None) or {}
        return [*vars(value).values(), *extra.values()] if hasattr(value, "__dict__") else None


def _runs_foreign_code(node: Any) -> bool:
    serialization = node.get("serialization")
    function = serialization.get("function") if isinstance(serialization, dict) else None
    return is_foreign(function) or bool(node.get("computed_fields")) or "serialization_exclude_if" in node
