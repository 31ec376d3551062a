"""Effort: how much work it is to check a value, known before it is done.

A validator holds the whole process while it works. A schema with many choices and a value with many parts, each of them
harmless, are hours together.
"""

from __future__ import annotations

from typing import Any, Final

from ahvn_tools.mcp.expansion import Expansion, deeper

JsonObject = dict[str, Any]

MOST: Final = 2_000_000
"""So many times a schema is applied to a part of a value at most: less than half a second."""

_OF_MEMBERS: Final = ("propertyNames", "unevaluatedProperties")
_OF_ITEMS: Final = ("contains", "unevaluatedItems")


class _State:
    """The schemas that one part of a value is checked by, and how often by each."""

    def __init__(self, counts: list[tuple[JsonObject, int]]) -> None:
        self.counts = counts
        self.weight = sum(count * _weight(node) for node, count in counts)
        self.names = {name for node, _ in counts for name in _mapping(node, "properties")}
        self.patterns = sum(count * len(_mapping(node, "patternProperties")) for node, count in counts)
        self.firsts = max((len(_firsts(node)) for node, _ in counts), default=0)
        self.steps: dict[str | int | None, _State] = {}


class Effort:
    """What it takes to check values by one schema."""

    def __init__(self, schema: JsonObject) -> None:
        """Raises DefinitionError for a schema with a reference that leads nowhere, or round in a circle."""
        expansion = Expansion(schema)
        self._expansion = expansion
        self._order = expansion.order()
        self._rank = {id(node): rank for rank, node in enumerate(self._order)}
        self._start = self._state([(schema, 1)])
        self._heaviest = MOST if expansion.is_recursive else self._heaviest_level()

    def is_too_much(self, value: Any, text: str, most: int = MOST) -> bool:
        """Tell whether checking a value takes more than `most` steps; `text` is its JSON.

        The steps are those of a validator that tries everything: a real one takes fewer.
        """
        parts = 1 + sum(text.count(mark) for mark in ",[{")  # at most: a text in it may have some, too
        return self._heaviest * parts > most and self._steps(value, most) > most

    def _steps(self, value: Any, most: int) -> int:
        """Return how many steps there are; where there are more than `most`, some number above it."""
        steps = self._start.weight
        pending = [(value, self._start)] if isinstance(value, dict | list) else []
        while pending and steps <= most:
            part, state = pending.pop()
            steps += len(part) * state.patterns if isinstance(part, dict) else 0
            for step, item in part.items() if isinstance(part, dict) else enumerate(part):
                then = self._step(state, step)
                steps += then.weight
                if then.counts and isinstance(item, dict | list):
                    pending.append((item, then))
        return steps

    def _heaviest_level(self) -> int:
        """Return how often schemas are applied to one part of a value at most, at any depth."""
        heaviest, state = 0, self._start
        while state.counts:
            heaviest = max(heaviest, state.weight + state.patterns)
            state = self._state([(part, count) for node, count in state.counts for part in deeper(node)])
        return heaviest

    def _step(self, state: _State, step: str | int | None) -> _State:
        """Return the schemas for a member or an item of what some schemas are for."""
        if isinstance(step, int):
            step = min(step, state.firsts)
        elif step not in state.names:
            step = None
        if step not in state.steps:
            parts = [(part, count) for node, count in state.counts for part in _parts(node, step)]
            state.steps[step] = self._state(parts)
        return state.steps[step]

    def _state(self, parts: list[tuple[JsonObject, int]]) -> _State:
        """Return some schemas with all that they have for the same value."""
        counts: dict[int, int] = {}
        pending = [node for node, _ in parts]
        while pending:
            node = pending.pop()
            if id(node) not in counts:
                counts[id(node)] = 0
                pending.extend(self._expansion.here(node))
        for node, count in parts:
            counts[id(node)] += count
        ranked = [self._order[rank] for rank in sorted(self._rank[key] for key in counts)]
        for node in ranked:
            for part in self._expansion.here(node):
                counts[id(part)] += counts[id(node)]
        return _State([(node, counts[id(node)]) for node in ranked])


def _parts(node: JsonObject, step: str | int | None) -> list[JsonObject]:
    found: list[Any]
    if isinstance(step, int):
        firsts, items = _firsts(node), node.get("items")
        rest = node.get("additionalItems") if isinstance(items, list) else items
        found = [firsts[step] if step < len(firsts) else rest, *(node.get(key) for key in _OF_ITEMS)]
    else:
        declared = _mapping(node, "properties")
        found = [declared[step] if step is not None and step in declared else node.get("additionalProperties")]
        found += [*_mapping(node, "patternProperties").values(), *(node.get(key) for key in _OF_MEMBERS)]
    return [part for part in found if isinstance(part, dict)]


def _weight(node: JsonObject) -> int:
    """Return how much it takes to check a value by one schema alone: lists of lists are compared one by one."""
    listed = node.get("enum", ())
    is_plain = not any(isinstance(value, dict | list) for value in listed)
    return 1 if is_plain else 1 + len(listed)


def _firsts(node: JsonObject) -> list[Any]:
    items = node.get("items")
    firsts: list[Any] = items if isinstance(items, list) else node.get("prefixItems", [])
    return firsts


def _mapping(node: JsonObject, keyword: str) -> JsonObject:
    found: JsonObject = node.get(keyword, {})
    return found
