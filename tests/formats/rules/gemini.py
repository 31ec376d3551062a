"""Gemini's rules, for `parametersJsonSchema` (a part of JSON Schema) and for `parameters` (a part of OpenAPI's)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.formats.rules import schema as common

NAME = r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"
FORMS = ("parametersJsonSchema", "parameters")
OUTPUTS = ("responseJsonSchema", "response")
JSON_KEYWORDS = (
    "$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems",
    "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required",
    "propertyOrdering",
)  # fmt: skip
KEYWORDS = (
    "anyOf", "default", "description", "enum", "example", "format", "items", "maxItems", "minItems", "maxLength",
    "minLength", "maxProperties", "minProperties", "maximum", "minimum", "nullable", "pattern", "properties",
    "propertyOrdering", "required", "title", "type",
)  # fmt: skip
TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
FORMATS = ("date-time", "enum", "float", "double", "int32", "int64")


def broken(export: list[Any], strict: bool = False) -> list[str]:
    """Return what an export, the `functionDeclarations` of one tool of a request, breaks."""
    found = [*common.json_only(export)]
    for declaration in export:
        found += common.only_keys(declaration, ("name",), ("description", "behavior", *FORMS, *OUTPUTS))
        found += _declaration(declaration)
    return [*found, *common.unique(declaration.get("name") for declaration in export)]


def _declaration(declaration: dict[str, Any]) -> Iterator[str]:
    yield from common.well_named(declaration.get("name"), NAME)
    yield from common.described(declaration)
    for pair in (FORMS, OUTPUTS):
        if declaration.keys() >= set(pair):
            yield f"it has both {pair[0]!r} and {pair[1]!r}"
    if "parametersJsonSchema" in declaration:
        yield from _json_schema(declaration["parametersJsonSchema"])
    if "parameters" in declaration:
        yield from _schema(declaration["parameters"])
    if "responseJsonSchema" in declaration:
        yield from (f"the response: {problem}" for problem in common.valid(declaration["responseJsonSchema"]))


def _json_schema(schema: Any) -> Iterator[str]:
    yield from common.valid(schema)
    yield from common.object_at_root(schema, ("anyOf", "oneOf", "$ref"))
    yield from common.led_somewhere(schema)
    yield from common.only_keywords(schema, JSON_KEYWORDS)
    yield from common.alone(schema, "$id", "$anchor", "$defs")
    for where, node in common.objects(schema):
        if not all(
            isinstance(value, str | int | float) and not isinstance(value, bool) for value in node.get("enum", ())
        ):
            yield f"{where}: an enum of other things than texts and numbers"
    if common.is_recursive(schema, is_followed=lambda node, name: name in node.get("required", ())):
        yield "it is recursive through required members"


def _schema(schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict) or str(schema.get("type")).upper() != "OBJECT":
        yield "the root is no object"
        return
    yield from common.only_keywords(schema, KEYWORDS)
    yield from common.no_booleans(schema)
    yield from common.formats(schema, FORMATS)
    for where, node in common.objects(schema):
        yield from (f"{where}: {problem}" for problem in _node(node))


def _node(node: dict[str, Any]) -> Iterator[str]:
    kind = node.get("type")
    if "anyOf" in node:
        if len(node) > 1:
            yield "'anyOf' has siblings"
    elif not isinstance(kind, str) or kind.upper() not in TYPES:
        yield f"the type {kind!r} is none"
    elif kind.upper() == "ARRAY" and not isinstance(node.get("items"), dict):
        yield "an array without 'items'"
    properties = node.get("properties")
    if properties is not None and not (isinstance(properties, dict) and properties):
        yield "'properties' names none"
    if not set(node.get("required", ())) <= set(properties or ()):
        yield "what is required is not defined"
    yield from _values(node)


def _values(node: dict[str, Any]) -> Iterator[str]:
    enum = node.get("enum")
    if enum is not None and not (isinstance(enum, list) and all(isinstance(value, str) and value for value in enum)):
        yield "an enum of other things than texts with something in them"
    if enum is not None and str(node.get("type")).upper() != "STRING":
        yield "an enum that is no string"
    if not isinstance(node.get("nullable", False), bool):
        yield "'nullable' is no boolean"
    for key in ("minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength"):
        if not isinstance(node.get(key, 0), int | float):
            yield f"{key!r} is no number"
