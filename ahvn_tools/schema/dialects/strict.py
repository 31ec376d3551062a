"""Strict schemas as OpenAI defines them: every member required, objects closed, optional ones nullable.

Nothing is narrowed silently: what cannot be strict without changing its meaning is reported, and exported as it is.
A null that comes back for a member whose own schema refuses it means "absent"; the repairs of `schema.repair` do that.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ahvn_tools.schema.dialects.describe import NOT_ENFORCED, append_description, to_json_text
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.schema.dialects.normalize import JSON_TYPES
from ahvn_tools.schema.refs import iter_schemas

JsonObject = dict[str, Any]

MAX_DEPTH = 10
"""OpenAI allows this many levels of nesting."""

MAX_PROPERTIES = 5_000
MAX_ENUM_VALUES = 1_000
MAX_CHARS = 120_000
"""… so many characters in all names, enums and constants together."""
LARGE_ENUM_VALUES = 250
MAX_LARGE_ENUM_CHARS = 15_000
"""… so many characters in one enum of more than `LARGE_ENUM` texts."""

_SUPPORTED_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_UNSUPPORTED_KEYWORDS = frozenset({
    "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties", "propertyNames",
    "unevaluatedProperties", "unevaluatedItems", "contains", "prefixItems",
})  # fmt: skip
_TYPING_KEYWORDS = frozenset({"type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"})
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
    "it may be anything": "Say its type.",
    "its members are not named": "Name its members, or pass a list of entries with a key and a value.",
    "'prefixItems' is not allowed": "Use an object with named members in the place of a tuple.",
    "its root is a choice, and not one object": "Make it one object with optional members.",
}
_DEFAULT_FIX = "Leave it out, or export the tool without strict; the tool itself enforces it."


def to_strict(schema: JsonObject) -> tuple[JsonObject | None, list[Finding]]:
    """Return the strict form of an object schema, and what it tells only; or None, and why it cannot be strict."""
    work = _StrictConverter(schema)
    made = work.convert_root()
    return (None, work.reasons) if work.reasons else (made, work.losses)


class _StrictConverter:
    """One conversion; reasons and losses are collected, so that all are told at once."""

    def __init__(self, schema: JsonObject) -> None:
        self.reasons: list[Finding] = []
        self.losses: list[Finding] = []
        self._schema = schema
        self._definitions: JsonObject = schema.get("$defs") or {}

    def convert_root(self) -> JsonObject:
        made = self.convert_node({key: value for key, value in self._schema.items() if key != "$defs"}, "", 0)
        if "anyOf" in made:
            self._add_reason("", "its root is a choice, and not one object")
        if self._definitions:
            made["$defs"] = {
                name: self.convert_node(node, f"$defs.{name}", 0) for name, node in self._definitions.items()
            }
        if not self.reasons:
            self._check_limits(made)
        return made

    def convert_node(self, node: Any, where: str, level: int) -> JsonObject:
        if not isinstance(node, dict) or _TYPING_KEYWORDS.isdisjoint(node):
            return self._add_reason(where, "it may be anything")
        for key in sorted(_UNSUPPORTED_KEYWORDS & node.keys()):
            self._add_reason(where, f"{key!r} is not allowed")
        if level > MAX_DEPTH:
            return self._add_reason(where, f"it nests more than {MAX_DEPTH} levels deep")
        if "allOf" in node:
            return self._merge_all_of(node, where, level)
        if "$ref" in node:
            return self._convert_reference(node, where, level)
        made = {key: value for key, value in node.items() if key in _SUPPORTED_KEYWORDS}
        if "oneOf" in made or "anyOf" in made:
            self._convert_choice(made, where, level)
        types = node.get("type", ())
        if "object" in ([types] if isinstance(types, str) else types):
            self._convert_object(made, node, where, level)
        if "array" in ([types] if isinstance(types, str) else types) and "prefixItems" not in node:
            made["items"] = self.convert_node(node.get("items"), f"{where}[]", level + 1)
        self._add_value_types(made, where)
        self._describe_unenforced(made, node, where)
        return made

    def _add_value_types(self, made: JsonObject, where: str) -> None:
        """Say the type of an enum's or a constant's values where it is not said: the service wants it."""
        if "enum" not in made and "const" not in made:
            return
        values = made.get("enum", [made.get("const")])
        if any(isinstance(value, dict | list) for value in values):
            self._add_reason(where, "its values are objects or lists")
        if "type" not in made:
            types = list(dict.fromkeys(JSON_TYPES[type(value)] for value in values))
            made["type"] = types[0] if len(types) == 1 else types

    def _convert_choice(self, made: JsonObject, where: str, level: int) -> None:
        if "oneOf" in made and "anyOf" in made:
            self._add_reason(where, "it makes two choices at once")
        if "properties" in made:
            self._add_reason(where, "it has members and a choice beside them")
        branches = made.pop("oneOf", None) or made["anyOf"]
        made["anyOf"] = [self.convert_node(branch, f"{where}[{i}]", level) for i, branch in enumerate(branches)]

    def _describe_unenforced(self, made: JsonObject, node: JsonObject, where: str) -> None:
        """Say in the description what the provider does not enforce; the tool itself still does."""
        lost = [key for key in _DESCRIBED_KEYWORDS if key in node]
        if made.get("format", "uuid") not in _SUPPORTED_FORMATS:
            lost.insert(0, "format")
        if _LOOKAROUND.search(made.get("pattern", "")):
            lost.insert(0, "pattern")
        for key in lost:
            made.pop(key, None)
            append_description(made, [f"{key}: {to_json_text(node[key])}."])
            self.losses.append(
                Finding(severity="warning", place=where, problem=f"{key!r} is not enforced", fix=NOT_ENFORCED)
            )

    def _convert_object(self, made: JsonObject, node: JsonObject, where: str, level: int) -> None:
        # one that names members and says nothing of others ignores them: it may be closed; a free object may not
        is_free = not node.get("properties") if where else "properties" not in node
        if node.get("additionalProperties", is_free) is not False:
            self._add_reason(where, "its members are not named")
            return
        required = set(node.get("required", ()))
        properties = node.get("properties", {})
        for name in sorted(required - properties.keys()):
            self._add_reason(where, f"{name!r} is required and not described")
        made["properties"] = {
            name: self._convert_property(
                child, f"{where}.{name}" if where else name, level + 1, is_required=name in required
            )
            for name, child in properties.items()
        }
        made["required"] = list(properties)
        made["additionalProperties"] = False

    def _convert_property(self, node: Any, where: str, level: int, *, is_required: bool) -> JsonObject:
        made = self.convert_node(node, where, level)
        if isinstance(node, dict) and node.get("default") is not None:
            append_description(made, [f"Default: {to_json_text(node['default'])}."])
        return made if is_required else self._make_nullable(made)

    def _make_nullable(self, made: JsonObject) -> JsonObject:
        if self._allows_null(made):
            return made
        description = made.pop("description", None)
        told = {} if description is None else {"description": description}
        if "anyOf" in made:
            return {**made, **told, "anyOf": [*made["anyOf"], {"type": "null"}]}
        kind = made.get("type")
        if isinstance(kind, str) and "enum" not in made and "const" not in made:
            return {**made, **told, "type": [kind, "null"]}
        return {**told, "anyOf": [made, {"type": "null"}]}

    def _allows_null(self, made: JsonObject) -> bool:
        kind = made.get("type")
        if kind is not None and kind != "null" and "null" not in (kind if isinstance(kind, list) else ()):
            return False
        if "enum" in made or "const" in made:
            return None in made.get("enum", (made.get("const"),))
        return kind is not None or {"type": "null"} in made.get("anyOf", ())

    def _convert_reference(self, node: JsonObject, where: str, level: int) -> JsonObject:
        name = str(node["$ref"]).removeprefix("#/$defs/")
        if node["$ref"] != "#" and name not in self._definitions:
            return self._add_reason(where, f"{node['$ref']!r} is not in '$defs'")
        others = {key: value for key, value in node.items() if key in _SUPPORTED_KEYWORDS and key != "$ref"}
        if not others:
            return {"$ref": node["$ref"]}
        if others.keys() == {"description"}:
            return {**others, "anyOf": [{"$ref": node["$ref"]}]}
        target = self._definitions.get(name)
        if not isinstance(target, dict) or level > MAX_DEPTH or others.keys() & target.keys() - {"description"}:
            return self._add_reason(where, "'$ref' has keywords beside it that clash")
        return self.convert_node({**target, **others}, where, level + 1)

    def _merge_all_of(self, node: JsonObject, where: str, level: int) -> JsonObject:
        if len(node["allOf"]) != 1 or not isinstance(node["allOf"][0], dict):
            return self._add_reason(where, "'allOf' is not allowed")
        rest = {key: value for key, value in node.items() if key != "allOf"}
        return self.convert_node({**node["allOf"][0], **rest}, where, level)

    def _add_reason(self, where: str, reason: str) -> JsonObject:
        self.reasons.append(Finding(severity="note", place=where, problem=reason, fix=_FIXES.get(reason, _DEFAULT_FIX)))
        return {}

    def _check_limits(self, made: JsonObject) -> None:
        """Refuse what is larger than the service takes."""
        names = [name for node in iter_schemas(made) for name in node.get("properties", ())]
        enums = [node["enum"] for node in iter_schemas(made) if "enum" in node]
        values = [value for values in enums for value in values]
        values += [node["const"] for node in iter_schemas(made) if "const" in node]
        characters = sum(len(str(value)) for value in (*names, *values, *made.get("$defs", ())))
        for count, most, what in (
            (len(names), MAX_PROPERTIES, "properties"),
            (len(values), MAX_ENUM_VALUES, "enum values"),
            (characters, MAX_CHARS, "characters in names and values"),
        ):
            if count > most:
                self._add_reason("", f"it has more than {most:,} {what}")
        for enum in enums:
            if len(enum) > LARGE_ENUM_VALUES and sum(len(str(value)) for value in enum) > MAX_LARGE_ENUM_CHARS:
                self._add_reason("", f"one enum has more than {MAX_LARGE_ENUM_CHARS:,} characters")
