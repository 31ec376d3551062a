"""Flat schemas: parameters with a type, items, an enum and a description; all else is told.

Ollama's own SDK keeps nothing more of a parameter, and drops the rest without a word (ollama 0.6).
"""

from __future__ import annotations

from typing import Any

from ahvn_tools.schema.telling import tell, text

JsonObject = dict[str, Any]

_KEPT = ("type", "items", "description", "enum")
_SILENT = frozenset({"title", "examples", "discriminator", "deprecated", "$comment"})
_SHAPE = frozenset({"properties", "additionalProperties", "anyOf", "oneOf", "allOf", "not", "patternProperties"})


def flat(schema: JsonObject) -> JsonObject:
    """Return an object schema without references, changed in place, with flat parameters."""
    made: JsonObject = {key: schema[key] for key in ("type", "required") if key in schema}
    properties = schema.get("properties", {})
    return {**made, "properties": {name: _parameter(node) for name, node in properties.items()}}


def _parameter(node: JsonObject) -> JsonObject:
    made = {key: node[key] for key in _KEPT if key in node}
    if "const" in node:
        made["enum"] = [node["const"]]
    branches = [branch for key in ("anyOf", "oneOf") for branch in node.get(key, ())]
    if branches and "type" not in made:
        types = list(dict.fromkeys(kind for branch in branches for kind in _types(branch)))
        made["type"] = types[0] if len(types) == 1 else types
        if not types:
            del made["type"]
    shape = {key: value for key, value in node.items() if key in _SHAPE}
    if branches and all(branch.keys() <= {"type", "title"} for branch in branches):
        shape = {key: value for key, value in shape.items() if key not in {"anyOf", "oneOf"}}
    if shape.keys() - {"additionalProperties"} or isinstance(shape.get("additionalProperties"), dict):
        whole = {key: value for key, value in node.items() if key not in {"description", *_SILENT}}
        tell(made, [f"As JSON Schema: {text(whole)}."])
        return made
    rest = {key: value for key, value in node.items() if key not in {*_KEPT, *_SHAPE, *_SILENT, "const"}}
    tell(made, [f"{'Default' if key == 'default' else key}: {text(value)}." for key, value in rest.items()])
    return made


def _types(node: JsonObject) -> list[str]:
    """Return the types that a branch names."""
    types = node.get("type", [])
    return [types] if isinstance(types, str) else types
