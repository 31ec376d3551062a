"""Schemas as Ollama's own SDK sends them: each parameter has a type, items, an enum and a description.

The SDK drops all other keywords of a parameter silently (ollama 0.6), so the description states them.
"""

from __future__ import annotations

from typing import Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.description import (
    UNDESCRIBED_KEYWORDS,
    append_description,
    describe_default,
    describe_rule,
    to_json_text,
)
from ahvn_tools.schema.dialects.finding import Finding, not_enforced
from ahvn_tools.schema.dialects.merge import are_exclusive
from ahvn_tools.schema.keywords import type_keyword, type_names, value_types

_SUPPORTED_KEYWORDS = ("type", "items", "description", "enum")
_UNIONS = ("anyOf", "oneOf")
_STRUCTURAL_KEYWORDS = frozenset(
    {"properties", "additionalProperties", "anyOf", "oneOf", "allOf", "not", "patternProperties"}
)
_SIMPLIFY_FIX: Final = (
    "Use plain parameters and lists, or the format `openai` with Ollama's `/v1`, which accepts complete schemas."
)


def to_ollama(schema: JsonObject) -> tuple[JsonObject, list[Finding]]:
    """Convert an object schema without references to flat parameters; return it and what is only described.

    The description of the returned schema states the rules on all parameters together. Ollama drops it there: add it
    to the tool's description.
    """
    findings: list[Finding] = []
    properties = {name: _flatten_parameter(node, name, findings) for name, node in schema.get("properties", {}).items()}
    flat: JsonObject = {**{key: schema[key] for key in ("type", "required") if key in schema}, "properties": properties}
    rules = {key: value for key, value in schema.items() if key not in {*flat, "description", *UNDESCRIBED_KEYWORDS}}
    if isinstance(rules.get("additionalProperties"), bool):
        del rules["additionalProperties"]
    _describe_rules(flat, rules, "", findings)
    return flat, findings


def _flatten_parameter(node: JsonObject, name: str, findings: list[Finding]) -> JsonObject:
    flat = {key: node[key] for key in _SUPPORTED_KEYWORDS if key in node}
    if "const" in node:
        flat["enum"] = [node["const"]]
    if "type" not in flat and (types := _possible_types(node)):
        flat["type"] = type_keyword(types)
    rules = {key: value for key, value in node.items() if key not in {"description", *UNDESCRIBED_KEYWORDS}}
    if _is_structured(node):
        append_description(flat, [f"As JSON Schema: {to_json_text(rules)}."])
        problem = "its structure is only described in words"
        findings.append(Finding(severity="warning", place=name, problem=problem, fix=_SIMPLIFY_FIX, effect="wider"))
        return flat
    covered = {*_SUPPORTED_KEYWORDS, *_STRUCTURAL_KEYWORDS, "const"}
    _describe_rules(flat, {key: value for key, value in rules.items() if key not in covered}, name, findings)
    return flat


def _is_structured(node: JsonObject) -> bool:
    """Whether a schema has more structure than a type, items and an enum express."""
    keywords = _STRUCTURAL_KEYWORDS & node.keys()
    if _is_union_of_types(node):
        keywords -= {*_UNIONS}
    if not isinstance(node.get("additionalProperties"), dict):
        keywords -= {"additionalProperties"}
    return bool(keywords)


def _is_union_of_types(node: JsonObject) -> bool:
    unions = [node[key] for key in _UNIONS if key in node]
    if len(unions) != 1 or node.keys() & {"type", "enum", "const"}:
        return False
    is_plain = all(branch.keys() <= {"type", "title"} for branch in unions[0])
    return is_plain and ("oneOf" not in node or are_exclusive(unions[0], lambda branch: branch))


def _describe_rules(flat: JsonObject, rules: JsonObject, name: str, findings: list[Finding]) -> None:
    sentences = [
        describe_default({**flat, key: value}) if key == "default" else describe_rule(key, value)
        for key, value in rules.items()
    ]
    append_description(flat, sentences)
    findings += [not_enforced(key, name) for key in rules if key != "default"]


def _possible_types(node: JsonObject) -> list[str]:
    """Return the types that a value may have; none when that is open."""
    if "type" in node:
        return type_names(node)
    if "enum" in node or "const" in node:
        return value_types(node.get("enum", [node.get("const")]))
    types = [_possible_types(branch) for key in _UNIONS for branch in node.get(key, ())]
    return [kind for kinds in types for kind in kinds] if all(types) else []
