"""The names and descriptions of parameters and of the properties in them, as texts to search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import iter_objects
from ahvn_tools.schema.subschemas import iter_property_names

_SIMPLE_TYPES: Final = frozenset({
    "any", "bool", "bytes", "date", "datetime", "decimal", "default", "dict", "float", "frozenset", "int", "list",
    "literal", "none", "nullable", "set", "str", "time", "timedelta", "tuple", "union", "uuid",
})  # fmt: skip
"""Types of pydantic's core schemas that have no properties, and no description but the one in their metadata."""

_UPDATES: Final = "pydantic_js_updates"
"""The key of metadata that changes what the JSON Schema of a type says."""

_NOT_VALIDATED: Final = frozenset({"default", "metadata", "serialization", "expected"})


def schema_texts(schema: JsonObject) -> Iterator[str]:
    """Yield the texts of a JSON Schema."""
    yield from iter_property_names(schema)
    for node in iter_objects(schema):
        if isinstance(text := node.get("description"), str):
            yield text


def field_texts(field: JsonObject, described: str | None) -> list[str] | None:
    """Return the texts of one field of pydantic's core schema; None where only its JSON Schema has them.

    To generate a JSON Schema takes thirty times as long. `described` is the description if the type has none.
    """
    texts: list[str] = []
    for node in iter_objects(field["schema"], _NOT_VALIDATED):
        updates = _updates(node)
        if updates is None or node.get("type") not in _SIMPLE_TYPES or ("keys_schema" in node and _has_rules(node)):
            return None
        if isinstance(text := updates.get("description"), str):
            texts.append(text)
    if described is not None and not _is_described(field["schema"]):
        texts.append(described)
    return texts


def _updates(node: JsonObject) -> JsonObject | None:
    """Return what metadata adds to a JSON Schema; None if a function makes it."""
    metadata = node.get("metadata") or {}
    return metadata.get(_UPDATES, {}) if metadata.keys() <= {_UPDATES} else None


def _has_rules(node: JsonObject) -> bool:
    return bool(node["keys_schema"].keys() - {"type"})


def _is_described(schema: Any) -> bool:
    while "description" not in (_updates(schema) or {}):
        if schema["type"] != "default":
            return False
        schema = schema["schema"]
    return True
