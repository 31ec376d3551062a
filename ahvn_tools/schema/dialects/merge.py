"""Several schemas as one, and the root of a schema as providers want it: one plain object.

Sentences state the rules that the root can no longer express. The result is for the model only: the tool's own schema,
which does not change, validates the calls.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.description import to_json_text
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.schema.dialects.normalize import drop_irrelevant_keywords, is_of_type
from ahvn_tools.schema.keywords import iter_schemas, type_keyword, type_names
from ahvn_tools.schema.refs import DEFS_PREFIX, without_unused_definitions

MAX_COMPARED = 50
"""Unions with more branches are not searched for branches that exclude each other."""

_ANNOTATIONS: Final = frozenset({
    "title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment",
    "contentEncoding", "contentMediaType", "contentSchema", "discriminator",
})  # fmt: skip
"""Keywords that restrict no value."""

_VALUE_KEYWORDS = frozenset({"enum", "const"})
_COMMON_KEYWORDS = _ANNOTATIONS | _VALUE_KEYWORDS | {"type"}
_MEMBER_KEYWORDS = ("properties", "additionalProperties", "patternProperties")
_ITEM_KEYWORDS = ("items", "prefixItems")
_DEPENDENT_KEYWORDS = (("contains", "minContains", "maxContains"), ("if", "then", "else"))
"""Keywords that apply only together."""


def merge(first: JsonObject, second: JsonObject) -> tuple[JsonObject | None, list[str]]:
    """Return a schema for the values that match both schemas, and the keywords of the second that it leaves out.

    What one schema cannot express is left out. Returns None if no value can match both.
    """
    types = _common_types(first, second)
    values = _common_values(first, second)
    if types == [] or values == []:
        return None, []
    merged, omitted = _combine_keywords(first, second)
    _merge_members(merged, first, second, omitted)
    if any("prefixItems" in one and "items" in other for one, other in ((first, second), (second, first))):
        _keep_first(merged, first, second, omitted, _ITEM_KEYWORDS)
    for keywords in _DEPENDENT_KEYWORDS:
        if first.keys() & set(keywords) and second.keys() & set(keywords):
            _keep_first(merged, first, second, omitted, keywords)
    if types is not None:
        merged["type"] = type_keyword(types)
        drop_irrelevant_keywords(merged)
    if values is not None:
        is_constant = len(values) == 1 and ("const" in first or "const" in second)
        merged = {key: value for key, value in merged.items() if key not in _VALUE_KEYWORDS}
        merged |= {"const": values[0]} if is_constant else {"enum": values}
    return merged, omitted


def _combine_keywords(first: JsonObject, second: JsonObject) -> tuple[JsonObject, list[str]]:
    merged, omitted = dict(first), list[str]()
    for key, value in second.items():
        if key not in merged:
            merged[key] = value
        elif key in _COMBINATIONS:
            merged[key] = _COMBINATIONS[key](merged[key], value)
        elif key not in _COMMON_KEYWORDS and not _is_same(merged[key], value):
            omitted.append(key)
    return merged, omitted


def are_exclusive(branches: Sequence[Any], resolve: Callable[[JsonObject], JsonObject]) -> bool:
    """Whether no value can match two of the schemas, as far as their types, values and required members show."""
    schemas = [resolve(branch) if isinstance(branch, dict) else {} for branch in branches]
    if len(schemas) > MAX_COMPARED:
        return False
    pairs = ((one, other) for index, one in enumerate(schemas) for other in schemas[:index])
    return all(_exclude_each_other(one, other) or _have_exclusive_members(one, other, resolve) for one, other in pairs)


def _exclude_each_other(first: JsonObject, second: JsonObject) -> bool:
    return _common_types(first, second) == [] or _common_values(first, second) == []


def _have_exclusive_members(first: JsonObject, second: JsonObject, resolve: Callable[[JsonObject], JsonObject]) -> bool:
    """Whether two schemas have only objects in common, and a required member, such as a tag, that cannot match both."""
    if _common_types(first, second) != ["object"]:
        return False
    members, others = first.get("properties", {}), second.get("properties", {})
    required = {*first.get("required", ()), *second.get("required", ())} & members.keys() & others.keys()
    pairs = ((members[name], others[name]) for name in required)
    return any(
        _exclude_each_other(resolve(one), resolve(other))
        for one, other in pairs
        if isinstance(one, dict) and isinstance(other, dict)
    )


def _common_types(first: JsonObject, second: JsonObject) -> list[str] | None:
    """Return the types that both schemas accept; None if both accept any."""
    names, others = type_names(first), type_names(second)
    if not names or not others:
        return names or others or None
    common = [name for name in names if name in others or (name == "integer" and "number" in others)]
    integer = ["integer"] if "integer" in others and "number" in names and "integer" not in names else []
    return [*common, *integer]


def _common_values(first: JsonObject, second: JsonObject) -> list[Any] | None:
    """Return the values that both schemas accept by their enums, constants and types; None if both have neither."""
    lists = [node["enum"] for node in (first, second) if "enum" in node]
    lists += [[node["const"]] for node in (first, second) if "const" in node]
    if not lists:
        return None
    types = _common_types(first, second)
    known = [{to_json_text(value) for value in values} for values in lists]
    return [
        value
        for value in lists[0]
        if all(to_json_text(value) in texts for texts in known) and (types is None or is_of_type(value, types))
    ]


def _merge_members(merged: JsonObject, first: JsonObject, second: JsonObject, omitted: list[str]) -> None:
    """Set the members of two schemas; a member of only one must also match what the other says of undeclared ones."""
    if not any(key in first and key in second for key in _MEMBER_KEYWORDS) and not any(
        "additionalProperties" in one and other.keys() & {"properties", "patternProperties"}
        for one, other in ((first, second), (second, first))
    ):
        return
    if any("patternProperties" in node for node in (first, second)):
        _keep_first(merged, first, second, omitted, _MEMBER_KEYWORDS)
        return
    members, others = first.get("properties", {}), second.get("properties", {})
    names = dict.fromkeys([*members, *others])
    properties = {name: all_of(get_member_schema(first, name), get_member_schema(second, name)) for name in names}
    merged["properties"] = {name: child for name, child in properties.items() if child is not False}
    rest = all_of(first.get("additionalProperties", True), second.get("additionalProperties", True))
    merged.pop("additionalProperties", None)
    if rest is not True:
        merged["additionalProperties"] = rest
    omitted[:] = [key for key in omitted if key not in _MEMBER_KEYWORDS]


def _keep_first(
    merged: JsonObject, first: JsonObject, second: JsonObject, omitted: list[str], keywords: Iterable[str]
) -> None:
    """Set some keywords to those of the first schema; those of the second are omitted."""
    for key in keywords:
        if key in first:
            merged[key] = first[key]
        else:
            merged.pop(key, None)
    omitted[:] = [key for key in omitted if key not in keywords] + [key for key in keywords if key in second]


def get_member_schema(node: JsonObject, name: str) -> Any:
    """Return what an object schema says of a member, as a schema or a boolean. Patterns of names are ignored."""
    properties = node.get("properties", {})
    if name in properties or "patternProperties" in node:
        return properties.get(name, True)
    return node.get("additionalProperties", True)


def all_of(first: Any, second: Any) -> Any:
    """Return the schema for what matches both schemas, each an object or a boolean."""
    if first is False or second is False:
        return False
    if first in (True, {}) or _is_same(first, second):
        return second if first in (True, {}) else first
    return first if second in (True, {}) else {"allOf": [first, second]}


def _is_same(first: Any, second: Any) -> bool:
    return to_json_text(first) == to_json_text(second)  # in Python, 1 equals True


def _merge_required(first: Iterable[str], second: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


_COMBINATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    "uniqueItems": lambda first, second: first or second,
    "required": _merge_required,
    "items": all_of,
    "allOf": lambda first, second: [*first, *second],
}


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


def flatten_root(schema: JsonObject) -> tuple[JsonObject, list[str], list[Finding]]:
    """Return a copy of a normalized schema whose root has no combinators, and what it cannot express.

    The root has the members of all branches, and requires what every branch of a union requires. Sentences for the
    model state the rules that it does not enforce; findings name the members that it restricts further.
    """
    merger = _RootMerger(schema)
    merged, rules = merger.merge(schema, 0)
    return without_unused_definitions(merged), list(dict.fromkeys(rules)), merger.findings


def add_missing_properties(schema: JsonObject) -> JsonObject:
    """Add `properties` to each object schema without it, in place; return the schema."""
    for node in iter_schemas(schema):
        if "object" in type_names(node):
            node.setdefault("properties", {})
    return schema


_RESTRICTED_MEMBER: Final = Finding(
    severity="note",
    place="",
    problem="it always has the schema that only some alternatives give it",
    fix="Make the root one plain object, or close the alternatives.",
    effect="narrower",
)


class _RootMerger:
    """Merges the branches of a root's combinators into the root."""

    def __init__(self, root: JsonObject) -> None:
        self.findings: list[Finding] = []
        self._root = root
        self._remaining_branches = MAX_BRANCHES

    def merge(self, schema: JsonObject, level: int) -> tuple[JsonObject, list[str]]:
        self._remaining_branches -= 1
        if level > MAX_DEPTH or self._remaining_branches < 0:
            return {}, [FURTHER_RULES]
        node, rules = self._resolve(schema)
        merged = {key: value for key, value in node.items() if key not in _MERGED_KEYWORDS}
        rules += [_state_rule({key: node[key]}) for key in _RULES if key in node]
        for branch in node.get("allOf", ()):
            rules += self._merge_all_of(merged, branch, level)
        for key, how_many in _UNIONS.items():
            if key in node:
                rules += self._merge_union(merged, node[key], how_many, level)
        return merged, rules

    def _resolve(self, node: JsonObject) -> tuple[JsonObject, list[str]]:
        """Return a schema with its reference replaced, and sentences on what cannot be merged with the target."""
        rules: list[str] = []
        seen: set[str] = set()
        while isinstance(reference := node.get("$ref"), str):
            node = {key: value for key, value in node.items() if key != "$ref"}
            target = self._root.get("$defs", {}).get(reference.removeprefix(DEFS_PREFIX))
            if target is None or reference in seen:
                break
            seen.add(reference)
            merged, omitted = merge(node, target)
            node = copy.deepcopy(node if merged is None else merged)
            left_out = target if merged is None else {key: target[key] for key in omitted}
            rules += [_state_rule(left_out)] if left_out else []
        return node, rules

    def _merge_all_of(self, merged: JsonObject, branch: Any, level: int) -> list[str]:
        part, rules = self.merge(branch, level + 1)
        for name, child in _properties(part).items():
            _add_property(merged, name, all_of(get_member_schema(merged, name), child))
        _add_required(merged, part.get("required", ()))
        rest = {key: value for key, value in part.items() if key not in _PLAIN_KEYWORDS}
        others = part.get("additionalProperties", True)
        if others is not True and not self._set_additional_properties(merged, part):
            rest["additionalProperties"] = others
        if "object" not in (type_names(part) or ["object"]):
            rest["type"] = part["type"]
        return [*rules, _state_rule(rest)] if rest else rules

    @staticmethod
    def _set_additional_properties(merged: JsonObject, part: JsonObject) -> bool:
        """Set what a branch of `allOf` says of undeclared members, if it is the same for the root; return whether."""
        is_same = _properties(merged).keys() <= _properties(part).keys()
        if is_same and "patternProperties" not in {**merged, **part}:
            merged.setdefault("additionalProperties", part["additionalProperties"])
        return (
            to_json_text(merged.get("additionalProperties")) == to_json_text(part["additionalProperties"]) and is_same
        )

    def _merge_union(self, merged: JsonObject, branches: Any, how_many: str, level: int) -> list[str]:
        """Add the members of all branches, and require what every branch requires."""
        results = [self.merge(branch, level + 1) for branch in branches if self._allows_object(branch)]
        parts = [part for part, _ in results]
        if not parts:
            return [_state_rule({"anyOf": branches})]
        own = _properties(merged)
        for name in dict.fromkeys(name for part in parts for name in _properties(part)):
            if name not in own:
                choices = [_properties(part)[name] for part in parts if name in _properties(part)]
                _add_property(merged, name, _any_of(choices))
                if any(name not in _properties(part) and _is_open(part) for part in parts):
                    self.findings.append(replace(_RESTRICTED_MEMBER, place=name))
        common = set.intersection(*(set(part.get("required", ())) for part in parts))
        _add_required(merged, (name for name in parts[0].get("required", ()) if name in common))
        if not own and not any(map(_is_open, parts)):
            merged.setdefault("additionalProperties", False)
        combinations = "; ".join(dict.fromkeys(map(_describe_branch, parts)))
        rule = f"Pass {how_many} of these combinations of arguments: {combinations}."
        return [rule, *(rule for _, rules in results for rule in rules)]

    def _allows_object(self, branch: JsonObject) -> bool:
        return "object" in (type_names(self._resolve(branch)[0]) or ["object"])


def _is_open(node: JsonObject) -> bool:
    """Whether a schema accepts members other than its own."""
    return node.get("additionalProperties") is not False or "patternProperties" in node


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
