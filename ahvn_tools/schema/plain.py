"""Plain schemas: only what a person would write, for prompts and for programs that read little of JSON Schema."""

from __future__ import annotations

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import iter_schemas

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
