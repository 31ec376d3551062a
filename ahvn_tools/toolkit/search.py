"""Search: the tools that fit a query, and what a model is listed where it finds the others by search."""

from __future__ import annotations

from collections.abc import Iterator

from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.visibility import StoreView


def search_entries(view: StoreView, query: str, k: int) -> list[Entry]:
    """Return at most `k` of the tools that are shown, best first; one of just that name comes before all others.

    Raises ToolkitError.
    """
    if not isinstance(query, str):
        raise ToolkitError(f"A query is a text, not a {type(query).__name__}.")
    if not isinstance(k, int) or k < 1:  # type: ignore[redundant-expr]  # a caller may give anything
        raise ToolkitError(f"k is how many tools are wanted, at least 1, not {k!r}.")
    catalog, entries = view.store, dict(view.store.entries)
    k = min(k, len(entries))
    mark = catalog.bindings_revision, list(entries.values()), [entry.spec.compiled for entry in entries.values()]
    shown = {name: entry for name, entry in entries.items() if view.is_visible(entry)}
    names = catalog.search_index.rank(query, k, mark, lambda: map(view.compiled_tool, entries.values()), shown)
    whole = dict.fromkeys([query.strip(), *names])
    return [shown[name] for name in whole if name in shown][:k]


def listed_entries(view: StoreView) -> Iterator[Entry]:
    """Yield the tools that a model is listed: all that are shown or, where it can search, the core and the pair."""
    offer = view.store.search_listing
    entries = view.store.entries
    if offer is None or not all(name in entries and view.is_visible(entries[name]) for name in offer.search_tool_names):
        return view.visible_entries()
    kept = [entries[name] for name in dict.fromkeys((*offer.core, *offer.search_tool_names)) if name in entries]
    return (entry for entry in kept if view.is_visible(entry))
