"""Closed schemas as Anthropic's strict tools want them: no unnamed members, optional ones stay optional.

What a strict grammar does not enforce there is told in the description; the tool itself still does.
"""

from __future__ import annotations

from typing import Any, Final

from ahvn_tools.schema.dialect import Dialect, spoken
from ahvn_tools.schema.finding import Finding
from ahvn_tools.schema.references import PREFIX, cycles, every
from ahvn_tools.schema.strict import strict

JsonObject = dict[str, Any]

_GRAMMAR: Final = Dialect(
    keywords=frozenset({
        "type", "description", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
        "$ref", "$defs", "format",
    }),
    formats=frozenset({
        "date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid",
    }),
    has_bare_references=True,
)  # fmt: skip


def closed(schema: JsonObject) -> tuple[JsonObject | None, list[Finding]]:
    """Return the closed form of an object schema, and what it tells only; or None, and why it cannot be closed."""
    made, reasons = strict(schema)
    reasons = [*([] if made else reasons), *_reasons(schema)]
    if reasons:
        return None, reasons
    made, losses = spoken(schema, _GRAMMAR)
    for node in every(made):
        types = node.get("type", ())
        if "object" in ([types] if isinstance(types, str) else types):
            node.setdefault("properties", {})
            node["additionalProperties"] = False
    return made, losses


def _reasons(schema: JsonObject) -> list[Finding]:
    """Return what this grammar does not take, and OpenAI's does."""
    found = [
        Finding(severity="note", place=_place(reference), problem="it contains itself", fix="Limit how deep it nests.")
        for reference in sorted(cycles(schema))
    ]
    if any("allOf" in node for node in every(schema)):
        found.append(Finding(severity="note", place="", problem="'allOf' is not allowed", fix="Make it one schema."))
    return found


def _place(reference: str) -> str:
    return "" if reference == "#" else f"$defs.{reference.removeprefix(PREFIX)}"
