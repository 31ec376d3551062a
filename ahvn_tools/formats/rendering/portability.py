"""Findings: what each format would say of a tool before it is sent: what is lost, what is refused, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats.rendering.names import wire_name
from ahvn_tools.formats.rendering.tool import StrictConverter, export_tool
from ahvn_tools.schema.dialects import dialect
from ahvn_tools.schema.dialects.anthropic_strict import to_anthropic_strict
from ahvn_tools.schema.dialects.dialect import Dialect
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.schema.dialects.strict import to_strict

MAX_DESCRIPTION_CHARS = 1_024
"""Some of OpenAI's models and some hosts that speak like it take no longer description."""

_DIALECTS: Final[dict[str, tuple[Dialect, StrictConverter | None]]] = {
    "anthropic": (dialect.ANTHROPIC, to_anthropic_strict),
    "bedrock": (dialect.BEDROCK, to_anthropic_strict),
    "gemini": (dialect.GEMINI, None),
    "mcp": (dialect.MCP, None),
    "mistral": (dialect.OPENAI, to_strict),
    "ollama": (dialect.OLLAMA, None),
    "openai": (dialect.OPENAI, to_strict),
    "openai-responses": (dialect.OPENAI, to_strict),
    "prompt": (dialect.OPENAI, None),
}
_FORMATS_WITH_DESCRIPTION_LIMIT = frozenset({"openai", "openai-responses", "mistral"})


def findings(name: str, definition: ToolDefinition) -> list[Finding]:
    """Return what one of the package's own formats finds: first about the tool as a whole, then place by place."""
    spoken, make_strict = _DIALECTS[name]
    plain = export_tool(definition, spoken)
    found = [*_check_name(definition), *_check_description(name, definition), *plain.findings]
    if make_strict is not None:
        found += export_tool(definition, spoken, make_strict).findings
    return list(dict.fromkeys(found))


def _check_name(definition: ToolDefinition) -> Iterable[Finding]:
    wire = wire_name(definition.name)
    if wire != definition.name:
        yield Finding(
            severity="note",
            place="",
            problem=f"the model sees the name {wire!r}",
            fix="Use letters, digits, '_' and '-', a letter or '_' first, at most 64 in all.",
        )


def _check_description(name: str, definition: ToolDefinition) -> Iterable[Finding]:
    if name in _FORMATS_WITH_DESCRIPTION_LIMIT and len(definition.description) > MAX_DESCRIPTION_CHARS:
        yield Finding(
            severity="warning",
            place="",
            problem=f"the description has more than {MAX_DESCRIPTION_CHARS:,} characters",
            fix="Shorten it: some models and hosts refuse the whole request.",
        )
