"""The tags of unions in JSON Schemas: the members that say which alternative a value is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import iter_schemas, properties_of
from ahvn_tools.schema.refs import resolve_pointer

_VALUE_KEYWORDS: Final = ("const", "enum")


def require_tags(schema: JsonObject) -> JsonObject:
    """Make the tags of unions required, and remove their defaults, in place; return the schema.

    A value without its tag is refused, whatever default the tag has: nobody knows which alternative it is.
    """
    unions = [node for node in iter_schemas(schema) if "oneOf" in node or "discriminator" in node]
    for union in unions:
        alternatives = list(_iter_alternatives(union, schema))
        for name in _names_of_tags(union, alternatives, schema):
            for alternative in alternatives:
                tag = properties_of(alternative).get(name)
                if isinstance(tag, dict):
                    tag.pop("default", None)
                    required = alternative.get("required")
                    others = required if isinstance(required, list) else []
                    alternative["required"] = others if name in others else [name, *others]
    return schema


def _names_of_tags(union: JsonObject, alternatives: list[JsonObject], root: JsonObject) -> list[str]:
    """Return what `discriminator` names; else, of a `oneOf`, the members that have other values in each alternative."""
    discriminator = union.get("discriminator")
    if isinstance(discriminator, dict) and isinstance(name := discriminator.get("propertyName"), str):
        return [name]
    if "oneOf" not in union or len(alternatives) < 2:  # noqa: PLR2004  # alternatives
        return []
    names = [
        name for name in properties_of(alternatives[0]) if all(name in properties_of(each) for each in alternatives)
    ]
    return [name for name in names if _are_distinct([_values(each, name, root) for each in alternatives])]


def _are_distinct(lists: list[list[str]]) -> bool:
    values = [value for each in lists for value in each]
    return all(lists) and len(values) == len(set(values))


def _values(alternative: JsonObject, name: str, root: JsonObject) -> list[str]:
    """Return the values that a member may have, as texts; none if it may have any."""
    node = _resolve(properties_of(alternative)[name], root)
    for keyword in _VALUE_KEYWORDS:
        if keyword in node:
            return [repr(value) for value in (node[keyword] if keyword == "enum" else [node[keyword]])]
    return []


def _iter_alternatives(union: JsonObject, root: JsonObject) -> Iterator[JsonObject]:
    """Yield the objects among the alternatives of a union, and of unions and `allOf` in these."""
    pending = [union]
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if properties_of(node) and node is not union:
            yield node
        for keyword in ("oneOf", "anyOf", "allOf"):
            parts = node.get(keyword)
            pending += [_resolve(part, root) for part in reversed(parts)] if isinstance(parts, list) else []


def _resolve(node: Any, root: JsonObject) -> JsonObject:
    """Return the very target of a reference, or the schema; an empty schema for what is none."""
    seen: set[str] = set()
    while isinstance(node, dict) and isinstance(reference := node.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        node = resolve_pointer(root, reference)
    return node if isinstance(node, dict) else {}
