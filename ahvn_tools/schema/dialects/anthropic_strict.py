"""Schemas for Anthropic's strict tools: objects are closed, and optional members stay optional.

What the strict grammar does not enforce is in the description; the tool itself still enforces it.
"""

from __future__ import annotations

from typing import Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.dialect import Dialect
from ahvn_tools.schema.dialects.finding import NOT_STRICT, Finding
from ahvn_tools.schema.dialects.flatten_root import add_missing_properties
from ahvn_tools.schema.dialects.strict import to_strict
from ahvn_tools.schema.dialects.translate import translate
from ahvn_tools.schema.keywords import iter_schemas, type_names
from ahvn_tools.schema.refs import DEFS_PREFIX, find_cyclic_refs

_STRICT_DIALECT: Final = Dialect(
    keywords=frozenset({
        "type", "description", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
        "$ref", "$defs", "format",
    }),
    formats=frozenset({
        "date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid",
    }),
    requires_bare_references=True,
)  # fmt: skip


def to_anthropic_strict(schema: JsonObject) -> tuple[JsonObject | None, list[Finding]]:
    """Return the strict form of an object schema and what it only describes, or None and why it cannot be strict."""
    strict, reasons = to_strict(schema)
    reasons = [*([] if strict else reasons), *_find_reasons(schema)]
    if reasons:
        return None, reasons
    translated, losses = translate(schema, _STRICT_DIALECT)
    for node in iter_schemas(add_missing_properties(translated)):
        if "object" in type_names(node):
            node["additionalProperties"] = False
    return translated, losses


def _find_reasons(schema: JsonObject) -> list[Finding]:
    """Return what Anthropic's strict tools do not accept although OpenAI's do."""
    paths = ("" if ref == "#" else f"$defs.{ref.removeprefix(DEFS_PREFIX)}" for ref in sorted(find_cyclic_refs(schema)))
    reasons = [
        Finding(severity="note", place=path, problem="it is recursive", fix="Limit its nesting.", rule=NOT_STRICT)
        for path in paths
    ]
    if any("allOf" in node for node in iter_schemas(schema)):
        problem, fix = "'allOf' is not allowed", "Make it one schema."
        reasons.append(Finding(severity="note", place="", problem=problem, fix=fix, rule=NOT_STRICT))
    return reasons
