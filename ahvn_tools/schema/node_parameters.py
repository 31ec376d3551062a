"""What one schema says about the parameters of an object, and the same schema without some of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import SUBSCHEMA_KEYWORDS

_DEPENDENCIES: Final = ("dependentRequired", "dependentSchemas", "dependencies")
_MEMBER_KEYWORDS: Final = ("patternProperties", "additionalProperties", "propertyNames")
COUNTS: Final = ("minProperties", "maxProperties")
"""Keywords about how many arguments there are."""
OPAQUE_KEYWORDS: Final = ("$dynamicRef", "$recursiveRef")
"""References whose target depends on where they are used."""
ANCHORS: Final = ("$anchor", "$dynamicAnchor", "$recursiveAnchor")
"""Keywords that name a schema for references."""
_TEXTS: Final = frozenset({"title", "description", "default", "examples", "$comment"})
_KNOWN: Final = frozenset({
    *SUBSCHEMA_KEYWORDS, *_DEPENDENCIES, *COUNTS, *ANCHORS, *OPAQUE_KEYWORDS, "required", "type", "const", "enum",
    "$ref", "$schema", "$id", "$vocabulary", "title", "description", "$comment",
})  # fmt: skip
"""Keywords that are kept, each with its own rule. Others say nothing about what is valid."""


def mentioned_names(node: JsonObject, *, declared: bool = True) -> Iterator[str]:
    """Yield the names that one schema declares, requires or depends on."""
    if declared:
        yield from properties_of(node)
    yield from names_in(node.get("required"))
    for keyword in _DEPENDENCIES:
        for name, needed in members_of(node, keyword).items():
            yield name
            yield from names_in(needed)


def depends_on(node: JsonObject, names: frozenset[str]) -> bool:
    """Return whether one schema says something about parameters, or about how many there are."""
    is_named = not names.isdisjoint(mentioned_names(node)) or any(keyword in node for keyword in COUNTS)
    return is_named or any(not names.isdisjoint(texts_in(node[keyword])) for keyword in node.keys() - _KNOWN)


def find_constraint(node: JsonObject, name: str) -> JsonObject | None:
    """Return what one schema says about the value of a parameter, as a schema of an object; None if nothing."""
    declared = _without_texts(properties_of(node).get(name, True))
    constraint = {keyword: node[keyword] for keyword in _MEMBER_KEYWORDS if node.get(keyword, True) not in ({}, True)}
    if name in properties_of(node) and "patternProperties" not in constraint:
        constraint.pop("additionalProperties", None)  # it is about others
    if name in properties_of(node) and (constraint or declared not in ({}, True)):
        constraint["properties"] = {name: declared}
    return constraint or None


def _without_texts(schema: Any) -> Any:
    """Return a schema without what documents it."""
    return {key: value for key, value in schema.items() if key not in _TEXTS} if isinstance(schema, dict) else schema


def without_names(node: JsonObject, names: frozenset[str]) -> JsonObject:
    """Return one schema without parameters that are there, and match. The schemas in it are as they were."""
    new: JsonObject = {}
    for keyword, value in node.items():
        if keyword in ("properties", "default", *_DEPENDENCIES):
            new[keyword] = _without_keys(value, names)
        elif keyword == "examples" and isinstance(value, list):
            new[keyword] = [_without_keys(item, names) for item in value]
        elif keyword in COUNTS:
            new[keyword] = max(0, value - len(names))
        elif keyword in _KNOWN or names.isdisjoint(texts_in(value)):
            new[keyword] = value
    for keyword in _DEPENDENCIES:
        _add_needed(new, [part for name, part in members_of(node, keyword).items() if name in names])
    for keyword in ("required", *_DEPENDENCIES):
        if keyword in new and not _remove_items(new, keyword, names):
            del new[keyword]
    return new


def _add_needed(node: JsonObject, needed: list[Any]) -> None:
    """Add, in place, what a schema demands where some parameters are there."""
    for part in needed:
        keyword = "required" if isinstance(part, list) else "allOf"
        node[keyword] = [*node.get(keyword, ()), *(part if isinstance(part, list) else [part])]


def _remove_items(node: JsonObject, keyword: str, names: frozenset[str]) -> Any:
    """Remove names from lists of required ones, in place, and return what remains."""
    value = node[keyword]
    if isinstance(value, dict):
        parts = {name: _without_items(part, names) for name, part in value.items()}
        remaining: Any = {name: part for name, part in parts.items() if part != []}
    else:
        remaining = list(dict.fromkeys(_without_items(value, names)))
    node[keyword] = remaining
    return remaining


def properties_of(node: JsonObject) -> JsonObject:
    """Return the declared properties of a schema, by name."""
    return members_of(node, "properties")


def members_of(node: JsonObject, keyword: str) -> JsonObject:
    """Return the value of a keyword if it is an object; else an empty one."""
    members = node.get(keyword)
    return members if isinstance(members, dict) else {}


def names_in(value: Any) -> list[str]:
    """Return the texts in a list; none of what is no list."""
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _without_keys(value: Any, names: frozenset[str]) -> Any:
    return {key: item for key, item in value.items() if key not in names} if isinstance(value, dict) else value


def _without_items(value: Any, names: frozenset[str]) -> Any:
    return [item for item in value if item not in names] if isinstance(value, list) else value


def texts_in(value: Any) -> set[str]:
    """Return every text in a JSON value, and every key."""
    texts: set[str] = set()
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            texts.add(part)
        elif isinstance(part, dict):
            texts.update(part)
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
    return texts
