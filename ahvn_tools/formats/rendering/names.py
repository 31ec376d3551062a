"""Names on the wire: made to fit every provider, the same in every export, turn and process, and translated back.

A name depends on nothing but the tool's own name, so no map has to be stored between an export and the answer to it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import DefinitionError, ToolLookupError, ToolSpecError, near_misses

MAX_NAME_LENGTH = 64
"""What the strictest provider allows."""

CHOICE_MODES = ("auto", "none", "required")
"""The choices that are no tool's name: as the model likes, no call, at least one call."""

_VALID_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
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
    fitting = _INVALID_CHARACTER.sub("_", name)
    if not _VALID_FIRST_CHARACTER.match(fitting):
        fitting = f"_{fitting}"
    return f"{fitting[: MAX_NAME_LENGTH - len(digest) - 1]}_{digest}"


def index_by_wire_name(definitions: Iterable[ToolDefinition]) -> dict[str, ToolDefinition]:
    """Return the definitions in their order, under their wire names.

    Raises DefinitionError when two share one, TypeError for what is no definition.
    """
    found: dict[str, ToolDefinition] = {}
    for definition in definitions:
        if not hasattr(definition, "memoize"):
            kind = type(definition).__name__
            raise TypeError(f"A format takes ToolDefinitions, not a {kind}. Pass `spec.definition`, or `spec.to(…)`.")
        wire = wire_name(definition.name)
        if wire in found:
            raise DefinitionError(
                f"The tools {found[wire].name!r} and {definition.name!r} would both be called {wire!r}. Rename one."
            )
        found[wire] = definition
    return found


def to_list(words: str | Iterable[str]) -> list[str]:
    """Return words as a list; one word alone is one, and not its letters."""
    return [words] if isinstance(words, str) else list(words)


def select_wire_names(tools: bool | Collection[str], known: dict[str, ToolDefinition]) -> list[str]:
    """Return the wire names of the tools that an option is for: all, none, or those of these names.

    Raises ToolLookupError for a name that is not among the `known`.
    """
    if isinstance(tools, bool):
        return list(known) if tools else []
    wanted, names = to_list(tools), [definition.name for definition in known.values()]
    for name in wanted:
        if name not in names:
            raise ToolLookupError(f"There is no tool {name!r} in this export. {near_misses(name, names)}")
    return [wire for wire, definition in known.items() if definition.name in wanted]


def resolve_choice(tools: str | Sequence[str], definitions: Iterable[ToolDefinition] = ()) -> list[str]:
    """Return the wire names of the tools asked for, each once.

    Raises ToolLookupError for a tool that is not among the definitions, where some are given.
    """
    known = [definition.name for definition in definitions]
    names = to_list(tools)
    if not names or "" in names:
        raise ToolSpecError("No tool is named to choose from. Name one, or choose 'none'.")
    for name in names:
        if known and name not in known:
            raise ToolLookupError(f"There is no tool {name!r} to choose. {near_misses(name, known)}")
    return list(dict.fromkeys(map(wire_name, names)))
