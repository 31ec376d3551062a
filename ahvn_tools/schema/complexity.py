"""Effort: how much work it is to check a value, known before it is done.

A validator holds the whole process while it works. A schema with many choices and a value with many parts, each of them
harmless, are hours together.
"""

from __future__ import annotations

from typing import Any, Final

from ahvn_tools.schema.ref_graph import RefGraph, find_child_subschemas

JsonObject = dict[str, Any]

MAX_STEPS: Final = 2_000_000
"""So many times a schema is applied to a part of a value at most: less than half a second."""

_MEMBER_KEYWORDS: Final = ("propertyNames", "unevaluatedProperties")
_ITEM_KEYWORDS: Final = ("contains", "unevaluatedItems")


class _AppliedSchemas:
    """The schemas that one part of a value is checked by, and how often by each."""

    def __init__(self, counts: list[tuple[JsonObject, int]]) -> None:
        self.counts = counts
        self.cost = sum(count * _get_node_cost(node) for node, count in counts)
        self.property_names = {name for node, _ in counts for name in _get_mapping(node, "properties")}
        self.pattern_count = sum(count * len(_get_mapping(node, "patternProperties")) for node, count in counts)
        self.prefix_length = max((len(_get_prefix_items(node)) for node, _ in counts), default=0)
        self.parts: dict[str | int | None, _AppliedSchemas] = {}


class ValidationCost:
    """What it takes to check values by one schema."""

    def __init__(self, schema: JsonObject) -> None:
        """Raises DefinitionError for a schema with a reference that leads nowhere, or round in a circle."""
        expansion = RefGraph(schema)
        self._graph = expansion
        self._order = expansion.sort_topologically()
        self._rank = {id(node): rank for rank, node in enumerate(self._order)}
        self._root_schemas = self._apply([(schema, 1)])
        self._max_part_cost = MAX_STEPS if expansion.is_recursive else self._find_max_part_cost()

    def exceeds_limit(self, value: Any, text: str, max_steps: int = MAX_STEPS) -> bool:
        """Tell whether checking a value takes more than `most` steps; `text` is its JSON.

        The steps are those of a validator that tries everything: a real one takes fewer.
        """
        parts = 1 + sum(text.count(mark) for mark in ",[{")  # at most: a text in it may have some, too
        return self._max_part_cost * parts > max_steps and self._count_steps(value, max_steps) > max_steps

    def _count_steps(self, value: Any, max_steps: int) -> int:
        """Return how many steps there are; where there are more than `most`, some number above it."""
        steps = self._root_schemas.cost
        pending = [(value, self._root_schemas)] if isinstance(value, dict | list) else []
        while pending and steps <= max_steps:
            part, state = pending.pop()
            steps += len(part) * state.pattern_count if isinstance(part, dict) else 0
            for step, item in part.items() if isinstance(part, dict) else enumerate(part):
                then = self._descend(state, step)
                steps += then.cost
                if then.counts and isinstance(item, dict | list):
                    pending.append((item, then))
        return steps

    def _find_max_part_cost(self) -> int:
        """Return how often schemas are applied to one part of a value at most, at any depth."""
        heaviest, state = 0, self._root_schemas
        while state.counts:
            heaviest = max(heaviest, state.cost + state.pattern_count)
            state = self._apply([(part, count) for node, count in state.counts for part in find_child_subschemas(node)])
        return heaviest

    def _descend(self, state: _AppliedSchemas, step: str | int | None) -> _AppliedSchemas:
        """Return the schemas for a member or an item of what some schemas are for."""
        if isinstance(step, int):
            step = min(step, state.prefix_length)
        elif step not in state.property_names:
            step = None
        if step not in state.parts:
            parts = [(part, count) for node, count in state.counts for part in _select_subschemas(node, step)]
            state.parts[step] = self._apply(parts)
        return state.parts[step]

    def _apply(self, parts: list[tuple[JsonObject, int]]) -> _AppliedSchemas:
        """Return some schemas with all that they have for the same value."""
        counts: dict[int, int] = {}
        pending = [node for node, _ in parts]
        while pending:
            node = pending.pop()
            if id(node) not in counts:
                counts[id(node)] = 0
                pending.extend(self._graph.find_in_place_subschemas(node))
        for node, count in parts:
            counts[id(node)] += count
        ranked = [self._order[rank] for rank in sorted(self._rank[key] for key in counts)]
        for node in ranked:
            for part in self._graph.find_in_place_subschemas(node):
                counts[id(part)] += counts[id(node)]
        return _AppliedSchemas([(node, counts[id(node)]) for node in ranked])


def _select_subschemas(node: JsonObject, step: str | int | None) -> list[JsonObject]:
    found: list[Any]
    if isinstance(step, int):
        firsts, items = _get_prefix_items(node), node.get("items")
        rest = node.get("additionalItems") if isinstance(items, list) else items
        found = [firsts[step] if step < len(firsts) else rest, *(node.get(key) for key in _ITEM_KEYWORDS)]
    else:
        declared = _get_mapping(node, "properties")
        found = [declared[step] if step is not None and step in declared else node.get("additionalProperties")]
        found += [*_get_mapping(node, "patternProperties").values(), *(node.get(key) for key in _MEMBER_KEYWORDS)]
    return [part for part in found if isinstance(part, dict)]


def _get_node_cost(node: JsonObject) -> int:
    """Return how much it takes to check a value by one schema alone: lists of lists are compared one by one."""
    listed = node.get("enum", ())
    is_plain = not any(isinstance(value, dict | list) for value in listed)
    return 1 if is_plain else 1 + len(listed)


def _get_prefix_items(node: JsonObject) -> list[Any]:
    items = node.get("items")
    firsts: list[Any] = items if isinstance(items, list) else node.get("prefixItems", [])
    return firsts


def _get_mapping(node: JsonObject, keyword: str) -> JsonObject:
    found: JsonObject = node.get(keyword, {})
    return found
