"""The keywords of JSON Schema that contain schemas, the walks over those schemas, and the names of JSON types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction.names import is_secret_name, is_secret_schema

SCHEMA_KEYWORDS: Final = frozenset({
    "items", "additionalItems", "additionalProperties", "contains", "contentSchema", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties", "if", "then", "else", "not",
})  # fmt: skip
"""Keywords whose value is one schema; before draft 2020-12, `items` may also be a list of schemas."""

SCHEMA_LIST_KEYWORDS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords whose value is a list of schemas."""

SCHEMA_MAP_KEYWORDS: Final = frozenset({
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies",
})  # fmt: skip
"""Keywords whose value is an object that maps names to schemas."""

SUBSCHEMA_KEYWORDS: Final = SCHEMA_KEYWORDS | SCHEMA_LIST_KEYWORDS | SCHEMA_MAP_KEYWORDS
_APPLICATORS = SUBSCHEMA_KEYWORDS - {"$defs", "definitions", "dependencies", "additionalItems"}
_CONDITIONS = frozenset({"if", "then", "else", "not"})

JSON_TYPES: Final[dict[type, str]] = {
    bool: "boolean", str: "string", int: "integer", float: "number", dict: "object", list: "array", type(None): "null",
}  # fmt: skip
"""Python's types for JSON data and their JSON Schema names."""

WRAP_RESULT_KEY: Final = "x-fastmcp-wrap-result"
"""FastMCP's mark on an output schema that wraps a value other than an object in the one property `result`."""


def wrap_result(schema: JsonObject) -> JsonObject:
    """Return the output schema of a value other than an object."""
    return {"properties": {"result": schema}, "required": ["result"], "type": "object", WRAP_RESULT_KEY: True}


def iter_subschemas(node: JsonObject, keywords: Collection[str] = SUBSCHEMA_KEYWORDS) -> Iterator[JsonObject]:
    """Yield the object schemas directly inside a schema, under some keywords. Literal data is not entered."""
    for keyword, value in node.items():
        if keyword not in keywords:
            continue
        if isinstance(value, dict):
            parts: Iterable[Any] = value.values() if keyword in SCHEMA_MAP_KEYWORDS else (value,)
        else:
            parts = value if isinstance(value, list) else ()
        yield from (part for part in parts if isinstance(part, dict))


def iter_schemas(schema: JsonObject) -> Iterator[JsonObject]:
    """Yield a schema and all object schemas in it, each before those that it contains."""
    pending = [schema]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(iter_subschemas(node))


_CONTAINERS: Final = (dict, list, tuple)


def iter_objects(value: Any, skipped_keys: Collection[str] = ()) -> Iterator[JsonObject]:
    """Yield every object in nested objects and lists, whether a schema or literal data.

    Keys are skipped in objects with a type. Others map the names of members, which may be any, to objects.
    """
    pending = [value] if isinstance(value, _CONTAINERS) else []
    while pending:
        node = pending.pop()
        inner: Iterable[Any] = node
        if isinstance(node, dict):
            yield node
            has_skipped = skipped_keys and isinstance(node.get("type"), str)
            inner = [node[key] for key in node if key not in skipped_keys] if has_skipped else node.values()
        pending += [part for part in inner if isinstance(part, _CONTAINERS)]


def map_subschemas(node: JsonObject, path: str, convert: Callable[[str, str, Any, str], Any]) -> None:
    """Replace, in place, each schema directly inside a schema of draft 2020-12.

    `path` is the path of the schema, as in `lines[].color`. `convert` takes the keyword, the member's name (empty
    unless the keyword maps names to schemas), the inner schema and its path, and returns the new schema.
    """
    for keyword in [keyword for keyword in node if keyword in _APPLICATORS]:
        value = node[keyword]
        if keyword in SCHEMA_MAP_KEYWORDS:
            paths = {name: join_path(path, name) if keyword == "properties" else f"{path}[{name}]" for name in value}
            node[keyword] = {name: convert(keyword, name, child, paths[name]) for name, child in value.items()}
        elif keyword in SCHEMA_LIST_KEYWORDS:
            node[keyword] = [convert(keyword, "", child, f"{path}[{index}]") for index, child in enumerate(value)]
        else:
            node[keyword] = convert(keyword, "", value, path if keyword in _CONDITIONS else f"{path}[]")


def properties_of(node: JsonObject) -> JsonObject:
    """Return the declared properties of a schema, by name."""
    return members_of(node, "properties")


def members_of(node: JsonObject, keyword: str) -> JsonObject:
    """Return the value of a keyword if it is an object; else an empty one."""
    members = node.get(keyword)
    return members if isinstance(members, dict) else {}


def join_path(path: str, name: str) -> str:
    """Return the path of a property."""
    return f"{path}.{name}" if path else name


def type_names(node: JsonObject) -> list[str]:
    """Return the types that a schema names; none when it has no `type`."""
    names = node.get("type", ())
    return [names] if isinstance(names, str) else list(names)


def type_keyword(names: Iterable[str]) -> str | list[str]:
    """Return the value of `type` for some type names: one name alone, several as a list without duplicates."""
    distinct = list(dict.fromkeys(names))
    return distinct[0] if len(distinct) == 1 else distinct


def value_types(values: Iterable[Any]) -> list[str]:
    """Return the type names of JSON values."""
    return [JSON_TYPES[type(value)] for value in values]


_OMITTED_KEYWORDS = ("title", "additionalProperties")


def to_plain(schema: JsonObject) -> JsonObject:
    """Remove, in place and at any depth, titles, `additionalProperties` and empty `required`. Return the schema.

    Properties with these names, and literal data such as a default, are unchanged.
    """
    for node in iter_schemas(schema):
        for keyword in _OMITTED_KEYWORDS:
            node.pop(keyword, None)
        if node.get("required") == []:
            del node["required"]
    return schema


def find_secret_names(schema: JsonObject) -> frozenset[str]:
    """Return the names of properties, at any depth, that are secret by mark or by name."""
    properties = (pair for node in iter_objects(schema) for pair in properties_of(node).items())
    return frozenset(name for name, part in properties if is_secret_name(name) or is_secret_schema(part))


def remove_secret_defaults(schema: JsonObject, secret_names: Collection[str] = ()) -> JsonObject:
    """Remove, in place, the defaults that contain a secret, and return the schema. The values stay optional.

    A value is secret if its schema says so, or if it is a property of the root that is named in `secret_names`. An
    empty default such as null stays: it is no secret.
    """
    names = {name for node in iter_schemas(schema) for name, part in _property_schemas(node) if is_secret_schema(part)}
    for name, part in _property_schemas(schema):
        if name in secret_names and part.get("default"):
            del part["default"]
    for node in iter_schemas(schema):
        default = node.get("default")
        if default and (
            is_secret_schema(node) or any(part.get(name) for part in iter_objects(default) for name in names)
        ):
            del node["default"]
    return schema


def _property_schemas(node: JsonObject) -> list[tuple[str, JsonObject]]:
    return [(name, part) for name, part in properties_of(node).items() if isinstance(part, dict)]
