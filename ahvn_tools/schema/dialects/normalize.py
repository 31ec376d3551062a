"""Standard form: a schema as servers and people write it, understood as JSON Schema 2020-12.

Older drafts, other languages' words for types and values that JSON Schema does not know are taken for what they were
meant to be, so that one slip in one schema does not cost a whole request. It is a copy for providers: what a call may
hold is decided by the tool's own schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, Final

from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.schema.refs import normalize_refs, resolve_ref

JsonObject = dict[str, Any]

MAX_DEPTH = 64
"""Schemas that nest deeper than this are open from there on."""

TYPE_ALIASES: Final = {
    "array": "array", "arraylist": "array", "list": "array", "set": "array", "tuple": "array", "sequence": "array",
    "bool": "boolean", "boolean": "boolean",
    "int": "integer", "integer": "integer", "long": "integer", "short": "integer", "bigint": "integer",
    "decimal": "number", "double": "number", "float": "number", "number": "number",
    "char": "string", "str": "string", "string": "string", "text": "string",
    "dict": "object", "dictionary": "object", "hashmap": "object", "map": "object", "object": "object",
    "none": "null", "null": "null",
}  # fmt: skip
"""The words for types, in any case, and the types of JSON that they mean."""

JSON_TYPES: Final[dict[type, str]] = {
    bool: "boolean", str: "string", int: "integer", float: "number", dict: "object", list: "array", type(None): "null",
}  # fmt: skip
"""Python's types for JSON data, and the types of JSON."""

_ANY_TYPE_NAMES = frozenset({"any", "anything", "*", ""})


def normalize(schema: JsonObject) -> tuple[JsonObject, list[Finding]]:
    """Return an object schema, changed in place, in its standard form, and what was not as it should be."""
    work = _Normalizer(normalize_refs(schema))
    return work.normalize_root(schema), work.findings


def is_of_type(value: Any, types: Collection[str]) -> bool:
    """Tell whether a value is of one of these types of JSON.

    >>> is_of_type(1, ["number"]), is_of_type(1.0, ["integer"]), is_of_type(True, ["integer"])
    (True, True, False)
    """
    kind = JSON_TYPES[type(value)]
    if kind in types or (kind == "integer" and "number" in types):
        return True
    return kind == "number" and "integer" in types and value == int(value)


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_non_negative_integer(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_non_empty_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _is_string_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


_VALUE_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("$ref", "$comment", "title", "description", "format", "pattern"), _is_string),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _is_string),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is_boolean),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_non_negative_integer
    ),
    **dict.fromkeys(("minContains", "maxContains"), _is_non_negative_integer),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), _is_object),
    "dependentRequired": lambda value: _is_object(value) and all(map(_is_string_list, value.values())),
    **dict.fromkeys(("enum", "anyOf", "oneOf", "allOf", "prefixItems"), _is_non_empty_list),
    "examples": _is_list,
    "required": _is_string_list,
}
_REMOVED_KEYWORDS = frozenset({
    "$schema", "$id", "id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor",
    "$vocabulary", "$defs", "definitions", "nullable", "optional",
})  # fmt: skip
_BOOLEAN_SCHEMA_KEYWORDS = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
_SCHEMA_KEYWORDS = (
    "items",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
    *_BOOLEAN_SCHEMA_KEYWORDS,
)
_SCHEMA_MAP_KEYWORDS = ("patternProperties", "dependentSchemas")
_SCHEMA_LIST_KEYWORDS = ("anyOf", "oneOf", "allOf", "prefixItems")
_KEYWORDS_BY_TYPE = {
    frozenset({"array"}): (
        "items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains",
        "unevaluatedItems",
    ),
    frozenset({"object"}): (
        "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
        "maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
    ),
    frozenset({"string"}): ("minLength", "maxLength", "pattern"),
    frozenset({"integer", "number"}): ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}  # fmt: skip
"""The keywords that say something of these types alone."""
_IMPLIED_TYPES: Final = {"properties": "object", "items": "array", "prefixItems": "array"}
"""The keywords that show a type where none is said."""
_TYPING_KEYWORDS = frozenset({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "not"})


def _drop_irrelevant_keywords(node: JsonObject) -> None:
    """Drop what a node says of other types than its own."""
    types = node["type"] if isinstance(node["type"], list) else [node["type"]]
    for kinds, keywords in _KEYWORDS_BY_TYPE.items():
        if kinds.isdisjoint(types):
            for keyword in keywords:
                node.pop(keyword, None)


class _Normalizer:
    """One walk through a schema; findings are collected, so that all are told at once."""

    def __init__(self, ref_targets: dict[str, str]) -> None:
        self.findings: list[Finding] = []
        self._ref_targets = ref_targets

    def normalize_root(self, schema: JsonObject) -> JsonObject:
        definitions = schema.get("$defs", {})
        if isinstance(schema.get("type"), str):
            self._parse_type_name(schema["type"], "")
        made = self.normalize_node({**schema, "type": "object"}, "", 0)
        if definitions:
            made["$defs"] = {name: self.normalize_node(node, f"$defs.{name}", 0) for name, node in definitions.items()}
        made = {**resolve_ref(made, made), "type": "object"}
        made.pop("$ref", None)
        _drop_irrelevant_keywords(made)  # the reference may have led to another type
        return made

    def normalize_node(self, node: Any, where: str, level: int) -> JsonObject:
        if not isinstance(node, dict):
            return self._normalize_non_object(node, where)
        if level > MAX_DEPTH:
            self._add_finding("warning", where, f"it nests more than {MAX_DEPTH} levels deep", "Make it flatter.")
            return {}
        made = {key: value for key, value in node.items() if key not in _REMOVED_KEYWORDS}
        self._upgrade_keywords(made, node, where)
        for key in [key for key, value in made.items() if key in _VALUE_CHECKS and not _VALUE_CHECKS[key](value)]:
            if made.pop(key) not in (True, False, [], None):  # harmless, and common: they say nothing
                self._add_finding("warning", where, f"{key!r} has no value of its kind", "Correct it or leave it out.")
        self._normalize_type(made, where)
        self._normalize_values(made, where)
        self._normalize_ref(made, where)
        self._normalize_subschemas(made, where, level)
        return made

    def _normalize_non_object(self, node: Any, where: str) -> JsonObject:
        if node is False:
            return {"not": {}}
        if node is not True:
            self._add_finding("warning", where, "it is no schema", "Write a JSON object.")
        return {}

    def _upgrade_keywords(self, made: JsonObject, node: JsonObject, where: str) -> None:
        """Say in the words of 2020-12 what older drafts and OpenAPI say in others."""
        for exclusive, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if made.get(exclusive) is True and _is_number(made.get(plain)):
                made[exclusive] = made.pop(plain)
        if isinstance(made.get("items"), list):
            made["prefixItems"] = made.pop("items")
            if "additionalItems" in made:
                made["items"] = made["additionalItems"]
        made.pop("additionalItems", None)
        if node.get("nullable") is True:
            self._add_finding("note", where, "'nullable' is no word of JSON Schema", "Add 'null' to its types.")

    def _normalize_type(self, made: JsonObject, where: str) -> None:
        said = made.get("type")
        words = [word for word in said if isinstance(word, str)] if isinstance(said, list) else [said]
        types = list(dict.fromkeys(self._parse_type_name(word, where) for word in words if isinstance(word, str)))
        if None in types or not types:
            made.pop("type", None)
            shown = _IMPLIED_TYPES.items() if _TYPING_KEYWORDS.isdisjoint(made) else ()
            types = list(dict.fromkeys(kind for key, kind in shown if key in made))
        if types:
            made["type"] = types[0] if len(types) == 1 else types
            _drop_irrelevant_keywords(made)

    def _normalize_values(self, made: JsonObject, where: str) -> None:
        """Leave only values of the types that are said; where no value is of these, the values are believed."""
        types = made.get("type", list(JSON_TYPES.values()))
        named = [types] if isinstance(types, str) else types
        if "enum" in made:
            made["enum"] = list({json.dumps(value): value for value in made["enum"]}.values())
        values = made.get("enum", [made["const"]] if "const" in made else [])
        fitting = [value for value in values if is_of_type(value, named)]
        if len(fitting) == len(values):
            return
        self._add_finding("warning", where, "it holds values of other types", "Make the values and the type agree.")
        if not fitting:
            del made["type"]
        else:  # of several values some fit, so they are an enum's
            made["enum"] = fitting

    def _parse_type_name(self, word: str, where: str) -> str | None:
        """Return the type that a word means; None for all of them."""
        known = TYPE_ALIASES.get(word.lower())
        if known is None and word.lower() not in _ANY_TYPE_NAMES:
            self._add_finding("warning", where, f"there is no type {word!r}", "Name one of JSON's types.")
        elif known is not None and known != word:
            self._add_finding("note", where, f"the type {word!r} is understood as {known!r}", f"Write {known!r}.")
        return known

    def _normalize_ref(self, made: JsonObject, where: str) -> None:
        if "$ref" in made:
            lead = self._ref_targets.get(made["$ref"])
            if lead is None:
                del made["$ref"]
                self._add_finding("error", where, "its '$ref' leads nowhere", "Put what it means into '$defs'.")
            else:
                made["$ref"] = lead

    def _normalize_subschemas(self, made: JsonObject, where: str, level: int) -> None:
        """Bring the schemas inside one into their standard form."""
        if "properties" in made:
            self._normalize_properties(made, where, level)
        for key in filter(made.__contains__, _SCHEMA_MAP_KEYWORDS):
            made[key] = {
                name: self.normalize_node(node, f"{where}[{name}]", level + 1) for name, node in made[key].items()
            }
        if made.get("items") is False:
            del made["items"]
            most = len(made.get("prefixItems", ()))
            made["maxItems"] = min(made.get("maxItems", most), most)
        for key in filter(made.__contains__, _SCHEMA_KEYWORDS):
            if not (key in _BOOLEAN_SCHEMA_KEYWORDS and isinstance(made[key], bool)):
                made[key] = self.normalize_node(made[key], f"{where}[]" if key == "items" else where, level + 1)
        for key in filter(made.__contains__, _SCHEMA_LIST_KEYWORDS):
            made[key] = [
                self.normalize_node(node, f"{where}[{i}]", level)
                for i, node in enumerate(self._satisfiable_branches(key, made[key]))
            ]

    def _satisfiable_branches(self, key: str, branches: list[Any]) -> list[Any]:
        """Return the branches of a choice that something fits, if there are any."""
        return [node for node in branches if node is not False or key in ("allOf", "prefixItems")] or branches

    def _normalize_properties(self, made: JsonObject, where: str, level: int) -> None:
        members = made["properties"]
        marked = [name for name, node in members.items() if isinstance(node, dict) and node.get("required") is True]
        if marked or "required" in made:
            made["required"] = list(dict.fromkeys([*made.get("required", ()), *marked]))
        made["properties"] = {
            name: self.normalize_node(node, f"{where}.{name}" if where else name, level + 1)
            for name, node in members.items()
            if node is not False
        }

    def _add_finding(self, severity: Any, where: str, problem: str, fix: str) -> None:
        self.findings.append(Finding(severity=severity, place=where, problem=problem, fix=fix))
