"""Options of single tools, by their names in a toolkit or by patterns of names."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping
from typing import Any

from ahvn_tools.errors import ToolkitError
from ahvn_tools.schema.argument_changes import ArgumentChange
from ahvn_tools.toolkit.entry_options import EntryOptions, refuse_unknown_options, to_name_set, validate_flag


class SingleToolOptions(EntryOptions, total=False):
    """The options of a single tool, instead of those of the server or the source that it comes from."""

    enabled: bool
    """False: the tool is left out."""
    title: str
    """The name that user interfaces display."""
    description: str
    """The description that models read."""
    annotations: Any
    """MCP's hints."""
    arguments: Mapping[str, ArgumentChange]
    """Changes of arguments: the argument's own name -> its new `name`, `description`, `default` and so on."""
    binds: Mapping[str, str]
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
            own["tags"] = to_name_set("tags of a tool", own["tags"]) | merged.get("tags", frozenset())
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
        refuse_unknown_options(single, SingleToolOptions)
        validate_flag(f"`enabled` of {name!r}", single.get("enabled", True))
        for option in _MERGED:
            if not isinstance(single.get(option, {}), Mapping):
                raise ToolkitError(f"`{option}` of {name!r} is a mapping, not a {type(single[option]).__name__}.")


def matches_name(pattern: str, name: str) -> bool:
    """Return whether a name is this one, or matches this pattern: a name may have brackets."""
    return name == pattern or fnmatch.fnmatchcase(name, pattern)


def is_pattern(name: str) -> bool:
    """Return whether a text is a pattern of names, and not a name."""
    return any(character in name for character in "*?[")
