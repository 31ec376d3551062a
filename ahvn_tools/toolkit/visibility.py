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
from ahvn_tools.execution.compiled import CompiledTool
from ahvn_tools.execution.plan import Plan
from ahvn_tools.mcp.client.remote_tool import tool_changed_error
from ahvn_tools.middleware.approve import approve
from ahvn_tools.toolkit.entry import BASIC_GROUP, Entry
from ahvn_tools.toolkit.selection import Selection
from ahvn_tools.toolkit.store import Group, GroupSwitches, ToolStore
from ahvn_tools.toolkit.structured_output import StructuredOutput

_session_id_lock = threading.Lock()

_REMOVED_GROUP: Final = Group(name="removed", unique_id=-1)
"""Stands for a group that has just been removed with its tools: nobody has switched it on."""


class SessionState(GroupSwitches):
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
        with _session_id_lock:  # two threads that ask at once are told the same
            if self._session_id is None:
                self._session_id = uuid.uuid4().hex
            return self._session_id


class StoreView:
    """A catalog as one toolkit, session or selection sees it. It never changes."""

    __slots__ = ("selections", "session_state", "session_states", "store")

    def __init__(
        self, store: ToolStore, session_states: tuple[SessionState, ...], selections: tuple[Selection, ...] = ()
    ) -> None:
        """`holders`: the nearest first, the toolkit's own last. `selections`: all of them must admit a tool."""
        self.store = store
        self.session_state = session_states[0]
        self.session_states = session_states
        self.selections = selections

    @property
    def is_session(self) -> bool:
        """Whether a session is around it, or it is one."""
        return len(self.session_states) > 1

    def session(self, session_state: SessionState) -> StoreView:
        """Return the same view with a holder of its own."""
        return StoreView(self.store, (session_state, *self.session_states), self.selections)

    def select(self, selection: Selection) -> StoreView:
        """Return the view of those tools that the selection admits, too. Raises ToolLookupError for its toolset."""
        if selection.toolset is not None:
            self.store.toolset(selection.toolset)
        return StoreView(self.store, self.session_states, (*self.selections, selection))

    def refuse_change(self, action: str) -> None:
        """Raise ToolkitError on a session or a selection: it changes nothing below it."""
        if self.is_session or self.selections:
            kind = "selection" if self.selections else "session"
            raise ToolkitError(f"A {kind} of a toolkit changes nothing below it: {action} on the toolkit itself.")

    def state_scopes(self, entry: Entry) -> tuple[Mapping[str, Any], ...]:
        """Return the states that a call of a tool asks, in their order."""
        if len(self.session_states) == 1:
            return (self.session_state.state, *entry.spec.state_scopes)
        return (*[holder.state for holder in self.session_states], *entry.spec.state_scopes)

    def compiled_tool(self, entry: Entry) -> CompiledTool:
        """Return what the calls of a tool go by."""
        return entry.compiled_tool(self.store.bindings, self.store.timeout)

    def middleware(self, entry: Entry, plan: Plan) -> tuple[Middleware, ...] | None:
        """Return what stands around a call, outermost first; None when it needs no more than its plan."""
        shared, own = () if entry.delegates else self.store.middleware, entry.middleware
        if (finish := self.structured_output(entry)) is not None:
            own = (*own, finish.middleware)
        if entry.requires_approval is not False or plan.takes_context:
            return (*shared, approve(self.store.approver, when=entry.requires_approval_for), *own)
        return (*shared, *own) if shared or own else None

    def definition(self, entry: Entry) -> ToolDefinition:
        """Return what a model is shown of a tool."""
        own, finish = self.compiled_tool(entry).definition, self.structured_output(entry)
        return own if finish is None else finish.definition(own)

    def structured_output(self, entry: Entry) -> StructuredOutput | None:
        """Return the model that a tool finishes with here."""
        for holder in self.session_states:
            if holder.structured_outputs and entry in holder.structured_outputs:
                return holder.structured_outputs[entry]
        return None

    def definitions(self) -> list[ToolDefinition]:
        """Return those of all tools, shown or not: what a model calls is to be known by its own name."""
        return [self.definition(entry) for entry in list(self.store.entries.values())]

    def is_active(self, group: str) -> bool:
        """Tell whether a group is switched on here."""
        if group == BASIC_GROUP:
            return True
        defined = self.store.groups.get(group, _REMOVED_GROUP)
        for holder in self.session_states:
            if defined.unique_id in holder.group_overrides:
                return holder.group_overrides[defined.unique_id]
        return defined.is_active

    def group_overrides(self) -> dict[str, bool]:
        """Return how groups were switched just here, by name."""
        switched = self.session_state.group_overrides
        groups = self.store.groups.values()
        return {group.name: switched[group.unique_id] for group in groups if group.unique_id in switched}

    def groups(self) -> dict[str, Group]:
        """Return the groups by name, active or not as they are here."""
        return {name: replace(group, is_active=self.is_active(name)) for name, group in self.store.groups.items()}

    def is_visible(self, entry: Entry) -> bool:
        """Tell whether a tool is listed and may be called."""
        return self.is_active(entry.group) and not (entry.is_imported and entry.is_changed) and self.is_selected(entry)

    def visible_entries(self) -> Iterator[Entry]:
        """Yield the tools that are shown, in the order in which they were added."""
        return (entry for entry in list(self.store.entries.values()) if self.is_visible(entry))

    def selected_entries(self) -> Iterator[Entry]:
        """Yield the tools that the selections admit, those of groups that are not active among them."""
        return (entry for entry in list(self.store.entries.values()) if self.is_selected(entry))

    def find(self, name: str, *, hides_unselected: bool = False) -> Entry:
        """Return the tool to call. Raises ToolNotFoundError, or ToolNotAvailableError for one that is not shown.

        `hides`: whom a tool is not for is not told that there is one.
        """
        entry = self.store.entries.get(name)
        if entry is None or (hides_unselected and not self.is_selected(entry)):
            known = near_misses(str(name), [entry.name for entry in self.visible_entries()])
            raise ToolNotFoundError(f"There is no tool {name!r}. {known}", tool=name)
        if entry.group != BASIC_GROUP and not self.is_active(entry.group):
            raise ToolNotAvailableError(
                f"The tool {name!r} is not available: its group {entry.group!r} is not active.", tool=name
            )
        if self.selections and not hides_unselected and not self.is_selected(entry):
            raise ToolNotAvailableError(f"The tool {name!r} is not available {self._audience_text()}.", tool=name)
        if entry.is_imported and entry.is_changed:
            raise tool_changed_error(name)
        return entry

    def is_selected(self, entry: Entry) -> bool:
        """Tell whether the selections let a tool through, whether or not its group is active."""
        for selection in self.selections:  # noqa: SIM110  # `all` takes twice as long, over thousands of tools
            if not self._matches(selection, entry):
                return False
        return True

    def _matches(self, selection: Selection, entry: Entry) -> bool:
        if selection.toolset is not None and not self._matches(self.store.toolset(selection.toolset), entry):
            return False
        return selection.matches(entry, self.definition)

    def _audience_text(self) -> str:
        audiences = [selection.audience for selection in self.selections if selection.audience is not None]
        return f"to the audience {audiences[-1]!r}" if audiences else "in this selection"
