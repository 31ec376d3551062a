"""Dialects: the part of JSON Schema that a provider takes, and a schema said in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ahvn_tools.schema.finding import Finding

JsonObject = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What a provider takes of JSON Schema 2020-12; what it does not is said in the description."""


OPENAI = Dialect()
ANTHROPIC = Dialect()
GEMINI = Dialect()
GEMINI_PARAMETERS = Dialect()
BEDROCK = Dialect()
OLLAMA = Dialect()
MCP = Dialect()


def spoken(schema: JsonObject, dialect: Dialect) -> tuple[JsonObject, list[Finding]]:
    """Return a schema in standard form, changed in place, as the dialect says it, and what it loses by that."""
    return schema, []
