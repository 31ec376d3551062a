"""The tools that match a query, and the tools that are listed to a model."""

from __future__ import annotations

from collections.abc import Iterator

from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.visibility import StoreView


def search_entries(view: StoreView, query: str, k: int) -> list[Entry]:
    """Return at most `k` visible tools, best match first; a tool whose name is the query comes before all others.

    Raises ToolkitError for a query that is no string and for an invalid `k`.
    """
    if not isinstance(query, str):
        raise ToolkitError(f"A query is a text, not a {type(query).__name__}.")
    if not isinstance(k, int) or k < 1:  # type: ignore[redundant-expr]  # callers may pass anything
        raise ToolkitError(f"k is the number of tools to return, at least 1, not {k!r}.")
    store, entries = view.store, dict(view.store.entries)
    k = min(k, len(entries))
    revision = store.bindings_revision, list(entries.values()), [entry.spec.compiled for entry in entries.values()]
    visible = {name: entry for name, entry in entries.items() if view.is_visible(entry)}
    names = store.search_index.rank(query, k, revision, lambda: map(view.compiled_tool, entries.values()), visible)
    ranked = dict.fromkeys([query.strip(), *names])
    return [visible[name] for name in ranked if name in visible][:k]


def listed_entries(view: StoreView) -> Iterator[Entry]:
    """Yield the tools to list to a model: all visible ones or, when it can search, the core and the search tools."""
    listing, entries = view.store.search_listing, view.store.entries
    if listing is None or not all(
        name in entries and view.is_visible(entries[name]) for name in listing.search_tool_names
    ):
        return view.visible_entries()
    names = dict.fromkeys((*listing.core, *listing.search_tool_names))
    return (entries[name] for name in names if name in entries and view.is_visible(entries[name]))
