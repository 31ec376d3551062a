"""Generated schemas without the titles and definitions that pydantic adds and no model needs.

The rules are those of FastMCP's function tools (a contract test compares the two), so that a tool has the same schema
however it is served.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, core_schema

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import iter_schemas
from ahvn_tools.schema.refs import resolve_ref, without_unused_definitions

_STRUCTURAL_KEYWORDS = frozenset({"type", "properties", "$ref", "items", "allOf", "oneOf", "anyOf", "required"})
_ANNOTATION_KEYWORDS = frozenset({"title", "description", "deprecated", "readOnly", "writeOnly"})
_JSON_SCALARS = frozenset({str, int, bool, type(None)})


def clean_schema(schema: JsonObject) -> JsonObject:
    """Return a generated schema without titles, with its root `$ref` resolved and without unused `$defs`."""
    schema = resolve_ref(schema, schema)
    for node in iter_schemas(schema):
        if isinstance(node.get("title"), str) and (
            not _STRUCTURAL_KEYWORDS.isdisjoint(node) or _ANNOTATION_KEYWORDS.issuperset(node)
        ):
            del node["title"]
    return without_unused_definitions(schema)


class QuietSchemaGenerator(GenerateJsonSchema):
    """Pydantic's generator; it omits a default without a JSON form and does not warn."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  # pydantic's own attribute

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> JsonObject:
        """Refuse a class as a value, for which pydantic would generate a schema that accepts anything."""
        return self.handle_invalid_for_json_schema(schema, "a class is not a JSON value")

    def encode_default(self, dft: Any) -> Any:
        """Return a default as JSON. Raises PydanticSerializationError, which omits the default."""
        if type(dft) in _JSON_SCALARS:  # most are, and pydantic would compile a serializer for each
            return dft
        encoded = super().encode_default(dft)
        try:
            json.dumps(encoded, allow_nan=False)
        except ValueError as error:
            raise PydanticSerializationError("NaN and Infinity are not JSON") from error
        return encoded
