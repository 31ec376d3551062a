"""Schemas for the tests of dialects: a strategy for arbitrary ones, and the whole way from a schema to a dialect."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from ahvn_tools.schema.dialects.dialect import Dialect
from ahvn_tools.schema.dialects.merge import flatten_root
from ahvn_tools.schema.dialects.normalize import normalize
from ahvn_tools.schema.dialects.translate import translate

KEYS = st.sampled_from([
    "type", "properties", "items", "anyOf", "allOf", "enum", "const", "required", "$ref", "$defs", "definitions", "not",
    "minimum", "maxItems", "additionalProperties", "prefixItems", "exclusiveMinimum", "pattern", "default", "x",
])  # fmt: skip
LEAVES = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["string", "dict", "#", "#/$defs/x", "[", "x"])
)
SCHEMAS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)


def object_of(**properties: Any) -> dict[str, Any]:
    """Return an object schema with these properties."""
    return {"type": "object", "properties": properties}


def translate_schema(schema: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
    """Normalize a copy of a schema, flatten its root and translate it."""
    return translate(flatten_root(normalize(json.loads(json.dumps(schema)))[0])[0], dialect)[0]


def translate_member(node: Any, dialect: Dialect, **keywords: Any) -> Any:
    """Return the translation of a schema as that of a member `a`; `keywords` are those of the root."""
    return translate_schema({**object_of(a=node), **keywords}, dialect)["properties"]["a"]
