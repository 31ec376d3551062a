"""StoreView: the tools of a store that one toolkit, session or selection shows."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolkitError
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.toolkit.background_calls import BackgroundCalls, session_ended_error
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.entry_options import BASIC_GROUP
from ahvn_tools.toolkit.search import rank_names
from ahvn_tools.toolkit.selection import Group, Selection
from ahvn_tools.toolkit.sessions import SessionState
from ahvn_tools.toolkit.store import ToolkitSkill, ToolStore

if TYPE_CHECKING:
    from ahvn_tools.toolkit.approval_rules import Mode
    from ahvn_tools.toolkit.structured_output import StructuredOutput
    from ahvn_tools.toolkit.tool_rules import ToolRules

_MAX_DESCRIBED_GROUPS = 32
"""How many texts the tool that switches groups keeps, one for each set of active groups."""


@dataclass(slots=True, eq=False, repr=False)  # `frozen` costs a quarter of opening a session
class StoreView:
    """A store as one toolkit, session or selection sees it. Nothing changes one."""

    store: ToolStore
    session_states: tuple[SessionState, ...]
    """The innermost first, the toolkit's last."""
    selections: tuple[Selection, ...] = ()
    """A visible tool matches all of them."""
    selects_inactive: bool = False
    """Whether it contains tools of inactive groups, too, as the toolkit itself does."""
    has_all_audiences: bool = False
    """Whether a session has the tools for every audience, as the toolkit itself does."""
    held_calls: BackgroundCalls | weakref.ref[BackgroundCalls] = field(default_factory=BackgroundCalls)
    """The background calls of the session."""
    roots: tuple[Path, ...] | None = None
    """The folders that tools may use; None if the host has not said so."""

    @property
    def session_state(self) -> SessionState:
        """The state of the innermost session."""
        return self.session_states[0]

    @property
    def background_calls(self) -> BackgroundCalls:
        """The background calls of the session. Raises ToolkitError in a call that has outlived its session."""
        calls = self.held_calls
        found = calls() if isinstance(calls, weakref.ref) else calls
        if found is None:
            raise session_ended_error()
        return found

    def secret_values(self) -> Iterator[tuple[str, Any]]:
        """Yield the secret values that the tools have bound here, by parameter: reports of each call mask them."""
        store, states = self.store, tuple(session.state for session in self.session_states)
        revision = (store.tools_revision, store.bindings_revision)
        return store.secret_bindings.read(store.entries.values(), store.bindings, store.timeout, revision, states)

    @property
    def lasting_ids(self) -> tuple[str, ...] | None:
        """The ids by which the host opens this session again, also in another process; None for any other session."""
        sessions = self.session_states[:-1]
        is_lasting = bool(sessions) and all(session.background_calls is not None for session in sessions)
        return tuple(session.session_id for session in sessions) if is_lasting else None

    @property
    def is_session(self) -> bool:
        """Whether this is a session, or a selection of one."""
        return len(self.session_states) > 1

    @property
    def is_toolkit(self) -> bool:
        """Whether this is the toolkit itself."""
        return not (self.is_session or self.selections)

    def session(
        self,
        session_state: SessionState,
        background_calls: BackgroundCalls | None = None,
        roots: tuple[Path, ...] | None = None,
    ) -> StoreView:
        """Return this view with one more session state; `background_calls` are those of the session, if it has any."""
        return StoreView(  # twice as fast as `replace`: a host opens a session for each request
            self.store,
            (session_state, *self.session_states),
            self.selections,
            self.selects_inactive,
            self.has_all_audiences,
            background_calls or BackgroundCalls(),
            self.roots if roots is None else roots,
        )

    def with_all_audiences(self) -> StoreView:
        """Return this view, whose sessions have the tools for every audience that its selections do not leave out."""
        return replace(self, has_all_audiences=True)

    def without_session(self) -> StoreView:
        """Return this view for a background call, which does not keep its session's background calls alive."""
        calls = self.held_calls
        return self if isinstance(calls, weakref.ref) else replace(self, held_calls=weakref.ref(calls))

    def select(self, selection: Selection, *, inactive: bool = False) -> StoreView:
        """Return this view with one more selection.

        Raises ToolLookupError for its toolsets, ToolkitError for an audience with a toolkit of its own.
        """
        _refuse_separate_audiences(self.store, selection)
        for name in selection.toolset_names():
            self.store.toolset(name)
        selections = (*self.selections, selection)
        return replace(self, selections=selections, selects_inactive=inactive or self.selects_inactive)

    def including(self, names: Iterable[str]) -> StoreView:
        """Return this view with these tools, whether or not they match its selections."""
        return replace(self, selections=tuple(selection.including(names) for selection in self.selections))

    def refuse_change(self, action: str) -> None:
        """Raise ToolkitError on a session or a selection: only the toolkit itself can be changed."""
        if not self.is_toolkit:
            kind = "selection" if self.selections else "session"
            raise ToolkitError(f"A {kind} cannot change the toolkit: {action} on the toolkit itself.")

    def compiled_tool(self, entry: Entry) -> CompiledTool:
        """Return the compiled tool for calls here. The tool that switches groups has those that are here."""
        compiled = entry.compiled_tool(self.store.bindings, self.store.timeout)
        if not entry.switches_groups or not (hidden := self.hidden_groups()):
            return compiled
        parameters = compiled.template.inputs.parameters.values()
        return compiled.without_parameters(frozenset(p.name for p in parameters if p.property_name in hidden))

    def definition(self, entry: Entry) -> ToolDefinition:
        """Return the definition that a model receives. The tool that switches groups names those that are active."""
        definition = self._complete_definition(entry, self.compiled_tool(entry))
        return self._with_active_groups(entry, definition) if entry.switches_groups else definition

    def _with_active_groups(self, entry: Entry, definition: ToolDefinition) -> ToolDefinition:
        """Return the definition with the names of the active groups; the same object as long as these do not change."""
        active = tuple(name for name, group in self.groups().items() if group.is_active and name != BASIC_GROUP)
        if not active:
            return definition
        known = entry.described_groups.get(active)
        if known is None or known[0] is not definition:
            if len(entry.described_groups) >= _MAX_DESCRIBED_GROUPS:
                entry.described_groups.clear()
            text = "\n\n".join(filter(None, [definition.description, f"Active groups: {', '.join(active)}."]))
            known = entry.described_groups[active] = definition, replace(definition, description=text)
        return known[1]

    def _definition_with_all_groups(self, entry: Entry) -> ToolDefinition:
        """Return the definition for the `where` of a selection, which decides what groups are here."""
        return self._complete_definition(entry, entry.compiled_tool(self.store.bindings, self.store.timeout))

    def _complete_definition(self, entry: Entry, compiled: CompiledTool) -> ToolDefinition:
        definition, structured_output = compiled.definition, self.structured_output(entry)
        if structured_output is not None:
            definition = structured_output.definition(definition)
        listing = self.store.search_listing
        if listing is not None and listing.describe is not None and entry.name == listing.search_tool_names[-1]:
            return listing.describe(self, definition)
        return definition

    def known_definitions(self) -> list[ToolDefinition]:
        """Return the definitions of all tools, visible or not, except those with a parameter that must be bound."""
        entries = list(self.store.entries.values())
        return [self.definition(e) for e in entries if self.compiled_tool(e).is_usable]

    def structured_output(self, entry: Entry) -> StructuredOutput | None:
        """Return the model whose fields a tool also takes here."""
        for session in self.session_states:
            if entry in session.switches.structured_outputs:
                return session.switches.structured_outputs[entry]
        return None

    def is_active(self, group: str) -> bool:
        """Return whether a group is active here."""
        if group == BASIC_GROUP:
            return True
        defined = self.store.groups.get(group)
        if defined is None:  # it was removed just now, with its tools
            return False
        for session in self.session_states:
            group_overrides = session.switches.group_overrides
            if defined.unique_id in group_overrides:
                return group_overrides[defined.unique_id]
        return defined.is_active

    def group_overrides(self) -> dict[str, bool]:
        """Return the groups that were switched just here, by name."""
        overrides = self.session_state.switches.group_overrides
        groups = self.store.groups.values()
        return {group.name: overrides[group.unique_id] for group in groups if group.unique_id in overrides}

    def groups(self) -> dict[str, Group]:
        """Return the groups here by name, active or not as they are here."""
        hidden, groups = self.hidden_groups(), self.store.groups
        return {
            name: replace(group, is_active=self.is_active(name)) for name, group in groups.items() if name not in hidden
        }

    def group(self, name: str) -> Group:
        """Return a group that is here. Raises ToolLookupError for another name."""
        return self.store.group(name, self.hidden_groups())

    def hidden_groups(self) -> frozenset[str]:
        """Return the groups that are not here: they have tools, and `is_selected` none of these."""
        if not self.selections and (self.has_all_audiences or not self.is_session):
            return frozenset()
        shown, hidden = {BASIC_GROUP}, set[str]()
        for entry in list(self.store.entries.values()):
            if entry.group not in shown:
                (shown if self.is_selected(entry) else hidden).add(entry.group)
        return frozenset(hidden - shown)

    def set_groups(self, active: Mapping[str, bool]) -> None:
        """Switch all of these groups or none. Raises as `ToolStore.set_groups` does, also for a group not here."""
        self.store.set_groups(self.session_state.switches, active, self.hidden_groups())

    def is_visible(self, entry: Entry) -> bool:
        """Return whether a tool is listed and may be called."""
        if not (self.is_active(entry.group) and self._is_usable(entry)):
            return False
        return not self.has_rules(entry) or not self.is_denied(entry)

    def has_rules(self, entry: Entry) -> bool:
        """Return whether rules decide about the calls of a tool, here or in the toolkit that it comes from."""
        inner = entry.inner
        return self.store.has_rules or (inner is not None and inner[0].has_rules(inner[1]))

    @property
    def approval_mode(self) -> Mode:
        """What happens to calls for which there is no rule. No session makes a toolkit less than read-only."""
        rules = self.store.rules
        modes = [session.switches.approval_mode for session in self.session_states]
        if modes[-1] is None:
            modes[-1] = "allow" if rules is None else rules.mode
        return "read_only" if "read_only" in modes else next(mode for mode in modes if mode is not None)

    def rules_for(self, entry: Entry) -> ToolRules:
        """Return the rules of the store for a tool, as it is now."""
        from ahvn_tools.toolkit.tool_rules import ToolRules  # few toolkits have rules

        rules, compiled, known = self.store.rules, self.compiled_tool(entry), entry.rules
        if known is None or known.rules is not rules or known.compiled is not compiled or known.name != entry.name:
            known = entry.rules = ToolRules(rules, entry, compiled)
        return known  # type: ignore[no-any-return]  # it is one

    def is_denied(self, entry: Entry) -> bool:
        """Return whether each call of a tool is denied, so that it is not listed."""
        inner = entry.inner
        is_denied_inside = inner is not None and inner[0].has_rules(inner[1]) and inner[0].is_denied(inner[1])
        return is_denied_inside or self.rules_for(entry).find_denial(self.approval_mode)

    def visible_name(self, function: Callable[..., Any]) -> str | None:
        """Return the name of the visible tool that a function has become; None if there is none."""
        entries = [entry for entry in list(self.store.entries.values()) if entry.spec.function == function]
        return next((entry.name for entry in entries if self.is_visible(entry)), None)

    def contains(self, entry: Entry) -> bool:
        """Return whether the host finds a tool here: a visible one or, where the view has them, an inactive one."""
        has_inactive = self.selects_inactive or self.is_toolkit
        return (has_inactive or self.is_active(entry.group)) and self._is_usable(entry)

    def _is_usable(self, entry: Entry) -> bool:
        is_blocked = entry.is_imported and entry.is_blocked(self.store.bindings, self.store.timeout)
        return not is_blocked and self.is_selected(entry)

    def contained_entries(self) -> Iterator[Entry]:
        """Yield the tools that the host finds here, in their order."""
        return self._in_order(entry for entry in list(self.store.entries.values()) if self.contains(entry))

    def usable_entries(self) -> Iterator[Entry]:
        """Yield the tools that the host finds here, and those of inactive groups."""
        return self._in_order(entry for entry in list(self.store.entries.values()) if self._is_usable(entry))

    def visible_entries(self) -> Iterator[Entry]:
        """Yield the visible tools in their order."""
        return self._in_order(entry for entry in list(self.store.entries.values()) if self.is_visible(entry))

    def selected_entries(self) -> Iterator[Entry]:
        """Yield the tools that match the selections, those of inactive groups among them."""
        return self._in_order(entry for entry in list(self.store.entries.values()) if self.is_selected(entry))

    def listed_entries(self) -> Iterator[Entry]:
        """Yield the tools to list to a model: all visible ones or, when it can search, core and search tools."""
        listing, entries = self.store.search_listing, self.store.entries
        if listing is None or not all(
            name in entries and self.is_visible(entries[name]) for name in listing.search_tool_names
        ):
            return self.visible_entries()
        names = dict.fromkeys((*listing.core, *listing.search_tool_names, *self.store.always_listed))
        return (entries[name] for name in names if name in entries and self.is_visible(entries[name]))

    def skills(self, *, inactive: bool = False) -> dict[str, ToolkitSkill]:
        """Return the skills here by name: those for its audience, if the tool that reads them is here.

        With `inactive`, those of inactive groups too, where the view has such tools.
        """
        reader = self.store.skill_reader if self.store.skills else None
        if reader is None:
            return {}
        is_here = self.contains if inactive else self.is_visible
        known: dict[tuple[str, frozenset[str]], bool] = {}
        for labels in {(one.group, one.audience) for one in self.store.skills.values()}:
            entry = copy.copy(reader)  # a skill matches a selection as the tool does that reads it
            entry.group, entry.audience = labels
            known[labels] = is_here(entry)
        return {name: one for name, one in self.store.skills.items() if known.get((one.group, one.audience))}

    def search(self, query: str, k: int, caller: str | None = None) -> list[Entry]:
        """Return at most `k` visible tools, best match first; a tool whose name is the query comes before all others.

        `caller` leaves out the tools that it may not call; None is the host, who may call each tool. Raises
        ToolkitError for a query that is no string and for an invalid `k`.
        """
        if not isinstance(query, str):
            raise ToolkitError(f"A query is a text, not a {type(query).__name__}.")
        if not isinstance(k, int) or k < 1:  # type: ignore[redundant-expr]  # callers may pass anything
            raise ToolkitError(f"k is the number of tools to return, at least 1, not {k!r}.")
        entries, for_apps = dict(self.store.entries), self.store.for_apps
        k = min(k, len(entries))
        visible = {
            name: entry
            for name, entry in entries.items()
            if self.is_visible(entry) and name not in for_apps and (caller is None or entry.allows(caller))
        }
        listing = self.store.search_listing
        if listing is not None and listing.rank is not None:
            others = [entry for name, entry in visible.items() if name not in listing.search_tool_names]
            names = rank_names(listing.rank, query, [self.definition(entry) for entry in others])
        else:
            compiled = [entry.spec.compiled for entry in entries.values()]
            revision = self.store.bindings_revision, [*entries.values()], compiled
            public = replace(self, selections=(Selection(audience=""),))  # all audiences share the index
            tools = map(public.compiled_tool, entries.values())
            names = self.store.search_index.rank(query, k, revision, tools, visible)
        return [visible[name] for name in dict.fromkeys([query.strip(), *names]) if name in visible][:k]

    def is_selected(self, entry: Entry) -> bool:
        """Return whether a tool matches the selections and is for the session, whether or not its group is active."""
        if entry.is_of_middleware and not entry.audience:
            return True
        for selection in self.selections:  # `all` takes twice as long, over thousands of tools
            if not self._matches(selection, entry):
                return False
        return not entry.audience or not self.needs_audience() or self.store.audience in entry.audience

    def needs_audience(self) -> bool:
        """Return whether a tool for an audience is left out here, since this is a session that names none."""
        return self.is_session and not (self.has_all_audiences or self.names_audience())

    def names_audience(self) -> bool:
        """Return whether a selection is for an audience."""
        return any(map(self._names_audience, self.selections))

    def _names_audience(self, selection: Selection) -> bool:
        if selection.audience is not None or selection.audiences is not None:
            return True
        if selection.toolset is not None and self._names_audience(self.store.toolset(selection.toolset).selection):
            return True
        return selection.any_of is not None and all(map(self._names_audience, selection.any_of))

    def _in_order(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        """Return tools in the order of the last selection with one, else of adding; those of middleware are last."""
        ordered: Iterable[Entry] = entries
        for selection in self.selections:
            if (order := self._order(selection)) is not None:
                ordered = sorted(ordered, key=functools.partial(self._position, order))
        if self.store.has_tools_of_middleware:
            ordered = sorted(ordered, key=lambda entry: entry.is_of_middleware)
        return iter(ordered)

    def _order(self, selection: Selection) -> Selection | None:
        """Return the selection that orders the tools: this one, or that of its toolset; None without an order."""
        if selection.ordered or selection.toolset is None:
            return selection if selection.ordered else None
        return self._order(self.store.toolset(selection.toolset).selection)

    def _position(self, selection: Selection, entry: Entry) -> tuple[int, ...]:
        """Return where a tool that matches a selection is in its order: tuples of one selection can be compared."""
        position: tuple[int, ...] = () if selection.names is None else (selection.positions.get(entry.name, -1),)
        if selection.toolset is not None:
            inner = self._order(self.store.toolset(selection.toolset).selection)
            position += () if inner is None else self._position(inner, entry)
        for index, part in enumerate(selection.any_of or ()):
            if self._matches(part, entry):
                return (*position, index, *self._position(part, entry))
        return position

    def _matches(self, selection: Selection, entry: Entry) -> bool:
        if selection.toolset is not None:
            toolset = self.store.toolset(selection.toolset)
            if not self._matches(toolset.selection, entry):
                return False
        if selection.any_of is not None and not any(self._matches(part, entry) for part in selection.any_of):
            return False
        return selection.matches(entry, self._definition_with_all_groups)


def _refuse_separate_audiences(store: ToolStore, selection: Selection) -> None:
    """Raise ToolkitError for an audience whose tools differ from those here."""
    for part in selection.parts():
        wanted = {*([] if part.audience is None else [part.audience]), *(part.audiences or ())}
        for audience in sorted(wanted & store.separate_audiences):
            raise ToolkitError(
                f"The manifest describes other tools for the audience {audience!r}: load it with audience={audience!r}."
            )
