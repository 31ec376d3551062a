"""Callers: who may call each tool of an export, in the words of its provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolLookupError, ToolSpecError, near_misses
from ahvn_tools.formats.rendering.names import to_list
from ahvn_tools.results import DIRECT

AllowedCallers: TypeAlias = Sequence[str] | Mapping[str, str | Sequence[str]] | None
"""Who may call the tools of an export: all of them or, in a mapping, each by its name. None: what the provider does."""


def resolve_callers(
    allowed_callers: AllowedCallers, definitions: Iterable[ToolDefinition], provider_words: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return who may call each tool, by the tool's name; a tool that is not named is left out.

    `provider_words` are the provider's own words by those that are accepted. Raises ToolLookupError for a name that is
    not among the definitions, and ToolSpecError for an unknown caller and for none.
    """
    names = [definition.name for definition in definitions]
    if allowed_callers is None:
        return {}
    if not isinstance(allowed_callers, Mapping):
        callers = _to_provider_words(allowed_callers, provider_words)
        return {name: list(callers) for name in names}
    for name in allowed_callers:
        if name not in names:
            raise ToolLookupError(f"There is no tool {name!r} in this export. {near_misses(name, names)}")
    return {name: _to_provider_words(callers, provider_words) for name, callers in allowed_callers.items()}


def programmatic_names(callers: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Return the names of the tools that a program may call."""
    return frozenset(name for name, words in callers.items() if any(word != DIRECT for word in words))


def _to_provider_words(callers: str | Sequence[str], provider_words: Mapping[str, str]) -> list[str]:
    words = to_list(callers)
    if not words:
        raise ToolSpecError("`allowed_callers` names no caller. Leave it out, or name one of them.")
    for word in words:
        if word not in provider_words:
            raise ToolSpecError(f"There is no caller {word!r}. {near_misses(str(word), provider_words)}")
    return list(dict.fromkeys(provider_words[word] for word in words))
