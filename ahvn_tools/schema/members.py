"""The members of the objects in a schema, at any depth, for texts that list them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.refs import resolve_ref

MAX_STEPS = 20
"""How many objects, lists and alternatives may be around a member that is listed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """A member of an object."""

    name: str
    place: str
    """Its path: `order.lines[].color`, with `*` for a name that callers choose."""
    depth: int
    """How many members it is in."""
    node: JsonObject
    """Its schema, with a `$ref` resolved."""
    is_required: bool
    same_as: str
    """The member below which those of this one are listed, because both have one definition; usually empty."""


def members(schema: JsonObject) -> Iterator[Member]:
    """Yield the members of an object, each followed by its own; those of one definition are yielded once."""
    yield from _Walk(schema).inside(schema, "", "", 0, 0)


class _Walk:
    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._listed: dict[str, str] = {}
        """Where the members of a definition are listed, by its reference."""

    def inside(self, node: Any, owner: str, path: str, depth: int, steps: int) -> Iterator[Member]:
        """Yield the members of a schema, of its items and of its alternatives; `owner` is the member that has it."""
        if not isinstance(node, dict) or steps > MAX_STEPS:
            return
        if (reference := node.get("$ref")) is not None:
            if reference in self._listed:
                return
            self._listed[reference] = owner
        node = resolve_ref(node, self._root)
        required, prefix = node.get("required") or (), f"{path}." if path else ""
        for name, member in (node.get("properties") or {}).items():
            place = f"{prefix}{name}"
            yield Member(
                name=name,
                place=place,
                depth=depth,
                node=resolve_ref(member, self._root) if isinstance(member, dict) else {},
                is_required=name in required,
                same_as=self._find_listed(member, steps),
            )
            yield from self.inside(member, place, place, depth + 1, steps + 1)
        for mark, part in _parts(node):
            yield from self.inside(part, owner, f"{path}{mark}" if path else mark.strip("."), depth, steps + 1)

    def _find_listed(self, node: Any, steps: int) -> str:
        """Return the member below which the members of a schema are listed already; empty if they are not."""
        if not isinstance(node, dict) or steps > MAX_STEPS:
            return ""
        if (reference := node.get("$ref")) is not None:
            return self._listed.get(reference, "")
        return next(filter(None, (self._find_listed(part, steps + 1) for _, part in _parts(node))), "")


def _parts(node: JsonObject) -> Iterator[tuple[str, Any]]:
    """Yield the schemas of the values in a value, and of its alternatives, each with its part of the path."""
    yield "[]", node.get("items")
    yield ".*", node.get("additionalProperties")
    for index, part in enumerate(node.get("prefixItems") or ()):
        yield f"[{index}]", part
    for keyword in ("anyOf", "oneOf", "allOf"):
        for part in node.get(keyword) or ():
            yield "", part
