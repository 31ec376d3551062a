"""Flat schemas: parameters with a type, items, an enum and a description; all else is told.

Ollama's own SDK keeps nothing more of a parameter, and drops the rest without a word (ollama 0.6).
"""

from __future__ import annotations

from typing import Any, Final

from ahvn_tools.schema.dialects.describe import NOT_ENFORCED, append_description, to_json_text
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.schema.dialects.normalize import JSON_TYPES

JsonObject = dict[str, Any]

_SUPPORTED_KEYWORDS = ("type", "items", "description", "enum")
_SILENTLY_DROPPED = frozenset({"title", "examples", "discriminator", "deprecated", "$comment"})
_STRUCTURAL_KEYWORDS = frozenset(
    {"properties", "additionalProperties", "anyOf", "oneOf", "allOf", "not", "patternProperties"}
)
_CHOICES = ("anyOf", "oneOf")
_SIMPLIFY_FIX: Final = "Use plain parameters and lists, or speak `openai` to Ollama's `/v1`, which takes schemas whole."


def to_ollama(schema: JsonObject) -> tuple[JsonObject, list[Finding]]:
    """Return an object schema without references, changed in place, with flat parameters; and what is only told.

    Its own description tells rules on all parameters together. Ollama drops it there: it belongs to the tool's.
    """
    findings: list[Finding] = []
    properties = {name: _flatten_parameter(node, name, findings) for name, node in schema.get("properties", {}).items()}
    made: JsonObject = {**{key: schema[key] for key in ("type", "required") if key in schema}, "properties": properties}
    rules = {key: value for key, value in schema.items() if key not in {*made, "description", *_SILENTLY_DROPPED}}
    if isinstance(rules.get("additionalProperties"), bool):
        del rules["additionalProperties"]
    _describe_keywords(made, rules, "", findings)
    return made, findings


def _flatten_parameter(node: JsonObject, name: str, findings: list[Finding]) -> JsonObject:
    made = {key: node[key] for key in _SUPPORTED_KEYWORDS if key in node}
    if "const" in node:
        made["enum"] = [node["const"]]
    branches = [branch for key in _CHOICES for branch in node.get(key, ())]
    if "type" not in made and (types := _possible_types(node)):
        made["type"] = types[0] if len(types) == 1 else types
    shape = {key: value for key, value in node.items() if key in _STRUCTURAL_KEYWORDS}
    if all(branch.keys() <= {"type", "title"} for branch in branches):
        shape = {key: value for key, value in shape.items() if key not in _CHOICES}
    if shape.keys() - {"additionalProperties"} or isinstance(shape.get("additionalProperties"), dict):
        whole = {key: value for key, value in node.items() if key not in {"description", *_SILENTLY_DROPPED}}
        append_description(made, [f"As JSON Schema: {to_json_text(whole)}."])
        findings.append(
            Finding(severity="warning", place=name, problem="its form is told in words only", fix=_SIMPLIFY_FIX)
        )
        return made
    _describe_keywords(
        made,
        {
            key: node[key]
            for key in node
            if key not in {*_SUPPORTED_KEYWORDS, *_STRUCTURAL_KEYWORDS, *_SILENTLY_DROPPED, "const"}
        },
        name,
        findings,
    )
    return made


def _describe_keywords(made: JsonObject, rest: JsonObject, name: str, findings: list[Finding]) -> None:
    if (default := rest.pop("default", None)) is not None:
        append_description(made, [f"Default: {to_json_text(default)}."])
    append_description(made, [f"{key}: {to_json_text(value)}." for key, value in rest.items()])
    findings += [
        Finding(severity="warning", place=name, problem=f"{key!r} is not enforced", fix=NOT_ENFORCED) for key in rest
    ]


def _possible_types(node: JsonObject) -> list[str]:
    """Return the types that a value may be of; none where that is left open."""
    if "type" in node:
        return [node["type"]] if isinstance(node["type"], str) else list(node["type"])
    if "enum" in node or "const" in node:
        return list(dict.fromkeys(JSON_TYPES[type(value)] for value in node.get("enum", [node.get("const")])))
    found = [_possible_types(branch) for key in _CHOICES for branch in node.get(key, ())]
    return list(dict.fromkeys(kind for types in found for kind in types)) if all(found) else []
