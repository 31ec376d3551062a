"""The subschemas of a JSON Schema that apply to a value, and to the members and items inside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import iter_objects, type_names
from ahvn_tools.schema.refs import resolve_pointer

InstancePath = tuple[str | int, ...]
Nodes = list[JsonObject]

_COMBINATORS = ("anyOf", "oneOf", "allOf")
_INDIRECT_KEYWORDS = frozenset({*_COMBINATORS, "$ref"})
_OBJECT_KEYWORDS = frozenset({"properties", "additionalProperties", "patternProperties", "required"})


class SubschemaFinder:
    """Finds the subschemas of one schema by the path of a value. The schema is not changed."""

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._expanded: dict[tuple[int, ...], Nodes] = {}
        self._children: dict[tuple[int, str | int | None], Nodes] = {}
        """By the `id` of nodes in `_expanded` and the step, None for every undeclared property."""
        self._declared: dict[int, tuple[frozenset[str], int]] = {}
        """By the `id` of nodes in `_expanded`: all declared properties, and the number of prefix items."""
        self._nullability: dict[tuple[int, str | int | None], tuple[bool, bool]] = {}
        """As `_children`: whether a member is declared, and whether it may be null."""
        self.root: Nodes = self._expand([schema])

    def find_subschemas(self, path: Iterable[str | int]) -> Nodes:
        """Return the subschemas that apply to the value at `path`, with unions and references resolved."""
        nodes = self.root
        for step in path:
            nodes = self.find_children(nodes, step)
        return nodes

    def find_property_names(self, path: Iterable[str | int]) -> list[str]:
        """Return the names that the subschemas of the object at `path` declare."""
        return list(dict.fromkeys(name for node in self.find_subschemas(path) for name in node.get("properties", ())))

    def find_children(self, nodes: Nodes, step: str | int) -> Nodes:
        """Return the subschemas that apply to one member or item of a value to which `nodes` apply."""
        key = self._key(nodes, step)
        children = self._children.get((id(nodes), key))
        if children is None:
            children = self._children[id(nodes), key] = self._expand(_child_schema(node, step) for node in nodes)
        return children

    def find_nullability(self, path: InstancePath) -> tuple[bool, bool]:
        """Return whether a member is declared, and whether any branch accepts null for it.

        A member that is not declared is a key of a free object, or unknown.
        """
        nodes, step = self.find_subschemas(path[:-1]), path[-1]
        key = id(nodes), self._key(nodes, step)
        found = self._nullability.get(key)
        if found is None:
            objects = [node for node in nodes if node.get("type") == "object" or not _OBJECT_KEYWORDS.isdisjoint(node)]
            is_declared = not objects or any(step in node.get("properties", {}) for node in objects)
            members = [node for node in self.find_children(nodes, step) if _INDIRECT_KEYWORDS.isdisjoint(node)]
            found = self._nullability[key] = is_declared, any(map(_allows_null, members))
        return found

    def _key(self, nodes: Nodes, step: str | int) -> str | int | None:
        """Return the key for all members to which the same subschemas apply."""
        declared = self._declared.get(id(nodes))
        if declared is None:
            names = frozenset(name for node in nodes for name in node.get("properties", ()))
            prefix_items = max((len(node.get("prefixItems", ())) for node in nodes), default=0)
            declared = self._declared[id(nodes)] = names, prefix_items
        if isinstance(step, str):
            return step if step in declared[0] else None
        return min(step, declared[1])

    def _expand(self, nodes: Iterable[Any]) -> Nodes:
        found: Nodes = []
        pending = list(nodes)
        seen: set[int] = set()
        while pending:
            node = pending.pop(0)
            if not isinstance(node, dict) or id(node) in seen:
                continue
            seen.add(id(node))
            found.append(node)
            if isinstance(node.get("$ref"), str):
                pending.append(resolve_pointer(self._schema, node["$ref"]))
            for key in _COMBINATORS:
                pending.extend(node.get(key, ()))
        return self._expanded.setdefault(tuple(map(id, found)), found)


def _child_schema(node: JsonObject, step: str | int) -> Any:
    if isinstance(step, str):
        properties = node.get("properties", {})
        return properties[step] if step in properties else node.get("additionalProperties")
    items = node.get("prefixItems", ())
    return items[step] if step < len(items) else node.get("items")


def _allows_null(node: JsonObject) -> bool:
    if "type" in node:
        return "null" in type_names(node)
    if "const" in node:
        return node["const"] is None
    return None in node["enum"] if "enum" in node else _OBJECT_KEYWORDS.isdisjoint(node)


def iter_property_names(node: Any) -> Iterator[str]:
    """Yield the names of all properties that a schema declares, at any depth."""
    for schema in iter_objects(node):
        if isinstance(schema.get("properties"), dict):
            yield from schema["properties"]


def schema_texts(schema: JsonObject) -> Iterator[str]:
    """Yield the names of all properties, and all descriptions, as texts to search."""
    for node in iter_objects(schema):
        if isinstance(properties := node.get("properties"), dict):
            yield from properties
        if isinstance(text := node.get("description"), str):
            yield text
