"""LoadedParts: a toolkit as it was when its manifest had just been loaded, to find out what has changed since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from ahvn_tools.binding import Binding
from ahvn_tools.execution.call import Middleware
from ahvn_tools.toolkit import Toolkit
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.selection import Group, Toolset


@dataclass(frozen=True, kw_only=True)
class LoadedTool:
    """A tool as it was loaded."""

    tags: frozenset[str]
    bindings: Mapping[str, Binding]
    """Those of this tool alone."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LoadedParts:
    """The parts of a toolkit that its methods change."""

    name: str
    tools: Mapping[Entry, LoadedTool]
    groups: Mapping[str, Group]
    toolsets: Mapping[str, Toolset]
    bindings: Mapping[str, Binding]
    middleware: tuple[Middleware, ...]
    servers: frozenset[str]
    max_concurrency: int

    @classmethod
    def of(cls, toolkit: Toolkit) -> Self:
        """Return the parts of a toolkit as they are now."""
        view = toolkit._view  # noqa: SLF001  # of this package
        store = view.store
        entries = store.entries.values()
        return cls(
            name=toolkit.name,
            tools={entry: LoadedTool(tags=entry.tags, bindings=entry.own_bindings) for entry in entries},
            groups=view.groups(),
            toolsets=store.toolsets,
            bindings=store.bindings,
            middleware=store.middleware,
            servers=frozenset(store.imported_servers),
            max_concurrency=store.max_concurrency,
        )
