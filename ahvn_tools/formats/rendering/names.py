"""Names of tools as providers accept them: the same in every export, turn and process, and translated back.

A wire name depends only on the tool's own name, so no mapping has to be stored between an export and the response.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import DefinitionError, ToolLookupError, ToolSpecError, near_misses

MAX_NAME_LENGTH = 64
"""The limit of the strictest provider."""

CHOICE_MODES = ("auto", "none", "required")
"""The choices that are not a tool's name: the model decides, no call, at least one call."""

_VALID_NAME = re.compile(rf"[a-zA-Z_][a-zA-Z0-9_-]{{0,{MAX_NAME_LENGTH - 1}}}")
_INVALID_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")
_VALID_FIRST_CHARACTER = re.compile(r"[a-zA-Z_]")


def wire_name(name: str) -> str:
    """Return the name under which providers know a tool.

    >>> wire_name("search")
    'search'
    >>> wire_name("notes.search")
    'notes_search_ee3c0278'
    """
    if _VALID_NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    valid = _INVALID_CHARACTER.sub("_", name)
    if not _VALID_FIRST_CHARACTER.match(valid):
        valid = f"_{valid}"
    return f"{valid[: MAX_NAME_LENGTH - len(digest) - 1]}_{digest}"


def index_by_wire_name(definitions: Iterable[ToolDefinition]) -> dict[str, ToolDefinition]:
    """Return the definitions by wire name, in their order.

    Raises DefinitionError when two definitions share a wire name, and TypeError for any other object.
    """
    index: dict[str, ToolDefinition] = {}
    for definition in definitions:
        if not hasattr(definition, "memoize"):
            kind = type(definition).__name__
            raise TypeError(f"A format exports ToolDefinitions, not a {kind}. Pass `spec.definition`, or `spec.to(…)`.")
        wire = wire_name(definition.name)
        if wire in index:
            raise DefinitionError(
                f"The tools {index[wire].name!r} and {definition.name!r} would both be called {wire!r}. Rename one."
            )
        index[wire] = definition
    return index


def to_list(names: str | Iterable[str]) -> list[str]:
    """Return names as a list; a single string is one name."""
    return [names] if isinstance(names, str) else list(names)


def resolve_choice(tools: str | Sequence[str], definitions: Iterable[ToolDefinition] = ()) -> list[str]:
    """Return the wire names of the chosen tools, each once.

    Raises ToolSpecError when no tool is named, and ToolLookupError for a name that is not among the definitions, if
    there are any.
    """
    known = [definition.name for definition in definitions]
    names = to_list(tools)
    if not names or "" in names:
        raise ToolSpecError("The choice names no tool. Name at least one, or choose 'none'.")
    for name in names:
        if known and name not in known:
            raise ToolLookupError(f"There is no tool {name!r} to choose. {near_misses(name, known)}")
    return list(dict.fromkeys(map(wire_name, names)))


def resolve_single_choice(provider: str, tools: str | Sequence[str], definitions: Iterable[ToolDefinition]) -> str:
    """Return the wire name of the chosen tool. Raises as `resolve_choice`, and ToolSpecError for several tools."""
    name, *others = resolve_choice(tools, definitions)
    if others:
        raise ToolSpecError(
            f"{provider} can force one tool, not one of {[name, *others]!r}. Export only these and choose 'required'."
        )
    return name
