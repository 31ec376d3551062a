"""References: every `$ref` of a schema made to lead to `#` or to a plain name in `$defs`, and followed.

Nothing is ever fetched: a reference that leads out of the schema leads nowhere.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from ahvn_tools.schema.titles import iter_subschemas

JsonObject = dict[str, Any]

DEFS_PREFIX = "#/$defs/"

MAX_COPIED = 20_000
"""So many schemas are copied into `$defs` for references that lead elsewhere; further ones lead nowhere."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9_.-]+")


def iter_schemas(schema: JsonObject) -> Iterator[JsonObject]:
    """Yield a schema and all schemas in it."""
    pending = [schema]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(iter_subschemas(node))


def normalize_refs(schema: JsonObject) -> dict[str, str]:
    """Return where each reference of a schema shall lead. What they lead to is put in its `$defs`, changed in place.

    A reference that leads nowhere is not among them.
    """
    found = dict.fromkeys(node["$ref"] for node in iter_schemas(schema) if isinstance(node.get("$ref"), str))
    if not isinstance(schema.get("$defs", {}), dict):
        del schema["$defs"]
    leads: dict[str, str] = {}
    left = MAX_COPIED
    for reference in found:
        if _is_normalized(reference, schema):
            leads[reference] = reference
            continue
        target = _resolve_pointer(reference, schema)
        left -= sum(1 for _ in iter_schemas(target)) if isinstance(target, dict) else 0
        if isinstance(target, dict) and left >= 0:
            name = _unused_name(reference, schema)
            schema.setdefault("$defs", {})[name] = copy.deepcopy(target)
            leads[reference] = DEFS_PREFIX + name
    return leads


def resolve_ref(node: JsonObject, root: JsonObject) -> JsonObject:
    """Return a schema with what its `$ref` leads to, and what that one leads to, put in its place."""
    seen: set[str] = set()
    while isinstance(reference := node.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        target = root.get("$defs", {}).get(reference.removeprefix(DEFS_PREFIX))
        if not isinstance(target, dict):
            break
        node = {**copy.deepcopy(target), **{key: value for key, value in node.items() if key != "$ref"}}
    return node


def collect_refs(node: Any) -> set[str]:
    """Return the references in a schema."""
    return {here["$ref"] for here in iter_schemas(node) if "$ref" in here} if isinstance(node, dict) else set()


def find_cyclic_refs(schema: JsonObject) -> set[str]:
    """Return the references of a settled schema that lead back to where they came from."""
    graph = {DEFS_PREFIX + name: collect_refs(node) for name, node in schema.get("$defs", {}).items()}
    if not graph and "#" not in collect_refs(schema):
        return set()
    graph["#"] = collect_refs({key: value for key, value in schema.items() if key != "$defs"})
    while ends := {name for name, leads in graph.items() if not leads & graph.keys()}:
        graph = {name: leads for name, leads in graph.items() if name not in ends}
    return {name for name in graph if name in _reachable(name, graph)}


def _reachable(name: str, graph: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    pending = [name]
    while pending:
        new = graph.get(pending.pop(), set()) - found
        found |= new
        pending.extend(new)
    return found


def _is_normalized(reference: str, schema: JsonObject) -> bool:
    name = reference.removeprefix(DEFS_PREFIX)
    return reference == "#" or (
        name != reference
        and _PLAIN_NAME.fullmatch(name) is not None
        and isinstance(schema.get("$defs", {}).get(name), dict)
    )


def _resolve_pointer(reference: str, schema: JsonObject) -> Any:
    """Return what stands under a JSON pointer or an anchor of the schema; None when nothing does."""
    if not reference.startswith("#/"):
        name = reference.removeprefix("#")
        return next((node for node in iter_schemas(schema) if name != reference and node.get("$anchor") == name), None)
    here: Any = schema
    for step in reference.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(here, list) and name.isdecimal() and int(name) < len(here):
            here = here[int(name)]
        else:
            here = here.get(name) if isinstance(here, dict) else None
    return here


def _unused_name(reference: str, schema: JsonObject) -> str:
    """Return a name for `$defs` that is free, made of the last part of a reference."""
    last = unquote(reference).replace("~1", "/").rpartition("/")[2]
    wanted = name = _UNSAFE_CHARACTERS.sub("_", last).strip("_") or "schema"
    number = 1
    while name in schema.get("$defs", {}):
        number += 1
        name = f"{wanted}_{number}"
    return name
