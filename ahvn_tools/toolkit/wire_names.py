"""WireNames: the tools of a toolkit by wire name.

A wire name is the name under which models know a tool. An export contains each once.
"""

from __future__ import annotations

from collections.abc import Iterable

from ahvn_tools.toolkit.entry import Entry


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
