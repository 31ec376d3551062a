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
        self.root: Nodes = self._expand([schema])

    def find_subschemas(self, path: Iterable[str | int]) -> Nodes:
        """Return the subschemas that apply to the value at `path`, with unions and references resolved."""
        nodes = self.root
        for step in path:
            nodes = self.find_children(nodes, step)
        return nodes

    def find_children(self, nodes: Nodes, step: str | int) -> Nodes:
        """Return the subschemas that apply to one member or item of a value to which `nodes` apply."""
        key: str | int | None
        if isinstance(step, str):
            key = step if any(step in node.get("properties", ()) for node in nodes) else None
        else:
            key = min(step, max((len(node.get("prefixItems", ())) for node in nodes), default=0))
        children = self._children.get((id(nodes), key))
        if children is None:
            children = self._children[id(nodes), key] = self._expand(_child_schema(node, step) for node in nodes)
        return children

    def allows_null(self, path: InstancePath) -> bool:
        """Whether any branch accepts null at `path`."""
        return any(_allows_null(node) for node in self.find_subschemas(path) if _INDIRECT_KEYWORDS.isdisjoint(node))

    def is_undeclared(self, path: InstancePath) -> bool:
        """Whether the last step of `path` is not a declared property: a key of a free object, or unknown."""
        nodes = self.find_subschemas(path[:-1])
        objects = [node for node in nodes if node.get("type") == "object" or not _OBJECT_KEYWORDS.isdisjoint(node)]
        return bool(objects) and not any(path[-1] in node.get("properties", {}) for node in objects)

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


def root_property_names(schema: JsonObject) -> frozenset[str]:
    """Return the properties of the object that a schema describes, those in its unions and references among them."""
    nodes = SubschemaFinder(schema).root
    return frozenset(name for node in nodes if isinstance(node.get("properties"), dict) for name in node["properties"])


def iter_property_names(node: Any) -> Iterator[str]:
    """Yield the names of all properties that a schema declares, at any depth."""
    for schema in iter_objects(node):
        if isinstance(schema.get("properties"), dict):
            yield from schema["properties"]
