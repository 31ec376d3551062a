"""Limits of work: how large arguments and schemas may be, and how many steps a validator may take for a value."""

from __future__ import annotations

import itertools
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, NamedTuple

from ahvn_tools.errors import DefinitionError, InvalidParametersError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import SUBSCHEMA_KEYWORDS, iter_subschemas
from ahvn_tools.schema.refs import ReferenceTargets

MAX_DEPTH = 200
"""Arguments that nest deeper than this are refused."""

MAX_DIGITS = 4_300
"""Integers of more digits than this are refused."""

INTEGER_LIMIT = 10**MAX_DIGITS
"""The smallest integer with too many digits."""

UNLIMITED_TYPES = frozenset({str, bool, type(None)})
"""Types whose values `enforce_limits` always accepts."""

_SEQUENCES = (list, tuple, set, frozenset, deque)
_CONTAINERS = (dict, *_SEQUENCES)

MAX_STEPS: Final = 2_000_000
"""How often schemas may be applied to parts of one value: less than half a second of work."""

MAX_KEPT: Final = 10_000
"""For how many paths into values it is remembered which schemas apply; recursive schemas have no end of paths."""

_REF_KEYWORDS: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_IN_PLACE_APPLICATORS: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
"""Keywords whose schemas apply to the same value as the schema itself."""
_APPLICATORS: Final = SUBSCHEMA_KEYWORDS - {"$defs", "definitions"}
_CHILD_APPLICATORS: Final = _APPLICATORS - _IN_PLACE_APPLICATORS
"""Keywords whose schemas apply to the members or items of the value."""
_MEMBER_KEYWORDS: Final = ("propertyNames", "unevaluatedProperties")
_ITEM_KEYWORDS: Final = ("contains", "unevaluatedItems")


_PATTERN_PARTS: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\{(\d{1,9})(?:,(\d{0,9}))?\}|.", re.DOTALL)

_HUGE: Final = 10**12


class Size(NamedTuple):
    """How large arguments are, as `enforce_limits` found it."""

    value_count: int
    """Values in the arguments, at any depth."""
    has_floats: bool = False
    """Whether one of them may be a float; an object of another type may contain some."""
    has_non_finite: bool = False
    """Whether one of them is NaN or Infinity."""


NO_CONTAINERS = Size(0)
"""The size of arguments that contain texts, booleans and nulls alone."""


def enforce_limits(arguments: dict[str, Any]) -> Size:
    """Return the size of arguments.

    Raises InvalidParametersError for excessive nesting and for integers with too many digits.
    """
    value_count = 0
    has_floats = has_non_finite = False
    pending: list[tuple[Any, int]] = [(arguments, 1)]
    while pending:
        container, level = pending.pop()
        value_count += len(container)
        for value in container.values() if isinstance(container, dict) else container:
            if type(value) in UNLIMITED_TYPES:
                continue
            if isinstance(value, int):
                if not -INTEGER_LIMIT < value < INTEGER_LIMIT:
                    raise InvalidParametersError(f"Invalid arguments: an integer has more than {MAX_DIGITS} digits.")
            elif isinstance(value, float):
                has_floats = True
                has_non_finite |= not math.isfinite(value)
            elif isinstance(value, _CONTAINERS):
                if level > MAX_DEPTH:
                    raise InvalidParametersError(
                        f"Invalid arguments: they are nested more than {MAX_DEPTH} levels deep."
                    )
                pending.append((value, level + 1))
            else:
                has_floats = True
    return Size(value_count, has_floats, has_non_finite)


def contains_non_finite(value: Any) -> bool:
    """Whether a value or its containers contain NaN or Infinity. Pydantic models are not inspected."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(contains_non_finite(item) for item in value.values())
    if isinstance(value, _SEQUENCES):
        return any(contains_non_finite(item) for item in value)
    if is_dataclass(value) and not hasattr(type(value), "__pydantic_validator__"):
        return any(contains_non_finite(getattr(value, field.name, None)) for field in fields(value))
    return False


def pattern_size(pattern: str) -> int:
    """Return how many characters a regular expression has with its counted repetitions written out, as it is compiled.

    >>> pattern_size("a(bc){3}")
    7
    """
    if "{" not in pattern:
        return len(pattern)
    sizes, last = [0], 0
    for part in _PATTERN_PARTS.finditer(pattern):
        if part[0] == "(":
            sizes.append(0)
            continue
        if part[1] is not None:
            count = int(part[2] or part[1])
            repeated = min(last * count, _HUGE)
            sizes[-1] += repeated - last
            last = repeated
            continue
        last = sizes.pop() if part[0] == ")" and len(sizes) > 1 else 1
        sizes[-1] += last
    return sum(sizes)


class RefGraph:
    """The references of a schema as a graph: how large the schema is to a validator, and whether it is recursive."""

    def __init__(self, schema: JsonObject) -> None:
        """Resolve the references.

        Raises DefinitionError for one that leads out of the schema, to nothing, or in a circle.
        """
        self._root = schema
        self._references = ReferenceTargets(schema)
        self._targets: dict[str, Any] = {}
        self._nodes: dict[int, JsonObject] = {}
        pending = [schema]
        while pending:
            node = pending.pop()
            if id(node) not in self._nodes:
                self._nodes[id(node)] = node
                pending.extend(self._find_all_subschemas(node))
        if self._targets and self._has_circle(self.find_in_place_subschemas):
            raise DefinitionError("a schema refers to itself without going deeper into the value")

    @property
    def property_count(self) -> int:
        """How many properties are declared, at any depth."""
        return sum(len(part) for node in self._nodes.values() if isinstance(part := node.get("properties"), dict))

    @property
    def pattern_size(self) -> int:
        """The size of all regular expressions, as `pattern_size` counts it."""
        patterns = (node.get("pattern") for node in self._nodes.values())
        names = (name for node in self._nodes.values() for name in node.get("patternProperties", ()))
        return sum(pattern_size(text) for text in itertools.chain(patterns, names) if isinstance(text, str))

    @property
    def is_recursive(self) -> bool:
        """Whether a schema applies itself to a part of the value."""
        return self._has_circle(self._find_all_subschemas)

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
        order = self._sorter(self.find_in_place_subschemas).static_order()
        return [self._nodes[key] for key in order][::-1]

    def find_in_place_subschemas(self, node: JsonObject) -> list[JsonObject]:
        """Return the schemas that a schema applies to the same value."""
        return [*iter_subschemas(node, _IN_PLACE_APPLICATORS), *self._find_ref_targets(node)]

    def resolve_ref(self, reference: str) -> Any:
        """Return the target of a reference, a dict or a bool. Raises DefinitionError if it is no schema."""
        if reference not in self._targets:
            if not reference.startswith("#"):
                raise DefinitionError(f"it refers to {reference!r}, which is outside of it; nothing is fetched")
            target = self._references.find(reference)
            if target is None:
                raise DefinitionError(f"it refers to {reference!r}, where no schema is")
            self._targets[reference] = target
        return self._targets[reference]

    def _find_ref_targets(self, node: JsonObject) -> list[JsonObject]:
        if node is not self._root and not str(node.get("$id", "#")).startswith("#"):
            raise DefinitionError("a subschema has its own `$id`")
        targets = [self.resolve_ref(node[key]) for key in _REF_KEYWORDS if isinstance(node.get(key), str)]
        return [target for target in targets if isinstance(target, dict)]

    def _find_all_subschemas(self, node: JsonObject) -> list[JsonObject]:
        return [*iter_subschemas(node), *self._find_ref_targets(node)]

    def _has_circle(self, find_parts: Callable[[JsonObject], list[JsonObject]]) -> bool:
        try:
            self._sorter(find_parts).prepare()
        except CycleError:
            return True
        return False

    def _sorter(self, find_parts: Callable[[JsonObject], list[JsonObject]]) -> TopologicalSorter[int]:
        return TopologicalSorter({key: map(id, find_parts(node)) for key, node in self._nodes.items()})


class ValidationCost:
    """The cost of checking values against one schema, in steps of a validator that tries every branch."""

    def __init__(self, schema: JsonObject) -> None:
        """Raises DefinitionError for a schema with a reference that leads nowhere, or in a circle."""
        self._graph = RefGraph(schema)
        self._order = self._graph.sort_topologically()
        self._rank = {id(node): rank for rank, node in enumerate(self._order)}
        self._root = self._apply([(schema, 1)])
        self._kept = 0
        self._max_part_cost = MAX_STEPS if self._graph.is_recursive else self._find_max_part_cost()

    def exceeds_limit(self, value: Any, text: str, max_steps: int = MAX_STEPS) -> bool:
        """Return whether checking a value takes more than `max_steps` steps; `text` is its JSON."""
        max_parts = 1 + sum(text.count(mark) for mark in ",[{")  # strings in it may contain more of them
        return self.takes_more_steps(value, max_parts, max_steps)

    def takes_more_steps(self, value: Any, max_parts: int, max_steps: int) -> bool:
        """Return whether checking a value takes more than `max_steps` steps; it has at most `max_parts` parts."""
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
                (part, count) for node, count in applied.counts for part in iter_subschemas(node, _CHILD_APPLICATORS)
            )
        return highest

    def _descend(self, applied: _AppliedSchemas, step: str | int) -> _AppliedSchemas:
        """Return what applies to one member or item of a value."""
        key: str | int | None = step if step in applied.property_names else None
        if isinstance(step, int):
            key = min(step, applied.prefix_length)
        child = applied.children.get(key)
        if child is None:
            child = self._apply(
                (part, count) for node, count in applied.counts for part in _select_subschemas(node, key)
            )
            if self._kept < MAX_KEPT:
                applied.children[key] = child
                self._kept += 1
        return child

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
