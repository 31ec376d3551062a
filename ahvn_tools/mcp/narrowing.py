"""Narrowing: why a value that fits one schema may not fit another.

The answer is safe, not exact: what cannot be decided is a reason. An object whose schema declares members is
taken to have no others, unless it says with `additionalProperties` or `patternProperties` what they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from ahvn_tools.errors import DefinitionError
from ahvn_tools.mcp.sides import COMPARED, JsonObject, Schema, Side

MOST_STEPS: Final = 5_000
"""So many pairs of schemas are compared; two that need more are too complex to compare."""

_KINDS: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_NUMBERS: Final = frozenset({"integer", "number"})
_UNIONS: Final = ("anyOf", "oneOf")
_ALWAYS: Final = (("not",), ("if", "then", "else"), ("$dynamicRef",), ("$recursiveRef",))
_SAME: Final = {
    "string": (("pattern",), ("format",), ("contentEncoding",), ("contentMediaType",)),
    "array": (("contains", "minContains", "maxContains"),),
    "object": (("propertyNames",), ("dependentRequired",), ("dependentSchemas",), ("dependencies",)),
}
"""Keywords that are as they were, or gone, or else a reason; by the kind of value that they are about."""
_CLOSED: Final = frozenset({"additionalProperties", "patternProperties"})
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_COUNTS: Final = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


def narrowings(before: JsonObject, after: JsonObject, *, may_drop: bool = True) -> tuple[str, ...]:
    """Return why a value that fits `before` may not fit `after`; nothing when every value does.

    Unless it `may_drop` them, a declared member that is no longer declared is a reason, too.

    >>> narrowings({"type": "string"}, {"type": ["string", "null"]})
    ()
    >>> narrowings({"properties": {"a": {}}}, {"properties": {"a": {"enum": [1]}}})
    ("'a' takes certain values only",)
    """
    if json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True):
        return ()
    try:
        comparison = _Comparison(Side(before), Side(after), may_drop=may_drop)
        return tuple(dict.fromkeys(comparison.start()))
    except _TooComplexError:
        return ("it is too complex to compare",)
    except (DefinitionError, TypeError, ValueError, AttributeError, RecursionError):
        return ("it cannot be compared",)


class _TooComplexError(Exception):
    pass


class _Comparison:
    """One comparison. Every method returns reasons; `where` is the place of the value, as a path."""

    def __init__(self, before: Side, after: Side, *, may_drop: bool) -> None:
        self._before, self._after, self._may_drop = before, after, may_drop
        self._left = MOST_STEPS
        self._anything: JsonObject = {}
        self._assumed: set[tuple[int, int]] = set()

    def start(self) -> list[str]:
        old, new = self._before, self._after
        if old.dialect == new.dialect and old.whole(old.root) == new.whole(new.root):
            return []
        if old.dialect != new.dialect or old.dialect not in COMPARED:
            return [f"it is written in another dialect: {new.dialect!r}"]
        return self._of_value(old.root, new.root, "")

    def _of_value(self, old: Schema, new: Schema, where: str) -> list[str]:
        dropped = frozenset[str]() if self._may_drop else self._before.declared(old) - self._after.declared(new)
        gone = [f"{_shown(_inside(where, name))} is gone" for name in sorted(dropped)]
        return [*gone, *self._lost(old, new, where)]

    def _lost(self, old: Schema, new: Schema, where: str) -> list[str]:
        self._left -= 1
        if self._left < 0:
            raise _TooComplexError
        if new is True or old is False:
            return []
        if new is False:
            return [f"{_shown(where)} takes nothing"]
        old = self._anything if old is True else old
        pair = id(old), id(new)
        if pair in self._assumed or self._before.whole(old) == self._after.whole(new):
            return []  # a pair that is being compared further out holds if the rest of it does
        self._assumed.add(pair)
        try:
            return self._of_parts(old, new, where)
        finally:
            self._assumed.discard(pair)

    def _of_parts(self, old: JsonObject, new: JsonObject, where: str) -> list[str]:
        if "$ref" in new or "allOf" in new:
            return [reason for part in self._after.parts(new) for reason in self._lost(old, part, where)]
        old = self._before.merged(old)
        new = self._after.without(new, tuple(keyword for keyword in _UNIONS if self._is_same(old, new, keyword)))
        for keyword in _UNIONS:
            if keyword in old:
                branches = (self._before.branch(old, keyword, index) for index in range(len(old[keyword])))
                return [reason for branch in branches for reason in self._lost(branch, new, where)]
        return [*self._of_choices(old, new, where), *self._of_keywords(old, new, where)]

    def _is_same(self, old: JsonObject, new: JsonObject, *keywords: str) -> bool:
        return self._before.whole(old, keywords) == self._after.whole(new, keywords)

    def _of_choices(self, old: JsonObject, new: JsonObject, where: str) -> Iterator[str]:
        if "anyOf" in new and all(self._lost(old, choice, where) for choice in new["anyOf"]):
            yield f"{_shown(where)} has other choices"
        if "oneOf" in new and not any(self._is_only(old, new["oneOf"], index) for index in range(len(new["oneOf"]))):
            yield f"{_shown(where)} has other choices"

    def _is_only(self, old: JsonObject, choices: list[Schema], index: int) -> bool:
        """Tell whether every value that fits `old` fits this choice, and no other."""
        others = [choice for position, choice in enumerate(choices) if position != index]
        return not self._lost(old, choices[index], "") and all(self._are_apart(old, other) for other in others)

    def _are_apart(self, old: JsonObject, choice: Schema) -> bool:
        """Tell whether no value fits both: they are of other kinds, or a member that both need tells them apart."""
        if isinstance(choice, bool):
            return not choice
        new = self._after.merged(choice)
        kinds, others = _kinds(old), _kinds(new)
        if not kinds & others:
            return True
        if kinds != {"object"} or others != {"object"}:
            return False
        tags = set(old.get("required", ())) & set(new.get("required", ()))
        pairs = ((old.get("properties", {}).get(tag), new.get("properties", {}).get(tag)) for tag in tags)
        return any(_values(mine).isdisjoint(_values(theirs)) for mine, theirs in pairs if _is_listed(mine, theirs))

    def _of_keywords(self, old: JsonObject, new: JsonObject, where: str) -> Iterator[str]:
        kinds, name = _kinds(old), _shown(where)
        if gone := kinds - _kinds({"type": new.get("type", [*_KINDS])}):
            yield f"{name} no longer takes {' or '.join(sorted(gone))}"
        if _is_listed(new) and not (_is_listed(old) and _values(old) <= _values(new)):
            yield f"{name} takes certain values only"
        if any(keyword in new for keyword in _UNEVALUATED):
            yield f"{name} cannot be compared"
        for keywords in (*_ALWAYS, *(group for kind in kinds for group in _SAME.get(kind, ()))):
            if any(keyword in new for keyword in keywords) and not self._is_same(old, new, *keywords):
                yield f"{name} has another {keywords[0]!r}"
        if kinds & _NUMBERS:
            yield from _of_numbers(old, new, name)
        for kind in sorted(kinds & _COUNTS.keys()):
            yield from _of_counts(old, new, name, *_COUNTS[kind])
        if "array" in kinds:
            yield from self._of_items(old, new, where)
        if "object" in kinds:
            yield from self._of_members(old, new, where)

    def _of_items(self, old: JsonObject, new: JsonObject, where: str) -> Iterator[str]:
        if new.get("uniqueItems") is True and old.get("uniqueItems") is not True:
            yield f"{_shown(where)} takes no item twice"
        if self._is_same(old, new, "items", "prefixItems", "additionalItems"):
            return
        is_plain = all("prefixItems" not in side and not isinstance(side.get("items"), list) for side in (old, new))
        if not is_plain:
            yield f"{_shown(where)} has other items"
            return
        if "items" in new:
            yield from self._of_value(old.get("items", True), new["items"], f"{where}[]")

    def _of_members(self, old: JsonObject, new: JsonObject, where: str) -> Iterator[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        for name in [name for name in new.get("required", ()) if name not in old.get("required", ())]:
            yield f"{_shown(_inside(where, name))} is required"
        for name, schema in after.items():
            if name in before or not _CLOSED.isdisjoint(old) or "properties" not in old:
                other = True if "patternProperties" in old else old.get("additionalProperties", True)
                yield from self._of_value(before.get(name, other), schema, _inside(where, name))
        for name in [name for name in before if name not in after and before[name] is not False]:
            if new.get("additionalProperties") is False:
                yield f"{_shown(_inside(where, name))} is gone"
            else:
                yield from self._lost(before[name], new.get("additionalProperties", True), _inside(where, name))
        yield from self._of_others(old, new, where)

    def _of_others(self, old: JsonObject, new: JsonObject, where: str) -> Iterator[str]:
        """Give the reasons about members that are not declared."""
        others = new.get("additionalProperties", True)
        is_open = "patternProperties" not in new and others is True
        if not is_open and not self._is_same(old, new, "patternProperties"):
            yield f"{_shown(where)} has other patterns of names"
        if others is False and old.get("additionalProperties", True) is not False:
            yield f"{_shown(where)} takes no other members"
        elif "additionalProperties" in new:
            yield from self._of_value(old.get("additionalProperties", True), others, f"{where}.*")


def _of_numbers(old: JsonObject, new: JsonObject, name: str) -> Iterator[str]:
    for keyword, exclusive, sign in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
        bound, least = (_bound(side, keyword, exclusive, sign) for side in (new, old))
        if bound is not None and (least is None or least < bound):
            yield f"{name} has another {keyword!r}"
    step, before = new.get("multipleOf"), old.get("multipleOf")
    is_divided = isinstance(step, int) and isinstance(before, int) and before % step == 0
    if step is not None and step != before and not is_divided:
        yield f"{name} has another 'multipleOf'"


def _bound(schema: JsonObject, keyword: str, exclusive: str, sign: int) -> tuple[float, bool] | None:
    """Return how far up a bound is, and whether it is itself left out; the greater, the less gets through."""
    bounds = [(sign * schema[key], key == exclusive) for key in (keyword, exclusive) if key in schema]
    return max(bounds, default=None)


def _of_counts(old: JsonObject, new: JsonObject, name: str, least: str, most: str) -> Iterator[str]:
    if new.get(least, 0) > old.get(least, 0):
        yield f"{name} has another {least!r}"
    if most in new and new[most] < old.get(most, new[most] + 1):
        yield f"{name} has another {most!r}"


def _kinds(schema: JsonObject) -> frozenset[str]:
    """Return the kinds of values that may fit a schema; a whole number is an integer, another number is not."""
    said = schema.get("type", [*_KINDS])
    kinds = frozenset([said] if isinstance(said, str) else said)
    kinds |= _NUMBERS if "number" in kinds else frozenset()
    return kinds & {_kind(json.loads(value)) for value in _values(schema)} if _is_listed(schema) else kinds


def _kind(value: Any) -> str:
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    kinds: dict[type, str] = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


def _is_listed(*schemas: Any) -> bool:
    """Tell whether schemas list the values that fit them."""
    return all(isinstance(schema, dict) and not {"enum", "const"}.isdisjoint(schema) for schema in schemas)


def _values(schema: JsonObject) -> frozenset[str]:
    """Return the values that fit a schema at most, as JSON, where it lists them."""
    lists = [schema["enum"]] if "enum" in schema else []
    lists += [[schema["const"]]] if "const" in schema else []
    return frozenset.intersection(
        *(frozenset(json.dumps(value, sort_keys=True) for value in listed) for listed in lists)
    )


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _shown(where: str) -> str:
    return repr(where) if where else "it"
