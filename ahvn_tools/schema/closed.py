"""Closed schemas as Anthropic's strict tools want them: no unnamed members, optional ones stay optional.

What a strict grammar does not enforce there is told in the description; the tool itself still does.
"""

from __future__ import annotations

from typing import Any

from ahvn_tools.schema.finding import Finding
from ahvn_tools.schema.references import cycles, every
from ahvn_tools.schema.strict import strict
from ahvn_tools.schema.telling import tell, text

JsonObject = dict[str, Any]

_KEPT_FORMATS = frozenset({
    "date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid",
})  # fmt: skip
_TOLD = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
    "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "minContains", "maxContains",
    "contentEncoding", "contentMediaType", "contentSchema",
)  # fmt: skip
_KEPT = frozenset({
    "type", "description", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
    "oneOf", "$ref", "$defs", "format",
})  # fmt: skip


def closed(schema: JsonObject) -> tuple[JsonObject, list[Finding]]:
    """Return the closed form of an object schema, changed in place, and no reasons; or it untouched, and why not."""
    _, reasons = strict(schema)
    reasons += [
        Finding(severity="note", place=name, problem="it contains itself", fix="Limit how deep it nests.")
        for name in sorted(cycles(schema))
    ]
    if any("allOf" in node for node in every(schema)):
        reasons.append(Finding(severity="note", place="", problem="'allOf' is not allowed", fix="Make it one schema."))
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
    rules = [f"{key}: {text(node[key])}." for key in _TOLD if node.get(key) is not None]
    if node.get("format", "uuid") not in _KEPT_FORMATS:
        rules.append(f"format: {node.pop('format')}.")
    if node.get("default") is not None:
        rules.append(f"Default: {text(node['default'])}.")
    tell(node, rules)
    for key in node.keys() - _KEPT:
        del node[key]
    if "oneOf" in node:
        node["anyOf"] = node.pop("oneOf")
    if "$ref" in node and len(node) > 1:
        node["anyOf"] = [{"$ref": node.pop("$ref")}]
