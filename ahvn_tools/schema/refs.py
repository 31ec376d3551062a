"""References in a schema: normalized so that every `$ref` leads to `#` or to a plain name in `$defs`, and resolved.

Nothing is ever fetched: a reference to another document leads nowhere.
"""

from __future__ import annotations

import bisect
import copy
import functools
import re
from collections.abc import Container, Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import iter_objects, iter_schemas

DEFS_PREFIX = "#/$defs/"

MAX_COPIED = 20_000
"""At most this many schemas are copied into `$defs` as targets of references; further references lead nowhere."""

_Definition = tuple[str, str]
"""The keyword and the name of a definition."""
_DEFINITION_KEYWORDS = ("definitions", "$defs")
_DEFINITION_PREFIXES = tuple(f"#/{keyword}/" for keyword in _DEFINITION_KEYWORDS)
_REF_KEYWORDS = ("$ref", "$dynamicRef")
_ANCHOR_KEYWORDS = ("$anchor", "$dynamicAnchor")
_OLD_ANCHOR_KEYWORDS = ("$id", "id")
"""Before draft 2019-09 an anchor is an id that begins with `#`."""
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


class ReferenceTargets:
    """The schemas to which references lead: by JSON pointer or by anchor."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root

    def find(self, reference: Any) -> Any:
        """Return a schema; None when the reference leads nowhere, or to two schemas with one anchor."""
        if not isinstance(reference, str):
            return None
        is_pointer = reference == "#" or reference.startswith("#/")
        target = resolve_pointer(self._root, reference) if is_pointer else self._anchors.get(unquote(reference))
        return target if isinstance(target, dict | bool) else None

    @functools.cached_property
    def has_other_bases(self) -> bool:
        """Whether a part has its own `$id`: what references lead to depends on where they are."""
        keywords = {"$id", "id"} if "draft-04" in str(self._root.get("$schema")) else {"$id"}
        parts = (node for node in iter_objects(self._root) if node is not self._root)
        return any(isinstance(node.get(keyword), str) for node in parts for keyword in keywords)

    @functools.cached_property
    def _anchors(self) -> dict[str, JsonObject | None]:
        anchors: dict[str, JsonObject | None] = {}
        for node in iter_schemas(self._root):
            names = [f"#{node[keyword]}" for keyword in _ANCHOR_KEYWORDS if isinstance(node.get(keyword), str)]
            names += [id_ for keyword in _OLD_ANCHOR_KEYWORDS if (id_ := str(node.get(keyword))).startswith("#")]
            for name in names:
                anchors[name] = None if anchors.get(name, node) is not node else node
        return anchors


def normalize_refs(schema: JsonObject) -> dict[str, str]:
    """Return the normalized form of each reference in a schema; a reference that leads nowhere has none.

    Targets outside `$defs` are copied into it: the schema is changed in place.
    """
    references = dict.fromkeys(node["$ref"] for node in iter_schemas(schema) if isinstance(node.get("$ref"), str))
    if not isinstance(schema.get("$defs", {}), dict):
        del schema["$defs"]
    normalized: dict[str, str] = {}
    remaining = MAX_COPIED
    copied: dict[int, str] = {}
    """The references to the copies, by the id of the target: one target may have many references."""
    for reference in references:
        if _is_normalized(reference, schema):
            normalized[reference] = reference
            continue
        target = resolve_pointer(schema, reference)
        target = _find_anchor(schema, reference) if target is None else target
        if id(target) in copied:
            normalized[reference] = copied[id(target)]
            continue
        remaining -= sum(1 for _ in iter_schemas(target)) if isinstance(target, dict) else 0
        if isinstance(target, dict) and remaining >= 0:
            name = _unused_name(reference, schema)
            schema.setdefault("$defs", {})[name] = copy.deepcopy(target)
            normalized[reference] = copied[id(target)] = DEFS_PREFIX + name
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
    """Remove, in place, the `$defs` and `definitions` that no reference leads to; return the schema."""
    groups = {keyword: schema.pop(keyword, None) or {} for keyword in _DEFINITION_KEYWORDS}
    nodes = {(keyword, name): node for keyword, group in groups.items() for name, node in group.items()}
    if nodes:
        anchors = {
            here[keyword]: key
            for key, node in nodes.items()
            for here in iter_objects(node)
            for keyword in _ANCHOR_KEYWORDS
            if isinstance(here.get(keyword), str)
        }
        graph = {key: _referenced_definitions(node, anchors) for key, node in nodes.items()}
        used = _reachable(_referenced_definitions(schema, anchors), graph)
        for keyword, group in groups.items():
            if kept := {name: node for name, node in group.items() if (keyword, name) in used}:
                schema[keyword] = kept
    return schema


def _reachable(names: Iterable[_Definition], graph: Mapping[_Definition, Iterable[_Definition]]) -> set[_Definition]:
    reached: set[_Definition] = set()
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


def _referenced_definitions(node: Any, anchors: Mapping[str, _Definition]) -> set[_Definition]:
    """Return the definitions to which references lead, or into which they lead."""
    found = set()
    for here in iter_objects(node):
        for keyword in _REF_KEYWORDS:
            reference = here.get(keyword)
            if isinstance(reference, str) and reference[1:] in anchors:
                found.add(anchors[reference[1:]])
            elif isinstance(reference, str) and reference.startswith(_DEFINITION_PREFIXES):
                _, group, name, *_ = reference.split("/")
                found.add((group, unquote(name).replace("~1", "/").replace("~0", "~")))
    return found


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
    if wanted not in taken:
        return wanted
    high = 2
    while f"{wanted}_{high}" in taken:
        high *= 2
    number = bisect.bisect_left(range(high), True, 2, key=lambda number: f"{wanted}_{number}" not in taken)
    return f"{wanted}_{number}"
