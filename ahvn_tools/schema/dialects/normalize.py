"""Normalization: a schema as servers and people write it, converted to JSON Schema 2020-12.

Older drafts, type names of other languages and invalid values are read as they were probably intended, so that one
mistake in one schema does not fail a whole request. The result is for providers only: the tool's own schema validates
the calls.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.description import EXACTLY_ONE, append_description
from ahvn_tools.schema.keywords import (
    JSON_TYPES,
    SCHEMA_LIST_KEYWORDS,
    join_path,
    map_subschemas,
    type_keyword,
    type_names,
)
from ahvn_tools.schema.plain_types import is_plain_object, is_plain_scalar
from ahvn_tools.schema.refs import DEFS_PREFIX, normalize_refs
from ahvn_tools.schema.tags import require_tags

if TYPE_CHECKING:  # most schemas have no finding
    from ahvn_tools.schema.dialects.finding import Effect, Finding, Severity

MAX_DEPTH = 64
"""Schemas that are nested deeper than this accept any value."""

TYPE_ALIASES: Final = {
    "array": "array", "arraylist": "array", "list": "array", "set": "array", "tuple": "array", "sequence": "array",
    "bool": "boolean", "boolean": "boolean",
    "int": "integer", "integer": "integer", "long": "integer", "short": "integer", "bigint": "integer",
    "decimal": "number", "double": "number", "float": "number", "number": "number",
    "char": "string", "str": "string", "string": "string", "text": "string",
    "dict": "object", "dictionary": "object", "hashmap": "object", "map": "object", "object": "object",
    "none": "null", "null": "null",
}  # fmt: skip
"""Type names of several languages, in lower case, and the JSON Schema types that they mean."""

_ANY_TYPE_NAMES = frozenset({"any", "anything", "*", ""})


def normalize(schema: JsonObject) -> tuple[JsonObject, list[Finding]]:
    """Return an object schema, changed in place, in normal form, and findings on what was not valid."""
    if is_plain_object(schema):
        return schema, []
    normalizer = _Normalizer(normalize_refs(schema))
    root = normalizer.normalize_root(schema)
    return require_tags(root) if normalizer.has_tags else root, normalizer.findings


def is_of_type(value: Any, types: Collection[str]) -> bool:
    """Whether a value has one of the types; an integral float is an integer."""
    kind = JSON_TYPES[type(value)]
    if kind in types or (kind == "integer" and "number" in types):
        return True
    return kind == "number" and "integer" in types and value == int(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_string_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


_VALUE_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    keyword: check
    for keywords, check in (
        ("$ref $comment title description format pattern contentEncoding contentMediaType",
         lambda value: isinstance(value, str)),
        ("uniqueItems deprecated readOnly writeOnly", lambda value: isinstance(value, bool)),
        ("minimum maximum exclusiveMinimum exclusiveMaximum", _is_number),
        ("multipleOf", lambda value: _is_number(value) and value > 0),
        ("minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains",
         lambda value: _is_number(value) and value >= 0 and value == int(value)),
        ("properties patternProperties dependentSchemas", lambda value: isinstance(value, dict)),
        ("enum anyOf oneOf allOf prefixItems", lambda value: isinstance(value, list) and bool(value)),
        ("examples", lambda value: isinstance(value, list)),
        ("required", _is_string_list),
        ("dependentRequired", lambda value: isinstance(value, dict) and all(map(_is_string_list, value.values()))),
    )
    for keyword in keywords.split()
}  # fmt: skip
_REMOVED_KEYWORDS = frozenset({
    "$schema", "$id", "id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor",
    "$vocabulary", "$defs", "definitions", "nullable", "optional",
})  # fmt: skip
_BOOLEAN_SCHEMA_KEYWORDS = frozenset({"additionalProperties", "unevaluatedProperties", "unevaluatedItems"})
_KEYWORDS_BY_TYPE = {
    frozenset({"array"}): frozenset({
        "items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains",
        "unevaluatedItems",
    }),
    frozenset({"object"}): frozenset({
        "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
        "maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
    }),
    frozenset({"string"}): frozenset({"minLength", "maxLength", "pattern"}),
    frozenset({"integer", "number"}): frozenset({
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    }),
}  # fmt: skip
"""The keywords that apply only to these types."""
_IMPLIED_TYPES: Final = {"properties": "object", "items": "array", "prefixItems": "array"}
"""The keywords that imply a type where none is stated."""
_SAME_VALUE_KEYWORDS = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "then", "else"})
"""The keywords whose schemas apply to the same value as the schema that contains them."""
_KEYWORDS_BESIDE_ROOT_REFERENCE = frozenset({"type", "$defs", "title", "description", "$comment", "examples"})
_TYPING_KEYWORDS = frozenset({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "not"})


class _Normalizer:
    """One walk through a schema; `findings` collects everything that was not valid."""

    def __init__(self, ref_targets: dict[str, str]) -> None:
        self.findings: list[Finding] = []
        self.has_tags = False
        """Whether there is a union whose alternatives may have tags."""
        self._ref_targets = ref_targets

    def normalize_root(self, schema: JsonObject) -> JsonObject:
        definitions = schema.get("$defs", {})
        if isinstance(schema.get("type"), str):
            self._parse_type_name(schema["type"], "")
        root = self.normalize_node({**schema, "type": "object"}, "", 0)
        if definitions:
            root["$defs"] = {name: self.normalize_node(node, f"$defs.{name}", 0) for name, node in definitions.items()}
        root = {**_resolve_root(root), "type": "object"}
        drop_irrelevant_keywords(root)  # the target of the reference may have had another type
        return root

    def normalize_node(
        self, node: Any, path: str, level: int, outer_types: Sequence[str] = (), *, is_negated: bool = False
    ) -> JsonObject:
        """Return a schema in normal form.

        `outer_types` are the types that schemas around it allow for the same value. `is_negated`: it is in a `not` or
        an `if`, where a narrower schema would make the whole wider.
        """
        if not isinstance(node, dict):
            return self._normalize_non_object(node, path)
        if level > MAX_DEPTH:
            self._add_finding("warning", path, f"it is nested more than {MAX_DEPTH} levels deep", "Make it flatter.")
            return {}
        if is_plain_scalar(node):
            return dict(node)
        self.has_tags = self.has_tags or "oneOf" in node or "discriminator" in node
        normalized = {key: value for key, value in node.items() if key not in _REMOVED_KEYWORDS}
        _upgrade_keywords(normalized)
        if node.get("nullable") is True:
            self._add_finding("note", path, "'nullable' is not a JSON Schema keyword", "Add 'null' to its types.", None)
        self._drop_invalid_values(normalized, path)
        self._normalize_required(normalized)
        self._normalize_ref(normalized, path)
        self._normalize_type(normalized, path, outer_types, is_negated=is_negated)
        if not is_negated:
            self._normalize_values(normalized, path)
        self._normalize_subschemas(normalized, path, level, outer_types, is_negated=is_negated)
        return normalized

    def _normalize_non_object(self, node: Any, path: str) -> JsonObject:
        if node is False:
            return {"not": {}}
        if node is not True:
            self._add_finding("warning", path, "it is not a schema", "Write a JSON object.")
        return {}

    def _drop_invalid_values(self, node: JsonObject, path: str) -> None:
        for key in [key for key, value in node.items() if key in _VALUE_CHECKS and not _VALUE_CHECKS[key](value)]:
            if node.pop(key) not in (True, False, [], None):  # these are common, and state no rule
                self._add_finding("warning", path, f"{key!r} has an invalid value", "Correct or remove it.")

    def _normalize_required(self, node: JsonObject) -> None:
        """Move the draft-03 mark `required: true` of a member to its object, and remove duplicate names."""
        members = node.get("properties", {})
        marked = [name for name, child in members.items() if isinstance(child, dict) and child.get("required") is True]
        if marked or "required" in node:
            node["required"] = list(dict.fromkeys([*node.get("required", ()), *marked]))
        if "dependentRequired" in node:
            dependent = node["dependentRequired"]
            node["dependentRequired"] = {name: list(dict.fromkeys(names)) for name, names in dependent.items()}

    def _normalize_type(self, node: JsonObject, path: str, outer_types: Sequence[str], *, is_negated: bool) -> None:
        stated = node.get("type")
        words = [word for word in (stated if isinstance(stated, list) else [stated]) if isinstance(word, str)]
        types = list(dict.fromkeys(self._parse_type_name(word, path) for word in words))
        if None in types or not types:
            node.pop("type", None)
            implied = _IMPLIED_TYPES.items() if _TYPING_KEYWORDS.isdisjoint(node) else ()
            types = list(dict.fromkeys(kind for key, kind in implied if key in node))
            if is_negated and types != list(outer_types):
                types = []
            elif types and types != list(outer_types):
                problem = f"it has no type and is read as {' or '.join(map(repr, types))}"
                self._add_finding("note", path, problem, "State its type.", "narrower")
        if types:
            node["type"] = type_keyword(filter(None, types))
            drop_irrelevant_keywords(node)

    def _normalize_values(self, node: JsonObject, path: str) -> None:
        """Drop enum values of other types than the stated ones; if none is left, drop the type instead."""
        types = type_names(node) or list(JSON_TYPES.values())
        if "enum" in node:
            distinct: JsonObject = {}
            for value in node["enum"]:
                distinct.setdefault(_value_key(value), value)
            node["enum"] = list(distinct.values())
        values = node.get("enum", [node["const"]] if "const" in node else [])
        matching = [value for value in values if is_of_type(value, types)]
        if len(matching) == len(values):
            return
        self._add_finding("warning", path, "its values do not match its type", "Correct the values or the type.")
        if not matching:
            del node["type"]
        else:  # one of several values is of another type, so this is an enum
            node["enum"] = matching

    def _parse_type_name(self, word: str, path: str) -> str | None:
        """Return the type that a word means; None when it means any type."""
        known = TYPE_ALIASES.get(word.lower())
        if known is None and word.lower() not in _ANY_TYPE_NAMES:
            self._add_finding("warning", path, f"there is no type {word!r}", "Use a JSON Schema type.")
        elif known is not None and known != word:
            self._add_finding("note", path, f"the type {word!r} is read as {known!r}", f"Write {known!r}.", None)
        return known

    def _normalize_ref(self, node: JsonObject, path: str) -> None:
        if "$ref" not in node:
            return
        target = self._ref_targets.get(node["$ref"])
        if target is None:
            del node["$ref"]
            self._add_finding("error", path, "its '$ref' leads nowhere", "Define its target in '$defs'.")
        else:
            node["$ref"] = target

    def _normalize_subschemas(
        self, node: JsonObject, path: str, level: int, outer_types: Sequence[str], *, is_negated: bool
    ) -> None:
        self._drop_forbidden_members(node, path)
        for key in ("anyOf", "oneOf"):
            if key in node:
                node[key] = [branch for branch in node[key] if branch is not False] or node[key]
        if node.get("items") is False:
            del node["items"]
            length = len(node.get("prefixItems", ()))
            node["maxItems"] = min(node.get("maxItems", length), length)

        def convert(keyword: str, _name: str, child: Any, child_path: str) -> Any:
            if keyword in _BOOLEAN_SCHEMA_KEYWORDS and isinstance(child, bool):
                return child
            is_deeper = keyword not in SCHEMA_LIST_KEYWORDS
            types = (type_names(node) or outer_types) if keyword in _SAME_VALUE_KEYWORDS else ()
            is_child_negated = is_negated or keyword in {"not", "if"}
            return self.normalize_node(child, child_path, level + is_deeper, types, is_negated=is_child_negated)

        known = len(self.findings)
        map_subschemas(node, path, convert)
        if "oneOf" in node and any(finding.effect for finding in self.findings[known:]):
            self._replace_one_of(node, path)

    def _drop_forbidden_members(self, node: JsonObject, path: str) -> None:
        """Drop the members that no value may have: a closed object needs no schema for them."""
        properties = node.get("properties", {})
        for name in [name for name, child in properties.items() if child is False]:
            if node.get("additionalProperties") is not False:
                problem = "it is not allowed, which is not enforced"
                self._add_finding("warning", join_path(path, name), problem, "Close the object, without this member.")
        if properties:
            node["properties"] = {name: child for name, child in properties.items() if child is not False}

    def _replace_one_of(self, node: JsonObject, path: str) -> None:
        """Write a `oneOf` whose branches have changed, and may overlap now, as an `anyOf`, in place."""
        if "anyOf" in node:
            node["allOf"] = [*node.get("allOf", ()), {"anyOf": node.pop("oneOf")}]
        else:
            node["anyOf"] = node.pop("oneOf")
        from ahvn_tools.schema.dialects.finding import not_enforced

        append_description(node, [EXACTLY_ONE])
        self.findings.append(not_enforced("oneOf", path))

    def _add_finding(
        self, severity: Severity, path: str, problem: str, fix: str, effect: Effect | None = "wider"
    ) -> None:
        from ahvn_tools.schema.dialects.finding import Finding

        self.findings.append(Finding(severity=severity, place=path, problem=problem, fix=fix, effect=effect))


def _resolve_root(root: JsonObject) -> JsonObject:
    """Return a root without `$ref`: replaced by its target, or by an `allOf` where other keywords are beside it."""
    seen: set[str] = set()
    while reference := root.pop("$ref", None):
        target = root.get("$defs", {}).get(reference.removeprefix(DEFS_PREFIX), {})
        if root.keys() <= _KEYWORDS_BESIDE_ROOT_REFERENCE and reference not in seen:
            root = {**copy.deepcopy(target), **root}
        elif target and reference not in seen:
            root["allOf"] = [*root.get("allOf", ()), {"$ref": reference}]
        seen.add(reference)
    return root


def _upgrade_keywords(node: JsonObject) -> None:
    """Replace keywords of older drafts by those of draft 2020-12, in place."""
    for exclusive, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if node.get(exclusive) is True and _is_number(node.get(plain)):
            node[exclusive] = node.pop(plain)
    if isinstance(node.get("items"), list):
        node["prefixItems"] = node.pop("items")
        if "additionalItems" in node:
            node["items"] = node["additionalItems"]
    node.pop("additionalItems", None)


def drop_irrelevant_keywords(node: JsonObject) -> None:
    """Drop, in place, the keywords that apply only to other types than the stated ones."""
    for types, keywords in _KEYWORDS_BY_TYPE.items():
        if types.isdisjoint(type_names(node)):
            for keyword in node.keys() & keywords:
                del node[keyword]


def _value_key(value: Any) -> str:
    """Return the same text for values that JSON Schema considers equal, such as 1 and 1.0."""
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value, sort_keys=True)
