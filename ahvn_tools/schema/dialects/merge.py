"""Two normalized schemas as one, and whether two schemas exclude each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.description import to_json_text
from ahvn_tools.schema.dialects.normalize import drop_irrelevant_keywords, is_of_type
from ahvn_tools.schema.keywords import type_keyword, type_names

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
