"""Options of single tools, by their names in a toolkit or by patterns of names.

The checks stand in the annotations and are read from there: this module has no `from __future__ import annotations`.
"""

import fnmatch
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from ahvn_tools.errors import ToolkitError
from ahvn_tools.schema.argument_changes import ArgumentChange
from ahvn_tools.settings import FLAG, TEXT
from ahvn_tools.toolkit.entry_options import EntryOptions, mapping_of, refuse_unknown_options, to_names


class SingleToolOptions(EntryOptions, total=False):
    """The options of a single tool, instead of those of the server or the source that it comes from."""

    enabled: Annotated[bool, FLAG]
    """False: the tool is left out."""
    title: Annotated[str, TEXT]
    """The name that user interfaces display."""
    description: Annotated[str, TEXT]
    """The description that models read."""
    annotations: Any
    """MCP's hints."""
    arguments: Annotated[Mapping[str, ArgumentChange], mapping_of("a mapping, argument -> its changes")]
    """Changes of arguments: the argument's own name -> its new `name`, `description`, `default` and so on."""
    binds: Annotated[Mapping[str, str], mapping_of("a mapping, parameter -> state key")]
    """Parameters that are filled from the state: parameter -> dotted state key."""


_MERGED = ("arguments", "binds", "preset")
"""Options that are mappings: those of several patterns apply."""

DEFINITION_OPTIONS = frozenset({"title", "description", "annotations", "arguments"})
"""Options that change the definition."""


def options_of_tool(
    tools: Mapping[str, SingleToolOptions], name: str, parameters: Collection[str]
) -> SingleToolOptions:
    """Return the options of a tool; those of later patterns have priority, and their tags are added.

    A preset or a bind of a pattern applies only where the tool has the parameter.
    """
    merged: dict[str, Any] = {}
    for pattern, options in tools.items():
        if not matches_name(pattern, name):
            continue
        own: dict[str, Any] = {**options}
        for key in ("binds", "preset"):
            if key in own and is_pattern(pattern):
                own[key] = {parameter: value for parameter, value in own[key].items() if parameter in parameters}
        for key in _MERGED:
            if key in own:
                own[key] = {**merged.get(key, {}), **own[key]}
        if "tags" in own:
            own["tags"] = to_names(own["tags"]) | merged.get("tags", frozenset())
        merged.update(own)
    return merged  # type: ignore[return-value]  # of the same keys


def validate_single_options(tools: Any) -> None:
    """Raise ToolkitError unless `tools` is a mapping, name or pattern -> options."""
    if not (
        isinstance(tools, Mapping)
        and all(isinstance(name, str) and isinstance(single, Mapping) for name, single in tools.items())
    ):
        raise ToolkitError('`tools` of a server is a mapping by tool: {"get_*": {"timeout": 5}}.')
    for name, single in tools.items():
        try:
            refuse_unknown_options(single, SingleToolOptions)
        except ToolkitError as error:
            raise ToolkitError(f"{name!r}: {error}") from None


def matches_name(pattern: str, name: str) -> bool:
    """Return whether a name is this one, or matches this pattern: a name may have brackets."""
    return name == pattern or fnmatch.fnmatchcase(name, pattern)


def is_pattern(name: str) -> bool:
    """Return whether a text is a pattern of names, and not a name."""
    return any(character in name for character in "*?[")
