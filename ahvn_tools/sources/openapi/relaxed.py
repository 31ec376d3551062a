"""Relaxed schemas: the names and types of what an API returns, without rules that real answers often break."""

from __future__ import annotations

from ahvn_tools.json_types import JsonObject

_KEPT = frozenset({
    "type", "title", "description", "examples", "deprecated", "format", "contentEncoding", "contentMediaType", "$ref",
    "properties", "items", "prefixItems", "allOf", "anyOf",
})  # fmt: skip


def relax(schema: JsonObject) -> JsonObject:
    """Return a schema that accepts missing and additional members, and any value of its types.

    Its subschemas must be relaxed already. The values of an `enum` become examples.
    """
    relaxed = {key: value for key, value in schema.items() if key in _KEPT}
    if isinstance(schema.get("additionalProperties"), dict) and "patternProperties" not in schema:
        relaxed["additionalProperties"] = schema["additionalProperties"]
    values = schema.get("enum", [schema["const"]] if "const" in schema else ())
    if values:
        relaxed["examples"] = list(values)
    if "oneOf" in schema:  # without their rules, several branches may match
        if "anyOf" in schema:
            relaxed["allOf"] = [*relaxed.get("allOf", ()), {"anyOf": schema["oneOf"]}]
        else:
            relaxed["anyOf"] = schema["oneOf"]
    return relaxed
