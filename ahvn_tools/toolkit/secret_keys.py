"""SecretKeys: the state keys of a toolkit whose values are secret."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from ahvn_tools.binding import Binding
from ahvn_tools.execution.plan import CompiledTool
from ahvn_tools.state import StateKey
from ahvn_tools.toolkit.entry import Entry

Bindings = Mapping[str, Binding]


class SecretKeys:
    """The state keys that bindings mark as secret, or have marked so: the state may still hold the values."""

    def __init__(self) -> None:
        self.known: frozenset[StateKey] = frozenset()
        """Keys that a binding once marked as secret."""
        self._own: frozenset[StateKey] = frozenset()
        """Those among them that the host has marked, and not the definition of a server's tool."""
        self._found: tuple[Bindings, list[CompiledTool], frozenset[StateKey]] | None = None
        """What `find_unchanged` has returned, and of what."""

    def add(self, binding: Binding, entry: Entry | None) -> None:
        """Remember the key of a binding if it is secret; `entry` is the one tool that it is for."""
        if binding.is_secret and binding.key is not None:
            self.known |= {binding.key}
            self._found = None
            if entry is None or entry.server_access is None:
                self._own |= {binding.key}

    def remember(self, entries: Iterable[Entry], bindings: Bindings, timeout: float | None) -> None:
        """Remember the keys of tools that are about to change or go."""
        self.known = self.find(entries, bindings, timeout)
        self._found = None

    def find(self, entries: Iterable[Entry], bindings: Bindings, timeout: float | None) -> frozenset[StateKey]:
        """Return the keys that a binding or a parameter marks as secret, or has marked so."""
        return self.known.union(*[entry.secret_keys(bindings, timeout) for entry in entries])

    def find_unchanged(
        self, entries: Iterable[Entry], bindings: Bindings, timeout: float | None
    ) -> frozenset[StateKey]:
        """Return the same, from the last time if no tool has changed since: each call in an executor asks for them."""
        entries = list(entries)
        compiled, found = [entry.spec.compiled for entry in entries], self._found
        if found is not None and found[0] is bindings and found[1] == compiled:
            return found[2]
        keys = self.find(entries, bindings, timeout)
        self._found = bindings, compiled, keys
        return keys

    def mark(self, bindings: Bindings, parameters: Iterable[str], entries: Collection[Entry]) -> Bindings:
        """Return bindings, with those marked as secret that are to be: the same mapping if none is.

        These are the bindings of state keys that the host has bound as secret, and those of secret `parameters` of the
        tools in `entries`. Such a binding reaches a server only where it was named for it.
        """
        marked = {name for name in parameters if any(entry.has_secret_parameter(name) for entry in entries)}
        secret = {
            name: replace(binding, is_secret=True)
            for name, binding in bindings.items()
            if not binding.is_secret and (name in marked or binding.key in self._own)
        }
        return {**bindings, **secret} if secret else bindings
