"""Closed schemas as Anthropic's strict tools want them: no unnamed members, optional ones stay optional.

What a strict grammar does not enforce there is told in the description; the tool itself still does.
"""

from __future__ import annotations

import json
from typing import Any

from ahvn_tools.schema.finding import Finding
from ahvn_tools.schema.root import every
from ahvn_tools.schema.strict import strict

JsonObject = dict[str, Any]

_KEPT_FORMATS = frozenset({
    "date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid",
})  # fmt: skip
_TOLD = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
    "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "minContains", "maxContains", "default",
)  # fmt: skip
_DROPPED = ("title", "examples", "discriminator", "deprecated", "readOnly", "writeOnly")


def closed(schema: JsonObject) -> tuple[JsonObject, list[Finding]]:
    """Return the closed form of an object schema, changed in place, and no reasons; or it untouched, and why not."""
    _, reasons = strict(schema)
    fix = "It goes out without strict."
    reasons += [
        Finding(severity="note", place=name, problem="it contains itself", fix=fix) for name in _recursive(schema)
    ]
    if any("allOf" in node for node in every(schema)):
        reasons.append(Finding(severity="note", place="", problem="'allOf' is not allowed", fix=fix))
    if reasons:
        return schema, reasons
    for node in list(every(schema)):
        _close(node)
    return schema, []


def _close(node: JsonObject) -> None:
    types = node.get("type", ())
    if "object" in ([types] if isinstance(types, str) else types):
        node.setdefault("properties", {})
        node["additionalProperties"] = False
    for key in _DROPPED:
        node.pop(key, None)
    if node.get("default", ...) is None:
        del node["default"]
    told = [f"{key}: {json.dumps(node.pop(key), ensure_ascii=False)}." for key in _TOLD if key in node]
    if "format" in node and node["format"] not in _KEPT_FORMATS:
        told.append(f"format: {node.pop('format')}.")
    if told:
        node["description"] = " ".join([*([node["description"]] if node.get("description") else []), *told])
    if "oneOf" in node:
        node["anyOf"] = node.pop("oneOf")
    if "$ref" in node and len(node) > 1:
        node["anyOf"] = [{"$ref": node.pop("$ref")}]


def _recursive(schema: JsonObject) -> list[str]:
    """Return the definitions that lead back to themselves; `#` is the root."""
    open_ends = {f"#/$defs/{name}": _references(node) for name, node in schema.get("$defs", {}).items()}
    open_ends["#"] = _references({key: value for key, value in schema.items() if key != "$defs"})
    while done := {name for name, leads_to in open_ends.items() if not leads_to & open_ends.keys()}:
        open_ends = {name: leads_to for name, leads_to in open_ends.items() if name not in done}
    return [name for name, leads_to in open_ends.items() if name in _reach(name, open_ends)]


def _reach(name: str, graph: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    pending = [name]
    while pending:
        new = graph.get(pending.pop(), set()) - found
        found |= new
        pending.extend(new)
    return found


def _references(node: JsonObject) -> set[str]:
    return {here["$ref"] for here in every(node) if isinstance(here.get("$ref"), str)}
