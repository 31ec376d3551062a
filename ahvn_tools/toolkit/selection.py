"""Selection: which tools of a toolkit a view shows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypedDict

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.entry import Entry


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
    def of(cls, options: SelectionOptions) -> Selection:
        """Return the selection of these options. Raises ToolkitError for an unknown option, or a text for a list."""
        unknown = options.keys() - SelectionOptions.__annotations__.keys()
        if unknown:
            raise ToolkitError(f"Unknown options {sorted(unknown)}; select by {', '.join(cls.__dataclass_fields__)}.")
        for key in ("names", "tags", "groups"):
            if isinstance(options.get(key), str):
                raise ToolkitError(f"{key!r} of a selection is a list of names; put {options[key]!r} in one.")
        for key, name in (("audience", options.get("audience", "")), ("toolset", options.get("toolset", ""))):
            if not isinstance(name, str):
                raise ToolkitError(f"{key!r} of a selection is one name, not {name!r}.")
        return cls(
            names=_set(options.get("names")),
            tags=_set(options.get("tags")),
            groups=_set(options.get("groups")),
            audience=options.get("audience"),
            toolset=options.get("toolset"),
            where=options.get("where"),
        )

    def admits(self, entry: Entry, definition: Callable[[], ToolDefinition]) -> bool:
        """Tell whether a tool is shown; `definition` gives what it is shown as, when that is asked for."""
        return (
            (self.names is None or entry.name in self.names)
            and (self.tags is None or not self.tags.isdisjoint(entry.tags))
            and (self.groups is None or entry.group in self.groups)
            and (self.audience is None or not entry.audience or self.audience in entry.audience)
            and (self.where is None or bool(self.where(definition())))
        )


def _set(names: Collection[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)
