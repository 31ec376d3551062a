"""Selection: which tools of a toolkit a view shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypedDict

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.entry import Entry, to_name_set


class SelectionOptions(TypedDict, total=False):
    """What `select` and `toolset` take. A tool is shown when all that is given admits it."""

    names: Collection[str]
    """The names that it may have."""
    tags: Collection[str]
    """It has at least one of these."""
    groups: Collection[str]
    """It is in one of these."""
    audience: str
    """It is for this audience, or for everyone."""
    toolset: str
    """The selection saved under this name admits it."""
    where: Callable[[ToolDefinition], bool]
    """Asked last, with what a model would be shown."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """A condition on tools. None asks for nothing."""

    names: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    groups: frozenset[str] | None = None
    audience: str | None = None
    toolset: str | None = None
    where: Callable[[ToolDefinition], bool] | None = None

    @classmethod
    def from_options(cls, options: SelectionOptions) -> Selection:
        """Return the selection of these options. Raises ToolkitError for an unknown option, or a text for a list."""
        unknown = options.keys() - SelectionOptions.__annotations__.keys()
        if unknown:
            raise ToolkitError(f"Unknown options {sorted(unknown)}; select by {', '.join(cls.__dataclass_fields__)}.")
        for key, name in (("audience", options.get("audience", "")), ("toolset", options.get("toolset", ""))):
            if not isinstance(name, str):
                raise ToolkitError(f"{key!r} of a selection is one name, not {name!r}.")
        if (where := options.get("where")) is not None and not callable(where):
            raise ToolkitError(f"'where' of a selection is a function of the definition, not {where!r}.")
        return cls(
            names=_to_optional_name_set("names", options.get("names")),
            tags=_to_optional_name_set("tags", options.get("tags")),
            groups=_to_optional_name_set("groups", options.get("groups")),
            audience=options.get("audience"),
            toolset=options.get("toolset"),
            where=where,
        )

    def matches(self, entry: Entry, definition: Callable[[Entry], ToolDefinition]) -> bool:
        """Tell whether a tool is shown; `definition` tells what it is shown as, when that is asked for."""
        return (
            (self.names is None or entry.name in self.names)
            and (self.tags is None or not self.tags.isdisjoint(entry.tags))
            and (self.groups is None or entry.group in self.groups)
            and (self.audience is None or not entry.audience or self.audience in entry.audience)
            and (self.where is None or bool(self.where(definition(entry))))
        )


def _to_optional_name_set(key: str, names: Any) -> frozenset[str] | None:
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ToolkitError(f"{key!r} of a selection is a list of names; put {names!r} in one.")
    return to_name_set(f"{key} of a selection", names)
