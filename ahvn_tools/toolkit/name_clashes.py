"""NameClashes: decides about tools that are added to a toolkit in which their names are taken."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ahvn_tools.errors import ToolkitError
from ahvn_tools.formats.rendering.names import wire_name
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.entry_options import OnDuplicate


@dataclass(frozen=True, kw_only=True)
class Duplicate:
    """Two tools of one name, and what was done about them."""

    name: str
    """The name of the other tool when it was added."""
    kept: str
    """Where the tool comes from that has the name now."""
    other: str
    """Where the other tool comes from."""
    action: Literal["keep", "replace", "rename"]
    """`"keep"`: the other tool was not added. `"replace"`: it was there, and is not used any more. `"rename"`: it has
    the name `new_name`."""
    new_name: str | None = None
    """The new name of the other tool; None unless it was renamed."""
    kept_name: str
    """The name of the tool that has it now: the same, or one that models would see as the same."""

    @property
    def reason(self) -> str:
        """Why the other tool cannot have its name."""
        clash = "" if self.name == self.kept_name else f"models would see it as {wire_name(self.name)!r}, too, and "
        return f"{clash}the name belongs to the tool {self.kept_name!r} from {self.kept}"

    def __str__(self) -> str:
        result = "is not used" if self.new_name is None else f"is now {self.new_name!r}"
        return f"The tool {self.name!r} from {self.other} {result}: {self.reason}"


class WireNames:
    """The tools of a store by wire name; of several, the first. The store's lock is held by all callers."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def add(self, entries: Iterable[Entry]) -> None:
        """Add tools; one replaces another of the same name."""
        for entry in entries:
            known = self.entries.get(entry.wire_name)
            if known is None or known.name == entry.name:
                self.entries[entry.wire_name] = entry

    def reset(self, entries: Iterable[Entry]) -> None:
        """Contain just these tools."""
        self.entries = {}
        self.add(entries)


def is_redefinition(entry: Entry, known: Entry) -> bool:
    """Return whether an interactive session has defined the function of a tool again, in the same place.

    That is in a notebook or at a prompt. In a program, two functions of one name are a mistake.
    """
    place = _place(entry)
    return hasattr(sys, "ps1") and place is not None and place == _place(known)


def keep_bindings(added: Mapping[str, Entry], entries: Mapping[str, Entry]) -> None:
    """Bind in new definitions what was bound for the earlier ones in this toolkit: a model must not see it now."""
    for name, entry in added.items():
        if (known := entries.get(name)) is not None and is_redefinition(entry, known):
            for binding in known.own_bindings.values():
                if binding.parameter in entry.spec.compiled.template.inputs.parameters:
                    entry.bind(binding)


def _place(entry: Entry) -> tuple[str, str] | None:
    """Return where a function is defined: its module and its qualified name; None if others may have the same."""
    function = entry.spec.function
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    return None if module is None or name is None or "<locals>" in name else (module, name)


def _are_shared(entry: Entry, other: Entry) -> bool:
    """Return whether two tools of middleware do the same, of which at least one comes from another toolkit.

    They are of one middleware, or of two that share their tools.
    """
    if not (entry.is_of_middleware and other.is_of_middleware) or (entry.inner is None and other.inner is None):
        return False
    function: Any = entry.spec.function
    known: Any = other.spec.function
    shares = getattr(getattr(function, "__self__", None), "shares_tools", False)
    return function == known or (shares and getattr(known, "__func__", None) is function.__func__)


class NameClashes:
    """What adding tools to a toolkit would change. Nothing is changed here.

    A tool that follows a server takes the name of another tool only where the host lets it. Otherwise it is refused or
    renamed, whichever of the two was added first.
    """

    def __init__(
        self,
        entries: Mapping[str, Entry],
        by_wire_name: Mapping[str, Entry],
        default: OnDuplicate,
        *,
        refuses_server_clashes: bool,
    ) -> None:
        """Start with the tools of a toolkit, by name and by wire name; `default` is the toolkit's policy.

        `refuses_server_clashes`: a tool that follows a server and whose name is taken is an error.
        """
        self._entries = entries
        self._by_wire_name = by_wire_name
        self._default = default
        self._refuses_server_clashes = refuses_server_clashes
        self._added_by_wire_name: dict[str, Entry] = {}
        self.added: dict[str, Entry] = {}
        """The tools to put under these names."""
        self.removed: set[Entry] = set()
        """The tools of servers that lose their names; those that are renamed are among `added`."""
        self.new_names: dict[Entry, str] = {}
        self.refusals: dict[Entry, str] = {}
        """The tools of servers that are not used, each with the reason."""
        self.duplicates: list[tuple[Entry, Duplicate]] = []
        """The decisions, each with the tool that does not have its name."""
        self.requested: set[Duplicate] = set()
        """Those that replace a tool as the caller of `add` asked for. A server must not take a name unnoticed."""

    def add(self, entry: Entry) -> None:
        """Decide about one more tool. Raises ToolkitError for a clash that is to be an error."""
        other = self._holder(entry.name)
        if other is None:
            self._put(entry)
        elif _are_shared(entry, other):
            return
        elif entry.follows_server:
            self._add_of_server(entry, other)
        elif other.follows_server:
            self._take_name(entry, other)
        else:
            self._add_of_host(entry, other)

    def _holder(self, name: str) -> Entry | None:
        """Return the tool that has this name or, if there is none, this wire name."""
        wire = wire_name(name)
        holders = (self._entries.get(name), self._added_by_wire_name.get(wire), self._by_wire_name.get(wire))
        if name in self.added:
            return self.added[name]
        return next((holder for holder in holders if holder is not None and holder not in self.removed), None)

    def _name(self, entry: Entry) -> str:
        return self.new_names.get(entry, entry.name)

    def _put(self, entry: Entry) -> None:
        name = self._name(entry)
        self.added[name] = entry
        known = self._added_by_wire_name.get(wire_name(name))
        if known is None or self._name(known) == name:
            self._added_by_wire_name[wire_name(name)] = entry

    def _add_of_server(self, entry: Entry, other: Entry) -> None:
        policy = "raise" if self._refuses_server_clashes else self._policy(entry)
        if policy == "raise":
            raise _clash_error(entry, other, self._name(other))
        if policy == "rename":
            self._rename(entry, other)
        elif policy == "replace" and entry.may_replace(other):
            self._take_name(entry, other)
        else:
            self._refuse(entry, other, "keep")

    def _add_of_host(self, entry: Entry, other: Entry) -> None:
        policy, is_same_name = self._policy(entry), entry.name == self._name(other)
        is_remote = entry.server_access is not None or other.server_access is not None
        if is_same_name and is_redefinition(entry, other):
            self._put(entry)
        elif not (is_same_name or is_remote):
            self._put(entry)  # an export that contains both raises
        elif policy == "rename":
            self._rename(entry, other)
        elif policy == "raise" or not is_same_name:
            raise _clash_error(entry, other, self._name(other))
        elif policy == "replace":
            self._take_name(entry, other)
        else:
            self._record(entry, other, "keep")

    def _policy(self, entry: Entry) -> OnDuplicate:
        if entry.on_duplicate is not None:
            return entry.on_duplicate
        return "keep" if entry.follows_server and self._default != "rename" else self._default

    def _take_name(self, entry: Entry, other: Entry) -> None:
        """Put a tool in the place of another. One that follows a server is renamed or refused, as the host wants it."""
        if not other.follows_server:
            self._record(other, entry, "replace")
            self._put(entry)
            return
        self._withdraw(other)
        self._put(entry)
        if self._policy(other) == "rename":
            self._rename(other, entry)
        else:
            self._refuse(other, entry, "replace")

    def _withdraw(self, entry: Entry) -> None:
        name = self._name(entry)
        self.removed.add(entry)
        if self.added.get(name) is entry:
            del self.added[name]
        if self._added_by_wire_name.get(wire_name(name)) is entry:
            del self._added_by_wire_name[wire_name(name)]

    def _rename(self, entry: Entry, other: Entry) -> None:
        new_name = self._free_name(entry)
        self._record(entry, other, "rename", new_name)
        self.new_names[entry] = new_name
        self._put(entry)

    def _free_name(self, entry: Entry) -> str:
        """Return a name that is not taken: with the server's name before it, or with a number after it."""
        name, prefix = entry.name, f"{entry.server_name}_"
        if entry.follows_server and not name.startswith(prefix):
            name = prefix + name
            if self._holder(name) is None:
                return name
        for candidate in (f"{name}_{number}" for number in itertools.count(2)):
            holder = self._holder(candidate)
            if holder is None or is_redefinition(entry, holder):
                return candidate
        raise AssertionError  # pragma: no cover  # the numbers do not end

    def _refuse(self, entry: Entry, other: Entry, action: Literal["keep", "replace"]) -> None:
        duplicate = self._record(entry, other, action)
        self.refusals[entry] = f"{duplicate.reason}; use prefix=… or rename=… of `add_mcp`"

    def _record(
        self, entry: Entry, other: Entry, action: Literal["keep", "replace", "rename"], new_name: str | None = None
    ) -> Duplicate:
        """Record that `entry` does not have its name, because `other` has it."""
        duplicate = Duplicate(
            name=self._name(entry),
            kept=other.origin,
            other=entry.origin,
            action=action,
            new_name=new_name,
            kept_name=self._name(other),
        )
        self.duplicates.append((entry, duplicate))
        if action == other.on_duplicate == "replace" and not other.follows_server:
            self.requested.add(duplicate)
        return duplicate


def _clash_error(entry: Entry, other: Entry, other_name: str) -> ToolkitError:
    if entry.name == other_name:
        return ToolkitError(
            f"There are two tools {entry.name!r}: from {other.origin} and from {entry.origin}. "
            "Add one with prefix=… or rename=…, or pass on_duplicate='keep', 'replace' or 'rename'."
        )
    return ToolkitError(
        f"Models would see both {other_name!r} from {other.origin} and {entry.name!r} from {entry.origin} as "
        f"{entry.wire_name!r}. Add one with prefix=… or rename=…."
    )
