"""The root of a schema as providers want it: one plain object, without unions and references.

Sentences state the rules that the root can no longer express. The result is for the model only: the tool's own schema,
which does not change, validates the calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.finding import to_json_text
from ahvn_tools.schema.keywords import iter_schemas, type_names
from ahvn_tools.schema.refs import resolve_ref, without_unused_definitions

MAX_DEPTH = 4
"""Unions inside unions are merged to this depth; deeper ones accept anything."""

MAX_BRANCHES = 500
"""At most this many branches are merged in one schema; a few lines with references can produce endless ones."""

FURTHER_RULES = "Further rules are checked when the tool is called."

_UNIONS = {"anyOf": "at least one", "oneOf": "exactly one"}
_RULES = ("not", "enum", "const")
_MERGED_KEYWORDS = frozenset({"allOf", "discriminator", *_UNIONS, *_RULES})
_PLAIN_KEYWORDS = frozenset({
    "type", "properties", "required", "additionalProperties", "title", "description", "$comment", "$defs",
})  # fmt: skip


def flatten_root(schema: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return a copy of a normalized schema whose root has no combinators, and sentences on what it cannot express.

    The root has the members of all branches, and requires what every branch of a union requires.
    """
    merged, rules = _RootMerger(schema).merge(schema, 0)
    return without_unused_definitions(merged), list(dict.fromkeys(rules))


def add_missing_properties(schema: JsonObject) -> JsonObject:
    """Add `properties` to each object schema without it, in place; return the schema."""
    for node in iter_schemas(schema):
        if "object" in type_names(node):
            node.setdefault("properties", {})
    return schema


class _RootMerger:
    """Merges the branches of a root's combinators into the root."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._remaining_branches = MAX_BRANCHES

    def merge(self, schema: JsonObject, level: int) -> tuple[JsonObject, list[str]]:
        self._remaining_branches -= 1
        if level > MAX_DEPTH or self._remaining_branches < 0:
            return {}, [FURTHER_RULES]
        node = resolve_ref(schema, self._root)
        merged = {key: value for key, value in node.items() if key not in _MERGED_KEYWORDS}
        rules = [_state_rule({key: node[key]}) for key in _RULES if key in node]
        for branch in node.get("allOf", ()):
            rules += self._merge_all_of(merged, branch, level)
        for key, how_many in _UNIONS.items():
            if key in node:
                rules += self._merge_union(merged, node[key], how_many, level)
        return merged, rules

    def _merge_all_of(self, merged: JsonObject, branch: Any, level: int) -> list[str]:
        part, rules = self.merge(branch, level + 1)
        for name, child in _properties(part).items():
            known = _properties(merged).get(name, child)
            _add_property(merged, name, child if known == child else {"allOf": [known, child]})
        _add_required(merged, part.get("required", ()))
        if part.get("additionalProperties", False) is not False:
            merged.setdefault("additionalProperties", part["additionalProperties"])
        rest = {key: value for key, value in part.items() if key not in _PLAIN_KEYWORDS}
        return [*rules, _state_rule(rest)] if rest else rules

    def _merge_union(self, merged: JsonObject, branches: Any, how_many: str, level: int) -> list[str]:
        """Add the members of all branches, and require what every branch requires."""
        results = [self.merge(branch, level + 1) for branch in branches if self._allows_object(branch)]
        parts = [part for part, _ in results]
        if not parts:
            return []
        own = _properties(merged)
        for name in dict.fromkeys(name for part in parts for name in _properties(part)):
            if name not in own:
                choices = [_properties(part)[name] for part in parts if name in _properties(part)]
                _add_property(merged, name, _any_of(choices))
        common = set.intersection(*(set(part.get("required", ())) for part in parts))
        _add_required(merged, (name for name in parts[0].get("required", ()) if name in common))
        if not own and all(part.get("additionalProperties") is False for part in parts):
            merged.setdefault("additionalProperties", False)
        combinations = "; ".join(dict.fromkeys(map(_describe_branch, parts)))
        rule = f"Pass {how_many} of these combinations of arguments: {combinations}."
        return [rule, *(rule for _, rules in results for rule in rules)]

    def _allows_object(self, branch: JsonObject) -> bool:
        return "object" in (type_names(resolve_ref(branch, self._root)) or ["object"])


def _properties(node: JsonObject) -> JsonObject:
    properties = node.get("properties")
    return properties if isinstance(properties, dict) else {}


def _add_property(merged: JsonObject, name: str, child: Any) -> None:
    """Add a member, unless the schema is closed to members other than its own."""
    if merged.get("additionalProperties") is not False or name in _properties(merged):
        merged["properties"] = {**_properties(merged), name: child}


def _add_required(merged: JsonObject, names: Iterable[str]) -> None:
    if required := list(dict.fromkeys([*merged.get("required", ()), *names])):
        merged["required"] = required


def _any_of(schemas: list[Any]) -> Any:
    distinct = list({to_json_text(schema): schema for schema in schemas}.values())  # as text: in Python, 1 equals True
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def _state_rule(rule: JsonObject) -> str:
    return f"The arguments must match the JSON Schema {to_json_text(rule)}."


def _describe_branch(branch: JsonObject) -> str:
    """Name the arguments that a branch requires, with the values of its constants."""
    members = [(name, _properties(branch).get(name)) for name in branch.get("required", ())]
    names = [
        f"`{name}` = {to_json_text(child['const'])}" if isinstance(child, dict) and "const" in child else f"`{name}`"
        for name, child in members
    ]
    return " with ".join(filter(None, (names[0], ", ".join(names[1:])))) if names else "any other combination"
