"""Standard form: a schema as servers and people write it, understood as JSON Schema 2020-12.

Older drafts, other languages' words for types and values that JSON Schema does not know are taken for what they were
meant to be, so that one slip in one schema does not cost a whole request. It is a copy for providers: what a call may
hold is decided by the tool's own schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, Final

from ahvn_tools.schema.finding import Finding
from ahvn_tools.schema.references import resolved, settled

JsonObject = dict[str, Any]

DEEPEST = 64
"""Schemas that nest deeper than this are open from there on."""

TYPES: Final = {
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

_ANYTHING = frozenset({"any", "anything", "*", ""})


def standard(schema: JsonObject) -> tuple[JsonObject, list[Finding]]:
    """Return an object schema, changed in place, in its standard form, and what was not as it should be."""
    work = _Standard(settled(schema))
    return work.root(schema), work.findings


def fits(value: Any, types: Collection[str]) -> bool:
    """Tell whether a value is of one of these types of JSON.

    >>> fits(1, ["number"]), fits(1.0, ["integer"]), fits(True, ["integer"])
    (True, True, False)
    """
    kind = JSON_TYPES[type(value)]
    if kind in types or (kind == "integer" and "number" in types):
        return True
    return kind == "number" and "integer" in types and value == int(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_filled(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


_WELL_FORMED: Final[dict[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("$ref", "$comment", "title", "description", "format", "pattern"), _is_text),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is_flag),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("minContains", "maxContains"), _is_count),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), _is_object),
    "dependentRequired": lambda value: _is_object(value) and all(map(_is_names, value.values())),
    **dict.fromkeys(("enum", "anyOf", "oneOf", "allOf", "prefixItems"), _is_filled),
    "examples": _is_list,
    "required": _is_names,
}
_GONE = frozenset({
    "$schema", "$id", "id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor",
    "$vocabulary", "$defs", "definitions", "nullable", "optional",
})  # fmt: skip
_OPEN_OR_CLOSED = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
_SINGLE = ("items", "contains", "propertyNames", "not", "if", "then", "else", "contentSchema", *_OPEN_OR_CLOSED)
_NAMED = ("patternProperties", "dependentSchemas")
_BRANCHES = ("anyOf", "oneOf", "allOf", "prefixItems")
_ABOUT = {
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
_SHOWS: Final = {"properties": "object", "items": "array", "prefixItems": "array"}
"""The keywords that show a type where none is said."""
_CHOICES = frozenset({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "not"})


def _leave_out_idle(node: JsonObject) -> None:
    """Drop what a node says of other types than its own."""
    types = node["type"] if isinstance(node["type"], list) else [node["type"]]
    for kinds, keywords in _ABOUT.items():
        if kinds.isdisjoint(types):
            for keyword in keywords:
                node.pop(keyword, None)


class _Standard:
    """One walk through a schema; findings are collected, so that all are told at once."""

    def __init__(self, leads: dict[str, str]) -> None:
        self.findings: list[Finding] = []
        self._leads = leads

    def root(self, schema: JsonObject) -> JsonObject:
        definitions = schema.get("$defs", {})
        if isinstance(schema.get("type"), str):
            self._word(schema["type"], "")
        made = self.node({**schema, "type": "object"}, "", 0)
        if definitions:
            made["$defs"] = {name: self.node(node, f"$defs.{name}", 0) for name, node in definitions.items()}
        made = {**resolved(made, made), "type": "object"}
        made.pop("$ref", None)
        _leave_out_idle(made)  # the reference may have led to another type
        return made

    def node(self, node: Any, where: str, level: int) -> JsonObject:
        if not isinstance(node, dict):
            return self._no_object(node, where)
        if level > DEEPEST:
            self._find("warning", where, f"it nests more than {DEEPEST} levels deep", "Make it flatter.")
            return {}
        made = {key: value for key, value in node.items() if key not in _GONE}
        self._old_words(made, node, where)
        for key in [key for key, value in made.items() if key in _WELL_FORMED and not _WELL_FORMED[key](value)]:
            if made.pop(key) not in (True, False, [], None):  # harmless, and common: they say nothing
                self._find("warning", where, f"{key!r} has no value of its kind", "Correct it or leave it out.")
        self._type(made, where)
        self._values(made, where)
        self._lead(made, where)
        self._inside(made, where, level)
        return made

    def _no_object(self, node: Any, where: str) -> JsonObject:
        if node is False:
            return {"not": {}}
        if node is not True:
            self._find("warning", where, "it is no schema", "Write a JSON object.")
        return {}

    def _old_words(self, made: JsonObject, node: JsonObject, where: str) -> None:
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
            self._find("note", where, "'nullable' is no word of JSON Schema", "Add 'null' to its types.")

    def _type(self, made: JsonObject, where: str) -> None:
        said = made.get("type")
        words = [word for word in said if isinstance(word, str)] if isinstance(said, list) else [said]
        types = list(dict.fromkeys(self._word(word, where) for word in words if isinstance(word, str)))
        if None in types or not types:
            made.pop("type", None)
            shown = _SHOWS.items() if _CHOICES.isdisjoint(made) else ()
            types = list(dict.fromkeys(kind for key, kind in shown if key in made))
        if types:
            made["type"] = types[0] if len(types) == 1 else types
            _leave_out_idle(made)

    def _values(self, made: JsonObject, where: str) -> None:
        """Leave only values of the types that are said; where no value is of these, the values are believed."""
        types = made.get("type", list(JSON_TYPES.values()))
        named = [types] if isinstance(types, str) else types
        if "enum" in made:
            made["enum"] = list({json.dumps(value): value for value in made["enum"]}.values())
        values = made.get("enum", [made["const"]] if "const" in made else [])
        fitting = [value for value in values if fits(value, named)]
        if len(fitting) == len(values):
            return
        self._find("warning", where, "it holds values of other types", "Make the values and the type agree.")
        if not fitting:
            del made["type"]
        else:  # of several values some fit, so they are an enum's
            made["enum"] = fitting

    def _word(self, word: str, where: str) -> str | None:
        """Return the type that a word means; None for all of them."""
        known = TYPES.get(word.lower())
        if known is None and word.lower() not in _ANYTHING:
            self._find("warning", where, f"there is no type {word!r}", "Name one of JSON's types.")
        elif known is not None and known != word:
            self._find("note", where, f"the type {word!r} is understood as {known!r}", f"Write {known!r}.")
        return known

    def _lead(self, made: JsonObject, where: str) -> None:
        if "$ref" in made:
            lead = self._leads.get(made["$ref"])
            if lead is None:
                del made["$ref"]
                self._find("error", where, "its '$ref' leads nowhere", "Put what it means into '$defs'.")
            else:
                made["$ref"] = lead

    def _inside(self, made: JsonObject, where: str, level: int) -> None:
        """Bring the schemas inside one into their standard form."""
        if "properties" in made:
            self._members(made, where, level)
        for key in filter(made.__contains__, _NAMED):
            made[key] = {name: self.node(node, f"{where}[{name}]", level + 1) for name, node in made[key].items()}
        if made.get("items") is False:
            del made["items"]
            most = len(made.get("prefixItems", ()))
            made["maxItems"] = min(made.get("maxItems", most), most)
        for key in filter(made.__contains__, _SINGLE):
            if not (key in _OPEN_OR_CLOSED and isinstance(made[key], bool)):
                made[key] = self.node(made[key], f"{where}[]" if key == "items" else where, level + 1)
        for key in filter(made.__contains__, _BRANCHES):
            made[key] = [
                self.node(node, f"{where}[{i}]", level) for i, node in enumerate(self._open_ones(key, made[key]))
            ]

    def _open_ones(self, key: str, branches: list[Any]) -> list[Any]:
        """Return the branches of a choice that something fits, if there are any."""
        return [node for node in branches if node is not False or key in ("allOf", "prefixItems")] or branches

    def _members(self, made: JsonObject, where: str, level: int) -> None:
        members = made["properties"]
        marked = [name for name, node in members.items() if isinstance(node, dict) and node.get("required") is True]
        if marked or "required" in made:
            made["required"] = list(dict.fromkeys([*made.get("required", ()), *marked]))
        made["properties"] = {
            name: self.node(node, f"{where}.{name}" if where else name, level + 1)
            for name, node in members.items()
            if node is not False
        }

    def _find(self, severity: Any, where: str, problem: str, fix: str) -> None:
        self.findings.append(Finding(severity=severity, place=where, problem=problem, fix=fix))
