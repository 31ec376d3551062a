"""Strict schemas as OpenAI defines them: every member required, objects closed, optional ones nullable.

Nothing is narrowed silently: what cannot be strict without changing its meaning is reported, and exported as it is.
A null that comes back for a member whose own schema refuses it means "absent"; the repairs of `schema.repair` do that.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from ahvn_tools.schema.finding import Finding

JsonObject = dict[str, Any]

DEEPEST = 10
"""OpenAI allows this many levels of nesting."""

_KEPT_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_REFUSED = frozenset({
    "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties", "propertyNames",
    "unevaluatedProperties", "unevaluatedItems", "contains", "prefixItems",
})  # fmt: skip
_SAYS_SOMETHING = frozenset({"type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"})
_TOLD = ("minProperties", "maxProperties", "minContains", "maxContains", "uniqueItems")
_DROPPED = frozenset({"default", "examples", "title", "discriminator", "deprecated", "readOnly", "writeOnly", *_TOLD})


def strict(schema: JsonObject) -> tuple[JsonObject, list[Finding]]:
    """Return the strict form of an object schema and no reasons, or a copy of it and why it cannot be strict."""
    reasons: list[Finding] = []
    made = _Strict(schema, reasons).root()
    return (made, []) if not reasons else (copy.deepcopy(schema), reasons)


class _Strict:
    """One conversion; reasons are collected, so that all are told at once."""

    def __init__(self, schema: JsonObject, reasons: list[Finding]) -> None:
        self._schema = schema
        self._reasons = reasons
        self._definitions: JsonObject = schema.get("$defs") or {}

    def root(self) -> JsonObject:
        made = self.node({key: value for key, value in self._schema.items() if key != "$defs"}, "", 0)
        if "anyOf" in made:
            self._refuse("", "its root is a choice, and not one object")
        if self._definitions:
            made["$defs"] = {name: self.node(node, f"$defs.{name}", 0) for name, node in self._definitions.items()}
        return made

    def node(self, node: Any, where: str, level: int) -> JsonObject:
        if not isinstance(node, dict) or _SAYS_SOMETHING.isdisjoint(node):
            return self._refuse(where, "it may be anything")
        for key in sorted(_REFUSED & node.keys()):
            self._refuse(where, f"{key!r} is not allowed")
        if level > DEEPEST:
            return self._refuse(where, f"it nests more than {DEEPEST} levels deep")
        if "allOf" in node:
            return self._merged(node, where, level)
        if "$ref" in node:
            return self._reference(node, where)
        made = {key: value for key, value in node.items() if key not in _DROPPED}
        branches = made.pop("oneOf", None) or made.pop("anyOf", None)
        if branches is not None:
            made["anyOf"] = [self.node(branch, f"{where}[{i}]", level) for i, branch in enumerate(branches)]
        types = node.get("type", ())
        if "object" in ([types] if isinstance(types, str) else types):
            self._object(made, node, where, level)
        if "array" in ([types] if isinstance(types, str) else types):
            made["items"] = self.node(node.get("items"), f"{where}[]", level + 1)
        self._tell(made, node)
        return made

    def _tell(self, made: JsonObject, node: JsonObject) -> None:
        """Say in the description what the provider does not enforce; the tool itself still does."""
        if made.get("format") is not None and made["format"] not in _KEPT_FORMATS:
            made["description"] = _told(made, f"Format: {made.pop('format')}.")
        for key in _TOLD:
            if key in node:
                made["description"] = _told(made, f"{key}: {json.dumps(node[key])}.")

    def _object(self, made: JsonObject, node: JsonObject, where: str, level: int) -> None:
        if node.get("additionalProperties", "properties" not in node) is not False and not self._is_closable(node):
            self._refuse(where, "its members are not named")
            return
        required = set(node.get("required", ()))
        properties = node.get("properties", {})
        made["properties"] = {
            name: self._member(child, f"{where}.{name}" if where else name, level + 1, is_required=name in required)
            for name, child in properties.items()
        }
        made["required"] = list(properties)
        made["additionalProperties"] = False

    def _is_closable(self, node: JsonObject) -> bool:
        """A model that says nothing of further members ignores them: it may be closed. A free object may not."""
        return "additionalProperties" not in node and bool(node.get("properties"))

    def _member(self, node: Any, where: str, level: int, *, is_required: bool) -> JsonObject:
        made = self.node(node, where, level)
        if isinstance(node, dict) and node.get("default") is not None:
            made["description"] = _told(made, f"Default: {json.dumps(node['default'], ensure_ascii=False)}.")
        return made if is_required else self._nullable(made)

    def _nullable(self, made: JsonObject) -> JsonObject:
        if self._takes_null(made):
            return made
        description = made.pop("description", None)
        told = {} if description is None else {"description": description}
        if "anyOf" in made:
            return {**made, **told, "anyOf": [*made["anyOf"], {"type": "null"}]}
        kind = made.get("type")
        if isinstance(kind, str) and "enum" not in made and "const" not in made:
            return {**made, **told, "type": [kind, "null"]}
        return {**told, "anyOf": [made, {"type": "null"}]}

    def _takes_null(self, made: JsonObject) -> bool:
        kind = made.get("type")
        if kind is not None and kind != "null" and "null" not in (kind if isinstance(kind, list) else ()):
            return False
        if "enum" in made or "const" in made:
            return None in made.get("enum", (made.get("const"),))
        return kind is not None or {"type": "null"} in made.get("anyOf", ())

    def _reference(self, node: JsonObject, where: str) -> JsonObject:
        name = str(node["$ref"]).removeprefix("#/$defs/")
        if node["$ref"] != "#" and name not in self._definitions:
            return self._refuse(where, f"{node['$ref']!r} is not in '$defs'")
        others = {key: value for key, value in node.items() if key != "$ref" and key not in _DROPPED}
        if others.keys() - {"description"}:
            self._refuse(where, "'$ref' has keywords beside it")
        return {**others, "anyOf": [{"$ref": node["$ref"]}]} if others else {"$ref": node["$ref"]}

    def _merged(self, node: JsonObject, where: str, level: int) -> JsonObject:
        if len(node["allOf"]) != 1 or not isinstance(node["allOf"][0], dict):
            return self._refuse(where, "'allOf' is not allowed")
        rest = {key: value for key, value in node.items() if key != "allOf"}
        return self.node({**node["allOf"][0], **rest}, where, level)

    def _refuse(self, where: str, reason: str) -> JsonObject:
        self._reasons.append(Finding(severity="note", place=where, problem=reason, fix="It goes out without strict."))
        return {}


def _told(node: JsonObject, sentence: str) -> str:
    return f"{node['description']} {sentence}" if node.get("description") else sentence
