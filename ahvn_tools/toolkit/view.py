"""View: which tools of a catalog are shown to whom, and with which state they run."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from typing import Any, Final

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolkitError, ToolNotAvailableError, ToolNotFoundError, near_misses
from ahvn_tools.execution.call import Middleware
from ahvn_tools.execution.plan import Plan
from ahvn_tools.execution.sealed import Sealed
from ahvn_tools.mcp.remote import changed
from ahvn_tools.middleware.approve import approve
from ahvn_tools.toolkit.catalog import Catalog, Group, Switches
from ahvn_tools.toolkit.entry import BASIC, Entry
from ahvn_tools.toolkit.finish import Finish
from ahvn_tools.toolkit.selection import Selection

_making_an_id = threading.Lock()

_REMOVED: Final = Group(name="removed", number=-1)
"""Stands for a group that has just been removed with its tools: nobody has switched it on."""


class Holder(Switches):
    """What a toolkit or a session has of its own: a state, and what was switched in it."""

    __slots__ = ("_session_id", "state")

    def __init__(self, state: MutableMapping[str, Any], session_id: str | None = None) -> None:
        """Begin with no group switched."""
        super().__init__()
        self.state = state
        self._session_id = session_id

    @property
    def session_id(self) -> str:
        """The id that was given, or one that is made when it is first asked for."""
        with _making_an_id:  # two threads that ask at once are told the same
            if self._session_id is None:
                self._session_id = uuid.uuid4().hex
            return self._session_id


class View:
    """A catalog as one toolkit, session or selection sees it. It never changes."""

    __slots__ = ("catalog", "holder", "holders", "selections")

    def __init__(self, catalog: Catalog, holders: tuple[Holder, ...], selections: tuple[Selection, ...] = ()) -> None:
        """`holders`: the nearest first, the toolkit's own last. `selections`: all of them must admit a tool."""
        self.catalog = catalog
        self.holder = holders[0]
        self.holders = holders
        self.selections = selections

    @property
    def is_session(self) -> bool:
        """Whether a session is around it, or it is one."""
        return len(self.holders) > 1

    def session(self, holder: Holder) -> View:
        """Return the same view with a holder of its own."""
        return View(self.catalog, (holder, *self.holders), self.selections)

    def narrowed(self, selection: Selection) -> View:
        """Return the view of those tools that the selection admits, too. Raises ToolLookupError for its toolset."""
        if selection.toolset is not None:
            self.catalog.toolset(selection.toolset)
        return View(self.catalog, self.holders, (*self.selections, selection))

    def refuse_change(self, what: str) -> None:
        """Raise ToolkitError on a session or a selection: it changes nothing below it."""
        if self.is_session or self.selections:
            kind = "selection" if self.selections else "session"
            raise ToolkitError(f"A {kind} of a toolkit changes nothing below it: {what} on the toolkit itself.")

    def layers(self, entry: Entry) -> tuple[Mapping[str, Any], ...]:
        """Return the states that a call of a tool asks, in their order."""
        if len(self.holders) == 1:
            return (self.holder.state, *entry.spec.layers)
        return (*[holder.state for holder in self.holders], *entry.spec.layers)

    def sealed(self, entry: Entry) -> Sealed:
        """Return what the calls of a tool go by."""
        return entry.sealed(self.catalog.bindings, self.catalog.timeout)

    def middleware(self, entry: Entry, plan: Plan) -> tuple[Middleware, ...] | None:
        """Return what stands around a call, outermost first; None when it needs no more than its plan."""
        shared, own = () if entry.passes_on else self.catalog.middleware, entry.middleware
        if (finish := self.finish(entry)) is not None:
            own = (*own, finish.middleware)
        if entry.requires_approval is not False or plan.takes_context:
            return (*shared, approve(self.catalog.approver, when=entry.has_to_be_allowed), *own)
        return (*shared, *own) if shared or own else None

    def definition(self, entry: Entry) -> ToolDefinition:
        """Return what a model is shown of a tool."""
        own, finish = self.sealed(entry).definition, self.finish(entry)
        return own if finish is None else finish.definition(own)

    def finish(self, entry: Entry) -> Finish | None:
        """Return the model that a tool finishes with here."""
        for holder in self.holders:
            if holder.finishes and entry in holder.finishes:
                return holder.finishes[entry]
        return None

    def definitions(self) -> list[ToolDefinition]:
        """Return those of all tools, shown or not: what a model calls is to be known by its own name."""
        return [self.definition(entry) for entry in list(self.catalog.entries.values())]

    def is_active(self, group: str) -> bool:
        """Tell whether a group is switched on here."""
        if group == BASIC:
            return True
        defined = self.catalog.groups.get(group, _REMOVED)
        for holder in self.holders:
            if defined.number in holder.switched:
                return holder.switched[defined.number]
        return defined.is_active

    def switched(self) -> dict[str, bool]:
        """Return how groups were switched just here, by name."""
        switched = self.holder.switched
        groups = self.catalog.groups.values()
        return {group.name: switched[group.number] for group in groups if group.number in switched}

    def groups(self) -> dict[str, Group]:
        """Return the groups by name, active or not as they are here."""
        return {name: replace(group, is_active=self.is_active(name)) for name, group in self.catalog.groups.items()}

    def shows(self, entry: Entry) -> bool:
        """Tell whether a tool is listed and may be called."""
        return self.is_active(entry.group) and not (entry.is_imported and entry.is_changed) and self.admits(entry)

    def entries(self) -> Iterator[Entry]:
        """Yield the tools that are shown, in the order in which they were added."""
        return (entry for entry in list(self.catalog.entries.values()) if self.shows(entry))

    def admitted(self) -> Iterator[Entry]:
        """Yield the tools that the selections admit, those of groups that are not active among them."""
        return (entry for entry in list(self.catalog.entries.values()) if self.admits(entry))

    def find(self, name: str, *, hides: bool = False) -> Entry:
        """Return the tool to call. Raises ToolNotFoundError, or ToolNotAvailableError for one that is not shown.

        `hides`: whom a tool is not for is not told that there is one.
        """
        entry = self.catalog.entries.get(name)
        if entry is None or (hides and not self.admits(entry)):
            known = near_misses(str(name), [entry.name for entry in self.entries()])
            raise ToolNotFoundError(f"There is no tool {name!r}. {known}", tool=name)
        if entry.group != BASIC and not self.is_active(entry.group):
            raise ToolNotAvailableError(
                f"The tool {name!r} is not available: its group {entry.group!r} is not active.", tool=name
            )
        if self.selections and not hides and not self.admits(entry):
            raise ToolNotAvailableError(f"The tool {name!r} is not available {self._to_whom()}.", tool=name)
        if entry.is_imported and entry.is_changed:
            raise changed(name)
        return entry

    def admits(self, entry: Entry) -> bool:
        """Tell whether the selections let a tool through, whether or not its group is active."""
        for selection in self.selections:  # noqa: SIM110  # `all` takes twice as long, over thousands of tools
            if not self._admitted(selection, entry):
                return False
        return True

    def _admitted(self, selection: Selection, entry: Entry) -> bool:
        if selection.toolset is not None and not self._admitted(self.catalog.toolset(selection.toolset), entry):
            return False
        return selection.admits(entry, self.definition)

    def _to_whom(self) -> str:
        audiences = [selection.audience for selection in self.selections if selection.audience is not None]
        return f"to the audience {audiences[-1]!r}" if audiences else "in this selection"
