"""Dialects: the part of JSON Schema that each provider accepts, and the last conversions for Gemini and Ollama."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass
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
from ahvn_tools.schema.dialects.normalize import drop_irrelevant_keywords
from ahvn_tools.schema.keywords import iter_schemas, type_keyword, type_names, value_types

ANY_TYPE: tuple[JsonObject, ...] = (
    {"type": "string"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "object"},
    {"type": "array", "items": {"anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "object")]}},
)
"""The branches of a schema that accepts any type, as each schema needs a type. `translate` reports what they refuse."""


def to_openapi(schema: JsonObject) -> tuple[JsonObject, list[Finding]]:
    """Convert a schema without references, in place, to the form of Gemini's `parameters`. This loses nothing."""
    for node in reversed(list(iter_schemas(schema))):  # inner schemas first: their keywords may move outwards
        _convert_node(node)
    return schema, []


def _convert_node(node: JsonObject) -> None:
    for key in ("properties", "required"):
        if not node.get(key, True):
            del node[key]
    _split_types(node)
    _convert_null(node)
    if "anyOf" in node:
        _isolate_any_of(node)


def _split_types(node: JsonObject) -> None:
    """Write several types, or none, as one branch for each."""
    types = type_names(node)
    if "anyOf" in node or isinstance(node.get("type"), str):
        return
    if "null" in types:
        node["nullable"] = True
    others = [kind for kind in types if kind != "null"]
    if "enum" in node:  # its values are texts
        others = ["string"]
    node.pop("type", None)
    if len(others) == 1:
        node["type"] = others[0]
        drop_irrelevant_keywords(node)
        return
    rules = {key: node.pop(key) for key in [*node] if key not in {"description", "nullable"}}
    branches = [{"type": kind} for kind in others] if types else copy.deepcopy(ANY_TYPE)
    node["anyOf"] = [{**branch, **rules} for branch in branches]
    for branch in node["anyOf"]:
        drop_irrelevant_keywords(branch)


def _convert_null(node: JsonObject) -> None:
    """Replace the null branch of a union by `nullable`; a union of one branch becomes that branch."""
    branches = node.get("anyOf", [])
    others = [branch for branch in branches if branch.get("type") != "null"]
    if not others or len(others) == len(branches):
        return
    node["anyOf"] = others
    node["nullable"] = True
    if len(others) == 1:
        (branch,) = node.pop("anyOf")
        merged = {**branch, **node}
        node.update(_with_description(merged, node.get("description"), branch.get("description")))


def _isolate_any_of(node: JsonObject) -> None:
    """Move the sibling keywords of a union into its branches, and replace nested unions by their branches."""
    branches = [inner for branch in node.pop("anyOf") for inner in branch.get("anyOf", [branch])]
    siblings = {**node}
    node.clear()
    node["anyOf"] = [
        _with_description({**siblings, **branch}, siblings.get("description"), branch.get("description"))
        for branch in branches
    ]


def _with_description(node: JsonObject, *sentences: str | None) -> JsonObject:
    node.pop("description", None)
    append_description(node, sentences)
    return node


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


_CORE_KEYWORDS = frozenset({
    "type", "description", "properties", "required", "items", "anyOf", "enum",
    "minimum", "maximum", "minItems", "maxItems",
})  # fmt: skip


_CLAUDE_NAMES: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Claude's API refuses a request with a property of another name at the root of a tool's schema."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What a provider accepts of JSON Schema 2020-12."""

    keywords: frozenset[str] | None = None
    """The keywords that it accepts; None: all, unknown ones included."""
    formats: frozenset[str] | None = None
    """The values of `format` that it accepts; None: all."""
    enum_types: tuple[type, ...] | None = None
    """The Python types of the values that an enum may contain; None: all."""
    supports_references: bool = True
    """Whether it accepts `$ref`; otherwise references are replaced by their targets."""
    requires_bare_references: bool = False
    """Whether a `$ref` must be the only keyword, and may be recursive only through optional members."""
    supports_tuples: bool = True
    """Whether it accepts `prefixItems`."""
    allows_untyped_items: bool = True
    """Whether an array may have no `items`."""
    has_single_types: bool = False
    """Whether each schema has either one type, or `anyOf` without other keywords that restrict the value."""
    argument_names: re.Pattern[str] | None = None
    """What a provider accepts as names of arguments, not of members inside of them; None: any."""
    finalize: Callable[[JsonObject], tuple[JsonObject, list[Finding]]] | None = None
    """A last conversion, in place; it returns the schema and findings on what the conversion loses."""

    def supports(self, keyword: str) -> bool:
        """Whether a keyword is accepted."""
        return self.keywords is None or keyword in self.keywords


OPENAI: Final = Dialect(supports_tuples=False, allows_untyped_items=False)
"""OpenAI without strict, and compatible hosts."""
ANTHROPIC: Final = Dialect(argument_names=_CLAUDE_NAMES)
"""JSON Schema 2020-12 without changes."""
MCP: Final = Dialect()
"""JSON Schema 2020-12 without changes."""
BEDROCK: Final = Dialect(
    supports_references=False, supports_tuples=False, allows_untyped_items=False, argument_names=_CLAUDE_NAMES
)
"""What the models of all families behind Converse accept; some of them ignore `$defs`."""
GEMINI: Final = Dialect(
    keywords=_CORE_KEYWORDS | {"$ref", "$defs", "prefixItems", "additionalProperties"},
    formats=frozenset(),
    enum_types=(str, int, float),
    requires_bare_references=True,
    allows_untyped_items=False,
)
"""Gemini's `parametersJsonSchema`."""
GEMINI_PARAMETERS: Final = Dialect(
    keywords=_CORE_KEYWORDS | {"format", "pattern", "minLength", "maxLength", "minProperties", "maxProperties"},
    formats=frozenset({"date-time"}),
    enum_types=(str,),
    supports_references=False,
    supports_tuples=False,
    allows_untyped_items=False,
    has_single_types=True,
    finalize=to_openapi,
)
"""Gemini's older `parameters`, a subset of OpenAPI's schemas."""
OLLAMA: Final = Dialect(
    supports_references=False, supports_tuples=False, allows_untyped_items=False, finalize=to_ollama
)
"""The part of a schema that Ollama's own SDK sends."""
