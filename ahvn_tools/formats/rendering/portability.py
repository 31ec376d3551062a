"""Findings about a tool's name and description, which no schema contains."""

from __future__ import annotations

from collections.abc import Iterator

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats.rendering.names import MAX_NAME_LENGTH, wire_name
from ahvn_tools.schema.dialects.finding import Finding

MAX_DESCRIPTION_CHARS = 1_024
"""The limit of some OpenAI models, and of some hosts with OpenAI's API."""


def check_texts(definition: ToolDefinition, max_description_chars: int | None = None) -> Iterator[Finding]:
    """Yield a finding for a name that providers see in another form, and one for a description over the limit."""
    wire = wire_name(definition.name)
    if wire != definition.name:
        yield Finding(
            severity="note",
            place="",
            problem=f"the model sees the name {wire!r}",
            fix=f"Use only letters, digits, '_' and '-', start with a letter or '_', at most {MAX_NAME_LENGTH} in all.",
        )
    if max_description_chars is not None and len(definition.description) > max_description_chars:
        yield Finding(
            severity="warning",
            place="",
            problem=f"the description has more than {max_description_chars:,} characters",
            fix="Shorten it: some models and hosts refuse the whole request.",
        )
