"""Schemas as OpenAPI 3.0 writes them: one type each, null as `nullable`, and `anyOf` without sibling keywords."""

from __future__ import annotations

import copy

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.description import append_description
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.schema.dialects.normalize import drop_irrelevant_keywords
from ahvn_tools.schema.keywords import iter_schemas, type_names

ANY_TYPE: tuple[JsonObject, ...] = (
    {"type": "string"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "object"},
    {"type": "array", "items": {"anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "object")]}},
)
"""The branches of a schema that accepts any type, as each schema needs a type. `translate` reports what they refuse."""


def to_openapi(schema: JsonObject) -> tuple[JsonObject, list[Finding]]:
    """Convert a schema without references, in place, to the form of Gemini's `parameters`. This loses nothing."""
    for node in reversed(list(iter_schemas(schema))):  # inner schemas first: their keywords may move outwards
        _convert_node(node)
    return schema, []


def _convert_node(node: JsonObject) -> None:
    for key in ("properties", "required"):
        if not node.get(key, True):
            del node[key]
    _split_types(node)
    _convert_null(node)
    if "anyOf" in node:
        _isolate_any_of(node)


def _split_types(node: JsonObject) -> None:
    """Write several types, or none, as one branch for each."""
    types = type_names(node)
    if "anyOf" in node or isinstance(node.get("type"), str):
        return
    if "null" in types:
        node["nullable"] = True
    others = [kind for kind in types if kind != "null"]
    if "enum" in node:  # its values are texts
        others = ["string"]
    node.pop("type", None)
    if len(others) == 1:
        node["type"] = others[0]
        drop_irrelevant_keywords(node)
        return
    rules = {key: node.pop(key) for key in [*node] if key not in {"description", "nullable"}}
    branches = [{"type": kind} for kind in others] if types else copy.deepcopy(ANY_TYPE)
    node["anyOf"] = [{**branch, **rules} for branch in branches]
    for branch in node["anyOf"]:
        drop_irrelevant_keywords(branch)


def _convert_null(node: JsonObject) -> None:
    """Replace the null branch of a union by `nullable`; a union of one branch becomes that branch."""
    branches = node.get("anyOf", [])
    others = [branch for branch in branches if branch.get("type") != "null"]
    if not others or len(others) == len(branches):
        return
    node["anyOf"] = others
    node["nullable"] = True
    if len(others) == 1:
        (branch,) = node.pop("anyOf")
        merged = {**branch, **node}
        node.update(_with_description(merged, node.get("description"), branch.get("description")))


def _isolate_any_of(node: JsonObject) -> None:
    """Move the sibling keywords of a union into its branches, and replace nested unions by their branches."""
    branches = [inner for branch in node.pop("anyOf") for inner in branch.get("anyOf", [branch])]
    siblings = {**node}
    node.clear()
    node["anyOf"] = [
        _with_description({**siblings, **branch}, siblings.get("description"), branch.get("description"))
        for branch in branches
    ]


def _with_description(node: JsonObject, *sentences: str | None) -> JsonObject:
    node.pop("description", None)
    append_description(node, sentences)
    return node
