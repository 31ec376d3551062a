"""Screening of a document's texts: what a model would read and a person would not see is escaped."""

from __future__ import annotations

from typing import Any

from ahvn_tools.errors import DefinitionError
from ahvn_tools.invisible import escape, find
from ahvn_tools.json_types import JsonObject
from ahvn_tools.sources.budget import Budget

__all__ = ["escape", "screen"]


def screen(definition: JsonObject, budget: Budget) -> JsonObject:
    """Return a definition with the invisible characters of all texts escaped.

    The copy is taken from the budget. Raises DefinitionError for a member whose name has such characters: the server
    would not recognize another name.
    """
    screened: JsonObject = _screen(definition, budget)
    return screened


def _screen(value: Any, budget: Budget) -> Any:
    if isinstance(value, str):
        budget.spend(0, len(value))
        return escape(value)
    if isinstance(value, list):
        budget.spend(1 + len(value))
        return [_screen(item, budget) for item in value]
    if not isinstance(value, dict):
        return value
    budget.spend(1 + len(value), sum(map(len, value)))
    if isinstance(pattern := value.get("pattern"), str):  # each tool compiles its own
        budget.spend_pattern(pattern)
    for name in value:
        if characters := find(name):
            raise DefinitionError(f"the name of a member has invisible characters: {', '.join(characters)}.")
    return {name: _screen(item, budget) for name, item in value.items()}
