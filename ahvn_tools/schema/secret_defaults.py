"""Defaults of secret values, which a JSON Schema for a model does not show."""

from __future__ import annotations

from collections.abc import Collection

from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction import is_secret_schema
from ahvn_tools.schema.keywords import iter_objects, iter_schemas


def remove_secret_defaults(schema: JsonObject, secret_names: Collection[str] = ()) -> JsonObject:
    """Remove, in place, the defaults that contain a secret, and return the schema. The values stay optional.

    A value is secret if its schema says so, or if it is a property of the root that is named in `secret_names`. An
    empty default such as null stays: it is no secret.
    """
    names = {name for node in iter_schemas(schema) for name, part in _properties(node) if is_secret_schema(part)}
    for name, part in _properties(schema):
        if name in secret_names and part.get("default"):
            del part["default"]
    for node in iter_schemas(schema):
        default = node.get("default")
        if default and (
            is_secret_schema(node) or any(part.get(name) for part in iter_objects(default) for name in names)
        ):
            del node["default"]
    return schema


def _properties(node: JsonObject) -> list[tuple[str, JsonObject]]:
    properties = node.get("properties")
    pairs = properties.items() if isinstance(properties, dict) else ()
    return [(name, part) for name, part in pairs if isinstance(part, dict)]
