"""Budgets: how large a server's definition may be, and the counting, which costs no more than the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ahvn_tools.redaction import clip
from ahvn_tools.schema.ref_graph import RefGraph

JsonObject = dict[str, Any]

_MAX_TYPE_NAME_CHARS = 50


class RefusedToolError(Exception):  # not an error of ours: the reason why a tool may not come in
    """Why a tool may not come in."""


@dataclass(frozen=True, kw_only=True)
class Budgets:
    """What one server may send. A tool over a budget is refused."""

    tools: int = 10_000
    """So many tools."""
    total_bytes: int = 32 * 1024 * 1024
    """So many bytes, all tools together."""
    tool_bytes: int = 256 * 1024
    """So many bytes, one tool."""
    depth: int = 64
    """So many levels of JSON, one inside the other."""
    properties: int = 2_000
    """So many properties declared in one schema, at any depth."""
    nodes: int = 20_000
    """So many schemas in one schema when every `$ref` is replaced by what it leads to, as a validator walks it."""


def check_size(raw: Any, budgets: Budgets) -> int:
    """Return the size of a wire object in bytes, roughly. Raises Refused for what is too large, too deep or no JSON."""
    size = 0
    pending: list[tuple[Any, int]] = [(raw, 1)]
    while pending:
        value, depth = pending.pop()
        size += _count_bytes(value)
        if size > budgets.tool_bytes:
            raise RefusedToolError(f"it has more than {budgets.tool_bytes} bytes")
        if not isinstance(value, dict | list):
            continue
        if depth > budgets.depth:
            raise RefusedToolError(f"it nests more than {budgets.depth} levels deep")
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        if isinstance(value, dict) and not all(isinstance(name, str) for name in value):
            raise RefusedToolError("it holds a member whose name is no text")
        pending.extend((part, depth + 1) for part in parts)
    return size


def check_schema(schema: JsonObject, budgets: Budgets) -> None:
    """Raise Refused for a schema with too many properties or nodes.

    Raises DefinitionError for one with a reference that leads out of it, to nothing, or round in a circle.
    """
    expansion = RefGraph(schema)
    if expansion.property_count > budgets.properties:
        raise RefusedToolError(f"it declares more than {budgets.properties} properties")
    if expansion.count_schemas(budgets.nodes) > budgets.nodes:
        raise RefusedToolError(f"it has more than {budgets.nodes} schemas when its references are expanded")


def _count_bytes(value: Any) -> int:
    """Return how many bytes a value takes, but for what is in it: of that, at least how many."""
    if isinstance(value, str):
        return 2 + (len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass")))
    if isinstance(value, dict | list):
        return 2 + len(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise RefusedToolError("it holds NaN or Infinity, which are no JSON")
    if value is None or isinstance(value, bool | int | float):
        return 4 + (value.bit_length() // 4 if isinstance(value, int) else 0)
    raise RefusedToolError(f"it holds a {clip(type(value).__name__, _MAX_TYPE_NAME_CHARS)}, which is no JSON")
