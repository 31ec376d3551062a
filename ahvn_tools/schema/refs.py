"""References in a schema: normalized so that every `$ref` leads to `#` or to a plain name in `$defs`, and resolved.

Nothing is ever fetched: a reference to another document leads nowhere.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Container, Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import iter_objects, iter_schemas

DEFS_PREFIX = "#/$defs/"

MAX_COPIED = 20_000
"""At most this many schemas are copied into `$defs` as targets of references; further references lead nowhere."""

_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9_.-]+")


def resolve_pointer(root: Any, reference: str) -> Any:
    """Return the target of a reference by JSON pointer (`#`, `#/$defs/x`); None when it leads nowhere.

    Steps are percent-decoded and may be list indices (RFC 6901). A reference by anchor (`#name`) leads nowhere here.
    """
    start, *steps = reference.split("/")
    if start != "#":
        return None
    node = root
    for step in steps:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            node = node[int(name)] if _ARRAY_INDEX.fullmatch(name) and int(name) < len(node) else None
        else:
            node = node.get(name) if isinstance(node, dict) else None
    return node


def normalize_refs(schema: JsonObject) -> dict[str, str]:
    """Return the normalized form of each reference in a schema; a reference that leads nowhere has none.

    Targets outside `$defs` are copied into it: the schema is changed in place.
    """
    references = dict.fromkeys(node["$ref"] for node in iter_schemas(schema) if isinstance(node.get("$ref"), str))
    if not isinstance(schema.get("$defs", {}), dict):
        del schema["$defs"]
    normalized: dict[str, str] = {}
    remaining = MAX_COPIED
    for reference in references:
        if _is_normalized(reference, schema):
            normalized[reference] = reference
            continue
        target = resolve_pointer(schema, reference)
        target = _find_anchor(schema, reference) if target is None else target
        remaining -= sum(1 for _ in iter_schemas(target)) if isinstance(target, dict) else 0
        if isinstance(target, dict) and remaining >= 0:
            name = _unused_name(reference, schema)
            schema.setdefault("$defs", {})[name] = copy.deepcopy(target)
            normalized[reference] = DEFS_PREFIX + name
    return normalized


def resolve_ref(node: JsonObject, root: JsonObject) -> JsonObject:
    """Return a schema with its `$ref` replaced by the target, whose own `$ref` is replaced, too."""
    seen: set[str] = set()
    while isinstance(reference := node.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        target = root.get("$defs", {}).get(reference.removeprefix(DEFS_PREFIX))
        if not isinstance(target, dict):
            break
        node = {**copy.deepcopy(target), **{key: value for key, value in node.items() if key != "$ref"}}
    return node


def find_cyclic_refs(schema: JsonObject) -> set[str]:
    """Return the references of a normalized schema whose targets contain themselves."""
    root = {key: value for key, value in schema.items() if key != "$defs"}
    graph = {DEFS_PREFIX + name: _collect_refs(node) for name, node in schema.get("$defs", {}).items()}
    graph["#"] = _collect_refs(root)
    return _find_cyclic_nodes(graph)


def without_properties(schema: JsonObject, names: Iterable[str]) -> JsonObject:
    """Remove some properties of an object schema, and the definitions that only they use, in place."""
    names = frozenset(names)
    if not names:
        return schema
    for name in names:
        schema.get("properties", {}).pop(name, None)
    if "required" in schema:
        schema["required"] = [name for name in schema["required"] if name not in names]
        if not schema["required"]:
            del schema["required"]
    return without_unused_definitions(schema)


def rename_definitions(schema: JsonObject, names: Mapping[str, str]) -> JsonObject:
    """Return a copy of a normalized schema with new names for some definitions. `names`: old -> new."""
    references = {DEFS_PREFIX + name: DEFS_PREFIX + new for name, new in names.items()}
    renamed = copy.deepcopy(schema)
    for node in iter_objects(renamed):
        for key, value in node.items():  # a `$ref`, or an entry of the mapping of a discriminator
            if isinstance(value, str) and value in references:
                node[key] = references[value]
    definitions = renamed.get("$defs", {})
    return {**renamed, "$defs": {names.get(name, name): node for name, node in definitions.items()}}


def without_unused_definitions(schema: JsonObject) -> JsonObject:
    """Remove, in place, the `$defs` that no reference leads to; return the schema."""
    definitions = schema.pop("$defs", None)
    if definitions:
        graph = {name: _referenced_definitions(node) for name, node in definitions.items()}
        used = _reachable(_referenced_definitions(schema), graph)
        if used:
            schema["$defs"] = {name: node for name, node in definitions.items() if name in used}
    return schema


def _reachable(names: Iterable[str], graph: Mapping[str, Iterable[str]]) -> set[str]:
    reached: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name in graph and name not in reached:
            reached.add(name)
            pending.extend(graph[name])
    return reached


def _find_cyclic_nodes(graph: Mapping[str, set[str]]) -> set[str]:
    """Return the nodes that lead back to themselves: those of the strongly connected components that have an edge.

    Kosaraju's algorithm, without recursion: a chain of references may be longer than Python's stack.
    """
    sources: dict[str, list[str]] = {node: [] for node in graph}
    for node, targets in graph.items():
        for target in targets & graph.keys():
            sources[target].append(node)
    cyclic: set[str] = set()
    for node in reversed(_sort_by_completion(graph)):
        component: list[str] = []
        pending = [node]
        while pending:
            member = pending.pop()
            if member in sources:
                component.append(member)
                pending.extend(sources.pop(member))
        if len(component) > 1 or node in graph[node]:
            cyclic.update(component)
    return cyclic


def _sort_by_completion(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the nodes in the order in which a depth-first search leaves them."""
    ordered: list[str] = []
    entered: set[str] = set()
    pending = [(node, False) for node in graph]
    while pending:
        node, is_complete = pending.pop()
        if is_complete:
            ordered.append(node)
        elif node not in entered:
            entered.add(node)
            pending.append((node, True))
            pending.extend((target, False) for target in graph[node] if target in graph)
    return ordered


def _collect_refs(node: Any) -> set[str]:
    return {here["$ref"] for here in iter_schemas(node) if "$ref" in here} if isinstance(node, dict) else set()


def _referenced_definitions(node: Any) -> set[str]:
    references = [here.get("$ref") for here in iter_objects(node)]
    return {
        reference.split("/")[2].replace("~1", "/").replace("~0", "~")
        for reference in references
        if isinstance(reference, str) and reference.startswith(DEFS_PREFIX)
    }


def _is_normalized(reference: str, schema: JsonObject) -> bool:
    name = reference.removeprefix(DEFS_PREFIX)
    return reference == "#" or (
        name != reference
        and _PLAIN_NAME.fullmatch(name) is not None
        and isinstance(schema.get("$defs", {}).get(name), dict)
    )


def _find_anchor(schema: JsonObject, reference: str) -> Any:
    nodes = iter_schemas(schema) if reference.startswith("#") and len(reference) > 1 else ()
    return next((node for node in nodes if node.get("$anchor") == reference[1:]), None)


def _unused_name(reference: str, schema: JsonObject) -> str:
    """Return an unused name for `$defs`, made from the last step of a reference."""
    last = unquote(reference).replace("~1", "/").rpartition("/")[2]
    return unused_name(_UNSAFE_CHARACTERS.sub("_", last).strip("_") or "schema", schema.get("$defs", {}))


def unused_name(wanted: str, taken: Container[str]) -> str:
    """Return a name that is not taken: the wanted one, or that with a number."""
    numbered = (f"{wanted}_{number}" for number in itertools.count(2))
    return wanted if wanted not in taken else next(name for name in numbered if name not in taken)
