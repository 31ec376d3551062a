"""The references of a schema as a graph: how large the schema is to a validator, and whether it is recursive."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

from ahvn_tools.errors import DefinitionError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import SUBSCHEMA_KEYWORDS, iter_schemas, iter_subschemas
from ahvn_tools.schema.refs import resolve_pointer

REF_KEYWORDS: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHOR_KEYWORDS: Final = ("$anchor", "$dynamicAnchor", "$id", "id")
_IN_PLACE_APPLICATORS: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
"""Keywords whose schemas apply to the same value as the schema itself."""
_APPLICATORS: Final = SUBSCHEMA_KEYWORDS - {"$defs", "definitions"}
_CHILD_APPLICATORS: Final = _APPLICATORS - _IN_PLACE_APPLICATORS
"""Keywords whose schemas apply to the members or items of the value."""


def find_child_subschemas(node: JsonObject) -> list[JsonObject]:
    """Return the schemas that a schema applies to the members and items of a value."""
    return list(iter_subschemas(node, _CHILD_APPLICATORS))


class RefGraph:
    """One schema, with the target of every reference."""

    def __init__(self, schema: JsonObject) -> None:
        """Resolve the references.

        Raises DefinitionError for one that leads out of the schema, to nothing, or in a circle.
        """
        self._root = schema
        self._targets: dict[str, Any] = {}
        self._anchors: dict[str, JsonObject] | None = None
        self._nodes: dict[int, JsonObject] = {}
        pending = [schema]
        while pending:
            node = pending.pop()
            if id(node) not in self._nodes:
                self._nodes[id(node)] = node
                pending.extend(self._find_all_subschemas(node))
        if self._targets and len(self.sort_topologically()) < len(self._nodes):
            raise DefinitionError("a schema refers to itself without going deeper into the value")

    @property
    def property_count(self) -> int:
        """How many properties are declared, at any depth."""
        return sum(len(part) for node in self._nodes.values() if isinstance(part := node.get("properties"), dict))

    @property
    def is_recursive(self) -> bool:
        """Whether a schema applies itself to a part of the value."""
        return len(self._sort_by(self._find_all_subschemas)) < len(self._nodes)

    def count_schemas(self, max_count: int) -> int:
        """Return how many schemas a validator may apply to one value, or `max_count` + 1 if there are more.

        A reference back to a schema that contains it counts once: the depth of the value decides how often it is used.
        """
        sizes: dict[int, int] = {}
        pending: list[tuple[JsonObject, bool]] = [(self._root, False)]
        while pending:
            node, is_done = pending.pop()
            parts = [*iter_subschemas(node, _APPLICATORS), *self._find_ref_targets(node)]
            if is_done:
                sizes[id(node)] = min(max_count + 1, 1 + sum(sizes[id(part)] for part in parts))
            elif id(node) not in sizes:
                sizes[id(node)] = 1
                pending.append((node, True))
                pending.extend((part, False) for part in parts)
        return sizes[id(self._root)]

    def sort_topologically(self) -> list[JsonObject]:
        """Return all schemas, each before those that it applies to the same value."""
        return self._sort_by(self.find_in_place_subschemas)

    def find_in_place_subschemas(self, node: JsonObject) -> list[JsonObject]:
        """Return the schemas that a schema applies to the same value."""
        return [*iter_subschemas(node, _IN_PLACE_APPLICATORS), *self._find_ref_targets(node)]

    def resolve_ref(self, reference: str) -> Any:
        """Return the target of a reference, a dict or a bool. Raises DefinitionError if it is no schema."""
        if reference not in self._targets:
            if not reference.startswith("#"):
                raise DefinitionError(f"it refers to {reference!r}, which is outside of it; nothing is fetched")
            is_pointer = reference == "#" or reference.startswith("#/")
            target = resolve_pointer(self._root, reference) if is_pointer else self._find_anchor(unquote(reference[1:]))
            if not isinstance(target, dict | bool):
                raise DefinitionError(f"it refers to {reference!r}, where no schema is")
            self._targets[reference] = target
        return self._targets[reference]

    def _find_ref_targets(self, node: JsonObject) -> list[JsonObject]:
        if node is not self._root and not str(node.get("$id", "#")).startswith("#"):
            raise DefinitionError("a subschema has its own `$id`")
        targets = [self.resolve_ref(node[key]) for key in REF_KEYWORDS if isinstance(node.get(key), str)]
        return [target for target in targets if isinstance(target, dict)]

    def _find_all_subschemas(self, node: JsonObject) -> list[JsonObject]:
        return [*iter_subschemas(node), *self._find_ref_targets(node)]

    def _find_anchor(self, name: str) -> JsonObject | None:
        if self._anchors is None:
            self._anchors = {}
            for node, key in itertools.product(iter_schemas(self._root), _ANCHOR_KEYWORDS):
                if isinstance(node.get(key), str):
                    self._anchors.setdefault(node[key].removeprefix("#"), node)
        return self._anchors.get(name)

    def _sort_by(self, find_parts: Callable[[JsonObject], list[JsonObject]]) -> list[JsonObject]:
        """Return the schemas, each before its parts. Those in a circle, and those after one, are left out."""
        waiting = dict.fromkeys(self._nodes, 0)
        for node in self._nodes.values():
            for part in find_parts(node):
                waiting[id(part)] += 1
        ordered = [node for key, node in self._nodes.items() if not waiting[key]]
        for node in ordered:
            for part in find_parts(node):
                waiting[id(part)] -= 1
                if not waiting[id(part)]:
                    ordered.append(part)
        return ordered
