"""How many steps it takes to validate a value, counted before the validator runs.

A validator blocks the whole process while it works. A schema with many branches and a value with many parts, each of
them harmless, can take hours together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.ref_graph import RefGraph, find_child_subschemas

MAX_STEPS: Final = 2_000_000
"""How often schemas may be applied to parts of one value: less than half a second of work."""

_MEMBER_KEYWORDS: Final = ("propertyNames", "unevaluatedProperties")
_ITEM_KEYWORDS: Final = ("contains", "unevaluatedItems")


class ValidationCost:
    """The cost of checking values against one schema, in steps of a validator that tries every branch."""

    def __init__(self, schema: JsonObject) -> None:
        """Raises DefinitionError for a schema with a reference that leads nowhere, or in a circle."""
        self._graph = RefGraph(schema)
        self._order = self._graph.sort_topologically()
        self._rank = {id(node): rank for rank, node in enumerate(self._order)}
        self._root = self._apply([(schema, 1)])
        self._max_part_cost = MAX_STEPS if self._graph.is_recursive else self._find_max_part_cost()

    def exceeds_limit(self, value: Any, text: str, max_steps: int = MAX_STEPS) -> bool:
        """Return whether checking a value takes more than `max_steps` steps; `text` is its JSON."""
        max_parts = 1 + sum(text.count(mark) for mark in ",[{")  # strings in it may contain more of them
        return self._max_part_cost * max_parts > max_steps and self._count_steps(value, max_steps) > max_steps

    def _count_steps(self, value: Any, max_steps: int) -> int:
        """Return the number of steps; some larger number than `max_steps` if there are more."""
        steps = self._root.cost
        pending = [(value, self._root)] if isinstance(value, dict | list) else []
        while pending and steps <= max_steps:
            part, applied = pending.pop()
            steps += len(part) * applied.pattern_count if isinstance(part, dict) else 0
            for step, item in part.items() if isinstance(part, dict) else enumerate(part):
                child = self._descend(applied, step)
                steps += child.cost
                if child.counts and isinstance(item, dict | list):
                    pending.append((item, child))
        return steps

    def _find_max_part_cost(self) -> int:
        """Return the highest number of steps for one part of a value, at any depth."""
        highest, applied = 0, self._root
        while applied.counts:
            highest = max(highest, applied.cost + applied.pattern_count)
            applied = self._apply(
                (part, count) for node, count in applied.counts for part in find_child_subschemas(node)
            )
        return highest

    def _descend(self, applied: _AppliedSchemas, step: str | int) -> _AppliedSchemas:
        """Return what applies to one member or item of a value."""
        key: str | int | None = step if step in applied.property_names else None
        if isinstance(step, int):
            key = min(step, applied.prefix_length)
        if key not in applied.children:
            applied.children[key] = self._apply(
                (part, count) for node, count in applied.counts for part in _select_subschemas(node, key)
            )
        return applied.children[key]

    def _apply(self, roots: Iterable[tuple[JsonObject, int]]) -> _AppliedSchemas:
        """Return schemas, each with how often it applies, and all that they apply to the same value."""
        roots = list(roots)
        counts: dict[int, int] = {}
        pending = [node for node, _ in roots]
        while pending:
            node = pending.pop()
            if id(node) not in counts:
                counts[id(node)] = 0
                pending.extend(self._graph.find_in_place_subschemas(node))
        for node, count in roots:
            counts[id(node)] += count
        ordered = [self._order[rank] for rank in sorted(self._rank[key] for key in counts)]
        for node in ordered:
            for part in self._graph.find_in_place_subschemas(node):
                counts[id(part)] += counts[id(node)]
        return _AppliedSchemas([(node, counts[id(node)]) for node in ordered])


class _AppliedSchemas:
    """The schemas that a validator applies to one part of a value, and how often it applies each."""

    def __init__(self, counts: list[tuple[JsonObject, int]]) -> None:
        self.counts = counts
        self.cost = sum(count * _get_node_cost(node) for node, count in counts)
        self.property_names = {name for node, _ in counts for name in node.get("properties", ())}
        self.pattern_count = sum(count * len(node.get("patternProperties", ())) for node, count in counts)
        self.prefix_length = max((len(_get_prefix_items(node)) for node, _ in counts), default=0)
        self.children: dict[str | int | None, _AppliedSchemas] = {}


def _select_subschemas(node: JsonObject, key: str | int | None) -> Iterator[JsonObject]:
    """Return the schemas for an item, a declared property, or (None) another member."""
    if isinstance(key, int):
        prefix, items = _get_prefix_items(node), node.get("items")
        rest = node.get("additionalItems") if isinstance(items, list) else items
        parts = [prefix[key] if key < len(prefix) else rest, *(node.get(keyword) for keyword in _ITEM_KEYWORDS)]
    else:
        properties = node.get("properties", {})
        parts = [properties[key] if key in properties else node.get("additionalProperties")]
        parts += [*node.get("patternProperties", {}).values(), *(node.get(keyword) for keyword in _MEMBER_KEYWORDS)]
    return (part for part in parts if isinstance(part, dict))


def _get_node_cost(node: JsonObject) -> int:
    """Return the steps that one schema takes by itself: an `enum` of lists or objects is compared one by one."""
    values = node.get("enum", ())
    return 1 + len(values) if any(isinstance(value, dict | list) for value in values) else 1


def _get_prefix_items(node: JsonObject) -> list[Any]:
    items = node.get("items")
    prefix: list[Any] = items if isinstance(items, list) else node.get("prefixItems", [])
    return prefix
