"""OpenAPI's way: types by one name each, null as a mark beside them, choices that stand alone."""

from __future__ import annotations

from typing import Any

from ahvn_tools.schema.dialects.describe import append_description
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.schema.refs import iter_schemas

JsonObject = dict[str, Any]

ANY_TYPE: tuple[JsonObject, ...] = (
    {"type": "string"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "object"},
    {"type": "array", "items": {"type": "string"}},
)
"""What stands for a value of any type: each schema needs one."""


def to_openapi(schema: JsonObject) -> tuple[JsonObject, list[Finding]]:
    """Return a schema without references, changed in place, as Gemini's `parameters` takes it; that loses nothing."""
    for node in reversed(list(iter_schemas(schema))):  # what is inside comes first, as it may move outwards
        _convert_node(node)
    return schema, []


def _convert_node(node: JsonObject) -> None:
    if not node.get("properties", True):
        del node["properties"]
    if not node.get("required", True):
        del node["required"]
    _split_types(node)
    _convert_null(node)
    if "type" not in node and "anyOf" not in node:
        node["anyOf"] = [{**branch} for branch in ANY_TYPE]
    if "anyOf" in node:
        _isolate_any_of(node)


def _split_types(node: JsonObject) -> None:
    types = node.get("type")
    if not isinstance(types, list):
        return
    others = [kind for kind in types if kind != "null"]
    if len(others) < len(types):
        node["nullable"] = True
    del node["type"]
    if len(others) == 1:
        node["type"] = others[0]
    elif "anyOf" not in node:
        node["anyOf"] = [_type_branch(kind, node) for kind in others]
        for key in ("items", "properties", "required", "enum"):
            node.pop(key, None)


def _type_branch(kind: str, node: JsonObject) -> JsonObject:
    """Return one branch for one of several types, with what belongs to that type."""
    keys = {"array": ("items",), "object": ("properties", "required")}.get(kind, ())
    return {"type": kind, **{key: node[key] for key in keys if key in node}}


def _convert_null(node: JsonObject) -> None:
    """Take null out of a choice; a choice that leaves one branch is no choice."""
    branches = node.get("anyOf", [])
    others = [branch for branch in branches if branch.get("type") != "null"]
    if not others or len(others) == len(branches):
        return
    node["anyOf"] = others
    node["nullable"] = True
    if len(others) == 1:
        (branch,) = node.pop("anyOf")
        said = node.pop("description", None)
        for key, value in branch.items():
            node.setdefault(key, value)
        prepend_description(node, said)


def _isolate_any_of(node: JsonObject) -> None:
    """Leave a choice alone in its schema: what stood beside it goes into each branch, and choices in it are its own."""
    branches = [inner for branch in node.pop("anyOf") for inner in branch.get("anyOf", [branch])]
    beside = {**node}
    said = beside.pop("description", None)
    node.clear()
    node["anyOf"] = [{**beside, **branch} for branch in branches]
    for branch in node["anyOf"]:
        prepend_description(branch, said)


def prepend_description(node: JsonObject, description: str | None) -> None:
    """Put a description before the one that a schema has."""
    if description:
        own = node.pop("description", None)
        node["description"] = description
        append_description(node, [own] if own else [])
