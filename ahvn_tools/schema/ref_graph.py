"""Expansion: how large a schema is to a validator that follows its references, counted without following them twice."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import unquote

from ahvn_tools.errors import DefinitionError

JsonObject = dict[str, Any]

REF_KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHOR_KEYWORDS = ("$anchor", "$dynamicAnchor", "$id", "id")
_IN_PLACE_APPLICATORS = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
"""Their schemas are about the same value as the schema that they stand in."""
_CHILD_APPLICATORS = frozenset({
    "properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames", "items",
    "prefixItems", "additionalItems", "unevaluatedItems", "contains", "contentSchema",
})  # fmt: skip
_APPLICATORS = _IN_PLACE_APPLICATORS | _CHILD_APPLICATORS
_DEFINITION_KEYWORDS = frozenset({"$defs", "definitions"})
_MAP_KEYWORDS = _DEFINITION_KEYWORDS | {"properties", "patternProperties", "dependentSchemas", "dependencies"}


def find_subschemas(
    node: JsonObject, keywords: Collection[str] = _APPLICATORS | _DEFINITION_KEYWORDS
) -> list[JsonObject]:
    """Return the schemas directly inside a schema, under some of the keywords; `default`, `enum` … are data."""
    found: list[JsonObject] = []
    for keyword, value in node.items():
        if keyword not in keywords:
            continue
        if isinstance(value, dict):
            found += (
                [part for part in value.values() if isinstance(part, dict)] if keyword in _MAP_KEYWORDS else [value]
            )
        elif isinstance(value, list):
            found += [part for part in value if isinstance(part, dict)]
    return found


def find_child_subschemas(node: JsonObject) -> list[JsonObject]:
    """Return the schemas that a schema has for what is inside of a value."""
    return find_subschemas(node, _CHILD_APPLICATORS)


class RefGraph:
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
                self._pending.extend([*find_subschemas(node), *self._find_ref_targets(node)])
        if self._targets and len(self.sort_topologically()) < len(self._nodes):
            raise DefinitionError("a schema refers to itself without going deeper into the value")

    @property
    def property_count(self) -> int:
        """How many properties are declared, at any depth."""
        return sum(len(part) for node in self._nodes.values() if isinstance(part := node.get("properties"), dict))

    def count_schemas(self, max_count: int) -> int:
        """Return how many schemas a validator may walk for one value: `most` + 1 when there are more.

        A reference that leads back to where it came from is one schema: how often it is followed is the value's doing.
        """
        sizes: dict[int, int] = {}
        pending: list[tuple[JsonObject, bool]] = [(self._root, False)]
        while pending:
            node, is_done = pending.pop()
            inside = [*find_subschemas(node, _APPLICATORS), *self._find_ref_targets(node)]
            if is_done:
                sizes[id(node)] = min(max_count + 1, 1 + sum(sizes[id(part)] for part in inside))
            elif id(node) not in sizes:
                sizes[id(node)] = 1
                pending.append((node, True))
                pending.extend((part, False) for part in inside)
        return sizes[id(self._root)]

    def sort_topologically(self) -> list[JsonObject]:
        """Return all schemas, each before those that it has for the same value."""
        return self._sort_by(self.find_in_place_subschemas)

    @property
    def is_recursive(self) -> bool:
        """Whether a schema has itself for what is inside of a value."""
        return len(self._sort_by(self._find_all_subschemas)) < len(self._nodes)

    def find_in_place_subschemas(self, node: JsonObject) -> list[JsonObject]:
        """Return the schemas that a schema has for the same value."""
        return [*find_subschemas(node, _IN_PLACE_APPLICATORS), *self._find_ref_targets(node)]

    def _find_all_subschemas(self, node: JsonObject) -> list[JsonObject]:
        return [*find_subschemas(node), *self._find_ref_targets(node)]

    def _sort_by(self, get_parts: Callable[[JsonObject], list[JsonObject]]) -> list[JsonObject]:
        """Return the schemas in order, each before its parts; those in a circle, and behind one, are left out."""
        waits = dict.fromkeys(self._nodes, 0)
        for node in self._nodes.values():
            for part in get_parts(node):
                waits[id(part)] += 1
        ordered = [node for key, node in self._nodes.items() if not waits[key]]
        for node in ordered:
            for part in get_parts(node):
                waits[id(part)] -= 1
                if not waits[id(part)]:
                    ordered.append(part)
        return ordered

    def resolve_ref(self, reference: str) -> Any:
        """Return the schema, an object or a bool, that a reference leads to. Raises DefinitionError for none."""
        if reference not in self._targets:
            if not reference.startswith("#"):
                raise DefinitionError(f"it refers to {reference!r}, which is outside of it; nothing is fetched")
            found = self._find_target(reference)
            if not isinstance(found, dict | bool):
                raise DefinitionError(f"it refers to {reference!r}, where no schema is")
            self._targets[reference] = found
        return self._targets[reference]

    def _find_ref_targets(self, node: JsonObject) -> list[JsonObject]:
        if node is not self._root and not str(node.get("$id", "#")).startswith("#"):
            raise DefinitionError("a schema inside of it has an `$id` of its own")
        targets = [self.resolve_ref(node[key]) for key in REF_KEYWORDS if isinstance(node.get(key), str)]
        return [target for target in targets if isinstance(target, dict)]

    def _find_target(self, reference: str) -> Any:
        if reference.rstrip("/") == "#":
            return self._root
        if not reference.startswith("#/"):
            return self._find_anchor(unquote(reference[1:]))
        here: Any = self._root
        for step in reference.split("/")[1:]:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(here, list):
                here = here[int(name)] if name.isdecimal() and int(name) < len(here) else None
            else:
                here = here.get(name) if isinstance(here, dict) else None
        return here

    def _find_anchor(self, name: str) -> Any:
        if self._anchors is None:
            self._anchors = {}
            pending = [self._root]
            while pending:
                node = pending.pop()
                for key in _ANCHOR_KEYWORDS:
                    if isinstance(node.get(key), str):
                        self._anchors.setdefault(node[key].removeprefix("#"), node)
                pending.extend(find_subschemas(node))
        return self._anchors.get(name)
