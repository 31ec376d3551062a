"""The root of a schema as providers want it: one plain object, without a choice or a reference at the top.

What the root cannot say any more is told in words. It is a guide for the model: what a call may hold is decided by the
tool's own schema, which stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ahvn_tools.schema.references import every, resolved
from ahvn_tools.schema.titles import without_unused_definitions

JsonObject = dict[str, Any]

DEEPEST = 4
"""Choices inside choices are merged this many levels deep; further down everything is open."""

MOST_BRANCHES = 500
"""So many branches are merged in one schema; references can make endless ones of a few lines."""

FURTHER = "Further rules are checked when the tool is called."

_CHOICES = {"anyOf": "At least one", "oneOf": "Exactly one"}
_RULES = ("not", "enum", "const")
_COMBINED = frozenset({"allOf", "discriminator", *_CHOICES, *_RULES})
_PLAIN = frozenset({
    "type", "properties", "required", "additionalProperties", "title", "description", "$comment", "$defs",
})  # fmt: skip


def flattened(schema: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return a copy of a schema in standard form whose root has no combinators, and sentences on what it cannot say.

    Members of all branches are there, and required is what every branch of a choice requires.
    """
    made, rules = _Merge(schema).of(schema, 0)
    return without_unused_definitions(made), list(dict.fromkeys(rules))


def with_properties(schema: JsonObject) -> JsonObject:
    """Return the schema, changed in place; each object in it names its members, be they none."""
    for node in every(schema):
        types = node.get("type", ())
        if "object" in ([types] if isinstance(types, str) else types):
            node.setdefault("properties", {})
    return schema


class _Merge:
    """One merging of what stands under the combinators of a root into the root itself."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = MOST_BRANCHES

    def of(self, schema: JsonObject, level: int) -> tuple[JsonObject, list[str]]:
        self._left -= 1
        if level > DEEPEST or self._left < 0:
            return {}, [FURTHER]
        node = resolved(schema, self._root)
        made = {key: value for key, value in node.items() if key not in _COMBINED}
        rules = [f"These arguments must fit the rule {_json({key: node[key]})}." for key in _RULES if key in node]
        for branch in node.get("allOf", ()):
            rules += self._all(made, branch, level)
        for key, how_many in _CHOICES.items():
            if key in node:
                rules += self._choice(made, node[key], how_many, level)
        return made, rules

    def _all(self, made: JsonObject, branch: Any, level: int) -> list[str]:
        """Add one part that always holds."""
        part, rules = self.of(branch, level + 1)
        for name, child in _members(part).items():
            known = _members(made).get(name, child)
            _add(made, name, child if known == child else {"allOf": [known, child]})
        _require(made, part.get("required", ()))
        if part.get("additionalProperties", False) is not False:
            made.setdefault("additionalProperties", part["additionalProperties"])
        rest = {key: value for key, value in part.items() if key not in _PLAIN}
        return [*rules, f"These arguments must fit the rule {_json(rest)}."] if rest else rules

    def _choice(self, made: JsonObject, branches: Any, how_many: str, level: int) -> list[str]:
        """Add what the branches of a choice have in common, and the members of each."""
        merged = [self.of(branch, level + 1) for branch in branches if self._is_open_to_objects(branch)]
        parts = [part for part, _ in merged]
        if not parts:
            return []
        own = _members(made)
        for name in dict.fromkeys(name for part in parts for name in _members(part)):
            if name not in own:
                _add(made, name, _either(_members(part)[name] for part in parts if name in _members(part)))
        common = set.intersection(*(set(part.get("required", ())) for part in parts))
        _require(made, (name for name in parts[0].get("required", ()) if name in common))
        if not own and all(part.get("additionalProperties") is False for part in parts):
            made.setdefault("additionalProperties", False)
        told = f"{how_many} of these must hold: {'; '.join(map(_said, parts))}."
        return [told, *(rule for _, rules in merged for rule in rules)]

    def _is_open_to_objects(self, branch: JsonObject) -> bool:
        types = resolved(branch, self._root).get("type", "object")
        return "object" in ([types] if isinstance(types, str) else types)


def _members(node: JsonObject) -> JsonObject:
    found = node.get("properties")
    return found if isinstance(found, dict) else {}


def _add(made: JsonObject, name: str, child: Any) -> None:
    """Name a member, unless the schema takes none but its own."""
    if made.get("additionalProperties") is not False or name in _members(made):
        made["properties"] = {**_members(made), name: child}


def _require(made: JsonObject, names: Iterable[str]) -> None:
    required = list(dict.fromkeys([*made.get("required", ()), *names]))
    if required:
        made["required"] = required


def _either(children: Iterable[Any]) -> Any:
    distinct = list({_json(child): child for child in children}.values())  # as text: in Python, 1 equals True
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def _said(branch: JsonObject) -> str:
    """Name a branch by what a call needs to take it."""
    names = [
        f"`{name}` = {_json(child['const'])}" if isinstance(child, dict) and "const" in child else f"`{name}`"
        for name, child in ((name, _members(branch).get(name)) for name in branch.get("required", ()))
    ]
    return " with ".join([names[0], ", ".join(names[1:])] if len(names) > 1 else names) or "anything else"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
