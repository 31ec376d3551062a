"""Screening of a document's texts: what a model would read and a person would not see is escaped."""

from __future__ import annotations

from typing import Any

from ahvn_tools.errors import DefinitionError
from ahvn_tools.invisible import escape, find
from ahvn_tools.json_types import JsonObject

__all__ = ["escape", "screen"]


def screen(definition: JsonObject) -> JsonObject:
    """Return a definition with the invisible characters of all texts escaped.

    Raises DefinitionError for a member whose name has such characters: the server would not recognize another name.
    """
    screened: JsonObject = _screen(definition)
    return screened


def _screen(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, list):
        return [_screen(item) for item in value]
    if not isinstance(value, dict):
        return value
    for name in value:
        if characters := find(name):
            raise DefinitionError(f"the name of a member has invisible characters: {', '.join(characters)}.")
    return {name: _screen(item) for name, item in value.items()}
