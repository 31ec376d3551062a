"""Titles and definitions of generated schemas: what pydantic adds and no model needs is taken out again.

The rules are those by which FastMCP shows a function's schema (a contract test compares the two), so that a tool
looks the same however it is served.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, core_schema

JsonObject = dict[str, Any]

_STRUCTURAL_KEYWORDS = frozenset({"type", "properties", "$ref", "items", "allOf", "oneOf", "anyOf", "required"})
_ANNOTATION_KEYWORDS = frozenset({"title", "description", "deprecated", "readOnly", "writeOnly"})
_SCHEMA_MAP_KEYWORDS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_SCHEMA_LIST_KEYWORDS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMA_KEYWORDS = (
    "items", "additionalItems", "additionalProperties", "contains", "contentSchema", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties", "if", "then", "else", "not",
)  # fmt: skip
_SUBSCHEMA_KEYWORDS = frozenset({*_SCHEMA_MAP_KEYWORDS, *_SCHEMA_LIST_KEYWORDS, *_SCHEMA_KEYWORDS})


def iter_subschemas(node: JsonObject) -> Iterator[JsonObject]:
    """Yield the schemas directly inside a schema. Literal data (`default`, `enum`, …) is not entered."""
    if _SUBSCHEMA_KEYWORDS.isdisjoint(node):
        return
    for key in _SCHEMA_MAP_KEYWORDS:
        if isinstance(node.get(key), dict):
            yield from (child for child in node[key].values() if isinstance(child, dict))
    for key in _SCHEMA_LIST_KEYWORDS:
        if isinstance(node.get(key), list):
            yield from (child for child in node[key] if isinstance(child, dict))
    for key in _SCHEMA_KEYWORDS:
        if isinstance(node.get(key), dict):
            yield node[key]


def clean_schema(schema: JsonObject) -> JsonObject:
    """Return the schema, changed in place: generated titles gone, a root `$ref` resolved, unused `$defs` dropped."""
    schema = _with_resolved_root(schema)
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node.get("title"), str) and (
            not _STRUCTURAL_KEYWORDS.isdisjoint(node) or _ANNOTATION_KEYWORDS.issuperset(node)
        ):
            del node["title"]
        pending.extend(iter_subschemas(node))
    return without_unused_definitions(schema)


def without_unused_definitions(schema: JsonObject) -> JsonObject:
    """Return the schema, changed in place, without the `$defs` that nothing leads to."""
    definitions = schema.get("$defs")
    if not definitions:
        return schema
    used: set[str] = set()
    pending = _referenced_definitions({key: value for key, value in schema.items() if key != "$defs"})
    while pending:
        name = pending.pop()
        if name not in used and name in definitions:
            used.add(name)
            pending |= _referenced_definitions(definitions[name])
    kept = {name: definition for name, definition in definitions.items() if name in used}
    schema["$defs"] = kept
    if not kept:
        del schema["$defs"]
    return schema


def _with_resolved_root(schema: JsonObject) -> JsonObject:
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    target = schema.get("$defs", {}).get(name)
    if "type" in schema or not isinstance(target, dict):
        return schema
    return {**target, **{key: value for key, value in schema.items() if key != "$ref"}}


def _referenced_definitions(node: Any) -> set[str]:
    found: set[str] = set()
    pending = [node]
    while pending:
        here = pending.pop()
        if isinstance(here, dict):
            reference = here.get("$ref")
            if isinstance(reference, str) and reference.startswith("#/$defs/"):
                found.add(reference.split("/")[2].replace("~1", "/").replace("~0", "~"))
            pending.extend(here.values())
        elif isinstance(here, list):
            pending.extend(here)
    return found


_JSON_SCALARS = frozenset({str, int, bool, type(None)})


class QuietSchemaGenerator(GenerateJsonSchema):
    """Pydantic's generator; a default that has no JSON form is left out without a warning."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  # pydantic's own attribute

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> JsonObject:
        """Refuse a class as a value: pydantic would show it as anything."""
        return self.handle_invalid_for_json_schema(schema, "a class is no JSON value")

    def encode_default(self, dft: Any) -> Any:
        """Return a default as JSON. Raises PydanticSerializationError, which leaves the default out."""
        if type(dft) in _JSON_SCALARS:  # most are: pydantic would compile a serializer for each
            return dft
        encoded = super().encode_default(dft)
        try:
            json.dumps(encoded, allow_nan=False)
        except ValueError as error:
            raise PydanticSerializationError("NaN and Infinity are no JSON") from error
        return encoded
