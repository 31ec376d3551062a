"""Findings: what each format would say of a tool before it is sent: what is lost, what is refused, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats.names import wire_name
from ahvn_tools.formats.tool import Strict, shown
from ahvn_tools.schema import dialect
from ahvn_tools.schema.closed import closed
from ahvn_tools.schema.dialect import Dialect
from ahvn_tools.schema.finding import Finding
from ahvn_tools.schema.strict import strict

LONG_DESCRIPTION = 1_024
"""Some of OpenAI's models and some hosts that speak like it take no longer description."""

_TAKES: Final[dict[str, tuple[Dialect, Strict | None]]] = {
    "anthropic": (dialect.ANTHROPIC, closed),
    "bedrock": (dialect.BEDROCK, closed),
    "gemini": (dialect.GEMINI, None),
    "mcp": (dialect.MCP, None),
    "mistral": (dialect.OPENAI, strict),
    "ollama": (dialect.OLLAMA, None),
    "openai": (dialect.OPENAI, strict),
    "openai-responses": (dialect.OPENAI, strict),
    "prompt": (dialect.OPENAI, None),
}
_COUNTS_CHARACTERS = frozenset({"openai", "openai-responses", "mistral"})


def findings(name: str, definition: ToolDefinition) -> list[Finding]:
    """Return what one of the package's own formats finds: first about the tool as a whole, then place by place."""
    spoken, make_strict = _TAKES[name]
    plain = shown(definition, spoken)
    found = [*_about_the_name(definition), *_about_the_description(name, definition), *plain.findings]
    if make_strict is not None:
        found += shown(definition, spoken, make_strict).findings
    return list(dict.fromkeys(found))


def _about_the_name(definition: ToolDefinition) -> Iterable[Finding]:
    wire = wire_name(definition.name)
    if wire != definition.name:
        yield Finding(
            severity="note",
            place="",
            problem=f"the model sees the name {wire!r}",
            fix="Use letters, digits, '_' and '-', a letter or '_' first, at most 64 in all.",
        )


def _about_the_description(name: str, definition: ToolDefinition) -> Iterable[Finding]:
    if name in _COUNTS_CHARACTERS and len(definition.description) > LONG_DESCRIPTION:
        yield Finding(
            severity="warning",
            place="",
            problem=f"the description has more than {LONG_DESCRIPTION:,} characters",
            fix="Shorten it: some models and hosts refuse the whole request.",
        )
