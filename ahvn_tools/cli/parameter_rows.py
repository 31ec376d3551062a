"""The parameters of a tool as rows: nested objects are listed member by member, with the path of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from ahvn_tools.cli.tool_facts import type_text
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.refs import resolve_ref
from ahvn_tools.signature import python_type

HEADINGS: Final = ("parameter", "type", "default", "rules", "description")

MAX_DEPTH = 8
"""How many nested objects and lists are listed."""

_RULES: Final = {
    "minimum": "at least {}", "exclusiveMinimum": "more than {}", "maximum": "at most {}",
    "exclusiveMaximum": "less than {}", "multipleOf": "a multiple of {}", "minLength": "at least {} characters",
    "maxLength": "at most {} characters", "pattern": "matches {}", "format": "{}", "minItems": "at least {} items",
    "maxItems": "at most {} items", "uniqueItems": "no item twice",
}  # fmt: skip


Row = tuple[str, str, str, str, str]


def parameter_rows(schema: JsonObject) -> list[Row]:
    """Return a row for each parameter, and for each member of an object in it: `lines[].color`.

    An object that contains others of its own kind is listed once.
    """
    return list(_member_rows(schema, _Position(root=schema)))


@dataclass(frozen=True, kw_only=True)
class _Position:
    """Where in a schema the members of an object are."""

    root: JsonObject
    prefix: str = ""
    references: tuple[Any, ...] = ()
    """The references that lead here; None for a step without one."""

    def inside(self, node: Any, prefix: str) -> tuple[JsonObject, _Position] | None:
        """Return a part of the schema and its position; None for no schema and for one that is listed already."""
        if not isinstance(node, dict) or len(self.references) > MAX_DEPTH:
            return None
        reference = node.get("$ref")
        if reference is not None and reference in self.references:
            return None
        inner = replace(self, prefix=prefix, references=(*self.references, reference))
        return resolve_ref(node, self.root), inner


def _member_rows(node: JsonObject, position: _Position) -> Iterator[Row]:
    required = node.get("required") or ()
    for name, member in (node.get("properties") or {}).items():
        place = f"{position.prefix}{name}"
        resolved = resolve_ref(member, position.root) if isinstance(member, dict) else {}
        kind = type_text(python_type(resolved, position.root))
        yield place, kind, _default(resolved, name in required), _rules(resolved), _text(resolved)
        yield from _inner_rows(member, position, place)


def _inner_rows(node: Any, position: _Position, place: str) -> Iterator[Row]:
    """Yield the members of an object, of the items of a list, and of each alternative."""
    found = position.inside(node, f"{place}.")
    if found is None:
        return
    resolved, inner = found
    yield from _member_rows(resolved, inner)
    yield from _inner_rows(resolved.get("items"), inner, f"{place}[]")
    yield from _inner_rows(resolved.get("additionalProperties"), inner, f"{place}.*")
    for keyword in ("anyOf", "oneOf", "allOf"):
        for part in resolved.get(keyword) or ():
            yield from _inner_rows(part, inner, place)


def _default(node: JsonObject, is_required: bool) -> str:
    if is_required:
        return "required"
    return json.dumps(node["default"], ensure_ascii=False) if "default" in node else ""


def _rules(node: JsonObject) -> str:
    rules = [text.format(node[key]) for key, text in _RULES.items() if node.get(key) not in (None, False)]
    return ", ".join(rules)


def _text(node: JsonObject) -> str:
    return str(node.get("description") or node.get("title") or "")
