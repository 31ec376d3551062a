"""The root of a schema as providers want it: one plain object, without a choice or a reference at the top.

What the root cannot say any more is told in words. It is a guide for the model: what a call may hold is decided by the
tool's own schema, which stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ahvn_tools.schema.refs import iter_schemas, resolve_ref
from ahvn_tools.schema.titles import without_unused_definitions

JsonObject = dict[str, Any]

MAX_DEPTH = 4
"""Choices inside choices are merged this many levels deep; further down everything is open."""

MAX_BRANCHES = 500
"""So many branches are merged in one schema; references can make endless ones of a few lines."""

FURTHER_RULES = "Further rules are checked when the tool is called."

_CHOICES = {"anyOf": "At least one", "oneOf": "Exactly one"}
_RULES = ("not", "enum", "const")
_MERGED_KEYWORDS = frozenset({"allOf", "discriminator", *_CHOICES, *_RULES})
_PLAIN_KEYWORDS = frozenset({
    "type", "properties", "required", "additionalProperties", "title", "description", "$comment", "$defs",
})  # fmt: skip


def flatten_root(schema: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return a copy of a schema in standard form whose root has no combinators, and sentences on what it cannot say.

    Members of all branches are there, and required is what every branch of a choice requires.
    """
    made, rules = _RootMerger(schema).merge(schema, 0)
    return without_unused_definitions(made), list(dict.fromkeys(rules))


def add_missing_properties(schema: JsonObject) -> JsonObject:
    """Return the schema, changed in place; each object in it names its members, be they none."""
    for node in iter_schemas(schema):
        types = node.get("type", ())
        if "object" in ([types] if isinstance(types, str) else types):
            node.setdefault("properties", {})
    return schema


class _RootMerger:
    """One merging of what stands under the combinators of a root into the root itself."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._remaining_branches = MAX_BRANCHES

    def merge(self, schema: JsonObject, level: int) -> tuple[JsonObject, list[str]]:
        self._remaining_branches -= 1
        if level > MAX_DEPTH or self._remaining_branches < 0:
            return {}, [FURTHER_RULES]
        node = resolve_ref(schema, self._root)
        made = {key: value for key, value in node.items() if key not in _MERGED_KEYWORDS}
        rules = [f"These arguments must fit the rule {_to_json({key: node[key]})}." for key in _RULES if key in node]
        for branch in node.get("allOf", ()):
            rules += self._merge_all_of(made, branch, level)
        for key, how_many in _CHOICES.items():
            if key in node:
                rules += self._merge_choice(made, node[key], how_many, level)
        return made, rules

    def _merge_all_of(self, made: JsonObject, branch: Any, level: int) -> list[str]:
        """Add one part that always holds."""
        part, rules = self.merge(branch, level + 1)
        for name, child in _properties(part).items():
            known = _properties(made).get(name, child)
            _add_property(made, name, child if known == child else {"allOf": [known, child]})
        _add_required(made, part.get("required", ()))
        if part.get("additionalProperties", False) is not False:
            made.setdefault("additionalProperties", part["additionalProperties"])
        rest = {key: value for key, value in part.items() if key not in _PLAIN_KEYWORDS}
        return [*rules, f"These arguments must fit the rule {_to_json(rest)}."] if rest else rules

    def _merge_choice(self, made: JsonObject, branches: Any, how_many: str, level: int) -> list[str]:
        """Add what the branches of a choice have in common, and the members of each."""
        merged = [self.merge(branch, level + 1) for branch in branches if self._allows_object(branch)]
        parts = [part for part, _ in merged]
        if not parts:
            return []
        own = _properties(made)
        for name in dict.fromkeys(name for part in parts for name in _properties(part)):
            if name not in own:
                _add_property(
                    made, name, _any_of(_properties(part)[name] for part in parts if name in _properties(part))
                )
        common = set.intersection(*(set(part.get("required", ())) for part in parts))
        _add_required(made, (name for name in parts[0].get("required", ()) if name in common))
        if not own and all(part.get("additionalProperties") is False for part in parts):
            made.setdefault("additionalProperties", False)
        told = f"{how_many} of these must hold: {'; '.join(map(_describe_branch, parts))}."
        return [told, *(rule for _, rules in merged for rule in rules)]

    def _allows_object(self, branch: JsonObject) -> bool:
        types = resolve_ref(branch, self._root).get("type", "object")
        return "object" in ([types] if isinstance(types, str) else types)


def _properties(node: JsonObject) -> JsonObject:
    found = node.get("properties")
    return found if isinstance(found, dict) else {}


def _add_property(made: JsonObject, name: str, child: Any) -> None:
    """Name a member, unless the schema takes none but its own."""
    if made.get("additionalProperties") is not False or name in _properties(made):
        made["properties"] = {**_properties(made), name: child}


def _add_required(made: JsonObject, names: Iterable[str]) -> None:
    required = list(dict.fromkeys([*made.get("required", ()), *names]))
    if required:
        made["required"] = required


def _any_of(children: Iterable[Any]) -> Any:
    distinct = list({_to_json(child): child for child in children}.values())  # as text: in Python, 1 equals True
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def _describe_branch(branch: JsonObject) -> str:
    """Name a branch by what a call needs to take it."""
    names = [
        f"`{name}` = {_to_json(child['const'])}" if isinstance(child, dict) and "const" in child else f"`{name}`"
        for name, child in ((name, _properties(branch).get(name)) for name in branch.get("required", ()))
    ]
    return " with ".join([names[0], ", ".join(names[1:])] if len(names) > 1 else names) or "anything else"


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
