"""Places in a JSON Schema: which subschemas speak about a value, and about what is inside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

JsonObject = dict[str, Any]
InstancePath = tuple[str | int, ...]
Nodes = list[JsonObject]

_COMBINATORS = ("anyOf", "oneOf", "allOf")
_INDIRECT_KEYWORDS = frozenset({*_COMBINATORS, "$ref"})
_OBJECT_KEYWORDS = frozenset({"properties", "additionalProperties", "patternProperties", "required"})


class SubschemaFinder:
    """Answers about the places of one schema. The schema is not changed."""

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self.root: Nodes = self._expand([schema])

    def find_subschemas(self, path: Iterable[str | int]) -> Nodes:
        """Return the subschemas that speak about the value at `path`, unions and references resolved."""
        nodes = self.root
        for step in path:
            nodes = self.find_children(nodes, step)
        return nodes

    def find_children(self, nodes: Nodes, step: str | int) -> Nodes:
        """Return the subschemas that speak about one member or item of a value that `nodes` speak about."""
        return self._expand(child for node in nodes for child in _child_schemas(node, step))

    def allows_null(self, path: InstancePath) -> bool:
        """Tell whether a null is legal at `path` by any branch."""
        return any(_allows_null(node) for node in self.find_subschemas(path) if _INDIRECT_KEYWORDS.isdisjoint(node))

    def is_undeclared(self, path: InstancePath) -> bool:
        """Tell whether the last step of `path` is no declared member: an entry of a free object, or unknown."""
        holders = [node for node in self.find_subschemas(path[:-1]) if _describes_object(node)]
        return bool(holders) and not any(path[-1] in node.get("properties", {}) for node in holders)

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
                pending.append(self._resolve_pointer(node["$ref"]))
            for key in _COMBINATORS:
                pending.extend(node.get(key, ()))
        return found

    def _resolve_pointer(self, reference: str) -> Any:
        here: Any = self._schema
        for step in reference.removeprefix("#").split("/")[1:]:
            here = here.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(here, dict) else None
        return here


def _child_schemas(node: JsonObject, step: str | int) -> Iterator[Any]:
    if isinstance(step, str):
        properties = node.get("properties", {})
        yield properties[step] if step in properties else node.get("additionalProperties")
        return
    items = node.get("prefixItems", ())
    yield items[step] if step < len(items) else node.get("items")


def _describes_object(node: JsonObject) -> bool:
    return node.get("type") == "object" or not _OBJECT_KEYWORDS.isdisjoint(node)


def _allows_null(node: JsonObject) -> bool:
    kind = node.get("type")
    if kind is not None:
        return kind == "null" or (isinstance(kind, list) and "null" in kind)
    if "const" in node:
        return node["const"] is None
    return None in node["enum"] if "enum" in node else _OBJECT_KEYWORDS.isdisjoint(node)


def iter_property_names(node: Any) -> Iterator[str]:
    """Yield the names of all properties that are declared anywhere in a schema."""
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict):
            yield from node["properties"]
        for child in node.values():
            yield from iter_property_names(child)
    elif isinstance(node, list):
        for child in node:
            yield from iter_property_names(child)
