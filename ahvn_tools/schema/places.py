"""Places in a JSON Schema: which subschemas speak about a value, and about what is inside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

JsonObject = dict[str, Any]
Path = tuple[str | int, ...]
Nodes = list[JsonObject]

_BRANCHES = ("anyOf", "oneOf", "allOf")
_INDIRECT = frozenset({*_BRANCHES, "$ref"})
_OF_OBJECTS = frozenset({"properties", "additionalProperties", "patternProperties", "required"})


class Places:
    """Answers about the places of one schema. The schema is not changed."""

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self.root: Nodes = self._expanded([schema])

    def at(self, path: Iterable[str | int]) -> Nodes:
        """Return the subschemas that speak about the value at `path`, unions and references resolved."""
        nodes = self.root
        for step in path:
            nodes = self.inside(nodes, step)
        return nodes

    def inside(self, nodes: Nodes, step: str | int) -> Nodes:
        """Return the subschemas that speak about one member or item of a value that `nodes` speak about."""
        return self._expanded(child for node in nodes for child in _children(node, step))

    def takes_null(self, path: Path) -> bool:
        """Tell whether a null is legal at `path` by any branch."""
        return any(_takes_null(node) for node in self.at(path) if _INDIRECT.isdisjoint(node))

    def is_entry(self, path: Path) -> bool:
        """Tell whether the last step of `path` is no declared member: an entry of a free object, or unknown."""
        holders = [node for node in self.at(path[:-1]) if _is_object(node)]
        return bool(holders) and not any(path[-1] in node.get("properties", {}) for node in holders)

    def _expanded(self, nodes: Iterable[Any]) -> Nodes:
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
                pending.append(self._target(node["$ref"]))
            for key in _BRANCHES:
                pending.extend(node.get(key, ()))
        return found

    def _target(self, reference: str) -> Any:
        here: Any = self._schema
        for step in reference.removeprefix("#").split("/")[1:]:
            here = here.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(here, dict) else None
        return here


def _children(node: JsonObject, step: str | int) -> Iterator[Any]:
    if isinstance(step, str):
        properties = node.get("properties", {})
        yield properties[step] if step in properties else node.get("additionalProperties")
        return
    items = node.get("prefixItems", ())
    yield items[step] if step < len(items) else node.get("items")


def _is_object(node: JsonObject) -> bool:
    return node.get("type") == "object" or not _OF_OBJECTS.isdisjoint(node)


def _takes_null(node: JsonObject) -> bool:
    kind = node.get("type")
    if kind is not None:
        return kind == "null" or (isinstance(kind, list) and "null" in kind)
    if "const" in node:
        return node["const"] is None
    return None in node["enum"] if "enum" in node else _OF_OBJECTS.isdisjoint(node)


def property_names(node: Any) -> Iterator[str]:
    """Yield the names of all properties that are declared anywhere in a schema."""
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict):
            yield from node["properties"]
        for child in node.values():
            yield from property_names(child)
    elif isinstance(node, list):
        for child in node:
            yield from property_names(child)
