"""Narrowing: why a value that fits one schema may not fit another.

The answer is safe, not exact: what cannot be decided is a reason. An object whose schema declares members is
taken to have no others, unless it says with `additionalProperties` or `patternProperties` what they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from ahvn_tools.errors import DefinitionError
from ahvn_tools.schema.normalized_schema import COMPARABLE_DRAFTS, JsonObject, NormalizedSchema, Schema

MAX_COMPARISONS: Final = 5_000
"""So many pairs of schemas are compared; two that need more are too complex to compare."""

_TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_NUMBER_TYPES: Final = frozenset({"integer", "number"})
_UNION_KEYWORDS: Final = ("anyOf", "oneOf")
_EXACT_KEYWORDS: Final = (("not",), ("if", "then", "else"), ("$dynamicRef",), ("$recursiveRef",))
_EXACT_KEYWORDS_BY_TYPE: Final = {
    "string": (("pattern",), ("format",), ("contentEncoding",), ("contentMediaType",)),
    "array": (("contains", "minContains", "maxContains"),),
    "object": (("propertyNames",), ("dependentRequired",), ("dependentSchemas",), ("dependencies",)),
}
"""Keywords that are as they were, or gone, or else a reason; by the kind of value that they are about."""
_OTHER_MEMBER_KEYWORDS: Final = frozenset({"additionalProperties", "patternProperties"})
_UNEVALUATED_KEYWORDS: Final = ("unevaluatedProperties", "unevaluatedItems")
_SIZE_KEYWORDS: Final = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


def find_incompatibilities(before: JsonObject, after: JsonObject, *, allow_removed: bool = True) -> tuple[str, ...]:
    """Return why a value that fits `before` may not fit `after`; nothing when every value does.

    Unless it `may_drop` them, a declared member that is no longer declared is a reason, too.

    >>> find_incompatibilities({"type": "string"}, {"type": ["string", "null"]})
    ()
    >>> find_incompatibilities({"properties": {"a": {}}}, {"properties": {"a": {"enum": [1]}}})
    ("'a' takes certain values only",)
    """
    if json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True):
        return ()
    try:
        comparison = _Comparison(NormalizedSchema(before), NormalizedSchema(after), allow_removed=allow_removed)
        return tuple(dict.fromkeys(comparison.compare()))
    except _TooComplexError:
        return ("it is too complex to compare",)
    except (DefinitionError, TypeError, ValueError, AttributeError, RecursionError):
        return ("it cannot be compared",)


class _TooComplexError(Exception):
    pass


class _Comparison:
    """One comparison. Every method returns reasons; `where` is the place of the value, as a path."""

    def __init__(self, before: NormalizedSchema, after: NormalizedSchema, *, allow_removed: bool) -> None:
        self._before, self._after, self._allow_removed = before, after, allow_removed
        self._comparisons_left = MAX_COMPARISONS
        self._any_schema: JsonObject = {}
        self._assumed: set[tuple[int, int]] = set()

    def compare(self) -> list[str]:
        old, new = self._before, self._after
        if old.draft == new.draft and old.to_canonical_json(old.root) == new.to_canonical_json(new.root):
            return []
        if old.draft != new.draft or old.draft not in COMPARABLE_DRAFTS:
            return [f"it is written in another dialect: {new.draft!r}"]
        return self._compare_values(old.root, new.root, "")

    def _compare_values(self, old: Schema, new: Schema, path: str) -> list[str]:
        dropped = (
            frozenset[str]()
            if self._allow_removed
            else self._before.find_property_names(old) - self._after.find_property_names(new)
        )
        gone = [f"{_quote_path(_join_path(path, name))} is gone" for name in sorted(dropped)]
        return [*gone, *self._compare_schemas(old, new, path)]

    def _compare_schemas(self, old: Schema, new: Schema, path: str) -> list[str]:
        self._comparisons_left -= 1
        if self._comparisons_left < 0:
            raise _TooComplexError
        if new is True or old is False:
            return []
        if new is False:
            return [f"{_quote_path(path)} takes nothing"]
        old = self._any_schema if old is True else old
        pair = id(old), id(new)
        if pair in self._assumed or self._before.to_canonical_json(old) == self._after.to_canonical_json(new):
            return []  # a pair that is being compared further out holds if the rest of it does
        self._assumed.add(pair)
        try:
            return self._compare_conjuncts(old, new, path)
        finally:
            self._assumed.discard(pair)

    def _compare_conjuncts(self, old: JsonObject, new: JsonObject, path: str) -> list[str]:
        if "$ref" in new or "allOf" in new:
            return [
                reason
                for part in self._after.split_conjunction(new)
                for reason in self._compare_schemas(old, part, path)
            ]
        old = self._before.merge(old)
        new = self._after.omit_keywords(
            new, tuple(keyword for keyword in _UNION_KEYWORDS if self._is_same(old, new, keyword))
        )
        for keyword in _UNION_KEYWORDS:
            if keyword in old:
                branches = (self._before.select_branch(old, keyword, index) for index in range(len(old[keyword])))
                return [reason for branch in branches for reason in self._compare_schemas(branch, new, path)]
        return [*self._compare_unions(old, new, path), *self._compare_keywords(old, new, path)]

    def _is_same(self, old: JsonObject, new: JsonObject, *keywords: str) -> bool:
        return self._before.to_canonical_json(old, keywords) == self._after.to_canonical_json(new, keywords)

    def _compare_unions(self, old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
        if "anyOf" in new and all(self._compare_schemas(old, choice, path) for choice in new["anyOf"]):
            yield f"{_quote_path(path)} has other choices"
        if "oneOf" in new and not any(self._fits_only(old, new["oneOf"], index) for index in range(len(new["oneOf"]))):
            yield f"{_quote_path(path)} has other choices"

    def _fits_only(self, old: JsonObject, choices: list[Schema], index: int) -> bool:
        """Tell whether every value that fits `old` fits this choice, and no other."""
        others = [choice for position, choice in enumerate(choices) if position != index]
        return not self._compare_schemas(old, choices[index], "") and all(
            self._are_disjoint(old, other) for other in others
        )

    def _are_disjoint(self, old: JsonObject, choice: Schema) -> bool:
        """Tell whether no value fits both: they are of other kinds, or a member that both need tells them apart."""
        if isinstance(choice, bool):
            return not choice
        new = self._after.merge(choice)
        kinds, others = _get_types(old), _get_types(new)
        if not kinds & others:
            return True
        if kinds != {"object"} or others != {"object"}:
            return False
        tags = set(old.get("required", ())) & set(new.get("required", ()))
        pairs = ((old.get("properties", {}).get(tag), new.get("properties", {}).get(tag)) for tag in tags)
        return any(
            _get_enum_values(mine).isdisjoint(_get_enum_values(theirs))
            for mine, theirs in pairs
            if _are_enums(mine, theirs)
        )

    def _compare_keywords(self, old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
        kinds, name = _get_types(old), _quote_path(path)
        if gone := kinds - _get_types({"type": new.get("type", [*_TYPES])}):
            yield f"{name} no longer takes {' or '.join(sorted(gone))}"
        if _are_enums(new) and not (_are_enums(old) and _get_enum_values(old) <= _get_enum_values(new)):
            yield f"{name} takes certain values only"
        if any(keyword in new for keyword in _UNEVALUATED_KEYWORDS):
            yield f"{name} cannot be compared"
        for keywords in (
            *_EXACT_KEYWORDS,
            *(group for kind in kinds for group in _EXACT_KEYWORDS_BY_TYPE.get(kind, ())),
        ):
            if any(keyword in new for keyword in keywords) and not self._is_same(old, new, *keywords):
                yield f"{name} has another {keywords[0]!r}"
        if kinds & _NUMBER_TYPES:
            yield from _compare_ranges(old, new, name)
        for kind in sorted(kinds & _SIZE_KEYWORDS.keys()):
            yield from _compare_sizes(old, new, name, *_SIZE_KEYWORDS[kind])
        if "array" in kinds:
            yield from self._compare_items(old, new, path)
        if "object" in kinds:
            yield from self._compare_members(old, new, path)

    def _compare_items(self, old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
        if new.get("uniqueItems") is True and old.get("uniqueItems") is not True:
            yield f"{_quote_path(path)} takes no item twice"
        if self._is_same(old, new, "items", "prefixItems", "additionalItems"):
            return
        is_plain = all("prefixItems" not in side and not isinstance(side.get("items"), list) for side in (old, new))
        if not is_plain:
            yield f"{_quote_path(path)} has other items"
            return
        if "items" in new:
            yield from self._compare_values(old.get("items", True), new["items"], f"{path}[]")

    def _compare_members(self, old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        for name in [name for name in new.get("required", ()) if name not in old.get("required", ())]:
            yield f"{_quote_path(_join_path(path, name))} is required"
        for name, schema in after.items():
            if name in before or not _OTHER_MEMBER_KEYWORDS.isdisjoint(old) or "properties" not in old:
                other = True if "patternProperties" in old else old.get("additionalProperties", True)
                yield from self._compare_values(before.get(name, other), schema, _join_path(path, name))
        for name in [name for name in before if name not in after and before[name] is not False]:
            if new.get("additionalProperties") is False:
                yield f"{_quote_path(_join_path(path, name))} is gone"
            else:
                yield from self._compare_schemas(
                    before[name], new.get("additionalProperties", True), _join_path(path, name)
                )
        yield from self._compare_undeclared_members(old, new, path)

    def _compare_undeclared_members(self, old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
        """Give the reasons about members that are not declared."""
        others = new.get("additionalProperties", True)
        is_open = "patternProperties" not in new and others is True
        if not is_open and not self._is_same(old, new, "patternProperties"):
            yield f"{_quote_path(path)} has other patterns of names"
        if others is False and old.get("additionalProperties", True) is not False:
            yield f"{_quote_path(path)} takes no other members"
        elif "additionalProperties" in new:
            yield from self._compare_values(old.get("additionalProperties", True), others, f"{path}.*")


def _compare_ranges(old: JsonObject, new: JsonObject, name: str) -> Iterator[str]:
    for keyword, exclusive, sign in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
        bound, least = (_get_bound(side, keyword, exclusive, sign) for side in (new, old))
        if bound is not None and (least is None or least < bound):
            yield f"{name} has another {keyword!r}"
    step, before = new.get("multipleOf"), old.get("multipleOf")
    is_divided = isinstance(step, int) and isinstance(before, int) and before % step == 0
    if step is not None and step != before and not is_divided:
        yield f"{name} has another 'multipleOf'"


def _get_bound(schema: JsonObject, keyword: str, exclusive: str, sign: int) -> tuple[float, bool] | None:
    """Return how far up a bound is, and whether it is itself left out; the greater, the less gets through."""
    bounds = [(sign * schema[key], key == exclusive) for key in (keyword, exclusive) if key in schema]
    return max(bounds, default=None)


def _compare_sizes(old: JsonObject, new: JsonObject, name: str, least: str, most: str) -> Iterator[str]:
    if new.get(least, 0) > old.get(least, 0):
        yield f"{name} has another {least!r}"
    if most in new and new[most] < old.get(most, new[most] + 1):
        yield f"{name} has another {most!r}"


def _get_types(schema: JsonObject) -> frozenset[str]:
    """Return the kinds of values that may fit a schema; a whole number is an integer, another number is not."""
    said = schema.get("type", [*_TYPES])
    kinds = frozenset([said] if isinstance(said, str) else said)
    kinds |= _NUMBER_TYPES if "number" in kinds else frozenset()
    return kinds & {_get_type(json.loads(value)) for value in _get_enum_values(schema)} if _are_enums(schema) else kinds


def _get_type(value: Any) -> str:
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    kinds: dict[type, str] = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


def _are_enums(*schemas: Any) -> bool:
    """Tell whether schemas list the values that fit them."""
    return all(isinstance(schema, dict) and not {"enum", "const"}.isdisjoint(schema) for schema in schemas)


def _get_enum_values(schema: JsonObject) -> frozenset[str]:
    """Return the values that fit a schema at most, as JSON, where it lists them."""
    lists = [schema["enum"]] if "enum" in schema else []
    lists += [[schema["const"]]] if "const" in schema else []
    return frozenset.intersection(
        *(frozenset(json.dumps(value, sort_keys=True) for value in listed) for listed in lists)
    )


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _quote_path(path: str) -> str:
    return repr(path) if path else "it"
