"""Strict schemas as OpenAI and Anthropic define them: objects are closed.

OpenAI's have all members required, and optional ones nullable; in Anthropic's, optional members stay optional. Nothing
is narrowed silently: a schema that cannot be strict without a change of its meaning is reported, and exported as it is.
A null that comes back for a member whose own schema refuses null means "absent": `schema.repair` removes it.
Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
"""

from __future__ import annotations

import re
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.description import EXACTLY_ONE, append_description, describe_default, describe_rule
from ahvn_tools.schema.dialects.dialect import Dialect
from ahvn_tools.schema.dialects.finding import Finding, not_enforced, not_strict
from ahvn_tools.schema.dialects.merge import add_missing_properties, are_exclusive, merge
from ahvn_tools.schema.dialects.translate import translate
from ahvn_tools.schema.keywords import iter_schemas, join_path, type_keyword, type_names, value_types
from ahvn_tools.schema.refs import DEFS_PREFIX, find_cyclic_refs, resolve_ref

MAX_DEPTH = 10
"""OpenAI allows this many levels of nesting."""

MAX_PROPERTIES = 5_000
MAX_ENUM_VALUES = 1_000
MAX_CHARS = 120_000
"""OpenAI allows this many characters in all names, enums and constants together."""
LARGE_ENUM_VALUES = 250
MAX_LARGE_ENUM_CHARS = 15_000
"""OpenAI allows this many characters in one enum of more than `LARGE_ENUM_VALUES` values."""

_SUPPORTED_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_UNSUPPORTED_KEYWORDS = frozenset({
    "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties", "propertyNames",
    "unevaluatedProperties", "unevaluatedItems", "contains", "prefixItems",
})  # fmt: skip
_TYPING_KEYWORDS = frozenset({"type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"})
_MEMBER_KEYWORDS = frozenset({"properties", "required", "additionalProperties"})
_DESCRIBED_KEYWORDS = (
    "minProperties", "maxProperties", "minContains", "maxContains", "uniqueItems", "contentEncoding",
    "contentMediaType", "contentSchema",
)  # fmt: skip
_SUPPORTED_KEYWORDS = frozenset({
    "type", "description", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "properties", "required", "items",
    "additionalProperties", "format", "pattern", "minLength", "maxLength", "minItems", "maxItems", "multipleOf",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
})  # fmt: skip
_LOOKAROUND = re.compile(r"\(\?<?[=!]")
_FIXES: Final = {
    "it accepts any value": "State its type.",
    "its members are not named": "Name its members, or pass a list of entries with a key and a value.",
    "'prefixItems' is not allowed": "Use an object with named members instead of a tuple.",
    "its root is a union, not one object": "Make it one object with optional members.",
}
_DEFAULT_FIX = "Remove it, or export the tool without strict; the tool itself enforces it."


def to_strict(schema: JsonObject) -> tuple[JsonObject | None, list[Finding]]:
    """Return the strict form of a normalized schema and what it only describes, or None and why it cannot be strict."""
    converter = _StrictConverter(schema)
    strict = converter.convert_root()
    return (None, converter.reasons) if converter.reasons else (strict, converter.losses)


class _StrictConverter:
    """One conversion; `reasons` and `losses` collect everything, so that one export reports it all."""

    def __init__(self, schema: JsonObject) -> None:
        self.reasons: list[Finding] = []
        self.losses: list[Finding] = []
        self._schema = schema
        self._definitions: JsonObject = schema.get("$defs") or {}

    def convert_root(self) -> JsonObject:
        strict = self.convert_node({key: value for key, value in self._schema.items() if key != "$defs"}, "", 0)
        if "anyOf" in strict:
            self._add_reason("", "its root is a union, not one object")
        if self._definitions:
            strict["$defs"] = {
                name: self.convert_node(node, f"$defs.{name}", 0) for name, node in self._definitions.items()
            }
        if not self.reasons:
            self._check_limits(strict)
        return strict

    def convert_node(self, node: Any, path: str, level: int) -> JsonObject:
        if not isinstance(node, dict) or _TYPING_KEYWORDS.isdisjoint(node):
            return self._add_reason(path, "it accepts any value")
        for key in sorted(_UNSUPPORTED_KEYWORDS & node.keys()):
            self._add_reason(path, f"{key!r} is not allowed")
        if level > MAX_DEPTH:
            return self._add_reason(path, f"it is nested more than {MAX_DEPTH} levels deep")
        if "allOf" in node:
            return self._merge_all_of(node, path, level)
        if "$ref" in node:
            return self._convert_reference(node, path, level)
        strict = {key: value for key, value in node.items() if key in _SUPPORTED_KEYWORDS}
        if "oneOf" in strict or "anyOf" in strict:
            self._convert_union(strict, path, level)
        if "object" in type_names(node):
            self._convert_object(strict, node, path, level)
        if "array" in type_names(node) and "prefixItems" not in node:
            strict["items"] = self.convert_node(node.get("items"), f"{path}[]", level + 1)
        self._add_value_types(strict, path)
        self._describe_unenforced(strict, node, path)
        return strict

    def _add_value_types(self, strict: JsonObject, path: str) -> None:
        """Add the type of an enum's or a constant's values, which OpenAI requires."""
        if "enum" not in strict and "const" not in strict:
            return
        values = strict.get("enum", [strict.get("const")])
        if any(isinstance(value, dict | list) for value in values):
            self._add_reason(path, "its values are objects or lists")
        strict.setdefault("type", type_keyword(value_types(values)))

    def _convert_union(self, strict: JsonObject, path: str, level: int) -> None:
        if "oneOf" in strict and "anyOf" in strict:
            self._add_reason(path, "it has both 'anyOf' and 'oneOf'")
        if not _MEMBER_KEYWORDS.isdisjoint(strict):
            self._add_reason(path, "it has both members and a union")
        if "oneOf" in strict and not are_exclusive(strict["oneOf"], self._resolve):
            append_description(strict, [EXACTLY_ONE])
            self._add_losses(["oneOf"], path)
        branches = strict.pop("oneOf", None) or strict["anyOf"]
        strict["anyOf"] = [self.convert_node(branch, f"{path}[{i}]", level) for i, branch in enumerate(branches)]

    def _describe_unenforced(self, strict: JsonObject, node: JsonObject, path: str) -> None:
        """Move the rules that OpenAI does not enforce to the description; the tool itself enforces them."""
        lost = [key for key in _DESCRIBED_KEYWORDS if key in node]
        if strict.get("format", "uuid") not in _SUPPORTED_FORMATS:
            lost.insert(0, "format")
        if _LOOKAROUND.search(strict.get("pattern", "")):
            lost.insert(0, "pattern")
        for key in lost:
            strict.pop(key, None)
        append_description(strict, [describe_rule(key, node[key]) for key in lost])
        self._add_losses(lost, path)

    def _convert_object(self, strict: JsonObject, node: JsonObject, path: str, level: int) -> None:
        # an object with named members ignores others, so it may be closed; a free object may not
        is_free = not node.get("properties") if path else "properties" not in node
        if node.get("additionalProperties", is_free) is not False:
            self._add_reason(path, "its members are not named")
            return
        required = set(node.get("required", ()))
        properties = node.get("properties", {})
        for name in sorted(required - properties.keys()):
            self._add_reason(path, f"{name!r} is required but has no schema")
        strict["properties"] = {
            name: self._convert_property(child, join_path(path, name), level + 1, is_required=name in required)
            for name, child in properties.items()
        }
        strict["required"] = list(properties)
        strict["additionalProperties"] = False

    def _convert_property(self, node: Any, path: str, level: int, *, is_required: bool) -> JsonObject:
        strict = self.convert_node(node, path, level)
        if isinstance(node, dict) and (sentence := describe_default(node)):
            strict = _describe(strict, sentence)
        return strict if is_required or _allows_null(strict) else _make_nullable(strict)

    def _convert_reference(self, node: JsonObject, path: str, level: int) -> JsonObject:
        name = str(node["$ref"]).removeprefix(DEFS_PREFIX)
        if node["$ref"] != "#" and name not in self._definitions:
            return self._add_reason(path, f"{node['$ref']!r} is not in '$defs'")
        siblings = {key: value for key, value in node.items() if key in _SUPPORTED_KEYWORDS and key != "$ref"}
        if not siblings:
            return {"$ref": node["$ref"]}
        if siblings.keys() == {"description"}:
            return _describe({"$ref": node["$ref"]}, siblings["description"])
        target = self._definitions.get(name)
        merged, omitted = merge(siblings, target) if isinstance(target, dict) else (None, [])
        if merged is None or omitted or level > MAX_DEPTH:
            return self._add_reason(path, "its '$ref' has sibling keywords that clash with its target")
        return self.convert_node(merged, path, level + 1)

    def _merge_all_of(self, node: JsonObject, path: str, level: int) -> JsonObject:
        if len(node["allOf"]) != 1 or not isinstance(node["allOf"][0], dict):
            return self._add_reason(path, "'allOf' is not allowed")
        (branch,) = node["allOf"]
        merged, omitted = merge({key: value for key, value in node.items() if key != "allOf"}, branch)
        if merged is None or omitted:
            return self._add_reason(path, "'allOf' clashes with the keywords beside it")
        return self.convert_node(merged, path, level)

    def _resolve(self, node: JsonObject) -> JsonObject:
        return resolve_ref(node, {"$defs": self._definitions})

    def _add_losses(self, keywords: list[str], path: str) -> None:
        self.losses += [not_enforced(keyword, path) for keyword in keywords]

    def _add_reason(self, path: str, reason: str) -> JsonObject:
        self.reasons.append(not_strict(path, reason, _FIXES.get(reason, _DEFAULT_FIX)))
        return {}

    def _check_limits(self, strict: JsonObject) -> None:
        names = [name for node in iter_schemas(strict) for name in node.get("properties", ())]
        enums = [node["enum"] for node in iter_schemas(strict) if "enum" in node]
        values = [value for values in enums for value in values]
        values += [node["const"] for node in iter_schemas(strict) if "const" in node]
        chars = sum(len(str(value)) for value in (*names, *values, *strict.get("$defs", ())))
        for count, limit, noun in (
            (len(names), MAX_PROPERTIES, "properties"),
            (len(values), MAX_ENUM_VALUES, "enum values"),
            (chars, MAX_CHARS, "characters in names and values"),
        ):
            if count > limit:
                self._add_reason("", f"it has more than {limit:,} {noun}")
        for enum in enums:
            if len(enum) > LARGE_ENUM_VALUES and sum(len(str(value)) for value in enum) > MAX_LARGE_ENUM_CHARS:
                self._add_reason("", f"one enum has more than {MAX_LARGE_ENUM_CHARS:,} characters")


def _describe(strict: JsonObject, sentence: str) -> JsonObject:
    """Add a sentence to a schema; a `$ref`, which may have no siblings, becomes the only branch of an `anyOf`."""
    described = {"anyOf": [strict]} if "$ref" in strict else strict
    append_description(described, [sentence])
    return described


def _make_nullable(strict: JsonObject) -> JsonObject:
    description = {"description": strict.pop("description")} if "description" in strict else {}
    if "anyOf" in strict:
        return {**strict, **description, "anyOf": [*strict["anyOf"], {"type": "null"}]}
    kind = strict.get("type")
    if isinstance(kind, str) and "enum" not in strict and "const" not in strict:
        return {**strict, **description, "type": [kind, "null"]}
    return {**description, "anyOf": [strict, {"type": "null"}]}


def _allows_null(strict: JsonObject) -> bool:
    types = type_names(strict)
    if types and "null" not in types:
        return False
    if "enum" in strict or "const" in strict:
        return None in strict.get("enum", (strict.get("const"),))
    return bool(types) or {"type": "null"} in strict.get("anyOf", ())


_STRICT_DIALECT: Final = Dialect(
    keywords=frozenset({
        "type", "description", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
        "$ref", "$defs", "format",
    }),
    formats=frozenset({
        "date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid",
    }),
    requires_bare_references=True,
)  # fmt: skip


def to_anthropic_strict(schema: JsonObject) -> tuple[JsonObject | None, list[Finding]]:
    """Return the strict form of an object schema and what it only describes, or None and why it cannot be strict."""
    strict, reasons = to_strict(schema)
    reasons = [*([] if strict else reasons), *_find_reasons(schema)]
    if reasons:
        return None, reasons
    translated, losses = translate(schema, _STRICT_DIALECT)
    for node in iter_schemas(add_missing_properties(translated)):
        if "object" in type_names(node):
            node["additionalProperties"] = False
    return translated, losses


def _find_reasons(schema: JsonObject) -> list[Finding]:
    """Return what Anthropic's strict tools do not accept although OpenAI's do."""
    paths = ("" if ref == "#" else f"$defs.{ref.removeprefix(DEFS_PREFIX)}" for ref in sorted(find_cyclic_refs(schema)))
    reasons = [not_strict(path, "it is recursive", "Limit its nesting.") for path in paths]
    if any("allOf" in node for node in iter_schemas(schema)):
        reasons.append(not_strict("", "'allOf' is not allowed", "Make it one schema."))
    return reasons
