"""Catalog: what a toolkit and all its views and sessions share."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ahvn_tools.binding import Binding
from ahvn_tools.errors import ToolkitError, ToolLookupError, near_misses
from ahvn_tools.execution.call import Middleware
from ahvn_tools.middleware.approve import Approver
from ahvn_tools.state import StateKey
from ahvn_tools.toolkit.active_calls import ActiveCalls
from ahvn_tools.toolkit.entry import BASIC_GROUP, Entry, validate_middleware, validate_name, validate_timeout
from ahvn_tools.toolkit.locks import KeyedLocks
from ahvn_tools.toolkit.search_index import SearchIndex
from ahvn_tools.toolkit.selection import Selection
from ahvn_tools.toolkit.structured_output import StructuredOutput

_NO_GROUP_OVERRIDES: Final[Mapping[int, bool]] = MappingProxyType({})
_NO_STRUCTURED_OUTPUTS: Final[Mapping[Entry, StructuredOutput | None]] = MappingProxyType({})

DUPLICATE_POLICIES = ("raise", "keep", "replace")
"""What to do with a second tool of one name."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """A group of tools that can be switched on and off."""

    name: str
    description: str = ""
    is_active: bool = False
    """Whether it is active where nobody has said anything else."""
    notes: str | None = None
    """What a model should know while it is active."""
    unique_id: int = 0
    """Tells it from a group that had its name and was removed: how that was switched is not how this is."""

    @property
    def is_basic(self) -> bool:
        """Whether it is the group that is always active."""
        return self.name == BASIC_GROUP


@dataclass(frozen=True, kw_only=True)
class SearchListing:
    """What a model is listed where it finds the other tools by search."""

    core: tuple[str, ...]
    """The tools that are listed all the same, by name."""
    search_tool_names: tuple[str, ...]
    """The tools that find and call the others."""


class GroupSwitches:
    """What somebody has switched, a toolkit or a session. Readers need no lock: a change makes another mapping."""

    __slots__ = ("group_overrides", "structured_outputs")

    def __init__(self) -> None:
        """Begin with nothing switched."""
        self.group_overrides: Mapping[int, bool] = _NO_GROUP_OVERRIDES
        """Groups by number, on or off."""
        self.structured_outputs: Mapping[Entry, StructuredOutput | None] = _NO_STRUCTURED_OUTPUTS
        """The tools that take a model's fields, too; None: not here, whatever is said around it."""


class ToolStore:
    """Entries by name, groups, toolsets and bindings. Readers need no lock: each change is one step."""

    def __init__(self, on_duplicate: str, timeout: float | None, max_concurrency: int) -> None:
        """Begin with no tool. Raises ToolkitError for an unknown policy."""
        if on_duplicate not in DUPLICATE_POLICIES:
            raise ToolkitError(
                f"on_duplicate is one of {', '.join(map(repr, DUPLICATE_POLICIES))}, not {on_duplicate!r}."
            )
        self._on_duplicate = on_duplicate
        self.timeout = validate_timeout(timeout)
        self.max_concurrency = validate_max_concurrency(max_concurrency)
        self._lock = threading.Lock()
        self.entries: dict[str, Entry] = {}
        self.groups: dict[str, Group] = {BASIC_GROUP: Group(name=BASIC_GROUP, is_active=True)}
        self._unique_ids = itertools.count(1)
        self.middleware: tuple[Middleware, ...] = ()
        self._middleware_slots: tuple[tuple[Middleware], ...] = ()
        self.make_toolkit: Callable[[Any], Any] = lambda view: view
        """Makes a toolkit of a view."""
        self.approver: Approver | None = None
        self.locks = KeyedLocks()
        """The keys that exclusive calls hold."""
        self.active_calls = ActiveCalls()
        """The calls under way, by their ids."""
        self.roots: tuple[Path, ...] = ()
        """The folders that the host allows tools to touch."""
        self.imported_servers: dict[str, Any] = {}
        """The MCP servers by name, with what is here from each; `Imports` sees to it."""
        self.import_lock = threading.Lock()
        self.search_index = SearchIndex()
        """Finds tools by their words."""
        self.search_listing: SearchListing | None = None
        """What a model is listed; None: every tool that is shown."""
        self.toolsets: dict[str, Selection] = {}
        self.bindings: Mapping[str, Binding] = {}
        self.tools_revision = 0
        """How often tools or groups were added or removed here."""
        self.bindings_revision = 0
        """How often anything was bound or unbound here."""
        self.secrets: frozenset[StateKey] = frozenset()
        """Keys that were ever bound as secret here."""

    def add(self, entries: list[Entry], groups: Mapping[str, Group], *, is_imported: bool = False) -> None:
        """Add all of these or none. Raises ToolkitError where a name is taken and that is to be an error.

        Foreign tools never replace one.

        `groups` are the groups of the toolkit that they are from, where they are from one.
        """
        for entry in entries:
            entry.refuse_uninterruptible(self.timeout)
        with self._lock:
            added: dict[str, Entry] = {}
            for entry in entries:
                other = added.get(entry.name) or self.entries.get(entry.name)
                if other is not None and (self._on_duplicate == "raise" or is_imported):
                    way = "" if is_imported else ", or make the toolkit with on_duplicate='keep' or 'replace'"
                    raise ToolkitError(
                        f"There are two tools {entry.name!r}: from {other.origin} and from {entry.origin}. "
                        f"Add one with prefix=… or rename=…{way}."
                    )
                if other is None or self._on_duplicate == "replace":
                    added[entry.name] = entry
            for entry in added.values():
                if entry.group not in self.groups:  # a mere label: nobody asked to have it switched off
                    self._put_group(groups.get(entry.group) or Group(name=entry.group, is_active=True))
            self._remember_secrets(added)
            self.entries.update(added)
            self.tools_revision += 1

    def remove(self, names: list[str]) -> None:
        """Remove these. Raises ToolLookupError for a name that is not there, and removes none then."""
        with self._lock:
            for name in names:
                if name not in self.entries:
                    raise ToolLookupError(f"There is no tool {name!r}. {near_misses(name, self.entries)}")
            self._remember_secrets(names)
            self.entries = {name: entry for name, entry in self.entries.items() if name not in names}
            self.tools_revision += 1

    def require_names(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return names of tools. Raises ToolLookupError for one that is not there."""
        return tuple(self.entry(name).name for name in ([names] if isinstance(names, str) else names))

    def entry(self, name: str) -> Entry:
        """Return a tool. Raises ToolLookupError for one that is not there."""
        if name not in self.entries:
            raise ToolLookupError(f"There is no tool {name!r}. {near_misses(name, self.entries)}")
        return self.entries[name]

    def group(self, name: str) -> Group:
        """Return a group. Raises ToolLookupError."""
        if name not in self.groups:
            raise ToolLookupError(f"There is no group {name!r}. {near_misses(name, self.groups)}")
        return self.groups[name]

    def define_group(self, group: Group) -> None:
        """Add a group, or say more of one that tools have named. Raises ToolkitError for the basic one."""
        if group.name == BASIC_GROUP:
            raise ToolkitError(f"The group {BASIC_GROUP!r} is always there and active. Choose another name.")
        _validate_is_active(validate_name("name of a group", group.name), group.is_active)
        with self._lock:
            self._put_group(group)

    def _put_group(self, group: Group) -> None:
        known = self.groups.get(group.name)
        number = next(self._unique_ids) if known is None else known.unique_id
        self.groups = {**self.groups, group.name: replace(group, unique_id=number)}
        self.tools_revision += 1

    def set_groups(self, switches: GroupSwitches, active: Mapping[str, bool]) -> None:
        """Switch all of these groups or none. Raises ToolLookupError, and ToolkitError for the basic group off."""
        with self._lock:
            for name, is_active in active.items():
                if self.group(name).is_basic and not _validate_is_active(name, is_active):
                    raise ToolkitError(f"The group {name!r} is always active.")
                _validate_is_active(name, is_active)
            switches.group_overrides = {**switches.group_overrides, **self._to_group_overrides(active)}

    def _to_group_overrides(self, active: Mapping[str, bool]) -> dict[int, bool]:
        return {self.group(name).unique_id: is_active for name, is_active in active.items()}

    def set_structured_output(
        self, switches: GroupSwitches, entry: Entry, structured_output: StructuredOutput | None
    ) -> None:
        """Let a tool take a model's fields, too, or take that back."""
        with self._lock:
            switches.structured_outputs = {**switches.structured_outputs, entry: structured_output}

    def remove_group(self, name: str) -> None:
        """Remove a group with its tools. Raises ToolLookupError, and ToolkitError for the basic one."""
        if name == BASIC_GROUP:
            raise ToolkitError(f"The group {BASIC_GROUP!r} is always there. Remove its tools one by one.")
        with self._lock:
            self.group(name)
            self._remember_secrets([key for key, entry in self.entries.items() if entry.group == name])
            self.entries = {key: entry for key, entry in self.entries.items() if entry.group != name}
            self.groups = {key: group for key, group in self.groups.items() if key != name}
            self.tools_revision += 1

    def toolset(self, name: str) -> Selection:
        """Return a saved selection. Raises ToolLookupError."""
        if name not in self.toolsets:
            raise ToolLookupError(f"There is no toolset {name!r}. {near_misses(name, self.toolsets)}")
        return self.toolsets[name]

    def save_toolset(self, name: str, selection: Selection) -> None:
        """Save a selection as a toolset. Raises ToolLookupError for its own, ToolkitError where it leads to itself."""
        with self._lock:
            inner = selection.toolset
            while inner is not None:
                if inner == name:
                    raise ToolkitError(f"The toolset {name!r} cannot be made of itself.")
                inner = self.toolset(inner).toolset
            self.toolsets = {**self.toolsets, name: selection}

    def restore(self, switches: GroupSwitches, active: Mapping[str, bool], toolsets: Mapping[str, Selection]) -> None:
        """Switch just these groups, and save these toolsets beside those that are there; all or nothing.

        Raises ToolLookupError for a group or toolset that is not there, ToolkitError for one that leads to itself.
        """
        with self._lock:
            whole = {**self.toolsets, **toolsets}
            for name in toolsets:
                _refuse_cycle(name, whole)
            numbered = self._to_group_overrides(active)
            self.toolsets = whole
            switches.group_overrides = numbered

    def secret_keys(self) -> frozenset[StateKey]:
        """Return the state keys that anything here marks as secret, or has marked so."""
        entries = list(self.entries.values())
        return self.secrets.union(*[entry.secret_keys(self.bindings, self.timeout) for entry in entries])

    def _remember_secrets(self, names: Iterable[str]) -> None:
        """Remember what is secret for tools that are about to change or go: their state may stay."""
        gone = [self.entries[name] for name in names if name in self.entries]
        self.secrets = self.secrets.union(*[entry.secret_keys(self.bindings, self.timeout) for entry in gone])

    def bind(self, binding: Binding) -> None:
        """Bind a parameter in every tool that has it, now and later."""
        with self._lock:
            if binding.is_secret and binding.key is not None:
                self.secrets |= {binding.key}
            self.bindings = {**self.bindings, binding.parameter: binding}
            self.bindings_revision += 1

    def bind_entry(self, entry: Entry, binding: Binding) -> None:
        """Bind a parameter of one tool."""
        with self._lock:
            if binding.is_secret and binding.key is not None:
                self.secrets |= {binding.key}
            entry.bind(binding)
            self.bindings_revision += 1

    def unbind_entry(self, entry: Entry, parameter: str) -> None:
        """Take back what `bind_in` did."""
        with self._lock:
            entry.unbind(parameter)
            self.bindings_revision += 1

    def use(self, middleware: Middleware) -> Callable[[], None]:
        """Add a middleware behind those that are there. Return what takes it out again, once."""
        place = (validate_middleware(middleware),)  # an object of its own: the same middleware may be used twice
        with self._lock:
            self._middleware_slots = (*self._middleware_slots, place)
            self.middleware = tuple(layer for (layer,) in self._middleware_slots)

        def undo() -> None:
            with self._lock:
                self._middleware_slots = tuple(used for used in self._middleware_slots if used is not place)
                self.middleware = tuple(layer for (layer,) in self._middleware_slots)

        return undo

    def unbind(self, parameter: str) -> None:
        """Take back what `bind` did."""
        with self._lock:
            self._remember_secrets(self.entries)
            self.bindings = {name: binding for name, binding in self.bindings.items() if name != parameter}
            self.bindings_revision += 1


def validate_max_concurrency(value: int) -> int:
    """Return how many calls may run at once. Raises ToolkitError for what is no such number."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:  # type: ignore[redundant-expr]  # a caller may give anything
        raise ToolkitError(f"max_concurrency must be a whole number, at least 1, not {value!r}.")
    return value


def _validate_is_active(group: str, is_active: bool) -> bool:
    if not isinstance(is_active, bool):
        raise ToolkitError(f"The group {group!r} is switched by True or False, not by {is_active!r}.")
    return is_active


def _refuse_cycle(name: str, toolsets: Mapping[str, Selection]) -> None:
    inner, passed = toolsets[name].toolset, {name}
    while inner is not None:
        if inner in passed:
            raise ToolkitError(f"The toolset {name!r} cannot be made of itself.")
        if inner not in toolsets:
            raise ToolLookupError(f"There is no toolset {inner!r}. {near_misses(inner, toolsets)}")
        passed.add(inner)
        inner = toolsets[inner].toolset
