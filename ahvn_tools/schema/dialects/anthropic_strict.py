"""Closed schemas as Anthropic's strict tools want them: no unnamed members, optional ones stay optional.

What a strict grammar does not enforce there is told in the description; the tool itself still does.
"""

from __future__ import annotations

from typing import Any, Final

from ahvn_tools.schema.dialects.dialect import Dialect, translate
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.schema.dialects.strict import to_strict
from ahvn_tools.schema.refs import DEFS_PREFIX, find_cyclic_refs, iter_schemas

JsonObject = dict[str, Any]

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
    """Return the closed form of an object schema, and what it tells only; or None, and why it cannot be closed."""
    made, reasons = to_strict(schema)
    reasons = [*([] if made else reasons), *_blocking_findings(schema)]
    if reasons:
        return None, reasons
    made, losses = translate(schema, _STRICT_DIALECT)
    for node in iter_schemas(made):
        types = node.get("type", ())
        if "object" in ([types] if isinstance(types, str) else types):
            node.setdefault("properties", {})
            node["additionalProperties"] = False
    return made, losses


def _blocking_findings(schema: JsonObject) -> list[Finding]:
    """Return what this grammar does not take, and OpenAI's does."""
    found = [
        Finding(
            severity="note",
            place=_definition_path(reference),
            problem="it contains itself",
            fix="Limit how deep it nests.",
        )
        for reference in sorted(find_cyclic_refs(schema))
    ]
    if any("allOf" in node for node in iter_schemas(schema)):
        found.append(Finding(severity="note", place="", problem="'allOf' is not allowed", fix="Make it one schema."))
    return found


def _definition_path(reference: str) -> str:
    return "" if reference == "#" else f"$defs.{reference.removeprefix(DEFS_PREFIX)}"
