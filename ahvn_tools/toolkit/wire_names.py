"""WireNames: the tools of a toolkit by wire name, and what happens to two tools of one name.

A wire name is the name under which models know a tool. An export contains each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.redefinition import is_redefinition


class WireNames:
    """The tools of a store by wire name; of several, the first. The store's lock is held by all callers."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def add(self, entries: Iterable[Entry]) -> None:
        """Add tools; one replaces another of the same name."""
        for entry in entries:
            known = self._entries.get(entry.wire_name)
            if known is None or known.name == entry.name:
                self._entries[entry.wire_name] = entry

    def reset(self, entries: Iterable[Entry]) -> None:
        """Contain just these tools."""
        self._entries = {}
        self.add(entries)

    def resolve_clashes(
        self, new_entries: Iterable[Entry], entries: Mapping[str, Entry], on_duplicate: str
    ) -> tuple[dict[str, Entry], dict[Entry, str]]:
        """Return the new tools to add, by name, and the tools to refuse or to remove, each with the reason.

        A tool that follows a server is refused where its name is taken, also by a tool that is added later. Raises
        ToolkitError for two others of one name, when the policy is to raise, and for two others of one wire name when
        one of them is a server's.
        """
        added: dict[str, Entry] = {}
        refused: dict[Entry, str] = {}
        taken = WireNames()
        for entry in new_entries:
            same_name = added.get(entry.name) or entries.get(entry.name)
            other = same_name or taken._entries.get(entry.wire_name) or self._entries.get(entry.wire_name)
            if other is not None and other not in refused:
                if entry.follows_server:
                    refused[entry] = _reason(entry, other)
                    continue
                if other.follows_server:
                    refused[other] = _reason(other, entry)
                    added.pop(other.name, None)
                elif not _may_be_added(entry, other, on_duplicate):
                    continue
            added[entry.name] = entry
            taken.add([entry])
        return added, refused


def _may_be_added(entry: Entry, other: Entry, on_duplicate: str) -> bool:
    """Return whether a tool is added although another has its wire name. Raises ToolkitError."""
    if entry.name == other.name:
        if is_redefinition(entry, other):
            return True
        if on_duplicate == "raise":
            raise ToolkitError(
                f"There are two tools {entry.name!r}: from {other.origin} and from {entry.origin}. "
                "Add one with prefix=… or rename=…, or create the toolkit with on_duplicate='keep' or 'replace'."
            )
        return on_duplicate == "replace"
    if entry.server_access is not None or other.server_access is not None:
        raise ToolkitError(
            f"Models would see both {other.name!r} from {other.origin} and {entry.name!r} from {entry.origin} as "
            f"{entry.wire_name!r}. Add one with prefix=… or rename=…."
        )
    return True  # an export that contains both raises


def _reason(refused: Entry, other: Entry) -> str:
    wire_name = "" if refused.name == other.name else f"models would see it as {other.wire_name!r}, too, and "
    fix = "use prefix=… or rename=… of `add_mcp`"
    return f"{wire_name}the name belongs to the tool {other.name!r} from {other.origin}; {fix}"
