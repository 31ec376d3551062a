"""Expansion: how large a schema is to a validator that follows its references, counted without following them twice."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import unquote

from ahvn_tools.errors import DefinitionError

JsonObject = dict[str, Any]

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS = ("$anchor", "$dynamicAnchor", "$id", "id")
_HERE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"})
"""Their schemas are about the same value as the schema that they stand in."""
_DEEPER = frozenset({
    "properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames", "items",
    "prefixItems", "additionalItems", "unevaluatedItems", "contains", "contentSchema",
})  # fmt: skip
_WALKED = _HERE | _DEEPER
_STORES = frozenset({"$defs", "definitions"})
_MAPS = _STORES | {"properties", "patternProperties", "dependentSchemas", "dependencies"}


def children(node: JsonObject, keywords: Collection[str] = _WALKED | _STORES) -> list[JsonObject]:
    """Return the schemas directly inside a schema, under some of the keywords; `default`, `enum` … are data."""
    found: list[JsonObject] = []
    for keyword, value in node.items():
        if keyword not in keywords:
            continue
        if isinstance(value, dict):
            found += [part for part in value.values() if isinstance(part, dict)] if keyword in _MAPS else [value]
        elif isinstance(value, list):
            found += [part for part in value if isinstance(part, dict)]
    return found


def deeper(node: JsonObject) -> list[JsonObject]:
    """Return the schemas that a schema has for what is inside of a value."""
    return children(node, _DEEPER)


class Expansion:
    """One schema, with every reference looked up once."""

    def __init__(self, schema: JsonObject) -> None:
        """Look the references up. Raises DefinitionError for one that leads out of the schema, or to nothing."""
        self._root = schema
        self._targets: dict[str, Any] = {}
        self._nodes: dict[int, JsonObject] = {}
        self._pending = [schema]
        self._anchors: dict[str, JsonObject] | None = None
        while self._pending:
            node = self._pending.pop()
            if id(node) not in self._nodes:
                self._nodes[id(node)] = node
                self._pending.extend([*children(node), *self._led_to(node)])
        if self._targets and len(self.order()) < len(self._nodes):
            raise DefinitionError("a schema refers to itself without going deeper into the value")

    @property
    def properties(self) -> int:
        """How many properties are declared, at any depth."""
        return sum(len(part) for node in self._nodes.values() if isinstance(part := node.get("properties"), dict))

    def size(self, most: int) -> int:
        """Return how many schemas a validator may walk for one value: `most` + 1 when there are more.

        A reference that leads back to where it came from is one schema: how often it is followed is the value's doing.
        """
        sizes: dict[int, int] = {}
        pending: list[tuple[JsonObject, bool]] = [(self._root, False)]
        while pending:
            node, is_done = pending.pop()
            inside = [*children(node, _WALKED), *self._led_to(node)]
            if is_done:
                sizes[id(node)] = min(most + 1, 1 + sum(sizes[id(part)] for part in inside))
            elif id(node) not in sizes:
                sizes[id(node)] = 1
                pending.append((node, True))
                pending.extend((part, False) for part in inside)
        return sizes[id(self._root)]

    def order(self) -> list[JsonObject]:
        """Return all schemas, each before those that it has for the same value."""
        return self._ordered(self.here)

    @property
    def is_recursive(self) -> bool:
        """Whether a schema has itself for what is inside of a value."""
        return len(self._ordered(self._inside)) < len(self._nodes)

    def here(self, node: JsonObject) -> list[JsonObject]:
        """Return the schemas that a schema has for the same value."""
        return [*children(node, _HERE), *self._led_to(node)]

    def _inside(self, node: JsonObject) -> list[JsonObject]:
        return [*children(node), *self._led_to(node)]

    def _ordered(self, parts: Callable[[JsonObject], list[JsonObject]]) -> list[JsonObject]:
        """Return the schemas in order, each before its parts; those in a circle, and behind one, are left out."""
        waits = dict.fromkeys(self._nodes, 0)
        for node in self._nodes.values():
            for part in parts(node):
                waits[id(part)] += 1
        ordered = [node for key, node in self._nodes.items() if not waits[key]]
        for node in ordered:
            for part in parts(node):
                waits[id(part)] -= 1
                if not waits[id(part)]:
                    ordered.append(part)
        return ordered

    def target(self, reference: str) -> Any:
        """Return the schema, an object or a bool, that a reference leads to. Raises DefinitionError for none."""
        if reference not in self._targets:
            if not reference.startswith("#"):
                raise DefinitionError(f"it refers to {reference!r}, which is outside of it; nothing is fetched")
            found = self._at(reference)
            if not isinstance(found, dict | bool):
                raise DefinitionError(f"it refers to {reference!r}, where no schema is")
            self._targets[reference] = found
        return self._targets[reference]

    def _led_to(self, node: JsonObject) -> list[JsonObject]:
        if node is not self._root and not str(node.get("$id", "#")).startswith("#"):
            raise DefinitionError("a schema inside of it has an `$id` of its own")
        targets = [self.target(node[key]) for key in REFERENCES if isinstance(node.get(key), str)]
        return [target for target in targets if isinstance(target, dict)]

    def _at(self, reference: str) -> Any:
        if reference.rstrip("/") == "#":
            return self._root
        if not reference.startswith("#/"):
            return self._anchored(unquote(reference[1:]))
        here: Any = self._root
        for step in reference.split("/")[1:]:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(here, list):
                here = here[int(name)] if name.isdecimal() and int(name) < len(here) else None
            else:
                here = here.get(name) if isinstance(here, dict) else None
        return here

    def _anchored(self, name: str) -> Any:
        if self._anchors is None:
            self._anchors = {}
            pending = [self._root]
            while pending:
                node = pending.pop()
                for key in _ANCHORS:
                    if isinstance(node.get(key), str):
                        self._anchors.setdefault(node[key].removeprefix("#"), node)
                pending.extend(children(node))
        return self._anchors.get(name)
